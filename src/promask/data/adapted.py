"""Samples in memory, taken as a user of files would have them."""

from dataclasses import replace

import torch

from promask.data.maps_file import maps_of_file
from promask.data.scan import scanned_shape
from promask.data.sets import ArraySet
from promask.data.stack import fitted
from promask.errors import InputError
from promask.reading import Reading


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
