"""Public data sets of raw k-space whose files are plain arrays: their axes, known by names, types and shapes.

Each is described as its own loader reads it: docs/data.md has the table.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path

from promask.data.axes import CONTRAST, FRAME, Axes
from promask.data.preprocess import find_extent
from promask.data.readers.arrays import KnownLayout, LazyArray
from promask.data.sample_file import COMPLEX
from promask.data.sandbox import check_claim
from promask.errors import InputError

CMRXRECON_FULL = ("kspace_full", "kspace_single_full")
CMRXRECON_FILES = re.compile(
    r"(cine|lge)_\w+|aorta_\w+|tagging|flow2d|perfusion|blackblood|t1map\w*|t2s?map|t1rho|t[12]w", re.IGNORECASE
)
"""Names of its files, in some of which the variable is just `kspace`."""
CMRXRECON_NO_FULL = re.compile(r"mask\d*|kus|kspace(_single)?_sub\d+")
"""Variables of its masks and undersampled files."""
WEIGHTINGS = re.compile(r"t1map|t2map|t2smap|t1rho", re.IGNORECASE)
"""Files of these names have weightings along their last axis in MATLAB, others have frames."""
CALGARY_MATRIX, CALGARY_PARTS = (256, 218), (24, 64)
"""The lengths of x and ky in all of its files, and those of the parts of 12 and of 32 coils."""
CALGARY_MEASURED = 0.85
"""Of kz, the share that was measured; zeros follow."""


def find_cmrxrecon(arrays: Mapping[str, LazyArray], path: Path) -> KnownLayout | None:
    """CMRxRecon 2023 to 2025: (kx, ky, coil, slice, frame or weighting) in MATLAB, without the last in some."""
    if len(arrays) != 1:
        return None
    (name, array), *_ = arrays.items()
    if CMRXRECON_NO_FULL.fullmatch(name):
        what = "is a mask" if name.startswith("mask") else "was undersampled"
        raise InputError(
            f"{path} holds {name!r} {list(array.shape[::-1])}, which {what}: masks are learned from fully sampled "
            f"k-space, such as 'kspace_full' of CMRxRecon's FullSample folders."
        )
    if name not in CMRXRECON_FULL and not (name == "kspace" and CMRXRECON_FILES.fullmatch(path.stem)):
        return None
    last = CONTRAST if WEIGHTINGS.search(path.stem) else FRAME
    coil = "" if name == "kspace_single_full" else "coil "
    axes = [f"kx ky {coil}slice", f"kx ky {coil}slice {last}"]
    found = next((Axes.parse(each) for each in axes if len(each.split()) == len(array.shape)), None)
    return None if found is None or not array.is_complex else KnownLayout("CMRxRecon", name, found, "kx")


def find_calgary_campinas(arrays: Mapping[str, LazyArray]) -> KnownLayout | None:
    """Calgary-Campinas: (x, ky, kz, coil) in hybrid space, real and imaginary parts alternating over the coils."""
    array = arrays.get("kspace")
    if len(arrays) != 1 or array is None or array.dtype.kind != "f" or len(array.shape) != 4:
        return None
    if array.shape[:2] != CALGARY_MATRIX or array.shape[-1] not in CALGARY_PARTS:
        return None
    _, ky, kz, _ = array.shape
    extent = ((0, ky), (0, math.ceil(CALGARY_MEASURED * kz)))
    return KnownLayout("Calgary-Campinas", "kspace", Axes.parse("x ky kz re/im"), None, extent, alternating=True)


def find_skm_tea(arrays: Mapping[str, LazyArray], path: Path) -> KnownLayout | None:
    """SKM-TEA: (x, ky, kz, echo, coil) in hybrid space, with sensitivities (x, ky, kz, coil, 1)."""
    array, maps = arrays.get("kspace"), arrays.get("maps")
    if array is None or maps is None or not array.is_complex or not len(array.shape) == len(maps.shape) == 5:
        return None
    x, ky, kz, _, coils = array.shape
    if maps.shape != (x, ky, kz, coils, 1):
        return None
    check_claim(math.prod(array.shape[1:]) * COMPLEX, path)
    middle = next(iter(array.rows([x // 2])))[..., 0, :]
    axes, of_maps = Axes.parse("x ky kz contrast coil"), Axes(("x", "ky", "kz", "coil", "_"))
    return KnownLayout("SKM-TEA", "kspace", axes, None, find_extent(middle.transpose(2, 0, 1)), maps=of_maps)
