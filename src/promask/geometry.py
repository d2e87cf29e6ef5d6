"""What of the grid counts: in k-space what the scanner covers, in the image what is looked at."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Shaped
from torch import Tensor


@dataclass(frozen=True)
class Geometry:
    """Two properties of all samples of a data set; empty where everything counts."""

    extent: tuple[tuple[int, int], ...] = ()
    """Start and end of the covered part of each axis of k-space; what lies outside is padding."""
    region: tuple[int, ...] = ()
    """The size of the central part of the image that is judged."""

    def resized(self, shape: Sequence[int], size: Sequence[int]) -> "Geometry":
        """The same for images cropped or padded to another size."""
        extent = [scaled_extent(*each) for each in zip(self.extent, shape, size, strict=False)]
        region = tuple(min(part, n) for part, n in zip(self.region, size, strict=False))
        return Geometry(tuple(extent), () if region == tuple(size) else region)

    def judged(self, images: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """The part of the images that is judged."""
        return central(images, self.region) if self.region else images


def scaled_extent(extent: tuple[int, int], old: int, new: int) -> tuple[int, int]:
    """The covered part of an axis on a grid of another length.

    >>> scaled_extent((2, 10), old=10, new=20)
    (4, 20)

    Ends are scaled around the centre of k-space, n // 2, which stays inside, and nothing that was not covered is;
    where there is no padding, none is made.
    """
    first, last = ((place - old // 2) * new / old + new // 2 for place in (extent[0], extent[1] - 1))
    return (
        max(0, min(math.ceil(first), new // 2)) if extent[0] > 0 else 0,
        min(new, max(math.floor(last), new // 2) + 1) if extent[1] < old else new,
    )


def central(images: Shaped[Tensor, "..."], size: Sequence[int]) -> Shaped[Tensor, "..."]:
    """The central part of this size, over the last axes; the pixel at n // 2 stays in the middle.

    >>> import torch
    >>> central(torch.arange(7), [4])
    tensor([1, 2, 3, 4])
    """
    where: tuple[Any, ...] = (..., *central_slices(images.shape[images.ndim - len(size) :], size))
    return images[where]


def central_slices(shape: Sequence[int], size: Sequence[int]) -> tuple[slice, ...]:
    """Where the central part of this size lies in an array of this shape."""
    starts = [n // 2 - wanted // 2 for n, wanted in zip(shape, size, strict=True)]
    return tuple(slice(start, start + wanted) for start, wanted in zip(starts, size, strict=True))
