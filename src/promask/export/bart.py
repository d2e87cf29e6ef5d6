"""BART's files (Uecker et al.): masks, trajectories, and scans to try them on."""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch

from promask import __version__
from promask.data.atomic import Array, replace_file
from promask.data.sandbox import check_claim
from promask.errors import InputError
from promask.export.mask_file import ExportedMask, MaskRecord
from promask.export.trajectories import Shots, find_units
from promask.operators.fourier import kspace_from_spectrum, space_axes, to_kspace
from promask.sampling.pattern import Pattern
from promask.types import Geometry, Sample

DIMENSIONS = 16
"""BART pads the shape of every array with ones to this many axes."""


BART_INDEXED = {"frame": 10, "contrast": 5}
"""The dimensions of BART that count times and echoes."""
BART_DIRECTIONS = ("kx", "ky", "kz")
"""Those that are the readout and the two phase encodings."""


def write_bart(mask: ExportedMask, path: Path) -> None:
    """Write both files; the axes of the mask are the first dimensions of BART.

    Of series, frames are dimension 10, and directions that are known are where BART has them: kx, ky, kz. Of
    spokes and interleaves it is the trajectory of what is acquired, as `nufft` and `pics -t` take it.
    """
    sections = {"Command": "promask export", "Creator": f"promask {__version__}", **mask.record().texts()}
    if mask.trajectory is not None:
        return write_pair(_bart_trajectory(Shots.of(mask)), path, sections)
    values = (
        _series_to_bart(mask.mask.numpy(), mask.indexed, mask.directions) if mask.indexed else mask.mask.numpy()
    )
    return write_pair(values, path, sections)


def _series_to_bart(values: Array, indexed: str, directions: Sequence[str]) -> Array:
    """(frame, *space) with BART's dimensions: space first, coils of length 1, ..., and the frames."""
    places = _bart_places(values.ndim - 1, directions)
    last = BART_INDEXED[indexed]
    shape = [1] * (last + 1)
    for axis, place in enumerate(places, start=1):
        shape[place] = values.shape[axis]
    shape[last] = values.shape[0]
    order = [1 + axis for axis in np.argsort(places)]
    return values.transpose(*order, 0).reshape(shape)


def _series_from_bart(values: Array, record: MaskRecord) -> Array:
    """The inverse, for the shape that the record of a mask states."""
    directions, _ = record.named_axes
    places = _bart_places(len(record.shape) - 1, directions)
    whole = values.reshape([*values.shape, *[1] * (DIMENSIONS - values.ndim)])
    wanted = (BART_INDEXED[record.indexed], *places)
    if whole.size != math.prod(whole.shape[place] for place in wanted):
        return values
    others = [place for place in range(DIMENSIONS) if place not in wanted]
    return whole.transpose(*wanted, *others).reshape([whole.shape[place] for place in wanted])


def _bart_places(count: int, directions: Sequence[str]) -> list[int]:
    """Where the axes of space are: by their directions if all are known, otherwise in their order."""
    names = list(directions[1:])
    if len(names) == count and set(names) <= set(BART_DIRECTIONS) and len(set(names)) == count:
        return [BART_DIRECTIONS.index(name) for name in names]
    return list(range(count))


def _bart_trajectory(shots: Shots) -> Array:
    """(3, sample, shot, ..., frame): x, y and z in cycles per field of view."""
    scaled = (shots.by_frame() * torch.tensor(shots.matrix)).flip(-1).numpy()
    padded = np.pad(scaled, [(0, 0)] * 3 + [(0, 3 - scaled.shape[-1])])
    values = padded.transpose(3, 2, 1, 0)
    return values.reshape(*values.shape[:3], *[1] * (BART_INDEXED["frame"] - 3), len(scaled))


def _mask_from_bart(values: Array, pattern: Pattern) -> Array:
    """The inverse, for the pattern that the record of a file states."""
    assert pattern.trajectory is not None
    matrix = pattern.image_shape[bool(pattern.indexed) :]
    shots = values.shape[2] if values.ndim > 2 else 1
    coordinates = values.reshape(*values.shape[:2], shots, -1).real  # (3, sample, shot, frame)
    count, frames = coordinates.shape[2:]
    scaled = coordinates[: len(matrix)][::-1].transpose(3, 2, 1, 0).reshape(frames * count, -1, len(matrix))
    points = torch.from_numpy(scaled.astype(np.float64)) / torch.tensor(matrix)
    return find_units(points, torch.arange(frames).repeat_interleave(count), pattern).numpy()


def write_pair(values: Array, path: Path, sections: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write numbers, and a header of the dimensions and of named sections."""
    dimensions = " ".join(map(str, [*values.shape, *[1] * (DIMENSIONS - values.ndim)]))
    sections = {"Dimensions": dimensions, **sections}
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
    record = MaskRecord.parse(sections)
    if record is not None and record.trajectory_kind:
        check_claim(math.prod(record.shape), path)
        return _mask_from_bart(values, record.pattern), sections
    if record is not None and record.indexed in BART_INDEXED:
        return _series_from_bart(values, record), sections
    frames = BART_INDEXED["frame"]
    if record is None and len(shape) == frames + 1 and math.prod(shape) == math.prod(shape[:3]) * shape[frames]:
        space = shape[:2] if shape[2] == 1 else shape[:3]
        return np.moveaxis(values.reshape([*space, shape[frames]]), -1, 0), {**sections, "indexed": "frame"}
    return values, sections


def write_scan(
    sample: Sample, folder: str | Path, geometry: Geometry = Geometry(), mask: ExportedMask | None = None
) -> tuple[Path, Path | None]:
    """Write a fully sampled scan as `bart pics` takes it; a mask goes to `pics -p`.

    Of a scan along a trajectory, these are the samples of all candidates, or of those that a mask acquires,
    (1, sample, shot, coil), in the order in which the format `bart` has their coordinates, for `pics -t`. Axes of
    space are x, y, z then. Along a trajectory, BART has the middle of an odd number of pixels at n / 2, half a
    pixel beyond that of promask.

    Args:
        sample: The image, (coil, *space), and its coil sensitivities if they are known.
        folder: Where kspace.cfl and maps.cfl are written, each with its .hdr: the axes of space, then the coils.
        geometry: That of the data, which tells series from volumes; frames are dimension 10.
        mask: The spokes or interleaves to write, for a scan along a trajectory; None: all of them.

    Returns:
        The file of the centred k-space, and that of the sensitivities or None.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: make it first.")
    if geometry.trajectory is not None:
        return _write_shots_of_scan(sample, folder, geometry, mask)
    if mask is not None:
        raise InputError("`mask` is for scans along a trajectory: of a Cartesian scan, give the mask to pics -p.")
    kspace = to_kspace(sample.image, space_axes(sample.image.ndim - 1 - geometry.indexes))
    written = _write(kspace.numpy(), folder / "kspace.cfl", geometry)
    return written, None if sample.maps is None else _write(sample.maps.numpy(), folder / "maps.cfl", geometry)


def _write_shots_of_scan(
    sample: Sample, folder: Path, geometry: Geometry, mask: ExportedMask | None
) -> tuple[Path, Path | None]:
    if sample.kspace is None:
        raise InputError(f"{sample.name} has no samples along the trajectory: load the data with `trajectory`.")
    whole = Pattern.on(sample.image.shape[1:], geometry)
    mask = ExportedMask.of_pattern(torch.ones(whole.shape, dtype=torch.bool), whole) if mask is None else mask
    if mask.trajectory != geometry.trajectory or tuple(mask.mask.shape) != tuple(sample.kspace.shape[1:]):
        raise InputError(f"The mask does not fit the trajectory of {sample.name}.")
    shots = Shots.of(mask)
    stacked = shots.kz is not None  # whose samples are a spectrum along kz
    values = (kspace_from_spectrum(sample.kspace, (-2,)) if stacked else sample.kspace).numpy()
    if geometry.indexed:
        frames = torch.arange(values.shape[1])
        own = shots.index.expand(len(frames), -1) if shots.frame is None else shots.index.reshape(len(frames), -1)
        chosen = values[:, frames[:, None], own]  # (coil, frame, shot, sample)
    else:
        chosen = (values[:, shots.index, shots.kz] if stacked else values[:, shots.index])[:, None]
    in_order = chosen.transpose(3, 2, 0, 1)[None]
    shape = (*in_order.shape[:4], *[1] * (BART_INDEXED["frame"] - 4), in_order.shape[4])
    write_pair(in_order.reshape(shape), folder / "kspace.cfl")
    if sample.maps is None:
        return folder / "kspace.cfl", None
    maps = sample.maps[:, 0] if geometry.indexed else sample.maps
    reversed_axes = maps.numpy().transpose(*range(maps.ndim - 1, 0, -1), 0)
    space = reversed_axes.shape[:-1]
    write_pair(reversed_axes.reshape(*space, *[1] * (3 - len(space)), len(maps)), folder / "maps.cfl")
    return folder / "kspace.cfl", folder / "maps.cfl"


def _write(values: Array, path: Path, geometry: Geometry) -> Path:
    """(coil, *space) as BART has it: up to three axes of space, then the coils; frames are dimension 10."""
    if geometry.indexed:
        coils = [_series_to_bart(each, geometry.indexed, geometry.axes) for each in values]
        in_order = np.concatenate(coils, 3)
    else:
        in_order = values.transpose(*range(1, values.ndim), 0)
        space = in_order.shape[:-1]
        in_order = in_order.reshape([*space, *[1] * (3 - len(space)), len(values)])
    write_pair(in_order, path)
    return path
