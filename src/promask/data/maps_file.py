"""Coil maps in a file of their own, for all samples of a data set or one for each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from promask.data.bart import bart_file, bart_maps
from promask.data.coils import usable_maps
from promask.data.hdf5_arrays import arrays_of
from promask.data.matlab import arrays_of_mat
from promask.data.named_arrays import MAPS, LazyArray, listed, plain
from promask.data.numpy_files import array_of_npy, arrays_of_npz
from promask.errors import InputError
from promask.files import NUMBERS, Array, as_tensor
from promask.reading import Reading
from promask.types import Image


@dataclass(frozen=True)
class MapsFile:
    """The coil maps of each sample of a data set; those of one sample are made ready when they are asked for."""

    source: str
    values: Array
    """(coil, *space) for all samples, or (N, coil, *space)."""
    rows: Sequence[int] | None
    """Which of the maps belongs to each sample; None: there is one for all."""
    size: tuple[int, ...]

    def __getitem__(self, index: int) -> Image:
        return self._common if self.rows is None else self._ready(self.values[self.rows[index]])

    @cached_property
    def _common(self) -> Image:
        return self._ready(self.values)

    def _ready(self, values: Array) -> Image:
        return usable_maps(as_tensor(values), self.size, self.source)


def maps_of_file(
    reading: Reading,
    name: str,
    shape: tuple[int, ...],
    raw: Sequence[tuple[int, ...]],
    numbers: Sequence[Sequence[int]],
) -> MapsFile | None:
    """The maps that a user gave for the samples of the data set `name`, if any.

    `shape` is that of the samples, (coil, *space). Of each file of them, `raw` is the size of the images before
    they are cropped or padded, and `numbers` are those that are taken.
    """
    if reading.maps is None:
        return None
    if reading.kspace == "emulated" and reading.coils is None:
        raise InputError("Emulated k-space is that of magnitudes, which have no coils: leave out --maps.")
    values, size = read_maps(reading.maps, reading.volumes), shape[1:]
    space = values.shape[-len(size) :]
    fits = space == size or (reading.size is not None and all(space == each for each in raw))
    if values.ndim - len(size) not in (1, 2) or values.shape[-len(shape)] != shape[0] or not fits:
        simulate = shape[0] == 1 and reading.coils is None and fits
        way_out = ": with --coils, coils of these maps are simulated" if simulate else ""
        raise InputError(
            f"The coil maps of {reading.maps} have shape {list(values.shape)}, but the samples of {name} have "
            f"shape {list(shape)}{way_out}."
        )
    return MapsFile(reading.maps, values, _rows(values, reading.maps, name, shape, numbers), size)


def _rows(
    values: Array, source: str, name: str, shape: tuple[int, ...], numbers: Sequence[Sequence[int]]
) -> Sequence[int] | None:
    """Which maps belong to which sample: one for each that is taken, or for each that the only file holds."""
    if values.ndim == len(shape):
        return None
    count = sum(map(len, numbers))
    if len(values) == count:
        return range(count)
    if len(numbers) == 1 and max(numbers[0]) < len(values):
        return numbers[0]
    raise InputError(f"{source} holds coil maps for {len(values)} samples, but {name} has {count}.")


def read_maps(source: str, volumes: bool) -> Array:
    """The numbers of a file of maps, (coil, *space) or (N, coil, *space), mapped into memory where possible."""
    path = bart_file(source)
    if not path.is_file():
        raise InputError(f"{source} is not a file: coil maps cannot be read from there.")
    suffix = path.suffix.lower()
    if suffix == ".cfl":
        return bart_maps(path, volumes)
    if suffix not in MAPS_READERS:
        endings = ", ".join((*MAPS_READERS, ".cfl"))
        raise InputError(f"Coil maps cannot be read from {source}: give one of {endings}.")
    arrays = MAPS_READERS[suffix](path)
    name = next(iter(arrays)) if len(arrays) == 1 else MAPS
    if name not in arrays:
        raise InputError(f"{source} holds no array `{MAPS}`, but {listed(arrays)}.")
    values = plain(arrays[name].whole())
    if values.dtype.kind not in NUMBERS or not values.size:
        raise InputError(f"The coil maps of {source} are not numbers, or none at all.")
    return values


MAPS_READERS: Mapping[str, Callable[[Path], Mapping[str, LazyArray]]] = {
    ".npy": array_of_npy,
    ".npz": arrays_of_npz,
    ".mat": arrays_of_mat,
    ".h5": arrays_of,
    ".hdf5": arrays_of,
}
"""Files that hold arrays by name."""
