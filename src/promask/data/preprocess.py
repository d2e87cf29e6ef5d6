"""Samples in memory, taken as a user of files would have them.

Some samples as a reconstruction takes them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from promask.data.reading import Reading
from promask.data.sample_sets import ArraySet
from promask.data.sensitivities import maps_of_file
from promask.data.simulate import scanned_shape
from promask.data.stack import fitted
from promask.errors import InputError
from promask.recon.base import Reconstruction
from promask.types import AnyArray, CoilImages, Maps, Sample, SampleSet


def adapted(data: ArraySet, reading: Reading) -> ArraySet:
    """The slices that were asked for, at the size that was asked for, with the coil maps of a file."""
    chosen = list(reading.chosen(len(data)))
    size = reading.wanted_size(data.shape[1:])
    if not chosen:
        raise InputError(f"{data.name} holds no slices to take.")

    def taken(values: torch.Tensor) -> torch.Tensor:
        return fitted(values if len(chosen) == len(data) else values[chosen], size)

    images, clean, maps = data.images, data.clean, data.maps
    if reading.kspace == "emulated":
        images, clean, maps = images.abs(), None if clean is None else clean.abs(), None
    if maps is not None:
        maps = taken(maps) if maps.ndim == images.ndim else fitted(maps, size)
    shape = scanned_shape((images.shape[1], *size), reading, data.name)
    given = maps_of_file(reading, data.name, shape, [data.shape[1:]], [chosen])
    if given is not None:
        maps = given[0] if given.rows is None else torch.stack([given[index] for index in range(len(chosen))])
    return replace(
        data,
        images=taken(images),
        labels=None if data.labels is None else taken(data.labels),
        subjects=None if data.subjects is None else [data.subjects[index] for index in chosen],
        unlabelled=None if data.unlabelled is None else [data.unlabelled[index] for index in chosen],
        maps=maps,
        clean=None if clean is None else taken(clean),
        reading=reading,
    )


@dataclass(frozen=True)
class Acquired:
    """Fully sampled images of all coils, the same without noise, and the maps of the coils if they are of use."""

    images: CoilImages
    clean: CoilImages
    maps: Maps | None


def acquired(samples: Sequence[Sample], recon: Reconstruction) -> Acquired:
    """What there is of some samples; maps that all of them share come once."""
    images = stacked(sample.image for sample in samples)
    clean = images
    if any(sample.clean is not None for sample in samples):
        clean = stacked(sample.image if sample.clean is None else sample.clean for sample in samples)
    return Acquired(images, clean, _maps(samples) if recon.uses_maps else None)


def stacked(arrays: Iterable[AnyArray]) -> torch.Tensor:
    """Arrays of one shape, one after the other."""
    # By NumPy: PyTorch would start threads of its own for a thread that reads ahead, which wait in a busy loop.
    return torch.from_numpy(np.stack([array.numpy() for array in arrays]))


def channels_seen(data: SampleSet, recon: Reconstruction) -> int:
    """The channels of reconstructed images: one if coils are combined."""
    first = acquired([data[0]], recon)
    return recon.reference(first.clean, first.maps).shape[1]


def _maps(samples: Sequence[Sample]) -> Maps | None:
    known = [sample.maps for sample in samples if sample.maps is not None]
    if known and len(known) < len(samples):
        without = next(sample for sample in samples if sample.maps is None)
        raise InputError(f"{without.name} has no coil maps, but others have: give maps of all, or of none.")
    if not known:
        return None
    return stacked(known[:1] if all(each is known[0] for each in known) else known)
