"""BART's files: a text header (.hdr) and complex numbers (.cfl), the first axis running fastest."""

import math
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from promask.data.atomic import Array
from promask.data.axes import COIL as COIL_ROLE
from promask.data.axes import CONTRAST, DIRECTIONS, FRAME, SLICE, SUBJECT
from promask.data.readers.lines import cut_volumes
from promask.data.reading import Reading
from promask.data.sample_file import RawSample, SampleFile
from promask.data.sandbox import report_damage
from promask.errors import InputError, InputWarning
from promask.types import Geometry

MOST_AXES = 16
"""Of every array of BART."""
COIL = 3
"""The axis of the coils; before it readout and two phase encodings, after it whatever else there is."""
TRAJECTORIES = ("traj", "trajectory", "ktraj")
"""Files that places in k-space are usually kept in."""
ROLES = {5: CONTRAST, 10: FRAME, 11: FRAME, 13: SLICE, 14: SLICE, 15: SUBJECT}
"""The roles of further axes: echoes, times, slices, averages and batches; others count as slices, too."""


def read_bart(path: Path, reading: Reading) -> SampleFile:
    """K-space, or images if `reading.holds` says so: (x, y, z, coil, ...); axes after the coils are samples.

    A file without a readout, 1 x ky x kz, holds slices with two phase encodings.
    """
    if reading.axes is not None:
        raise InputError(f"The axes of {path} are those of BART: leave out `axes`.")
    dimensions = _dimensions(path)
    beside = find_trajectory_beside(path)
    if beside is not None and reading.holds is None:
        raise InputError(
            f"{path} holds samples along the trajectory {beside.name}, from which masks cannot be learned: that "
            f"needs complete Cartesian k-space; promask.data.reconstruct_raw makes an image of it; if it is "
            f"Cartesian, set `holds` to kspace."
        )
    *space, coils = dimensions[: COIL + 1]
    count = math.prod(dimensions[COIL + 1 :])
    across = space[0] == 1 < min(space[1:]) and not reading.volumes
    if reading.holds is None:
        warnings.warn(
            f"{path} is taken as centred k-space; set `holds` to image if it holds images.",
            InputWarning,
            stacklevel=2,
        )
    holds_kspace = reading.holds != "image"
    depth = 1 if reading.volumes or across else space[2]
    directions = DIRECTIONS[1:] if across else DIRECTIONS if reading.volumes else DIRECTIONS[:2]
    shape = tuple(space[1:] if across else space if reading.volumes else space[:2])
    counts, order = _number(dimensions[COIL + 1 :], depth)

    def read(chosen: Sequence[int]) -> Iterator[RawSample]:
        # Mapped only now: thousands of files cannot all be open.
        samples = np.moveaxis(_map(path, dimensions).reshape(*space, coils, count, order="F"), (4, 3), (0, 1))
        volume = samples.__getitem__ if order is None else lambda index: samples[order[index]]
        parts = cut_volumes(volume, chosen, depth, reading.volumes or across, encoded=holds_kspace)
        return ((values.reshape(coils, *shape), label) for values, label in parts)

    return SampleFile(
        files=(path, path.with_suffix(".hdr")),
        shape=(coils, *shape),
        numbers=reading.choose_samples(counts or {SLICE: 1}),
        read=read,
        holds_kspace=holds_kspace,
        geometry=Geometry(
            axes=directions,
            readout=0 if holds_kspace and directions[0] == DIRECTIONS[0] else None,
            channels=COIL_ROLE if coils > 1 else "",
        ),
        counts=counts,
        cut=DIRECTIONS[2] if depth > 1 and holds_kspace else "",
        variant=f"bart {holds_kspace}{'' if order is None else ', roles together'}",
    )


def _number(lengths: Sequence[int], depth: int) -> tuple[dict[str, int], Array | None]:
    """How many there are of each role, the slowest first, and the volume of each number; None: as they are stored.

    The first of these axes runs fastest, but not as fast as the `depth` slices of a volume. Axes of one role that
    do not follow each other, such as slices with frames between them, are brought together.
    """
    axes = [(ROLES.get(axis, SLICE), n) for axis, n in enumerate(lengths, start=COIL + 1) if n > 1][::-1]
    roles = [role for role, _ in axes] + [SLICE] * (depth > 1)
    fastest = {role: place for place, role in enumerate(roles)}
    order = sorted(range(len(axes)), key=lambda place: fastest[roles[place]])
    counts: dict[str, int] = {}
    for role, n in [*(axes[place] for place in order), *([(SLICE, depth)] if depth > 1 else [])]:
        counts[role] = n * counts.get(role, 1)
    if order == sorted(order):
        return counts, None
    stored = np.arange(math.prod(lengths)).reshape([n for _, n in axes])
    return counts, stored.transpose(order).reshape(-1)


def find_bart_file(text: str) -> Path:
    """The file of a name as BART's users give it, without an ending or with that of the header."""
    path, of_bart = Path(text), Path(f"{text.removesuffix('.hdr')}.cfl")
    return of_bart if of_bart.exists() and (not path.exists() or path.suffix == ".hdr") else path


def read_bart_maps(path: Path, volumes: bool) -> Array:
    """Coil sensitivities as `bart ecalib` writes them, (x, y, z, coil, set, ...): the first set of them.

    They become (coil, *space), or (N, coil, *space) if there are several, in the order of the samples.
    """
    dimensions = _dimensions(path)
    *space, coils, sets = (*dimensions, 1)[: COIL + 2]
    values = _map(path, dimensions).reshape(*space, coils, sets, -1, order="F")[..., 0, :]
    maps = np.moveaxis(values, (4, 3), (0, 1))
    if not volumes:
        maps = np.moveaxis(maps, -1, 1).reshape(-1, coils, *space[:2])
    return maps[0] if len(maps) == 1 else maps


def read_bart_array(path: Path) -> Array:
    """All numbers of a file, mapped into memory, at least four axes."""
    return _map(path, _dimensions(path))


def find_trajectory_beside(path: Path) -> Path | None:
    """The trajectory of samples (1, sample, shot, coil): (3, sample, shot), in a file such as traj.cfl."""
    for stem in (*TRAJECTORIES, *(f"{path.stem}{sign}traj" for sign in "_-")):
        found = path.with_name(f"{stem}.cfl")
        if found != path and found.is_file() and found.with_suffix(".hdr").is_file():
            samples, places = _dimensions(path), _dimensions(found)
            if (samples[0], places[0], *samples[1:3]) == (1, 3, *places[1:3]):
                return found
    return None


def _dimensions(path: Path) -> tuple[int, ...]:
    """The shape that a header states, at least four axes, none of them empty; the numbers fill it."""
    header = path.with_suffix(".hdr")
    try:
        lines = header.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"Cannot read {header}, the header of {path}: {error.strerror or error}.") from error
    words = next((line.split() for title, line in pairwise(lines) if title.strip() == "# Dimensions"), [])
    if not 0 < len(words) <= MOST_AXES or not all(word.isdecimal() and len(word) < 19 for word in words):
        raise InputError(f"{header} is damaged: it does not tell the dimensions of {path}.")
    dimensions = tuple(int(word) for word in words) + (1,) * (COIL + 1 - len(words))
    try:
        size = path.stat().st_size
        with path.open("rb"):  # may it be read?
            pass
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    if size != math.prod(dimensions) * np.dtype(np.complex64).itemsize:
        raise InputError(f"{path} is damaged: its {size} bytes do not make an array of shape {list(dimensions)}.")
    if 0 in dimensions:
        raise InputError(f"{path} is empty: its shape is {list(dimensions)}.")
    return dimensions


def _map(path: Path, dimensions: tuple[int, ...]) -> Array:
    """The numbers of a .cfl file, mapped into memory."""
    with report_damage(path, "a BART file"):
        return np.memmap(path, np.dtype("<c8"), "r", shape=dimensions, order="F")
