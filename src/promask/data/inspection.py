"""A look at data before anything is learned from them: what they hold, how sure that is, and what is uncertain."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from promask.data.atomic import Array
from promask.data.description import DataDescription, describe_data
from promask.data.file_set import FileSet, prepare
from promask.data.preprocess import SPARSE, find_extent, find_peak, share_of_zeros
from promask.data.raw_trajectory import holds_trajectory, read_raw_trajectory
from promask.data.readers.files import ARRAY_LISTS
from promask.data.reading import Reading
from promask.data.sample_sets import Subset, choose_part, resolve_subset
from promask.data.series import SeriesSet
from promask.data.sources import is_source, load, source_text, source_words
from promask.errors import Choice, InputError, UncertainDataError, count, one_line
from promask.operators.fourier import space_axes, to_kspace
from promask.recon.zero_filled import Sense
from promask.types import Sample, SampleSet

MOST_ARRAYS = 30
"""That are listed of a file."""
MOST_TRIED = 20
"""Samples that are tried where bad ones are left out."""
CORNER = 16
"""The width of the corners of k-space that the noise is estimated from is 1 / 16 of the matrix."""


@dataclass(frozen=True)
class ArrayEntry:
    """An array of a file."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Measurement:
    """What the k-space of one sample shows."""

    peak: tuple[int, ...]
    """Where its largest value lies."""
    centred: bool
    """Whether that is near the middle."""
    zeros: float
    """The share of exact zeros between the ends of what was measured."""
    extent: tuple[tuple[int, int], ...]
    """Start and end of what is not zero along each axis."""
    noise: float | None
    """Standard deviation in the real and in the imaginary part, relative to the largest magnitude of the image,
    from the corners of k-space, which may hold some signal; None if it cannot be estimated."""

    @property
    def fully_sampled(self) -> bool:
        """Whether there are few zeros between the ends."""
        return self.zeros < SPARSE

    def sampling(self, data: DataDescription) -> str:
        """Whether k-space was fully sampled, and what of it is zero, in words.

        Args:
            data: What the axes are.

        Returns:
            A phrase.
        """
        names = data.axes or [f"axis {axis}" for axis in range(len(data.shape))]
        ends = [
            f"{b - a} of {n} along {name}"
            for name, (a, b), n in zip(names, self.extent, data.shape, strict=True)
            if b - a < n
        ]
        padding = f"zeros outside of {', '.join(ends)}; " if ends else ""
        zeros = f", {self.zeros:.0%} zeros" if self.zeros > 0.01 else ""
        return f"{padding}fully sampled{zeros}" if self.fully_sampled else f"{padding}UNDERSAMPLED{zeros}"


@dataclass(frozen=True)
class Inspection:
    """What was found in data.

    Args:
        source: The data, as they were given.
        files: How many files there are; 0 for built-in data.
        arrays: The arrays of the first file, if it holds arrays by name.
        description: What was understood; None if that is not certain.
        question: Why it is not certain, in one sentence.
        problem: Why the data cannot be used, in one sentence.
        choices: What would settle it.
        learning: How many samples are learned from by default.
        held_out: How many are held out.
        field_of_view: In mm along each axis; empty if it is not known.
        measured: What the k-space of the sample in the middle shows.
        sample: That sample.
        raw: What raw data along a trajectory are, in one line; empty for others.
    """

    source: str
    files: int = 0
    arrays: Sequence[ArrayEntry] = ()
    description: DataDescription | None = None
    question: str | None = None
    problem: str | None = None
    choices: Sequence[Choice] = ()
    learning: int = 0
    held_out: int = 0
    field_of_view: tuple[float, ...] = ()
    measured: Measurement | None = None
    sample: Sample | None = field(default=None, repr=False)
    raw: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values; the sample is left out."""
        plain = asdict(replace(self, sample=None))
        plain["choices"] = [choice._asdict() for choice in self.choices]
        del plain["sample"]
        if self.measured is not None:
            plain["measured"]["fully_sampled"] = self.measured.fully_sampled
        return plain

    def facts(self) -> Iterator[tuple[str, str]]:
        """What was found, line by line: a heading, and what is to be said.

        Yields:
            Pairs of texts.
        """
        several = f", and {count(self.files - 1, 'more file')}" if self.files > 1 else ""
        for place, array in enumerate(self.arrays):
            words = f"{one_line(array.name, 60)}  {array.dtype}  {list(array.shape)}"
            yield "" if place else f"arrays{several}", words
        if not self.arrays and self.files:
            yield "files", str(self.files)
        if self.raw:
            kind, _, words = self.raw.partition(": ")
            yield kind, words
            yield "learning", "masks cannot be learned from it: that needs complete Cartesian k-space"
        if self.description is None:
            return
        data, measured = self.description, self.measured
        kind, _, words = data.sentence().partition(": ")
        yield kind, words
        yield "roles of axes", f"known by {data.understood.replace('`', '')}"
        if self.field_of_view:
            yield "field of view", " x ".join(f"{size:.4g}" for size in self.field_of_view) + " mm"
        subjects = "not told" if data.subjects is None else str(data.subjects)
        yield "subjects", f"{subjects}; {count(self.learning, 'sample')} to learn from, {self.held_out} held out"
        if measured is not None:
            yield "sampling", measured.sampling(data)
            where = "in the middle" if measured.centred else f"NOT in the middle of {list(data.shape)}"
            yield "centre", f"largest value at {list(measured.peak)}, {where}"
            if measured.noise is not None:
                yield (
                    "noise",
                    f"at most {measured.noise:.2g} of the largest magnitude, from the corners of k-space",
                )


def inspect(data: Any, reading: Reading = Reading()) -> Inspection:
    """Look at data: what they hold, the roles of axes, subjects, sampling, centring, noise.

    >>> inspect(torch.rand(3, 16, 16)).description.sentence()
    'images: 3 slices, y (16), x (16), k-space emulated from magnitude images'

    Args:
        data: Whatever `promask.data.load` takes.
        reading: How the data are read.

    Returns:
        What was found. Where the data can be read in several ways, `choices` lists them; where they cannot be
        used, `problem` says why.
    """
    source = source_text(data) if is_source(data) else "the array"
    try:
        whole = load(data, reading)
        middle = _near_the_middle(whole, reading)
    except InputError as error:
        arrays = list_arrays(source)
        found = Inspection(source, len(arrays[:1]), arrays)
        if holds_trajectory(source):
            return _inspect_raw(found)
        if isinstance(error, UncertainDataError):
            return replace(found, question=str(error), choices=tuple(error.choices))
        return replace(found, problem=str(error))
    learned, part = choose_part(whole, None, default="train")
    base, _ = resolve_subset(whole)
    base = base.data if isinstance(base, SeriesSet) else base
    files = base.files if isinstance(base, FileSet) else ()
    description, sample = describe_data(middle, Sense(), whole), middle[0]
    geometry, shape = whole.geometry, whole.shape[1:]
    if geometry.indexes:
        frame = shape[0] // 2
        name = f"{sample.name}, {geometry.indexed} {frame}"
        sample = Sample(sample.image[:, frame], None, sample.group, name)
        geometry, shape = geometry.without(0), shape[1:]
    voxel = geometry.voxel
    return Inspection(
        source=whole.name,
        files=len(files),
        arrays=list_arrays(str(files[0].files[0])) if files else (),
        description=description,
        learning=len(learned),
        held_out=len(whole) - len(learned) if part != "all" else 0,
        field_of_view=tuple(size * n for size, n in zip(voxel, shape, strict=True)) if voxel else (),
        measured=None if description.emulated else measure_kspace(sample.image),
        sample=sample,
    )


def _inspect_raw(found: Inspection) -> Inspection:
    """The same for raw data along a trajectory, which `load` refuses."""
    try:
        return replace(found, raw=read_raw_trajectory(found.source).sentence())
    except InputError as error:
        return replace(found, problem=str(error))


def _near_the_middle(data: SampleSet, reading: Reading) -> SampleSet:
    """The sample in the middle, prepared; where bad ones are left out, the first good one that is near to it."""
    middle = len(data) // 2
    nearest = sorted(range(len(data)), key=lambda index: abs(index - middle))
    for index in nearest[:MOST_TRIED] if reading.skip_bad else ():
        with suppress(InputError):
            return prepare(Subset(data, [index]))
    return prepare(Subset(data, [middle]))


def list_arrays(source: str) -> list[ArrayEntry]:
    """The arrays of a file that holds arrays by name, as its users see their axes; none of other data."""
    path = Path(source_words(source)[0])
    lister = ARRAY_LISTS.get(path.suffix.lower())
    if lister is None or not path.is_file():
        return []
    in_order = -1 if path.suffix.lower() == ".mat" else 1
    try:
        arrays = list(lister(path).items())[:MOST_ARRAYS]
    except InputError:  # which is said already
        return []
    return [ArrayEntry(name, array.shape[::in_order], _type_name(array.dtype)) for name, array in arrays]


def _type_name(dtype: np.dtype[Any]) -> str:
    """A type in a word; real and imaginary parts as two fields are complex."""
    if dtype.names is not None and len(dtype.names) == 2:
        return f"complex ({dtype[0]} pairs)"
    if dtype.kind == "V":
        return "records"
    return "text" if dtype.kind in "USO" else str(dtype)


def measure_kspace(image: torch.Tensor) -> Measurement:
    """Measure the k-space of an image, (channel, *space): its centre, its zeros, its noise.

    Args:
        image: Of all channels.

    Returns:
        What was measured.
    """
    kspace: Array = to_kspace(image, space_axes(image.ndim - 1)).numpy()
    strength = np.abs(kspace).sum(0)
    # What was zero in the file is not exactly zero after a transform there and back.
    kspace = np.where(strength > 1e-6 * strength.max(), kspace, 0)
    extent = find_extent(kspace) or tuple((0, n) for n in strength.shape)
    largest = float(torch.linalg.vector_norm(image, dim=0).max())
    return Measurement(*find_peak(kspace), share_of_zeros(kspace), extent, _noise(kspace, extent, largest))


def _noise(kspace: Array, extent: Sequence[tuple[int, int]], largest: float) -> float | None:
    """From the median magnitude in the corners: that of complex noise is sqrt(2 ln 2) standard deviations."""
    ends = [(slice(a, a + max(1, (b - a) // CORNER)), slice(b - max(1, (b - a) // CORNER), b)) for a, b in extent]
    values = np.concatenate(
        [
            np.abs(kspace[(slice(None), *(end[bit >> axis & 1] for axis, end in enumerate(ends)))]).reshape(-1)
            for bit in range(2 ** len(ends))
        ]
    )
    known = values[values > 0]  # corners outside of an ellipse are not measured
    if len(known) < len(values) / 2 or not largest:
        return None
    return float(np.median(known)) / math.sqrt(2 * math.log(2)) / largest
