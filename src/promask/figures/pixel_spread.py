"""How far the pixels of a reconstruction vary from mask to mask (the paper's Figure 7)."""

import math
from collections.abc import Callable, Iterator

import torch

from promask.evaluation import reconstruct
from promask.recon import ZERO_FILLED, Reconstruction
from promask.types import Masks, SampleSet, Targets

PIXELS = 2**20
"""Pixels reconstructed at a time, or one image if that is larger."""


def pixel_spread(
    masks: Masks,
    data: SampleSet,
    on_images: Callable[[int], None] | None = None,
    recon: Reconstruction = ZERO_FILLED,
) -> Iterator[Targets]:
    """The standard deviation of every pixel over the masks, relative to the maximum of the image.

    The images come in chunks of bounded size; `on_images` is told how many were reconstructed with each mask.
    """
    chunk = max(1, PIXELS // math.prod(data.shape))
    for start in range(0, len(data), chunk):
        indices = range(start, min(start + chunk, len(data)))
        mean = squares = highest = torch.zeros((), dtype=torch.float64)
        for number, mask in enumerate(masks, start=1):  # Welford's sums: no image is kept, and nothing cancels
            magnitudes, targets = reconstruct(mask, data, indices, recon)
            images = magnitudes.to(torch.float64)
            change = images - mean
            mean = mean + change / number
            squares = squares + change * (images - mean)
            highest = targets.flatten(1).amax(1).to(torch.float64)
            if on_images is not None:
                on_images(len(indices))
        yield (squares / (len(masks) - 1)).sqrt() / highest.reshape(-1, *[1] * (squares.ndim - 1))
