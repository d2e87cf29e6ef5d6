"""BART's files: a text header (.hdr) and complex numbers (.cfl), the first axis running fastest."""

import math
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from promask.data.atomic import Array
from promask.data.readers.ismrmrd import slices_of_encoded_volume
from promask.data.reading import Reading
from promask.data.stack import Pair, Stack
from promask.errors import InputError, InputWarning

MOST_AXES = 16
"""Of every array of BART."""
COIL = 3
"""The axis of the coils; before it readout and two phase encodings, after it whatever else there is."""


def read_bart(path: Path, reading: Reading) -> Stack:
    """K-space, or with `--holds image` images: (x, y, z, coil, ...); all axes after the coils are samples."""
    dimensions = bart_dimensions(path)
    _check_size(path, dimensions)
    *space, coils = dimensions[: COIL + 1]
    count = math.prod(dimensions[COIL + 1 :])
    if 0 in dimensions:
        raise InputError(f"{path} holds no images: its shape is {list(dimensions)}.")
    if reading.holds is None:
        warnings.warn(
            f"{path} is taken as centred k-space; say --holds image if it holds images.",
            InputWarning,
            stacklevel=2,
        )
    holds_kspace = reading.holds != "image"
    depth = 1 if reading.volumes else space[2]
    numbers = reading.chosen(count * depth)

    def read(chosen: Sequence[int]) -> Iterator[Pair]:
        # Mapped only now: thousands of files cannot all be open.
        samples = bart_array(path, dimensions).reshape(*space, coils, count, order="F")
        last, sample = -1, np.empty(0)
        for number in chosen:
            if number // depth != last:
                last = number // depth
                sample = np.moveaxis(samples[..., last], 3, 0)
                if holds_kspace and depth > 1:
                    sample = slices_of_encoded_volume(sample)
            yield np.ascontiguousarray(sample if reading.volumes else sample[..., number % depth]), None

    return Stack(
        files=(path, path.with_suffix(".hdr")),
        shape=(coils, *(space if reading.volumes else space[:2])),
        numbers=numbers,
        read=read,
        holds_kspace=holds_kspace,
        variant=f"bart {holds_kspace}",
    )


def bart_file(text: str) -> Path:
    """The file of a name as BART's users give it, without an ending or with that of the header."""
    path, of_bart = Path(text), Path(f"{text.removesuffix('.hdr')}.cfl")
    return of_bart if of_bart.exists() and (not path.exists() or path.suffix == ".hdr") else path


def bart_maps(path: Path, volumes: bool) -> Array:
    """Coil maps as `bart ecalib` writes them, (x, y, z, coil, set, ...): the first set of them.

    They become (coil, *space), or (N, coil, *space) if there are several, in the order of the samples.
    """
    dimensions = bart_dimensions(path)
    if 0 in dimensions:
        raise InputError(f"{path} holds no coil maps: its shape is {list(dimensions)}.")
    values = bart_array(path, dimensions)
    *space, coils, sets = (*dimensions, 1)[: COIL + 2]
    values = values.reshape(*space, coils, sets, -1, order="F")[..., 0, :]
    if volumes:
        maps = np.moveaxis(values, (4, 3), (0, 1))
    else:
        by_slice = np.moveaxis(values, (4, 2, 3), (0, 1, 2))
        maps = by_slice[0] if len(by_slice) == 1 else by_slice.reshape(-1, *by_slice.shape[2:])
    return maps[0] if len(maps) == 1 else maps


def bart_dimensions(path: Path) -> tuple[int, ...]:
    """The shape that a header tells, at least four axes."""
    header = path.with_suffix(".hdr")
    try:
        lines = header.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"Cannot read {header}, the header of {path}: {error.strerror or error}.") from error
    for title, line in pairwise(lines):
        if title.strip() == "# Dimensions":
            words = line.split()
            if 0 < len(words) <= MOST_AXES and all(word.isdecimal() and len(word) < 19 for word in words):
                dimensions = tuple(int(word) for word in words)
                return dimensions + (1,) * (COIL + 1 - len(dimensions))
    raise InputError(f"{header} is damaged: it does not tell the dimensions of {path}.")


def bart_array(path: Path, dimensions: Sequence[int]) -> Array:
    """The numbers of a .cfl file, mapped into memory."""
    _check_size(path, dimensions)
    if 0 in dimensions:
        return np.zeros(tuple(dimensions), np.complex64)
    return np.memmap(path, np.dtype("<c8"), "r", shape=tuple(dimensions), order="F")


def _check_size(path: Path, dimensions: Sequence[int]) -> None:
    try:
        size = path.stat().st_size
        with path.open("rb"):  # may it be read?
            pass
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    if size != math.prod(dimensions) * np.dtype(np.complex64).itemsize:
        raise InputError(f"{path} is damaged: its {size} bytes do not make an array of shape {list(dimensions)}.")
