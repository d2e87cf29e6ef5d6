"""Arrays in memory as data sets.

A torch Dataset, or anything with a length and items: in memory if it is small, else read when needed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from promask.data.atomic import NUMBERS, as_tensor
from promask.data.preprocess import adapted
from promask.data.reading import Reading
from promask.data.sample_sets import ArraySet
from promask.data.sensitivities import maps_of_file
from promask.data.simulate import scanned, scanned_shape, usable_maps
from promask.errors import InputError
from promask.operators.fourier import space_axes, to_image
from promask.types import Geometry, Sample, SampleSet


def from_images(
    images: Any,
    labels: Any = None,
    subjects: Sequence[str] | None = None,
    volumes: bool = False,
    name: str = "the array",
    maps: Any = None,
) -> ArraySet:
    """A data set from images, real or complex: (H, W), (N, H, W) or (N, channel, H, W).

    With `volumes`, each of them has a further axis before H. Values keep their scale; precision becomes single.
    `maps` are coil sensitivities, (coil, *space) for all of them or (N, coil, *space).
    """
    images, alone = _stacked(images, volumes, name)
    if labels is not None:
        labels = _labels(labels, name)
        labels = labels[None] if alone else labels
    return ArraySet(images, name, labels, subjects, maps=None if maps is None else _maps(maps, images, name))


def from_kspace(
    kspace: Any,
    labels: Any = None,
    subjects: Sequence[str] | None = None,
    volumes: bool = False,
    name: str = "the array",
    maps: Any = None,
) -> ArraySet:
    """A data set from centred, fully sampled k-space: (H, W), (N, H, W) or (N, coil, H, W), complex."""
    stacked, alone = _stacked(kspace, volumes, name)
    if not stacked.is_complex():
        raise InputError(f"The k-space of {name} is not complex.")
    for index, sample in enumerate(stacked):
        if not torch.isfinite(sample).all():
            raise InputError(f"{name}, slice {index} holds NaN or infinite values: mend it or leave it out.")
    images = to_image(stacked, space_axes(stacked.ndim - 2))
    if labels is not None and alone:
        labels = _labels(labels, name)[None]
    return from_images(images, labels, subjects, volumes, name, maps)


def _stacked(values: Any, volumes: bool, name: str) -> tuple[torch.Tensor, bool]:
    """Samples as (N, channel, *space) in single precision, and whether it was one sample without an axis N."""
    values = _single(values, name)
    if not values.numel():
        raise InputError(f"{name} holds no images: its shape is {list(values.shape)}.")
    dimensions = 3 if volumes else 2
    if not dimensions <= values.ndim <= dimensions + 2:
        raise InputError(
            f"{name} has shape {list(values.shape)}, but images of {dimensions} axes are expected, alone or "
            f"stacked as (N, *space) or (N, channel, *space)."
        )
    alone = values.ndim == dimensions
    channels = values.shape[1] if values.ndim == dimensions + 2 else 1
    return values.reshape(1 if alone else len(values), channels, *values.shape[-dimensions:]), alone


def _single(values: Any, name: str) -> torch.Tensor:
    """Numbers in single precision."""
    if not isinstance(values, torch.Tensor):
        array = np.asarray(values)
        if array.dtype.kind not in NUMBERS:
            raise InputError(f"{name} holds {array.dtype} values, but numbers are expected.")
        values = as_tensor(array)
    return (
        values.detach()
        .cpu()
        .resolve_conj()
        .resolve_neg()
        .to(torch.complex64 if values.is_complex() else torch.float32)
    )


def _maps(maps: Any, images: torch.Tensor, name: str) -> torch.Tensor:
    """Coil maps for images (N, channel, *space); whether their shapes fit is seen later."""
    values, space = _single(maps, f"The coil maps of {name}"), tuple(images.shape[2:])
    if values.ndim not in (len(space) + 1, len(space) + 2) or not values.numel():
        raise InputError(
            f"The coil maps of {name} have shape {list(values.shape)}, but (coil, *space) or (N, coil, *space) is "
            f"expected."
        )
    if values.ndim == len(space) + 1:
        return usable_maps(values, values.shape[1:], name)
    return torch.stack([usable_maps(each, each.shape[1:], name) for each in values])


def _labels(labels: Any, name: str) -> torch.Tensor:
    array = labels.cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)
    if array.dtype.kind not in "buif" or not (array == np.round(array.astype(np.float64))).all():
        raise InputError(f"The labels of {name} must be whole numbers.")
    return as_tensor(array.astype(np.int64))


IN_MEMORY = 2**30
"""Bytes of images up to which all items are read at once, and kept."""


def from_dataset(items: Any, reading: Reading) -> SampleSet:
    """A Dataset whose items are samples, images, or (image, label) pairs.

    It may tell the group of each item by an attribute `groups`; those of samples are known otherwise, too.
    """
    if not len(items):
        raise InputError("The data set is empty.")
    name = f"the {type(items).__name__}"
    first = from_items([items[0]], reading.volumes, name)
    if len(items) * first.images.nbytes > IN_MEMORY:
        return StreamedSet(items, reading, name)
    made = from_items([items[index] for index in range(len(items))], reading.volumes, name)
    groups = told_groups(items, name)
    return adapted(made if groups is None else replace(made, subjects=groups), reading)


class StreamedSet:
    """The samples of a Dataset that is too large for memory: an item is asked for whenever it is needed."""

    held_out: Sequence[bool] | None = None
    geometry = Geometry()

    def __init__(self, items: Any, reading: Reading, name: str) -> None:
        self.items, self.reading, self.name = items, reading, name
        self.numbers = reading.chosen(len(items))
        """Of the items that are taken."""
        if not self.numbers:
            raise InputError(f"{name} holds no slices to take.")
        self._plain = replace(Reading(), volumes=reading.volumes, kspace=reading.kspace, size=reading.size)
        first = self._item(0)
        self.shape = scanned_shape(first.shape, reading, name)
        raw = from_items([items[self.numbers[0]]], reading.volumes, name).shape[1:]
        self._maps = maps_of_file(reading, name, self.shape, [raw], [self.numbers])
        self.groups = self._groups()

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int, /) -> Sample:
        item, place = self._item(index), index % len(self)
        if scanned_shape(item.shape, self.reading, self.name) != self.shape:
            raise InputError(
                f"{item.name} has shape {list(item.shape)}, but the first image of {self.name} has another: they "
                f"must be alike."
            )
        sample = replace(item[0], group=self.groups[place])
        maps = sample.maps if self._maps is None else self._maps[place]
        return scanned(sample, maps, place, self.reading, self.geometry)

    def _groups(self) -> Sequence[str]:
        """The group of each sample; if only the samples themselves know, all of them are read once."""
        told = told_groups(self.items, self.name)
        if told is not None:
            return [told[number] for number in self.numbers]
        if isinstance(self.items[self.numbers[0]], Sample):
            return [self.items[number].group for number in self.numbers]
        return [self.name] * len(self)

    def _item(self, index: int) -> ArraySet:
        """A data set of one item, checked; without coils or noise."""
        number = self.numbers[index]
        return adapted(
            from_items([self.items[number]], self.reading.volumes, f"{self.name}, slice {number}"), self._plain
        )


def told_groups(items: Any, name: str) -> Sequence[str] | None:
    """The group of each item, if the Dataset has an attribute for it."""
    groups = getattr(items, "groups", None)
    if groups is None:
        return None
    if len(groups) != len(items):
        raise InputError(f"{name} has {len(items)} items, but tells {len(groups)} groups.")
    return [str(group) for group in groups]


def from_items(items: Sequence[Any], volumes: bool, name: str) -> ArraySet:
    """A data set in memory of samples, images, or (image, label) pairs."""
    of_samples = isinstance(items[0], Sample)
    if of_samples:
        images = [item.image for item in items]
        labels = [item.label for item in items]
    else:
        pairs = [item if isinstance(item, tuple | list) else (item, None) for item in items]
        if not all(isinstance(pair[0], torch.Tensor) or hasattr(pair[0], "__array__") for pair in pairs):
            raise InputError(f"The items of {name} must be images, (image, label) pairs or promask samples.")
        images = [torch.as_tensor(pair[0]) for pair in pairs]
        labels = [pair[1] for pair in pairs]
    if len({image.shape for image in images}) > 1:
        raise InputError(f"The images of {name} differ in shape: they must be alike.")
    stacked_labels = None
    if all(label is not None for label in labels):
        stacked_labels = torch.stack([torch.as_tensor(label) for label in labels])
    made = from_images(torch.stack(images), stacked_labels, None, volumes, name)
    return _as_the_samples_say(made, items) if of_samples else made


def _as_the_samples_say(data: ArraySet, samples: Sequence[Sample]) -> ArraySet:
    """What samples tell beside images and labels; maps are kept if all of them have some."""
    maps = [sample.maps for sample in samples if sample.maps is not None]
    clean = [sample.image if sample.clean is None else sample.clean for sample in samples]
    noisy = any(sample.clean is not None for sample in samples)
    if max(len({values.shape for values in kind}) for kind in (maps, clean)) > 1:
        raise InputError(f"The coil maps, or the images without noise, of {data.name} differ in shape.")
    return replace(
        data,
        subjects=[sample.group for sample in samples],
        unlabelled=[sample.unlabelled for sample in samples],
        maps=torch.stack(maps) if len(maps) == len(samples) else None,
        clean=torch.stack(clean).to(data.images.dtype) if noisy else None,
    )
