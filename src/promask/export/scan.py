"""A fully sampled scan for other programs: its k-space and its coil maps as files of BART."""

from pathlib import Path

from promask.errors import InputError
from promask.export.bart import DIMENSIONS, write_pair
from promask.files import Array
from promask.fourier import space_axes, to_kspace
from promask.types import Sample


def write_scan(sample: Sample, folder: str | Path) -> tuple[Path, Path | None]:
    """Write kspace.cfl and, if the sample has them, maps.cfl, each with its .hdr, as `bart pics` takes them.

    K-space is centred and fully sampled; a mask goes to `pics -p`. The axes are those of space, then the coils.
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
