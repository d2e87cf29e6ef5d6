"""Reconstructions: (k-space, mask) -> image, differentiable in the mask."""

from promask.recon.zero_filled import zero_filled

__all__ = ["zero_filled"]
