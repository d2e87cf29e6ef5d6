"""The part of an image that is looked at closely."""

import torch
from jaxtyping import Float
from torch import Tensor

from promask.errors import InputError

Box = tuple[slice, slice]
SHARE = 0.28
"""The side of the box, of the shorter side of the image."""


def most_detail(image: Float[Tensor, "height width"], side: int | None = None) -> Box:
    """The square in which the image changes most from pixel to pixel.

    >>> image = torch.zeros(20, 30)
    >>> image[4:9, 20:25] = torch.eye(5)
    >>> most_detail(image, side=6)
    (slice(3, 9, None), slice(19, 25, None))
    """
    height, width = image.shape
    side = max(4, round(SHARE * min(height, width))) if side is None else side
    side = min(side, height, width)
    steps = torch.zeros_like(image, dtype=torch.float64)
    steps[:-1] += image.diff(dim=0).abs()
    steps[:, :-1] += image.diff(dim=1).abs()
    # By their roots, many edges are more than a strong one.
    sums = torch.nn.functional.pad(steps.sqrt().cumsum(0).cumsum(1), (1, 0, 1, 0))
    inside = sums[side:, side:] - sums[:-side, side:] - sums[side:, :-side] + sums[:-side, :-side]
    top, left = divmod(int(inside.argmax()), inside.shape[1])
    return slice(top, top + side), slice(left, left + side)


def parse_box(text: str) -> Box:
    """Rows and columns as text.

    >>> parse_box("60:110,40:90")
    (slice(60, 110, None), slice(40, 90, None))
    """
    try:
        (top, bottom), (left, right) = ([int(end) for end in part.split(":")] for part in text.split(","))
    except ValueError as error:
        raise InputError(f"A zoom is rows and columns, such as 60:110,40:90, but is {text!r}.") from error
    return slice(top, bottom), slice(left, right)


def check_box(box: Box, image: Float[Tensor, "height width"]) -> Box:
    """Refuse a box that does not lie in the image."""
    for part, length in zip(box, image.shape, strict=True):
        if not 0 <= part.start < part.stop <= length:
            ends = ",".join(f"{part.start}:{part.stop}" for part in box)
            raise InputError(f"The zoom {ends} does not lie in the image, which is {list(image.shape)}.")
    return box
