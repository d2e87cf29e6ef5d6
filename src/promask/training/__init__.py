"""Training segmentation networks on fully sampled images."""
