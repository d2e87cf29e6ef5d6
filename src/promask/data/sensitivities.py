"""Coil maps in a file of their own, for all samples of a data set or one for each.

Coil maps from the data themselves: ESPIRiT (Uecker et al. 2014).
"""

import hashlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Complex
from torch import Tensor

from promask.data.atomic import NUMBERS, Array, as_tensor
from promask.data.cache import Column, ColumnWriter, entry
from promask.data.readers.arrays import MAPS, LazyArray, join_complex, list_names
from promask.data.readers.bart import find_bart_file, read_bart_maps
from promask.data.readers.hdf5 import list_hdf5_arrays
from promask.data.readers.matlab import list_mat_arrays
from promask.data.readers.numpy import list_npy_arrays, list_npz_arrays
from promask.data.reading import Reading
from promask.data.sample_sets import Subset, chosen_from, reading_of
from promask.data.simulate import usable_maps
from promask.errors import InputError
from promask.operators.fourier import space_axes, to_kspace
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import RootSumOfSquares
from promask.types import Image, Sample, SampleSet, central


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
    path = find_bart_file(source)
    if not path.is_file():
        raise InputError(f"{source} is not a file: coil maps cannot be read from there.")
    suffix = path.suffix.lower()
    if suffix == ".cfl":
        return read_bart_maps(path, volumes)
    if suffix not in MAPS_READERS:
        endings = ", ".join((*MAPS_READERS, ".cfl"))
        raise InputError(f"Coil maps cannot be read from {source}: give one of {endings}.")
    arrays = MAPS_READERS[suffix](path)
    name = next(iter(arrays)) if len(arrays) == 1 else MAPS
    if name not in arrays:
        raise InputError(f"{source} holds no array `{MAPS}`, but {list_names(arrays)}.")
    values = join_complex(arrays[name].whole())
    if values.dtype.kind not in NUMBERS or not values.size:
        raise InputError(f"The coil maps of {source} are not numbers, or none at all.")
    return values


MAPS_READERS: Mapping[str, Callable[[Path], Mapping[str, LazyArray]]] = {
    ".npy": list_npy_arrays,
    ".npz": list_npz_arrays,
    ".mat": list_mat_arrays,
    ".h5": list_hdf5_arrays,
    ".hdf5": list_hdf5_arrays,
}
"""Files that hold arrays by name."""


KERNEL = 6
"""The width of the patches of k-space that are compared."""
THRESHOLD = 0.02
"""Singular vectors of patches count down to this share of the largest singular value."""
CROP = 0.95
"""Where the largest eigenvalue is smaller, which is 1 wherever the coils see something, maps are zero."""
IN_MEMORY = 2**30
"""Bytes of maps of a data set that are kept in memory; more of them are kept on disk."""
VERSION = 1
"""Of how maps are found; those on disk of another version are not used."""
PIXELS = 2**14
"""So many are worked on at once."""


def espirit_maps(image: Complex[Tensor, "coil *space"], calibration: int = 24) -> Complex[Tensor, "coil *space"]:
    """The sensitivities of the coils, from the central block of k-space, `calibration` wide along every axis.

    Their sum of squares is 1, or 0 where no signal is found. Their common phase is that with which the strongest
    combination of the coils sees the image.

    In words: every patch of the k-space of coils lies in a space of few dimensions. At each place of the image,
    projecting on that space is a small matrix over the coils, and the sensitivities are what it leaves as it is.
    """
    coils, *space = image.shape
    axes = space_axes(len(space))
    block = central(to_kspace(image.to(torch.complex64), axes), [min(n, calibration) for n in space])
    maps = torch.zeros(coils, math.prod(space), dtype=torch.complex64)
    reference = _strongest(block.flatten(1) @ block.flatten(1).mH)
    correlations = _correlations(block)
    rows_at_once = max(1, PIXELS // math.prod(space[1:]))
    for start in range(0, space[0], rows_at_once):
        end = min(start + rows_at_once, space[0])
        projections = _at_places(correlations, space, range(start, end))
        # No eigenvalue is larger than the root of the sum of the squares of all numbers.
        seen = torch.linalg.matrix_norm(projections) > CROP
        values, vectors = torch.linalg.eigh(projections[seen])
        found = vectors[..., -1] * (values[..., -1:] > CROP)
        turn = found @ reference.conj()
        found = found * torch.where(turn.abs() > 0, turn.conj() / turn.abs().clamp_min(1e-30), 1)[:, None]
        first = start * math.prod(space[1:])
        maps[:, first + torch.nonzero(seen)[:, 0]] = found.T
    return maps.reshape(image.shape)


def _correlations(block: Complex[Tensor, "coil *block"]) -> Complex[Tensor, "coil coil *shifts"]:
    """How the patches of two coils go together, for each shift between them, from -(width - 1) to width - 1."""
    coils, *size = block.shape
    widths = [min(KERNEL, n) for n in size]
    patches = block
    for axis, width in enumerate(widths, start=1):
        patches = patches.unfold(axis, width, 1)
    patches = patches.movedim(0, len(size)).reshape(-1, coils * math.prod(widths))
    squares, vectors = torch.linalg.eigh(patches.mT @ patches.conj())
    kernels = vectors[:, squares > THRESHOLD**2 * squares[-1]].T.reshape(-1, coils, *widths)
    # Padded so far that no shift comes back from the other side.
    axes = space_axes(len(size))
    spectra = torch.fft.fftn(kernels, s=[2 * width - 1 for width in widths], dim=axes)
    products = torch.einsum("kc...,kd...->cd...", spectra, spectra.conj())
    return torch.fft.fftshift(torch.fft.ifftn(products, dim=axes), dim=axes) / math.prod(widths)


def _at_places(
    correlations: Complex[Tensor, "coil coil *shifts"], space: list[int], rows: range
) -> Complex[Tensor, "pixels coil coil"]:
    """The projection over the coils at each place of some rows of the image."""
    result = correlations
    for axis, n in enumerate(space):
        width = correlations.shape[2 + axis] // 2
        shifts = torch.arange(-width, width + 1, dtype=torch.float64)
        places = torch.tensor(rows if axis == 0 else range(n), dtype=torch.float64) - n // 2
        wave = torch.polar(torch.ones(()).double(), 2 * math.pi / n * torch.outer(shifts, places))
        result = torch.tensordot(result, wave.to(torch.complex64), dims=([2], [0]))
    return result.flatten(2).permute(2, 0, 1)


def _strongest(covariance: Complex[Tensor, "coil coil"]) -> Complex[Tensor, " coil"]:
    """The combination of the coils that sees most."""
    return torch.linalg.eigh(covariance).eigenvectors[:, -1]


def with_maps(data: SampleSet, on_sample: Callable[[int, int], None] | None = None) -> SampleSet:
    """The same samples, each with coil maps: its own, or else ESPIRiT's; those of a single channel are ones.

    A sample is calibrated when it is first asked for, and its maps are kept. `on_sample` is then told how many
    have been, of how many. Prepare the data before.
    """
    base, indices = chosen_from(data)
    calibrated = CalibratedSet(base, len(indices), on_sample)
    return Subset(calibrated, indices) if isinstance(data, Subset) else calibrated


def calibrated(
    data: SampleSet, recon: Reconstruction, on_sample: Callable[[int, int], None] | None = None
) -> SampleSet:
    """Samples as a reconstruction needs them: with coil maps, if it uses them and complex channels are coils."""
    base, _ = chosen_from(data)
    if data.shape[0] == 1 or isinstance(base, CalibratedSet):
        return data
    first = data[0]
    measured = first.image if first.clean is None else first.clean  # noise makes all images complex
    if isinstance(recon, RootSumOfSquares) and not measured.is_complex():
        raise InputError(
            f"{data.name} has {data.shape[0]} channels of real numbers, so they are contrasts and no coils: rss "
            f"would mix them; choose another reconstruction."
        )
    return with_maps(data, on_sample) if recon.uses_maps and measured.is_complex() else data


class CalibratedSet:
    """A data set whose samples all have coil maps."""

    def __init__(self, data: SampleSet, count: int, on_sample: Callable[[int, int], None] | None) -> None:
        self.data, self.count, self.on_sample = data, count, on_sample
        self.name, self.shape, self.geometry = data.name, data.shape, data.geometry
        self.groups, self.held_out, self.reading = data.groups, data.held_out, reading_of(data)
        self._maps: dict[int, Image] = {}
        """Those that are kept in memory."""
        self._done: set[int] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int, /) -> Sample:
        sample = self.data[index]
        return sample if sample.maps is not None else replace(sample, maps=self._calibrated(index, sample))

    def _calibrated(self, index: int, sample: Sample) -> Image:
        if len(sample.image) == 1:
            return torch.ones_like(sample.image, dtype=torch.complex64)
        if not sample.image.is_complex():
            raise InputError(
                f"{sample.name} has {len(sample.image)} channels of real numbers, so they are no coils: coil maps "
                f"need complex images, or k-space."
            )
        with self._lock:
            if index in self._maps:
                return self._maps[index]
            fits = (len(self._maps) + 1) * sample.image.nbytes <= IN_MEMORY
            maps = espirit_maps(sample.image) if fits else _stored_maps(sample.image)
            if fits:
                self._maps[index] = maps
            if self.on_sample is not None and index not in self._done:
                self._done.add(index)
                self.on_sample(len(self._done), self.count)
            return maps


def _stored_maps(image: Image) -> Image:
    """The maps of an image, from the disk if they were found before: computing them takes long."""

    def write(folder: Path) -> dict[str, Any]:
        with ColumnWriter(folder / "maps") as column:
            column.append(espirit_maps(image))
        return column.about

    def fits(folder: Path, about: dict[str, Any]) -> bool:
        column = Column(folder / "maps", **about)
        return (column.shape, column.dtype.str, column.rows) == (tuple(image.shape), "<c8", 1)

    settings = f"espirit {VERSION} {list(image.shape)} {image.dtype}".encode()
    key = hashlib.sha256(settings + image.contiguous().numpy().tobytes()).hexdigest()
    folder, about = entry(key, write, fits)
    return Column(folder / "maps", **about)[0]
