"""Segmentation: classes, the network and its file, losses and scores."""
