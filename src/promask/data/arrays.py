"""Arrays in memory, and torch Datasets, as data sets."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from promask.data.atomic import NUMBERS, as_tensor
from promask.data.axes import FRAME, SLICE, SUBJECT
from promask.data.preprocess import choose_readout, crop_or_pad, is_whole
from promask.data.readers.arrays import LazyArray, Samples, choose_axes, how_understood
from promask.data.reading import Reading, along_slices
from promask.data.sample_sets import ArraySet
from promask.data.sensitivities import normalise_maps, read_given_maps
from promask.data.simulate import scan_geometry, scan_shape, simulate_scan
from promask.errors import InputError
from promask.operators.fourier import space_axes, to_image
from promask.types import Geometry, Sample, SampleSet

IN_MEMORY = 2**30
"""Bytes of images up to which all items of a Dataset are read at once, and kept."""


def from_images(
    images: Any,
    labels: Any = None,
    subjects: Sequence[str] | None = None,
    volumes: bool = False,
    name: str = "the array",
    maps: Any = None,
) -> ArraySet:
    """Make a data set from images.

    Args:
        images: Real or complex, (H, W), (N, H, W) or (N, channel, H, W). Values keep their scale; precision is
            reduced to single.
        labels: Whole numbers, (H, W) or (N, H, W).
        subjects: The subject of each image, which a split never cuts through.
        volumes: Whether the images are volumes, with a further axis before H.
        name: Where the images come from, for messages.
        maps: Coil sensitivities, (coil, *space) for all images or (N, coil, *space).

    Returns:
        The data set.
    """
    images, alone = _as_stack(images, volumes, name)
    if labels is not None:
        labels = _as_labels(labels, name)
        labels = labels[None] if alone else labels
    return ArraySet(images, name, labels, subjects, maps=None if maps is None else _as_maps(maps, images, name))


def from_kspace(
    kspace: Any,
    labels: Any = None,
    subjects: Sequence[str] | None = None,
    volumes: bool = False,
    name: str = "the array",
    maps: Any = None,
) -> ArraySet:
    """Make a data set from centred, fully sampled k-space.

    Args:
        kspace: Complex, (H, W), (N, H, W) or (N, coil, H, W), with the centre at n // 2 of each axis.
        labels: Whole numbers, (H, W) or (N, H, W).
        subjects: The subject of each sample, which a split never cuts through.
        volumes: Whether the samples are volumes, with a further axis before H.
        name: Where the k-space comes from, for messages.
        maps: Coil sensitivities, (coil, *space) for all samples or (N, coil, *space).

    Returns:
        The data set, of the images of this k-space.
    """
    stack, alone = _as_stack(kspace, volumes, name)
    if not stack.is_complex():
        raise InputError(f"The k-space of {name} is not complex.")
    for index, sample in enumerate(stack):
        if not torch.isfinite(sample).all():
            raise InputError(f"{name}, slice {index} holds NaN or infinite values: mend it or leave it out.")
    if labels is not None and alone:
        labels = _as_labels(labels, name)[None]
    return from_images(to_image(stack, space_axes(stack.ndim - 2)), labels, subjects, volumes, name, maps)


def _as_stack(values: Any, volumes: bool, name: str) -> tuple[torch.Tensor, bool]:
    """Samples as (N, channel, *space) in single precision, and whether it was one sample without an axis N."""
    values = _as_single_precision(values, name)
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


def _as_single_precision(values: Any, name: str) -> torch.Tensor:
    if not isinstance(values, torch.Tensor):
        array = np.asarray(values)
        if array.dtype.kind not in NUMBERS:
            raise InputError(f"{name} holds {array.dtype} values, but numbers are expected.")
        values = as_tensor(array)
    values = values.detach().cpu().resolve_conj().resolve_neg()
    return values.to(torch.complex64 if values.is_complex() else torch.float32)


def _as_maps(maps: Any, images: torch.Tensor, name: str) -> torch.Tensor:
    """Coil sensitivities for images (N, channel, *space); that their shapes fit is checked later."""
    values, dimensions = _as_single_precision(maps, f"The array of coil sensitivities of {name}"), images.ndim - 2
    if values.ndim not in (dimensions + 1, dimensions + 2) or not values.numel():
        raise InputError(
            f"The coil sensitivities of {name} have shape {list(values.shape)}, but (coil, *space) or "
            f"(N, coil, *space) is expected."
        )
    if values.ndim == dimensions + 1:
        return normalise_maps(values, values.shape[1:], name)
    return torch.stack([normalise_maps(each, each.shape[1:], name) for each in values])


def _as_labels(labels: Any, name: str) -> torch.Tensor:
    array = labels.cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)
    if not is_whole(array):
        raise InputError(f"The labels of {name} must be whole numbers.")
    return as_tensor(array.astype(np.int64))


def apply_reading(data: ArraySet, reading: Reading) -> ArraySet:
    """The chosen slices of a data set in memory, at the chosen size, with the given coil sensitivities."""
    counts = dict(data.counts) or {SLICE: len(data)}
    chosen, along = list(reading.choose_samples(counts)), along_slices(counts)
    size = reading.final_size(data.shape[1:])
    if not chosen:
        raise InputError(f"{data.name} holds no slices to take.")

    def choose(values: torch.Tensor) -> torch.Tensor:
        return crop_or_pad(values if len(chosen) == len(data) else values[chosen], size)

    images, clean, maps = data.images, data.clean, data.maps
    if reading.kspace == "emulated":
        images, clean, maps = images.abs(), None if clean is None else clean.abs(), None
    if maps is not None:
        maps = choose(maps) if maps.ndim == images.ndim else crop_or_pad(maps, size)
    geometry = data.geometry.emulated() if reading.kspace == "emulated" else data.geometry
    geometry = scan_geometry(choose_readout(geometry, reading, data.name), reading, size)
    shape = scan_shape((images.shape[1], *size), reading, data.name)
    in_series = reading.per is not None or (data.counts.get(FRAME, 1) > 1 and not reading.each_frame)
    given = None if in_series else read_given_maps(reading, data.name, shape, [data.shape[1:]], [chosen])
    if given is not None:
        maps = torch.stack([given[index] for index in range(len(chosen))]) if given.rows else given[0]
    return replace(
        data,
        images=choose(images),
        labels=None if data.labels is None else choose(data.labels),
        subjects=None if data.subjects is None else [data.subjects[index] for index in chosen],
        unlabelled=None if data.unlabelled is None else [data.unlabelled[index] for index in chosen],
        maps=maps,
        clean=None if clean is None else choose(clean),
        counts={name: len(reading.choose_slices(n)) if name == along else n for name, n in data.counts.items()},
        geometry=geometry if size == data.shape[1:] else geometry.resized(data.shape[1:], size),
        reading=reading,
    )


def from_array(values: Any, reading: Reading) -> ArraySet:
    """A data set from a bare array or tensor, whose axes are named, or found by the rule for arrays in files."""
    name = "the array"
    array = _as_single_precision(values, name).numpy()
    if not array.size:
        raise InputError(f"{name} holds no images: its shape is {list(array.shape)}.")
    axes = choose_axes(array.shape, name, reading, is_complex=np.iscomplexobj(array), kind=reading.holds)
    samples = Samples(LazyArray.of(array), axes.names, axes)
    places = [samples.place(number) for number in range(samples.count)]
    stack = np.stack(list(samples.read(places)))
    make = from_kspace if axes.holds_kspace else from_images
    data = make(stack, volumes=len(axes.directions) == 3, name=name)
    if axes.holds_kspace and reading.kspace == "emulated":
        data = replace(data, images=torch.linalg.vector_norm(data.images, dim=1, keepdim=True))
    subjects = [f"subject-{place[SUBJECT]}" for place in places] if SUBJECT in samples.names else None
    data = replace(
        data,
        subjects=subjects,
        geometry=samples.geometry(named=reading.axes is not None),
        holds_kspace=axes.holds_kspace,
        counts=samples.counts,
        understood=how_understood(reading),
    )
    return apply_reading(data, reading)


def from_dataset(items: Any, reading: Reading) -> SampleSet:
    """A Dataset of samples, images, or (image, label) pairs: in memory if it is small, else read when needed.

    It may tell the group of each item by an attribute `groups`; samples tell theirs themselves.
    """
    if not len(items):
        raise InputError("The data set is empty.")
    name = f"the {type(items).__name__}"
    first = from_items([items[0]], reading.volumes, name)
    if len(items) * first.images.nbytes > IN_MEMORY:
        return StreamedSet(items, reading, name)
    data = from_items([items[index] for index in range(len(items))], reading.volumes, name)
    groups = _groups_of(items, name)
    return apply_reading(data if groups is None else replace(data, subjects=groups), reading)


class StreamedSet:
    """The samples of a Dataset that is too large for memory: an item is read whenever it is needed."""

    held_out: Sequence[bool] | None = None

    def __init__(self, items: Any, reading: Reading, name: str) -> None:
        self.items, self.reading, self.name = items, reading, name
        self.numbers = reading.choose_slices(len(items))
        """The numbers of the items to read."""
        if not self.numbers:
            raise InputError(f"{name} holds no slices to take.")
        self._without_scan = Reading(volumes=reading.volumes, kspace=reading.kspace, size=reading.size)
        self.shape = scan_shape(self._item(0).shape, reading, name)
        self.geometry = scan_geometry(choose_readout(Geometry(), reading, name), reading, self.shape[1:])
        space = from_items([items[self.numbers[0]]], reading.volumes, name).shape[1:]
        self._maps = read_given_maps(reading, name, self.shape, [space], [self.numbers])
        groups = _groups_of(items, name)
        if groups is None and isinstance(items[self.numbers[0]], Sample):  # only the samples know: read all once
            self.groups: Sequence[str] = [items[number].group for number in self.numbers]
        else:
            self.groups = [name if groups is None else groups[number] for number in self.numbers]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int, /) -> Sample:
        item, place = self._item(index), index % len(self)
        if scan_shape(item.shape, self.reading, self.name) != self.shape:
            raise InputError(
                f"{item.name} has shape {list(item.shape)}, but the first image of {self.name} has another: all "
                f"must have the same shape."
            )
        sample = replace(item[0], group=self.groups[place])
        maps = sample.maps if self._maps is None else self._maps[place]
        return simulate_scan(sample, maps, place, self.reading, self.geometry)

    def _item(self, index: int) -> ArraySet:
        """A data set of one item, checked; without simulated coils or noise."""
        number = self.numbers[index]
        item = from_items([self.items[number]], self.reading.volumes, f"{self.name}, slice {number}")
        return apply_reading(item, self._without_scan)


def _groups_of(items: Any, name: str) -> Sequence[str] | None:
    """The group of each item, if the Dataset has an attribute for it."""
    groups = getattr(items, "groups", None)
    if groups is None:
        return None
    if len(groups) != len(items):
        raise InputError(f"{name} has {len(items)} items, but {len(groups)} groups.")
    return [str(group) for group in groups]


def from_items(items: Sequence[Any], volumes: bool, name: str) -> ArraySet:
    """A data set in memory of samples, images, or (image, label) pairs."""
    of_samples = isinstance(items[0], Sample)
    if of_samples:
        pairs: list[Any] = [(item.image, item.label) for item in items]
    else:
        pairs = [item if isinstance(item, tuple | list) else (item, None) for item in items]
        if not all(isinstance(image, torch.Tensor) or hasattr(image, "__array__") for image, *_ in pairs):
            raise InputError(f"The items of {name} must be images, (image, label) pairs or promask samples.")
    images, labels = [torch.as_tensor(pair[0]) for pair in pairs], [pair[1] for pair in pairs]
    if len({image.shape for image in images}) > 1:
        raise InputError(f"The images of {name} differ in shape: all must have the same shape.")
    has_labels = all(label is not None for label in labels)
    stacked_labels = torch.stack([torch.as_tensor(label) for label in labels]) if has_labels else None
    data = from_images(torch.stack(images), stacked_labels, None, volumes, name)
    return _with_attributes(data, items) if of_samples else data


def _with_attributes(data: ArraySet, samples: Sequence[Sample]) -> ArraySet:
    """A data set with what samples tell beside images and labels; sensitivities only if all samples have some."""
    maps = [sample.maps for sample in samples if sample.maps is not None]
    clean = [sample.image if sample.clean is None else sample.clean for sample in samples]
    noisy = any(sample.clean is not None for sample in samples)
    if max(len({values.shape for values in kind}) for kind in (maps, clean)) > 1:
        raise InputError(f"The coil sensitivities, or the images without noise, of {data.name} differ in shape.")
    return replace(
        data,
        subjects=[sample.group for sample in samples],
        unlabelled=[sample.unlabelled for sample in samples],
        maps=torch.stack(maps) if len(maps) == len(samples) else None,
        clean=torch.stack(clean).to(data.images.dtype) if noisy else None,
    )
