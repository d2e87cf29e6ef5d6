"""From values in a file or array to images in single precision, and from samples to a batch."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from promask.data.atomic import NUMBERS, Array, as_tensor
from promask.data.reading import NO_READOUT, Reading
from promask.data.sample_file import SampleFile
from promask.errors import InputError
from promask.operators.fourier import space_axes, spectrum, to_image, to_kspace
from promask.recon.base import Reconstruction
from promask.types import (
    AnyArray,
    CoilImages,
    Cut,
    Geometry,
    Maps,
    Sample,
    SampleSet,
    Spectra,
    central,
    central_slices,
)


class Collated(NamedTuple):
    """Samples put together."""

    images: CoilImages
    """Of all coils."""
    clean: CoilImages
    """The same without noise."""
    maps: Maps | None
    """Coil sensitivities, if they are used."""
    cut: Cut | None
    """Where slices were cut out of volumes."""
    kspace: Spectra | None = None
    """Along a trajectory; None where k-space is Cartesian."""

    def spectra(self, geometry: Geometry) -> Spectra:
        """K-space of the images, in FFT order along its directions.

        Args:
            geometry: Of the samples.

        Returns:
            (batch, coil, *kspace).
        """
        if self.kspace is not None:
            return self.kspace
        return spectrum(self.images, space_axes(self.images.ndim - 2 - geometry.indexes))


def prepare_image(values: Array, file: SampleFile, reading: Reading) -> torch.Tensor:
    """The image of a sample, (channel, *space), in single precision."""
    if values.dtype.kind not in NUMBERS:
        raise InputError(f"{file.name} holds {values.dtype} values, but numbers are expected.")
    image = as_tensor(values)
    image = image.to(torch.complex64 if image.is_complex() else torch.float32)
    extent = file.geometry.extent
    if file.holds_kspace:
        if not image.is_complex():
            raise InputError(f"The k-space of {file.name} is not complex.")
        image = to_image(clear_padding(image, extent), space_axes(image.ndim - 1))
    if reading.kspace == "emulated":
        image = file.geometry.crop(image)
        image = torch.linalg.vector_norm(image, dim=0, keepdim=True) if file.holds_kspace else image.abs()
    size = reading.final_size(tuple(image.shape[1:]))
    resized = crop_or_pad(image, size)
    if resized is image or not extent or reading.kspace == "emulated":
        return resized
    # A smaller image has a coarser k-space, into whose padding some signal leaks.
    return remove_unmeasured(resized, file.prepared_layout(reading)[1].extent)


def prepare_label(label: Array, file: SampleFile, reading: Reading) -> torch.Tensor:
    """The label of a sample, (*space), as whole numbers."""
    if label.shape != file.shape[1:]:
        raise InputError(
            f"The labels of {file.name} have shape {list(label.shape)}, but its images have shape "
            f"{list(file.shape[1:])}."
        )
    if not is_whole(label) or (np.abs(label.astype(np.float64)) > np.iinfo(np.int32).max).any():
        raise InputError(f"The labels of {file.name} must be whole numbers.")
    tensor = as_tensor(label.astype(np.int32))
    if reading.kspace == "emulated":
        tensor = file.geometry.crop(tensor)
    return crop_or_pad(tensor, reading.final_size(tuple(tensor.shape)))


def is_whole(values: Array) -> bool:
    """Whether all values are whole numbers, whatever their type."""
    return values.dtype.kind in "buif" and bool((values == np.round(values.astype(np.float64))).all())


def crop_or_pad(image: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """Crop, or pad with zeros, the last axes to this size around their centre.

    >>> crop_or_pad(torch.tensor([1, 2, 3]), [6])
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


def clear_padding(kspace: torch.Tensor, extent: Sequence[tuple[int, int]]) -> torch.Tensor:
    """K-space with zeros outside of the extent that was measured; all of it was if there is no extent."""
    if not extent:
        return kspace
    result = torch.zeros_like(kspace)
    inside: tuple[Any, ...] = (..., *(slice(*ends) for ends in extent))
    result[inside] = kspace[inside]
    return result


def remove_unmeasured(image: torch.Tensor, extent: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The image, (channel, *space), without its signal in the padding of k-space, which is never measured."""
    if not extent:
        return image
    axes = space_axes(image.ndim - 1)
    return to_image(clear_padding(to_kspace(image, axes), extent), axes)


def describe_flaw(image: torch.Tensor) -> str | None:
    """What makes an image unfit to learn from, in words; None if it is fit."""
    if not torch.isfinite(image).all():
        return "holds NaN or infinite values"
    smallest, largest = image.abs().aminmax()
    if smallest == 0 and largest == 0:
        return "is zero everywhere"
    if smallest == largest:
        return "has the same value everywhere, so there is no image to learn from"
    return None


OFF_CENTRE = 8
"""The largest value of k-space lies within 1 / 8 of the matrix from the middle, or is said to be off."""
SPARSE = 0.3
"""The share of zeros above which k-space counts as undersampled: the corners outside of an ellipse are 21 %."""


def choose_readout(geometry: Geometry, reading: Reading, name: str) -> Geometry:
    """The geometry with the readout that a user names, if any; `name` is that of the data, for messages."""
    if reading.readout is None:
        return geometry
    if reading.readout == NO_READOUT:
        return replace(geometry, readout=None)
    if reading.readout not in geometry.axes:
        known = ", ".join(geometry.axes) or "not known: name them with `axes`"
        raise InputError(f"`readout` is {reading.readout}, but the axes of {name} are {known}.")
    return replace(geometry, readout=geometry.axes.index(reading.readout))


def find_extent(kspace: Array) -> tuple[tuple[int, int], ...]:
    """Start and end of the part of each axis of k-space, (channel, *space), that is not zero; () for all of it.

    >>> find_extent(np.array([[[0, 1, 2, 0], [0, 3, 0, 0]]]))
    ((0, 2), (1, 3))
    """
    measured = (kspace != 0).any(0)
    extent = []
    for axis in range(measured.ndim):
        places = np.flatnonzero(measured.any(tuple(other for other in range(measured.ndim) if other != axis)))
        extent.append((int(places[0]), int(places[-1]) + 1) if len(places) else (0, measured.shape[axis]))
    return () if extent == [(0, n) for n in measured.shape] else tuple(extent)


def share_of_zeros(kspace: Array) -> float:
    """The share of samples of k-space, (channel, *space), that are zero, between the ends of what is not."""
    inside = tuple(slice(*ends) for ends in find_extent(kspace)) or (...,)
    return 1 - float((kspace != 0).any(0)[inside].mean())


def describe_undersampling(kspace: Array) -> str | None:
    """Why k-space, (channel, *space), was undersampled, in words; None if it was not, or is zero everywhere.

    >>> lines = np.ones((1, 8, 8)) * (np.arange(8) % 2)
    >>> describe_undersampling(lines)
    'is undersampled: 43 % of its samples are zero, but masks need full k-space'
    """
    zeros = share_of_zeros(kspace)
    if not SPARSE < zeros < 1:
        return None
    return f"is undersampled: {zeros * 100:.0f} % of its samples are zero, but masks need full k-space"


def find_peak(kspace: Array) -> tuple[tuple[int, ...], bool]:
    """Where the largest value of k-space, (channel, *space), lies, and whether that is near the middle."""
    strength = np.abs(kspace).sum(0)
    peak = tuple(int(place) for place in np.unravel_index(strength.argmax(), strength.shape))
    pairs = zip(peak, strength.shape, strict=True)
    return peak, all(abs(place - n // 2) <= max(1, n // OFF_CENTRE) for place, n in pairs)


def describe_doubt(kspace: Array, extent: Sequence[tuple[int, int]]) -> str | None:
    """What is perhaps wrong with k-space, (channel, *space), in words; None if nothing seems to be.

    `extent` is what its format says was measured; empty: all of it.
    """
    peak, centred = find_peak(kspace)
    if not centred:
        return (
            f"has its largest value at {list(peak)} of {list(kspace.shape[1:])}, far from the middle: if it is "
            f"not centred, shift it with numpy.fft.fftshift; if it holds images, name its `axes` as images."
        )
    found = find_extent(kspace)
    if found and not extent:
        ends = ", ".join(f"{b - a} of {n}" for (a, b), n in zip(found, kspace.shape[1:], strict=True))
        return f"is zero outside of {ends} samples along its axes: these zeros are counted as samples of the scan."
    return None


def collate(samples: Sequence[Sample], with_maps: bool) -> Collated:
    """Put samples together as a batch; sensitivities that all of them share come once."""
    images = clean = stack_arrays(sample.image for sample in samples)
    if any(sample.clean is not None for sample in samples):
        clean = stack_arrays(sample.image if sample.clean is None else sample.clean for sample in samples)
    known = [sample.maps for sample in samples if with_maps and sample.maps is not None]
    cut = Cut.of([sample.place for sample in samples])
    measured = [sample.kspace for sample in samples if sample.kspace is not None]
    kspace = stack_arrays(measured) if measured else None
    if not known:
        return Collated(images, clean, None, cut, kspace)
    if len(known) < len(samples):
        without = next(sample.name for sample in samples if sample.maps is None)
        raise InputError(
            f"{without} has no coil sensitivities, but others have: give those of all samples, or of none."
        )
    shared = all(each is known[0] for each in known)
    return Collated(images, clean, stack_arrays(known[:1] if shared else known), cut, kspace)


def move(found: Collated, device: torch.device) -> Collated:
    """A batch on a device."""
    images, clean, maps, cut, kspace = found
    there = images.to(device)
    return Collated(
        there,
        there if clean is images else clean.to(device),
        None if maps is None else maps.to(device),
        None if cut is None else cut.to(device),
        None if kspace is None else kspace.to(device),
    )


def stack_arrays(arrays: Iterable[AnyArray]) -> torch.Tensor:
    """Arrays of one shape, stacked along a new first axis."""
    # By NumPy: in a thread that prefetches, PyTorch would start threads of its own, which wait in a busy loop.
    return torch.from_numpy(np.stack([array.numpy() for array in arrays]))


def reconstructed_channels(data: SampleSet, recon: Reconstruction) -> int:
    """The number of channels of reconstructed images: one if coils are combined."""
    first = collate([data[0]], recon.uses_maps)
    return recon.reference(first.clean, first.maps).shape[1]
