"""Coil sensitivities: from a file, or from the data themselves by ESPIRiT (Uecker et al. 2014)."""

import hashlib
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Complex, Num
from torch import Tensor

from promask.data.atomic import NUMBERS, Array, as_tensor
from promask.data.axes import COIL, FRAME
from promask.data.cache import Column, ColumnWriter, find_or_write
from promask.data.preprocess import crop_or_pad
from promask.data.readers.arrays import MAPS, join_complex, list_names
from promask.data.readers.bart import find_bart_file, read_bart_maps
from promask.data.readers.files import ARRAY_LISTS
from promask.data.reading import Reading
from promask.data.sample_sets import Subset, reading_of, resolve_subset
from promask.errors import InputError
from promask.operators.fourier import space_axes, to_kspace
from promask.recon.base import Reconstruction
from promask.types import Image, Sample, SampleSet, central

NOTHING = 1e-6
"""Sensitivities below this share of the largest one are taken as none."""


def normalise_maps(
    maps: Num[Tensor, "coil *raw"], size: Sequence[int], source: str
) -> Complex[Tensor, "coil *space"]:
    """Sensitivities as samples have them: complex, of this size, with sum of squares 1 where they are not zero."""
    maps = maps.to(torch.complex64)
    strength = torch.linalg.vector_norm(maps, dim=0)
    if not torch.isfinite(strength).all():
        raise InputError(f"The coil sensitivities of {source} hold NaN or infinite values: mend them.")
    largest = strength.max()
    if largest == 0:
        raise InputError(f"The coil sensitivities of {source} are zero everywhere: no coil receives anything.")
    seen = strength > NOTHING * largest
    return crop_or_pad(torch.where(seen, maps / strength.where(seen, largest), 0), size)


@dataclass(frozen=True)
class GivenMaps:
    """The coil sensitivities that a user gave in a file, normalised for one sample at a time."""

    source: str
    values: Image | Array
    """(coil, *space), normalised, if all samples share them; otherwise (N, coil, *space), as in the file."""
    rows: Sequence[int]
    """The row of the sensitivities of each sample; empty if all samples share them."""
    size: tuple[int, ...]

    def __getitem__(self, index: int) -> Image:
        if isinstance(self.values, Tensor):
            return self.values
        return normalise_maps(as_tensor(self.values[self.rows[index]]), self.size, self.source)


def read_given_maps(
    reading: Reading,
    name: str,
    shape: tuple[int, ...],
    spaces: Sequence[tuple[int, ...]],
    numbers: Sequence[Sequence[int]],
) -> GivenMaps | None:
    """The coil sensitivities that a user gave for the data set `name`, if any.

    `shape` is that of the samples, (coil, *space). For each of their files, `spaces` has the size of the images
    before they are cropped or padded, and `numbers` those of the samples that are read.
    """
    if reading.maps is None:
        return None
    if reading.kspace == "emulated" and reading.coils is None:
        raise InputError("Emulated k-space is that of magnitude images, which have no coils: leave out `maps`.")
    source, values, size = reading.maps, read_maps(reading.maps, reading.volumes), shape[1:]
    space = values.shape[-len(size) :]
    fits = space == size or (reading.size is not None and all(space == each for each in spaces))
    if values.ndim - len(size) not in (1, 2) or values.shape[-len(shape)] != shape[0] or not fits:
        simulate = shape[0] == 1 and reading.coils is None and fits
        way_out = ": set `coils` to simulate coils with these sensitivities" if simulate else ""
        raise InputError(
            f"The coil sensitivities of {source} have shape {list(values.shape)}, but the samples of {name} have "
            f"shape {list(shape)}{way_out}."
        )
    if values.ndim == len(shape):
        return GivenMaps(source, normalise_maps(as_tensor(values), size, source), (), size)
    count = sum(map(len, numbers))
    if len(values) == count:
        return GivenMaps(source, values, range(count), size)
    if len(numbers) == 1 and max(numbers[0]) < len(values):
        return GivenMaps(source, values, numbers[0], size)
    raise InputError(f"{source} holds coil sensitivities for {len(values)} samples, but {name} has {count}.")


def read_maps(source: str, volumes: bool) -> Array:
    """Coil sensitivities as a file has them, (coil, *space) or (N, coil, *space), memory-mapped if possible."""
    path = find_bart_file(source)
    if not path.is_file():
        raise InputError(f"{source} is not a file: coil sensitivities cannot be read from there.")
    suffix = path.suffix.lower()
    if suffix == ".cfl":
        return read_bart_maps(path, volumes)
    if suffix not in ARRAY_LISTS:
        endings = ", ".join((*ARRAY_LISTS, ".cfl"))
        raise InputError(f"Coil sensitivities cannot be read from {source}: give one of {endings}.")
    arrays = ARRAY_LISTS[suffix](path)
    known = [name for name in arrays if len(arrays) == 1 or name in MAPS]
    if not known:
        raise InputError(f"{source} holds no array {MAPS[0]!r}, but {list_names(arrays)}.")
    values = join_complex(arrays[known[0]].whole())
    if suffix == ".mat":  # directions as MATLAB's users see them
        space = range(values.ndim - (3 if volumes else 2), values.ndim)
        values = values.transpose(*range(max(space.start, 0)), *reversed(space)) if space.start >= 0 else values
    if values.dtype.kind not in NUMBERS or not values.size:
        raise InputError(f"The coil sensitivities of {source} are not numbers, or there are none.")
    return values


KERNEL = 6
"""The width of the patches of k-space that are compared."""
THRESHOLD = 0.02
"""Singular vectors of patches are used down to this share of the largest singular value."""
CROP = 0.95
"""Sensitivities are zero where the largest eigenvalue is smaller; it is 1 wherever the coils see something."""
IN_MEMORY = 2**30
"""Bytes of sensitivities of a data set that are kept in memory; further ones are kept on disk."""
MANY = 2**22
"""Those of larger samples, in numbers of all coils, are kept on disk as well: they take minutes."""
VERSION = 1
"""Of how sensitivities are computed; those on disk of another version are not used."""
PIXELS = 2**14
"""The number of pixels that are computed at once."""


def espirit_maps(image: Complex[Tensor, "coil *space"], calibration: int = 24) -> Complex[Tensor, "coil *space"]:
    """Compute the coil sensitivities of an image by ESPIRiT.

    In words: all patches of the coils' k-space lie in a space of few dimensions. At each pixel, the projection on
    that space is a small matrix over the coils, and the sensitivities are the vector that it leaves unchanged.

    Args:
        image: The fully sampled images of all coils, (coil, *space).
        calibration: The width of the central block of k-space that is used, along every axis.

    Returns:
        Sensitivities, (coil, *space). Their sum of squares is 1, or 0 where there is no signal. Their common phase
        is that with which the strongest combination of the coils sees the image.
    """
    coils, *space = image.shape
    axes = space_axes(len(space))
    block = central(to_kspace(image.to(torch.complex64), axes), [min(n, calibration) for n in space])
    maps = torch.zeros(coils, math.prod(space), dtype=torch.complex64)
    covariance = block.flatten(1) @ block.flatten(1).mH
    reference = torch.linalg.eigh(covariance).eigenvectors[:, -1]  # the combination of the coils that sees most
    correlations = _correlations(block)
    rows_at_once = max(1, PIXELS // math.prod(space[1:]))
    for start in range(0, space[0], rows_at_once):
        end = min(start + rows_at_once, space[0])
        projections = _project(correlations, space, range(start, end))
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
    """The correlation of the patches of two coils for each shift between them, -(width - 1) to width - 1."""
    coils, *size = block.shape
    widths = [min(KERNEL, n) for n in size]
    patches = block
    for axis, width in enumerate(widths, start=1):
        patches = patches.unfold(axis, width, 1)
    patches = patches.movedim(0, len(size)).reshape(-1, coils * math.prod(widths))
    squares, vectors = torch.linalg.eigh(patches.mT @ patches.conj())
    kernels = vectors[:, squares > THRESHOLD**2 * squares[-1]].T.reshape(-1, coils, *widths)
    # Padded so far that no shift wraps around.
    axes = space_axes(len(size))
    spectra = torch.fft.fftn(kernels, s=[2 * width - 1 for width in widths], dim=axes)
    products = torch.einsum("kc...,kd...->cd...", spectra, spectra.conj())
    return torch.fft.fftshift(torch.fft.ifftn(products, dim=axes), dim=axes) / math.prod(widths)


def _project(
    correlations: Complex[Tensor, "coil coil *shifts"], space: list[int], rows: range
) -> Complex[Tensor, "pixels coil coil"]:
    """The projection over the coils at each pixel of some rows of the image."""
    result = correlations
    for axis, n in enumerate(space):
        width = correlations.shape[2 + axis] // 2
        shifts = torch.arange(-width, width + 1, dtype=torch.float64)
        places = torch.tensor(rows if axis == 0 else range(n), dtype=torch.float64) - n // 2
        wave = torch.polar(torch.ones(()).double(), 2 * math.pi / n * torch.outer(shifts, places))
        result = torch.tensordot(result, wave.to(torch.complex64), dims=([2], [0]))
    return result.flatten(2).permute(2, 0, 1)


def with_maps(data: SampleSet, on_sample: Callable[[int, int], None] | None = None) -> SampleSet:
    """Give every sample coil sensitivities: its own, or else those of ESPIRiT; ones for samples of one channel.

    Args:
        data: The data set, prepared if it is in files.
        on_sample: Called with the number of samples that are calibrated, and their total.

    Returns:
        The same samples. Each is calibrated when it is first asked for, and its sensitivities are kept.
    """
    base, indices = resolve_subset(data)
    calibrated = CalibratedSet(base, len(indices), on_sample)
    return Subset(calibrated, indices) if isinstance(data, Subset) else calibrated


def calibrate(
    data: SampleSet, recon: Reconstruction, on_sample: Callable[[int, int], None] | None = None
) -> SampleSet:
    """Give samples coil sensitivities if a reconstruction uses them, and if their channels are coils.

    Raises:
        InputError: If the reconstruction combines coils, and there are none.
    """
    base, _ = resolve_subset(data)
    if isinstance(base, CalibratedSet):
        return data
    coils = has_coils(data)
    if not coils and getattr(recon, "combines_coils", False):
        held = f"{data.shape[0]} contrasts and no coils" if data.shape[0] > 1 else "one channel"
        raise InputError(
            f"{data.name} has {held}, but {recon.name} combines several coils: choose another reconstruction, or "
            f"simulate coils with `coils` 8."
        )
    return with_maps(data, on_sample) if coils and recon.uses_maps else data


def has_coils(data: SampleSet) -> bool:
    """Whether the channels of samples are coils: as their axes say, or, where they say nothing, if complex."""
    if data.shape[0] == 1 or data.geometry.channels:
        return data.shape[0] > 1 and data.geometry.channels == COIL
    first = data[0]
    return (first.image if first.clean is None else first.clean).is_complex()  # noise makes all images complex


class CalibratedSet:
    """A data set whose samples all have coil sensitivities."""

    def __init__(self, data: SampleSet, count: int, on_sample: Callable[[int, int], None] | None) -> None:
        self.data, self.count, self.on_sample = data, count, on_sample
        self.name, self.shape, self.geometry = data.name, data.shape, data.geometry
        self.groups, self.held_out, self.reading = data.groups, data.held_out, reading_of(data)
        self._maps: dict[int, Image] = {}
        """Sensitivities that are kept in memory."""
        self._done: set[int] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int, /) -> Sample:
        sample = self.data[index]
        if sample.maps is not None:
            return sample
        if not self.geometry.indexes:
            return replace(sample, maps=self._find_maps(index, sample))
        # The frames of a series share their sensitivities, which are those of its mean over time; contrasts, whose
        # phases differ, those of the one of most signal.
        strongest = int(sample.image.abs().square().sum(0).flatten(1).sum(1).argmax())
        in_time = self.geometry.indexed == FRAME
        one = sample.image.mean(1) if in_time else sample.image[:, strongest].contiguous()
        maps = self._find_maps(index, Sample(one, None, sample.group, sample.name))
        return replace(sample, maps=maps.unsqueeze(1))

    def _find_maps(self, index: int, sample: Sample) -> Image:
        if len(sample.image) == 1:
            return torch.ones_like(sample.image, dtype=torch.complex64)
        if not sample.image.is_complex():
            raise InputError(
                f"{sample.name} has {len(sample.image)} channels of real numbers, so they are no coils: coil "
                f"sensitivities need complex images, or k-space."
            )
        with self._lock:
            if index in self._maps:
                return self._maps[index]
            fits = (len(self._maps) + 1) * sample.image.nbytes <= IN_MEMORY
            large = not fits or sample.image.numel() > MANY
            maps = _espirit_on_disk(sample.image) if large else espirit_maps(sample.image)
            if fits:
                self._maps[index] = maps
            if self.on_sample is not None and index not in self._done:
                self._done.add(index)
                self.on_sample(len(self._done), self.count)
            return maps


def _espirit_on_disk(image: Image) -> Image:
    """The sensitivities of an image, kept on disk, as computing them takes long."""

    def write(folder: Path) -> dict[str, Any]:
        with ColumnWriter(folder / "maps") as column:
            column.append(espirit_maps(image))
        return column.about

    def fits(folder: Path, about: dict[str, Any]) -> bool:
        column = Column(folder / "maps", **about)
        return (column.shape, column.dtype.str, column.rows) == (tuple(image.shape), "<c8", 1)

    settings = f"espirit {VERSION} {list(image.shape)} {image.dtype}".encode()
    key = hashlib.sha256(settings + image.contiguous().numpy().tobytes()).hexdigest()
    folder, about = find_or_write(key, write, fits)
    return Column(folder / "maps", **about)[0]
