"""Tasks: what the reconstructed image is for, as a loss."""

from promask.tasks.reconstruction import LOSSES, Reconstruction

__all__ = ["LOSSES", "Reconstruction"]
