"""What is asked of a learner: images in batches, masks that start, losses and their slopes."""
