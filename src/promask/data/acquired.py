"""Some samples as a reconstruction takes them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from promask.errors import InputError
from promask.recon import Reconstruction
from promask.types import AnyArray, CoilImages, Maps, Sample, SampleSet


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
