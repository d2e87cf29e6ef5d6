"""The samples of a file: described by its header, read later, and made ready for use."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from promask.data.atomic import NUMBERS, Array, as_tensor
from promask.data.reading import Reading
from promask.data.sandbox import check_claim
from promask.errors import InputError
from promask.operators.fourier import space_axes, to_image, to_kspace
from promask.types import Geometry, central, central_slices

Pair = tuple[Array, Array | None]
"""The values of a sample, (channel, *space), and its label, (*space), if there is one."""
Read = Callable[[Sequence[int]], Iterator[Pair]]
"""Reads the samples of these numbers, which increase, one after the other."""
ReadMaps = Callable[[Sequence[int]], Iterator[Array]]
"""Reads the coil maps of these samples, (coil, *space) each."""


@dataclass(frozen=True)
class Stack:
    """The samples of one file, or of one series of files."""

    files: tuple[Path, ...]
    """The first one names the stack; all of them determine its content."""
    shape: tuple[int, ...]
    """(channel, *space) of what is read; channels are contrasts, or coils."""
    numbers: Sequence[int]
    """Which samples to take, counted as in the file."""
    read: Read
    holds_kspace: bool = False
    subjects: Sequence[str] | None = None
    """The subject of each of the samples taken; None if the file does not tell."""
    unlabelled: Sequence[tuple[str, ...]] | None = None
    """For each of the samples taken, the classes that were not annotated; None: all were."""
    maps: ReadMaps | None = None
    """Reads the coil maps that lie beside the values; None if there are none."""
    geometry: Geometry = Geometry()
    held_out: bool | None = None
    variant: str = ""
    """What else determines the content: how a reader treats the values."""

    @property
    def name(self) -> str:
        """The first file, for messages."""
        return str(self.files[0])

    def sample_name(self, number: int) -> str:
        """The name of a sample, for messages."""
        return f"{self.name}, {'slice' if len(self.shape) == 3 else 'volume'} {number}"


Describe = Callable[[], Stack]
"""Looks at the header of a file and describes its samples."""


REAL, COMPLEX = 32, 64
"""Bytes that a value of a sample takes while it is made ready, with its label and all that is on the way."""
COUNTED = 512
"""Bytes that are kept of each sample: its place, its name, what is wrong with it."""


def check_size(stack: Stack) -> None:
    """Refuse a stack whose header promises more than its files can hold: in one sample, in number, or in all."""
    try:
        count = len(stack.numbers)
    except OverflowError:
        count = sys.maxsize
    if count and 0 in stack.shape:
        raise InputError(f"{stack.name} holds no images: their shape is {list(stack.shape)}.")
    values = math.prod(stack.shape)
    single = 8 if stack.holds_kspace else 4
    sample = values * (COMPLEX if stack.holds_kspace else REAL)
    check_claim(max(sample, count * COUNTED, count * values * single), *stack.files)


def refuse_options_of_arrays(path: Path, reading: Reading) -> None:
    """Say so if options were given that mean nothing for a file whose format tells what it holds."""
    if reading.array is not None or reading.holds is not None:
        raise InputError(f"The format of {path} tells what it holds: leave out --array and --holds.")


@dataclass(frozen=True)
class Layout:
    """The shape of samples that are ready, (channel, *space), and what of it counts."""

    shape: tuple[int, ...]
    geometry: Geometry


def layout(stack: Stack, reading: Reading) -> Layout:
    """The layout of a stack's samples when they are ready."""
    channels, *space = stack.shape
    geometry = stack.geometry
    if reading.kspace == "emulated":
        channels = 1 if stack.holds_kspace else channels
        space, geometry = list(geometry.region or space), Geometry()
    size = reading.wanted_size(tuple(space))
    if size != tuple(space):
        geometry = geometry.resized(space, size)
    return Layout((channels, *size), geometry)


def ready(values: Array, stack: Stack, reading: Reading) -> torch.Tensor:
    """The image of a sample, (channel, *space), in single precision."""
    if values.dtype.kind not in NUMBERS:
        raise InputError(f"{stack.name} holds {values.dtype} values, but numbers are expected.")
    tensor = as_tensor(values)
    tensor = tensor.to(torch.complex64 if tensor.is_complex() else torch.float32)
    if stack.holds_kspace:
        tensor = _image_of(tensor, stack)
    if reading.kspace == "emulated":
        tensor = stack.geometry.crop(tensor)
        root = torch.linalg.vector_norm(tensor, dim=0, keepdim=True)
        tensor = root if stack.holds_kspace else tensor.abs()
    size = reading.wanted_size(tuple(tensor.shape[1:]))
    if size != tuple(tensor.shape[1:]) and stack.geometry.extent and reading.kspace == "acquired":
        # A smaller image has a coarser k-space, into whose padding some signal leaks.
        axes = space_axes(len(size))
        extent = layout(stack, reading).geometry.extent
        return to_image(covered(to_kspace(fitted(tensor, size), axes), extent), axes)
    return fitted(tensor, size)


def ready_label(label: Array, stack: Stack, reading: Reading) -> torch.Tensor:
    """The label of a sample, (*space), as whole numbers."""
    if label.shape != stack.shape[1:]:
        raise InputError(
            f"The labels of {stack.name} have shape {list(label.shape)}, but its images have shape "
            f"{list(stack.shape[1:])}."
        )
    whole = label.dtype.kind in "buif" and (label == np.round(label.astype(np.float64))).all()
    if not whole or (np.abs(label.astype(np.float64)) > np.iinfo(np.int32).max).any():
        raise InputError(f"The labels of {stack.name} must be whole numbers.")
    tensor = as_tensor(label.astype(np.int32))
    if reading.kspace == "emulated":
        tensor = stack.geometry.crop(tensor)
    return fitted(tensor, reading.wanted_size(tuple(tensor.shape)))


def fitted(image: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """Cropped, or padded with zeros, to this size over the last axes, with the centre kept.

    >>> fitted(torch.tensor([1, 2, 3]), [6])
    tensor([0, 0, 1, 2, 3, 0])
    """
    space = image.shape[image.ndim - len(size) :]
    if tuple(space) == tuple(size):
        return image
    kept = [min(n, wanted) for n, wanted in zip(space, size, strict=True)]
    result = image.new_zeros(*image.shape[: image.ndim - len(size)], *size)
    where: tuple[Any, ...] = (..., *central_slices(size, kept))
    result[where] = central(image, kept)
    return result


def doubt(values: Array, stack: Stack) -> str | None:
    """What makes it doubtful that values are centred k-space, in words."""
    if not stack.holds_kspace:
        return None
    strength = np.abs(values).sum(0)
    peak = [int(place) for place in np.unravel_index(strength.argmax(), strength.shape)]
    if all(abs(place - n // 2) <= max(1, n // 8) for place, n in zip(peak, strength.shape, strict=True)):
        return None
    shape = list(strength.shape)
    return (
        f"has its largest value at {peak} of {shape}, far from the middle: if it is not centred, shift it with "
        f"numpy.fft.fftshift; if it holds images, say --holds image."
    )


def _image_of(kspace: torch.Tensor, stack: Stack) -> torch.Tensor:
    if not kspace.is_complex():
        raise InputError(f"The k-space of {stack.name} is not complex.")
    kspace = covered(kspace, stack.geometry.extent) if stack.geometry.extent else kspace
    return to_image(kspace, space_axes(kspace.ndim - 1))


def covered(kspace: torch.Tensor, extent: Sequence[tuple[int, int]]) -> torch.Tensor:
    """K-space with nothing in its padding."""
    result = torch.zeros_like(kspace)
    inside: tuple[Any, ...] = (..., *(slice(*ends) for ends in extent))
    result[inside] = kspace[inside]
    return result
