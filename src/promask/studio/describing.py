"""What is in data that a user picked: numbers, and a picture of the image in the middle."""

from typing import Any

import torch

from promask.data import choose_part, load
from promask.figures.picture import plane, white
from promask.report.pixels import grey, shrunk
from promask.studio.processes import Say
from promask.types import Image

LARGEST_PICTURE = 512
"""Larger pictures have as many pixels as a square of this width."""


def describe(data: str, say: Say) -> dict[str, Any]:
    """Open the data, a DATA string, as `learn` will; only the image in the middle is read in full."""
    whole = load(data)
    learned, part = choose_part(whole, None, usual="train")
    channels, *space = whole.shape
    groups = set(whole.groups)
    return {
        "images": len(whole),
        "subjects": len(groups) if len(groups) > 1 else None,
        "channels": channels,
        "shape": space,
        "extent": [list(ends) for ends in whole.geometry.extent],
        "held_out": len(whole) - len(learned) if part != "all" else 0,
        "picture": picture_of(whole[len(whole) // 2].image),
    }


def picture_of(image: Image) -> str:
    """An image as a grey PNG in a data: address, its channels combined; of a volume, the plane in the middle."""
    magnitude = plane(torch.linalg.vector_norm(image, dim=0).float())
    return grey(shrunk(magnitude, LARGEST_PICTURE**2), white(magnitude))
