"""BART's pair of files, a .hdr of text and a .cfl of complex numbers, for masks and for fully sampled scans."""

import itertools
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from promask import __version__
from promask.data.atomic import Array, replace_file
from promask.errors import InputError
from promask.export.mask_file import ExportedMask
from promask.operators.fourier import space_axes, to_kspace
from promask.types import Sample

DIMENSIONS = 16
"""BART pads the shape of every array with ones to this many axes."""


def write_bart(mask: ExportedMask, path: Path) -> None:
    """Write both files; the axes of the mask are the first dimensions of BART."""
    dimensions = [*mask.mask.shape, *[1] * (DIMENSIONS - mask.mask.ndim)]
    sections = {
        "Dimensions": " ".join(map(str, dimensions)),
        "Command": "promask export",
        "Creator": f"promask {__version__}",
        **mask.record().texts(),
    }
    write_pair(mask.mask.numpy(), path, sections)


def write_pair(values: Array, path: Path, sections: Mapping[str, str]) -> None:
    """Write numbers, and a header of named sections."""
    with replace_file(path.with_suffix(".hdr")) as header, replace_file(path.with_suffix(".cfl")) as data:
        header.write_text("".join(f"# {name}\n{text}\n" for name, text in sections.items()), encoding="utf-8")
        data.write_bytes(values.astype("<c8").tobytes(order="F"))


def read_bart(path: Path) -> tuple[Array, Mapping[str, str]]:
    """The numbers without the trailing axes of length 1, two axes at least, and the sections of the header."""
    header, data = path.with_suffix(".hdr"), path.with_suffix(".cfl")
    for file in (header, data):
        if not file.is_file():
            raise InputError(f"{path} needs {file.name} beside it: BART keeps an array in two files.")
    lines = header.read_text(encoding="utf-8").splitlines()
    sections = {
        line.removeprefix("#").strip(): text.strip()
        for line, text in itertools.pairwise(lines)
        if line.startswith("#") and not text.startswith("#")
    }
    if "Dimensions" not in sections:
        raise InputError(f"{header} is damaged: it states no dimensions.")
    shape = [int(n) for n in sections["Dimensions"].split()]
    while len(shape) > 2 and shape[-1] == 1:
        shape.pop()
    wanted, size = math.prod(shape) * 8, data.stat().st_size
    if size != wanted:
        raise InputError(f"{data} is damaged: its header asks for {wanted} bytes, but it has {size}.")
    values = np.fromfile(data, dtype="<c8").reshape(shape, order="F")
    return values, sections


def write_scan(sample: Sample, folder: str | Path) -> tuple[Path, Path | None]:
    """Write a fully sampled scan as `bart pics` takes it; a mask goes to `pics -p`.

    Args:
        sample: The image, (coil, *space), and its coil sensitivities if they are known.
        folder: Where kspace.cfl and maps.cfl are written, each with its .hdr: the axes of space, then the coils.

    Returns:
        The file of the centred k-space, and that of the sensitivities or None.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: make it first.")
    kspace = to_kspace(sample.image, space_axes(sample.image.ndim - 1))
    written = _write(kspace.numpy(), folder / "kspace.cfl")
    return written, None if sample.maps is None else _write(sample.maps.numpy(), folder / "maps.cfl")


def _write(values: Array, path: Path) -> Path:
    """(coil, *space) as BART has it: up to three axes of space, then the coils."""
    coils, *space = values.shape
    dimensions = [*space, *[1] * (3 - len(space)), coils]
    in_order = values.transpose(*range(1, values.ndim), 0).reshape(dimensions)
    write_pair(in_order, path, {"Dimensions": " ".join(map(str, dimensions + [1] * (DIMENSIONS - 4)))})
    return path
