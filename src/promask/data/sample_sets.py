"""Data sets in memory, checked when they are made.

Which samples are learned from and which are held out, without cutting through a patient.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from promask.data.reading import Reading
from promask.data.simulate import scanned, scanned_shape
from promask.errors import InputError
from promask.types import Geometry, Sample, SampleSet


@dataclass(frozen=True)
class ArraySet:
    """Samples in memory: images (N, channel, *space), real or complex, and labels (N, *space) if there are any.

    `name` says where they come from, for messages. `subjects` holds the group of each sample; None if nothing is
    known of it.
    """

    images: torch.Tensor
    name: str
    labels: torch.Tensor | None = None
    subjects: Sequence[str] | None = None
    geometry: Geometry = Geometry()
    held_out: Sequence[bool] | None = None
    reading: Reading = Reading()
    """How they were taken from what a user gave."""
    unlabelled: Sequence[tuple[str, ...]] | None = None
    """For each sample, the classes that were not annotated; None: all were."""
    maps: torch.Tensor | None = None
    """Coil sensitivities, (coil, *space) for all samples or (N, coil, *space); None: not known."""
    clean: torch.Tensor | None = None
    """The images without the noise that is in them; None: the images themselves."""

    def __post_init__(self) -> None:
        for index, image in enumerate(self.images):
            found = flaw(image)
            if found:
                raise InputError(f"{self._sample_name(index)} {found}: mend it or leave it out.")
        if self.labels is not None and self.labels.shape != (len(self), *self.shape[1:]):
            raise InputError(
                f"The labels of {self.name} have shape {list(self.labels.shape)}, but its images need labels of "
                f"shape {[len(self), *self.shape[1:]]}."
            )
        if self.subjects is not None and len(self.subjects) != len(self):
            raise InputError(f"{self.name} has {len(self)} images, but names {len(self.subjects)} subjects.")
        if self.maps is not None and tuple(self.maps.shape) not in (self.shape, (len(self), *self.shape)):
            raise InputError(
                f"The coil maps of {self.name} have shape {list(self.maps.shape)}, but its samples have shape "
                f"{list(self.shape)}: give one map for each channel of them, or simulate coils."
            )
        if self.clean is not None and self.clean.shape != self.images.shape:
            raise InputError(
                f"The images of {self.name} without noise have shape {list(self.clean.shape)}, but those with it "
                f"have shape {list(self.images.shape)}."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """(channel, *space)."""
        return scanned_shape(tuple(self.images.shape[1:]), self.reading, self.name)

    @property
    def groups(self) -> Sequence[str]:
        """The group of each sample; the same for all of them if nothing is known."""
        return self.subjects if self.subjects is not None else [self.name] * len(self)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int, /) -> Sample:
        sample = Sample(
            image=self.images[index],
            label=None if self.labels is None else self.labels[index],
            group=self.groups[index],
            name=self._sample_name(index),
            unlabelled=() if self.unlabelled is None else self.unlabelled[index],
            clean=None if self.clean is None else self.clean[index],
        )
        maps = self.maps if self.maps is None or self.maps.ndim < self.images.ndim else self.maps[index]
        return scanned(sample, maps, index % len(self), self.reading, self.geometry)

    def _sample_name(self, index: int) -> str:
        return f"{self.name}, slice {index}" if len(self.images) > 1 else self.name


@dataclass(frozen=True)
class Subset:
    """Some of the samples of a data set."""

    data: SampleSet
    indices: Sequence[int]

    @property
    def name(self) -> str:
        """Where the samples come from."""
        return self.data.name

    @property
    def shape(self) -> tuple[int, ...]:
        """(channel, *space)."""
        return self.data.shape

    @property
    def groups(self) -> Sequence[str]:
        """The group of each sample."""
        groups = self.data.groups
        return [groups[index] for index in self.indices]

    @property
    def held_out(self) -> Sequence[bool] | None:
        """Whether each sample belongs to the test part."""
        held_out = self.data.held_out
        return None if held_out is None else [held_out[index] for index in self.indices]

    @property
    def geometry(self) -> Geometry:
        """What of k-space and of the image counts."""
        return self.data.geometry

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int, /) -> Sample:
        return self.data[self.indices[index]]


def chosen_from(data: SampleSet) -> tuple[SampleSet, Sequence[int]]:
    """The data set that others were chosen from, and the indices in it."""
    if not isinstance(data, Subset):
        return data, range(len(data))
    base, indices = chosen_from(data.data)
    return base, [indices[index] for index in data.indices]


def reading_of(data: SampleSet) -> Reading:
    """How a data set was read when it was loaded."""
    return getattr(chosen_from(data)[0], "reading", Reading())


def flaw(image: torch.Tensor) -> str | None:
    """What makes an image unfit to learn from, in words."""
    if not torch.isfinite(image).all():
        return "holds NaN or infinite values"
    smallest, largest = image.abs().aminmax()
    if smallest == 0 and largest == 0:
        return "is zero everywhere"
    if smallest == largest:
        return "has the same value everywhere, so there is no image to learn from"
    return None


PARTS = ("train", "test", "all")
OTHER_PART = {"train": "test", "test": "train", "all": "all"}
HELD_OUT = 0.2
BLOCKS = 10


def choose_part(data: SampleSet, part: str | None, default: str) -> tuple[SampleSet, str]:
    """The samples of a part, and its name. Without a choice: the default part if there are groups to split by.

    A data set that says nothing of its subjects is used whole, unless a part is asked for; so is one that was
    chosen from another already.
    """
    if part is None:
        tells = _folders(data) is not None or len(set(data.groups)) > 1
        part = default if tells and not isinstance(data, Subset) else "all"
    if part not in PARTS:
        raise InputError(f"Unknown part {part!r}: choose one of {', '.join(PARTS)}.")
    if part == "all" or len(data) == 1:
        return data, "all"
    held_out = _held_out(data)
    return Subset(data, [index for index in range(len(data)) if held_out[index] == (part == "test")]), part


def _folders(data: SampleSet) -> list[bool] | None:
    """Whether each sample lies in a test folder, if there are samples that do and others that do not.

    Whoever is in both is held out, unless that is everyone: then the names begin anew in each folder.
    """
    if data.held_out is None or len(set(data.held_out)) < 2:
        return None
    tested = {group for group, held_out in zip(data.groups, data.held_out, strict=True) if held_out}
    result = [group in tested for group in data.groups]
    return list(data.held_out) if all(result) else result


def _held_out(data: SampleSet) -> list[bool]:
    in_folders = _folders(data)
    if in_folders is not None:
        return in_folders
    groups = data.groups
    names = sorted(set(groups))
    if len(names) > 1:
        # Chosen by a hash of their names: the same on every machine, and hardly changed by a further patient.
        by_hash = sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())
        chosen = set(by_hash[: max(1, round(HELD_OUT * len(names)))])
        return [group in chosen for group in groups]
    # Slices of one subject: whole blocks of neighbours, as adjacent slices are nearly alike.
    count = len(data)
    blocks = min(BLOCKS, count)
    every = round(1 / HELD_OUT)
    block_of = [index * blocks // count for index in range(count)]
    return [block % every == min(every // 2, blocks - 1) for block in block_of]
