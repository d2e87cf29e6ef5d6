"""Segmentation networks: classes, the network and its file, its training, and how well it segments."""
