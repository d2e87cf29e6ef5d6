"""A network that corrects zero-filled images: what it adds to their magnitude."""

import torch
from torch import nn

from promask.segmentation.network import padded
from promask.types import ComplexImages, Images

WIDTHS = (8, 16, 32, 64)
"""Channels; the image is halved between two of them."""


class Correction(nn.Module):
    """A U-Net for slices or volumes of any size; the channels of a sample are images of their own.

    It starts with corrections of 0: a mask that learns with it would otherwise learn from noise at first.
    """

    def __init__(self, dimensions: int, seed: int) -> None:
        super().__init__()
        from monai.networks.nets.unet import UNet  # takes seconds

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = UNet(dimensions, 2, 1, WIDTHS, strides=(2,) * (len(WIDTHS) - 1))
        self.gain = nn.Parameter(torch.zeros(()))

    def forward(self, filled: ComplexImages) -> Images:
        """Corrections of zero-filled images with values up to about 1."""
        batch, channels, *space = filled.shape
        parts = torch.view_as_real(filled.flatten(0, 1)).movedim(-1, 1)
        corrections = self.gain * self.network(padded(parts, 2 ** (len(WIDTHS) - 1)))
        return corrections[(..., *(slice(n) for n in space))].reshape(batch, channels, *space)
