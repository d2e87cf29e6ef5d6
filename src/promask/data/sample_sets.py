"""Data sets in memory, subsets, and the split into a part to learn from and a held-out part."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from promask.data.preprocess import describe_flaw
from promask.data.reading import Reading
from promask.data.simulate import scan_shape, simulate_scan
from promask.errors import InputError
from promask.types import Geometry, Image, Sample, SampleSet

PARTS = ("train", "test", "all")
OTHER_PART = {"train": "test", "test": "train", "all": "all"}
HELD_OUT = 0.2
"""Share of the subjects that are held out."""
BLOCKS = 10
"""Blocks of neighbouring slices that a single subject is split into."""


@dataclass(frozen=True)
class ArraySet:
    """Samples in memory, checked when the set is made.

    Args:
        images: (N, channel, *space), real or complex.
        name: Where the samples come from, for messages.
        labels: (N, *space), whole numbers; None if there are none.
        subjects: The group of each sample, which a split never cuts through; None if nothing is known of it.
        geometry: Which part of k-space was measured, and which part of the images is judged.
        held_out: Whether each sample belongs to the test part; None if the data do not say.
        reading: How the samples were taken from what a user gave.
        unlabelled: For each sample, the classes that were not annotated; None: all were.
        maps: Coil sensitivities, (coil, *space) for all samples or (N, coil, *space); None: not known.
        clean: The images without the noise that is in them; None: the images themselves.
        holds_kspace: Whether they came as k-space.
        counts: How many slices, frames and contrasts the samples are of.
        understood: By what the roles of axes are known.
    """

    images: torch.Tensor
    name: str
    labels: torch.Tensor | None = None
    subjects: Sequence[str] | None = None
    geometry: Geometry = Geometry()
    held_out: Sequence[bool] | None = None
    reading: Reading = Reading()
    unlabelled: Sequence[tuple[str, ...]] | None = None
    maps: torch.Tensor | None = None
    clean: torch.Tensor | None = None
    holds_kspace: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    understood: str = "promask itself"

    def __post_init__(self) -> None:
        for index, image in enumerate(self.images):
            flaw = describe_flaw(image)
            if flaw:
                raise InputError(f"{self._sample_name(index)} {flaw}: mend it or leave it out.")
        if self.labels is not None and self.labels.shape != (len(self), *self.shape[1:]):
            raise InputError(
                f"The labels of {self.name} have shape {list(self.labels.shape)}, but its images need labels of "
                f"shape {[len(self), *self.shape[1:]]}."
            )
        if self.subjects is not None and len(self.subjects) != len(self):
            raise InputError(f"{self.name} has {len(self)} images, but names {len(self.subjects)} subjects.")
        if self.maps is not None and tuple(self.maps.shape) not in (self.shape, (len(self), *self.shape)):
            raise InputError(
                f"The coil sensitivities of {self.name} have shape {list(self.maps.shape)}, but its samples have "
                f"shape {list(self.shape)}: give one sensitivity for each channel, or simulate coils."
            )
        if self.clean is not None and self.clean.shape != self.images.shape:
            raise InputError(
                f"The images of {self.name} without noise have shape {list(self.clean.shape)}, but those with it "
                f"have shape {list(self.images.shape)}."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """(channel, *space)."""
        return scan_shape(tuple(self.images.shape[1:]), self.reading, self.name)

    @property
    def groups(self) -> Sequence[str]:
        """The group of each sample; the same for all of them if nothing is known."""
        return self.subjects if self.subjects is not None else [self.name] * len(self)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int, /) -> Sample:
        sample, maps = self.without_scan(index)
        return simulate_scan(sample, maps, index % len(self), self.reading, self.geometry)

    def without_scan(self, index: int) -> tuple[Sample, Image | None]:
        """Read a sample without simulated coils and noise.

        Args:
            index: Its place in the data set.

        Returns:
            The sample, and the coil sensitivities that were given with it, if any.
        """
        maps = self.maps if self.maps is None or self.maps.ndim < self.images.ndim else self.maps[index]
        sample = Sample(
            image=self.images[index],
            label=None if self.labels is None else self.labels[index],
            group=self.groups[index],
            name=self._sample_name(index),
            unlabelled=() if self.unlabelled is None else self.unlabelled[index],
            clean=None if self.clean is None else self.clean[index],
        )
        return sample, maps

    def _sample_name(self, index: int) -> str:
        return f"{self.name}, slice {index}" if len(self.images) > 1 else self.name


class Subset:
    """Some of the samples of a data set.

    Args:
        data: The data set.
        indices: The indices of the chosen samples in it.
    """

    def __init__(self, data: SampleSet, indices: Sequence[int]) -> None:
        self.data, self.indices = data, indices
        self.name, self.shape, self.geometry = data.name, data.shape, data.geometry
        groups, held_out = data.groups, data.held_out
        self.groups: Sequence[str] = [groups[index] for index in indices]
        self.held_out = None if held_out is None else [held_out[index] for index in indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int, /) -> Sample:
        return self.data[self.indices[index]]


def resolve_subset(data: SampleSet) -> tuple[SampleSet, Sequence[int]]:
    """The data set that (nested) subsets were chosen from, and the indices in it."""
    if not isinstance(data, Subset):
        return data, range(len(data))
    base, indices = resolve_subset(data.data)
    return base, [indices[index] for index in data.indices]


def reading_of(data: SampleSet) -> Reading:
    """How a data set was read when it was loaded."""
    return getattr(resolve_subset(data)[0], "reading", Reading())


def choose_part(data: SampleSet, part: str | None, default: str) -> tuple[SampleSet, str]:
    """Choose the part of a data set to learn from, the held-out part, or all of it; no subject is in both parts.

    Args:
        data: The data set.
        part: `train`, `test` or `all`. None: `default` if the data tell their subjects and are not a subset;
            otherwise all of them.
        default: The part to use if none is chosen.

    Returns:
        The samples of the part, and its name.
    """
    if part is None:
        has_subjects = _in_test_folder(data) is not None or len(set(data.groups)) > 1
        part = default if has_subjects and not isinstance(data, Subset) else "all"
    if part not in PARTS:
        raise InputError(f"Unknown part {part!r}: choose one of {', '.join(PARTS)}.")
    if part == "all" or len(data) == 1:
        return data, "all"
    held_out = _held_out(data)
    return Subset(data, [index for index in range(len(data)) if held_out[index] == (part == "test")]), part


def _in_test_folder(data: SampleSet) -> list[bool] | None:
    """Whether each sample is held out by its folder, if some are and others are not.

    Subjects in both kinds of folders are held out, unless all are: then names start anew in each folder.
    """
    if data.held_out is None or len(set(data.held_out)) < 2:
        return None
    tested = {group for group, held_out in zip(data.groups, data.held_out, strict=True) if held_out}
    result = [group in tested for group in data.groups]
    return list(data.held_out) if all(result) else result


def _held_out(data: SampleSet) -> list[bool]:
    in_test_folder = _in_test_folder(data)
    if in_test_folder is not None:
        return in_test_folder
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
