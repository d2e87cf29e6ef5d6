"""A data set in files: nothing is read before it is needed, and what was made ready once is kept on disk."""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from promask.data.atomic import Array, as_tensor
from promask.data.cache import Column, ColumnWriter, content_key, entry
from promask.data.reading import Reading
from promask.data.sample_sets import Subset, chosen_from, flaw
from promask.data.sensitivities import maps_of_file
from promask.data.simulate import scanned, scanned_shape, usable_maps
from promask.data.stack import Layout, Pair, Stack, check_size, doubt, layout, ready, ready_label
from promask.errors import InputError, InputWarning
from promask.types import Sample, SampleSet

VERSION = 3
"""Of how samples are made ready; entries of another version are not used."""
IMAGES, LABELS, MAPS = ("<f4", "<c8"), ("<i4",), ("<c8",)
"""The types of what is ready; promask runs on no machine of another byte order."""
OnFile = Callable[[int, int], None]
"""Told how many files are ready, and how many there are."""


@dataclass(frozen=True)
class Entry:
    """The samples of a stack that are ready, and what is wrong with the others."""

    images: Column | None
    labels: Column | None
    maps: Column | None
    rows: dict[int, int]
    """Where the sample of each number lies."""
    flaws: dict[int, str]
    doubt: str | None

    def read(self, number: int) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """The image of a sample, and its label and coil maps if it has them."""
        row = self.rows[number]
        assert self.images is not None
        label, maps = (None if column is None else column[row] for column in (self.labels, self.maps))
        return self.images[row], label, maps


class FileSet:
    """The samples of stacks of one layout, one after the other."""

    def __init__(self, stacks: Sequence[Stack], reading: Reading, name: str) -> None:
        self.name, self.reading = name, reading
        self.stacks, common = alike(stacks, reading)
        self.shape, self.geometry = scanned_shape(common.shape, reading, name), common.geometry
        self.places = [(place, number) for place, stack in enumerate(self.stacks) for number in stack.numbers]
        """The stack of each sample, and its number in there."""
        if not self.places:
            raise InputError(f"{name} holds no slices to take.")
        spaces = [stack.shape[1:] for stack in self.stacks]
        numbers = [stack.numbers for stack in self.stacks]
        self._maps = maps_of_file(reading, name, self.shape, spaces, numbers)
        self._entries: dict[int, Entry] = {}

    @cached_property
    def groups(self) -> Sequence[str]:
        """The subject of each sample; the same for all of them if nothing is known."""
        return [
            subject for stack in self.stacks for subject in (stack.subjects or [self.name] * len(stack.numbers))
        ]

    @cached_property
    def held_out(self) -> Sequence[bool] | None:
        """Whether each sample lies in a test folder."""
        if all(stack.held_out is None for stack in self.stacks):
            return None
        return [bool(self.stacks[place].held_out) for place, _ in self.places]

    @cached_property
    def _unlabelled(self) -> Sequence[tuple[str, ...]]:
        """For each sample, the classes that were not annotated."""
        return [names for stack in self.stacks for names in (stack.unlabelled or [()] * len(stack.numbers))]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int, /) -> Sample:
        place, number = self.places[index]
        found = self.entry(place)
        if number in found.flaws:
            raise bad_sample(self.stacks[place], number, found.flaws[number])
        try:
            image, label, maps = found.read(number)
        except OSError:  # the cache was cleared in the meantime
            self._entries.pop(place, None)
            image, label, maps = self.entry(place).read(number)
        name = self.stacks[place].sample_name(number)
        maps = maps if self._maps is None else self._maps[index]
        sample = Sample(image, label, self.groups[index], name, self._unlabelled[index])
        return scanned(sample, maps, index % len(self), self.reading, self.geometry)

    def entry(self, place: int) -> Entry:
        """The samples of a stack, made ready if they are not yet."""
        if place not in self._entries:
            self._entries[place] = make_ready(self.stacks[place], self.reading)
        return self._entries[place]


def alike(stacks: Sequence[Stack], reading: Reading) -> tuple[Sequence[Stack], Layout]:
    """The stacks of the most common layout; others are an error, or left out if that was asked for."""
    layouts = [layout(stack, reading) for stack in stacks]
    common, count = Counter(layouts).most_common(1)[0]
    other = [index for index, found in enumerate(layouts) if found != common]
    if other:
        found = layouts[other[0]]
        if found.shape != common.shape:
            difference = f"shape {list(found.shape)} and not {list(common.shape)}"
        elif found.geometry.extent != common.geometry.extent:
            difference = f"another padding, {list(found.geometry.extent)} and not {list(common.geometry.extent)}"
        else:
            regions = [list(each.geometry.region or each.shape[1:]) for each in (found, common)]
            difference = f"which the part {regions[0]} is judged and not {regions[1]}"
        sentence = (
            f"{stacks[other[0]].name} has samples of {difference} as {count} of the {len(stacks)} files"
            f"{f' (and {len(other) - 1} more differ)' if len(other) > 1 else ''}"
        )
        if not reading.skip_bad:
            resize = "bring all images to one size with --size, or " if found.shape[0] == common.shape[0] else ""
            raise InputError(f"{sentence}: {resize}leave others out with --skip-bad.")
        warnings.warn(f"{sentence}: left out.", InputWarning, stacklevel=2)
    return [stack for stack, found in zip(stacks, layouts, strict=True) if found == common], common


def make_ready(stack: Stack, reading: Reading) -> Entry:
    """The samples of a stack, from the cache if they are there."""
    apart = ("skip_bad", *Reading.SCAN)
    settings = {name: value for name, value in reading.reading_settings().items() if name not in apart}
    description = [VERSION, settings, stack.variant, stack.shape, list(stack.numbers), asdict(stack.geometry)]
    with _reading(stack):
        key = content_key(stack.files, description)
    folder, about = entry(
        key,
        lambda place: _write(place, stack, reading),
        lambda place, known: _fits(_entry(place, known), stack, reading),
    )
    return _entry(folder, about)


def _entry(folder: Path, about: dict[str, Any]) -> Entry:
    return Entry(
        images=Column(folder / "images", **about["images"]) if about["images"] else None,
        labels=Column(folder / "labels", **about["labels"]) if about["labels"] else None,
        maps=Column(folder / "maps", **about["maps"]) if about.get("maps") else None,
        rows={number: row for row, number in enumerate(about["numbers"])},
        flaws={int(number): text for number, text in about["flaws"].items()},
        doubt=about["doubt"],
    )


def _fits(found: Entry, stack: Stack, reading: Reading) -> bool:
    """Whether an entry on disk is one of this stack: anyone may have written it."""
    shape = layout(stack, reading).shape
    columns = [
        (found.images, shape, IMAGES),
        (found.labels, shape[1:], LABELS),
        (found.maps, (reading.coils or shape[0], *shape[1:]), MAPS),
    ]
    return (
        {*found.rows, *found.flaws} == set(stack.numbers)
        and all(
            column is None
            or (column.shape == wanted and column.dtype.str in types and column.rows == len(found.rows))
            for column, wanted, types in columns
        )
        and (found.images is not None or not found.rows)
        and isinstance(found.doubt, str | None)
    )


def _write(folder: Path, stack: Stack, reading: Reading) -> dict[str, Any]:
    size = layout(stack, reading).shape[1:]
    numbers: list[int] = []
    flaws: dict[int, str] = {}
    doubtful: str | None = None
    with (
        ColumnWriter(folder / "images") as images,
        ColumnWriter(folder / "labels") as labels,
        ColumnWriter(folder / "maps") as maps,
    ):
        for number, (values, label), sensitivities in zip(
            stack.numbers, _read(stack), _read_maps(stack), strict=True
        ):
            image = ready(values, stack, reading)
            found = flaw(image)
            if found:
                flaws[number] = found
                continue
            if not numbers:
                doubtful = doubt(values, stack)
            images.append(image)
            if label is not None:
                labels.append(ready_label(label, stack, reading))
            if sensitivities is not None:
                maps.append(usable_maps(as_tensor(sensitivities), size, stack.name))
            numbers.append(number)
    about = {"images": images.about, "labels": labels.about, "maps": maps.about}
    return {**about, "numbers": numbers, "flaws": flaws, "doubt": doubtful}


def _read(stack: Stack) -> Iterator[Pair]:
    with _reading(stack):
        yield from stack.read(stack.numbers)


def _read_maps(stack: Stack) -> Iterator[Array | None]:
    with _reading(stack):
        yield from [None] * len(stack.numbers) if stack.maps is None else stack.maps(stack.numbers)


@contextmanager
def _reading(stack: Stack) -> Iterator[None]:
    """A file that cannot be read, perhaps because it is gone, is one sentence; no fault of the cache."""
    try:
        yield
    except OSError as error:
        raise InputError(f"Cannot read {stack.name}: {error.strerror or error}.") from error


def bad_sample(stack: Stack, number: int, found: str) -> InputError:
    """What is said of a sample that cannot be used."""
    return InputError(
        f"{stack.sample_name(number)} {found}: leave it out with --slices, or all such slices with --skip-bad."
    )


def prepared(data: SampleSet, on_file: OnFile | None = None) -> SampleSet:
    """The same samples, made ready; those that cannot be used are an error, or left out if that was asked for."""
    base, indices = chosen_from(data)
    if not isinstance(base, FileSet):
        return data
    needed = list(dict.fromkeys(base.places[index][0] for index in indices))
    failures: dict[int, InputError] = {}
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        attempts = pool.map(lambda place: _attempt(base, place), needed)
        try:
            for done, (place, error) in enumerate(zip(needed, attempts, strict=True), start=1):
                if error is not None:
                    if not base.reading.skip_bad:
                        raise error
                    failures[place] = error
                if on_file is not None:
                    on_file(done, len(needed))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return _good(base, indices, failures)


def _attempt(data: FileSet, place: int) -> InputError | None:
    try:
        data.entry(place)
    except InputError as error:
        return error
    return None


def _good(data: FileSet, indices: Sequence[int], failures: dict[int, InputError]) -> SampleSet:
    for error in failures.values():
        warnings.warn(f"Left out: {error}", InputWarning, stacklevel=3)
    read = [index for index in indices if data.places[index][0] not in failures]
    places = [data.places[index] for index in read]
    for place in dict.fromkeys(place for place, _ in places):
        doubtful = data.entry(place).doubt
        if doubtful is not None:
            warnings.warn(f"The k-space of {data.stacks[place].name} {doubtful}", InputWarning, stacklevel=3)
            break
    flaws = [data.entry(place).flaws.get(number) for place, number in places]
    flawed = [(*place, found) for place, found in zip(places, flaws, strict=True) if found]
    if flawed:
        place, number, found = flawed[0]
        if not data.reading.skip_bad:
            raise bad_sample(data.stacks[place], number, found)
        more = f", and {len(flawed) - 1} more like it" if len(flawed) > 1 else ""
        sentence = f"Left out: {data.stacks[place].sample_name(number)} {found}{more}."
        warnings.warn(sentence, InputWarning, stacklevel=3)
    kept = [index for index, found in zip(read, flaws, strict=True) if not found]
    if not kept:
        raise InputError(f"Of the part of {data.name} that is needed, nothing can be used.")
    return Subset(data, kept)


def usable(stacks: Iterable[Callable[[], Stack]], reading: Reading) -> list[Stack]:
    """The stacks that can be described; the others are an error, or left out if that was asked for."""
    result, failures = [], []
    for describe in stacks:
        try:
            stack = describe()
            check_size(stack)
            result.append(stack)
        except InputError as error:
            if not reading.skip_bad:
                raise
            failures.append(error)
    if not result:
        raise failures[0]
    for failure in failures:
        warnings.warn(f"Left out: {failure}", InputWarning, stacklevel=2)
    return result
