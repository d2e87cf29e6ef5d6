"""A picture of the mask, which is the mask: white is acquired."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from promask.errors import InputError
from promask.export.mask_file import ExportedMask, facts_as_text, facts_from_text
from promask.files import Array, replacing
from promask.limits import check_claim

GREY = ("1", "L", "I", "I;16", "I;16B")
"""The modes of Pillow that have one channel of grey."""

MASK_PIXEL = 16
"""Bytes that a pixel takes while the mask is found in the picture."""


def write_png(mask: ExportedMask, path: Path) -> None:
    """8 bits, 0 and 255, axis 0 downwards; the facts are in text chunks."""
    if mask.mask.ndim != 2:
        raise InputError(
            f"{path} cannot hold a mask of shape {list(mask.mask.shape)}: a picture has two axes; "
            f"choose another format."
        )
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    chunks = PngInfo()
    for name, text in facts_as_text(mask.facts()).items():
        chunks.add_text(name, text)
    with replacing(path) as temporary:
        picture = Image.fromarray(mask.mask.numpy().astype(np.uint8) * 255)
        picture.save(temporary, format="PNG", pnginfo=chunks)


def read_png(path: Path) -> tuple[Array, dict[str, Any]]:
    """Black is not acquired; all that is acquired has one other grey."""
    from PIL import Image

    with Image.open(path, formats=["PNG"]) as picture:
        if picture.mode not in GREY:
            raise InputError(f"{path} is not a mask: it has colours; save it with two levels of grey.")
        check_claim(MASK_PIXEL * math.prod(picture.size), path)
        values = np.asarray(picture)
        texts = {str(name): text for name, text in picture.info.items() if isinstance(text, str)}
    if len(np.unique(values[values != 0])) > 1:
        raise InputError(f"{path} is not a mask: it has more than two levels of grey.")
    return values != 0, facts_from_text(texts)
