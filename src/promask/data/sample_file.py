"""A file of samples as its header describes it; the samples themselves are read later."""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from promask.data.atomic import Array
from promask.data.reading import Reading
from promask.data.sandbox import check_claim
from promask.errors import InputError
from promask.types import Geometry

RawSample = tuple[Array, Array | None]
"""The values of a sample as stored, (channel, *space), and its label, (*space), if there is one."""
ReadMaps = Callable[[Sequence[int]], Iterator[Array]]
"""Reads the coil sensitivities of these samples, (coil, *space) each."""
REAL, COMPLEX = 32, 64
"""Bytes that a value of a sample needs while it is prepared, with its label and all intermediate results."""
COUNTED = 512
"""Bytes that are kept of each sample: its place, its name, its flaw."""


@dataclass(frozen=True)
class SampleFile:
    """The samples of one file, or of one series of files."""

    files: tuple[Path, ...]
    """The first one gives the name; all of them determine the content."""
    shape: tuple[int, ...]
    """(channel, *space) of the values as stored; channels are contrasts, or coils."""
    numbers: Sequence[int]
    """The samples to read, counted as in the file."""
    read: Callable[[Sequence[int]], Iterator[RawSample]]
    """Reads the samples of these increasing numbers, one after the other."""
    holds_kspace: bool = False
    subjects: Sequence[str] | None = None
    """The subject of each sample to read; None if the file does not tell."""
    unlabelled: Sequence[tuple[str, ...]] | None = None
    """For each sample to read, the classes that were not annotated; None: all were."""
    maps: ReadMaps | None = None
    """None if the file has no coil sensitivities."""
    geometry: Geometry = Geometry()
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many slices, frames and contrasts the samples are of, slowest first; their product is all samples."""
    understood: str = "the format"
    """By what the roles of the axes are known, for `promask inspect`."""
    cut: str = ""
    """The second phase encoding, along which volumes were cut into slices; empty if they were not."""
    held_out: bool | None = None
    variant: str = ""
    """What else determines the content: how a reader treats the values."""

    @property
    def name(self) -> str:
        """The first file, for messages."""
        return str(self.files[0])

    def sample_name(self, number: int) -> str:
        """The name of a sample, for messages."""
        return f"{self.name}, {'slice' if len(self.shape) == 3 else 'volume'} {number}"

    def prepared_layout(self, reading: Reading) -> tuple[tuple[int, ...], Geometry]:
        """The shape of the prepared samples, (channel, *space), and their geometry."""
        channels, *space = self.shape
        geometry = self.geometry
        if reading.kspace == "emulated":
            channels = 1 if self.holds_kspace else channels
            space, geometry = list(geometry.region or space), geometry.emulated()
        size = reading.final_size(tuple(space))
        return (channels, *size), geometry if size == tuple(space) else geometry.resized(space, size)

    def check_size(self) -> None:
        """Refuse a header that promises more than its files can hold: in one sample, in number, or in total."""
        try:
            count = len(self.numbers)
        except OverflowError:
            count = sys.maxsize
        if count and 0 in self.shape:
            raise InputError(f"{self.name} holds no images: their shape is {list(self.shape)}.")
        values = math.prod(self.shape)
        sample = values * (COMPLEX if self.holds_kspace else REAL)
        single = 8 if self.holds_kspace else 4
        check_claim(max(sample, count * COUNTED, count * values * single), *self.files)


ReadHeader = Callable[[], SampleFile]
"""Reads the header of a file, or of a series of files."""


def refuse_array_settings(path: Path, reading: Reading) -> None:
    """Refuse settings that have no meaning for a file whose format tells what it holds."""
    for name in ("array", "holds", "axes"):
        if getattr(reading, name) is not None:
            raise InputError(f"The format of {path} tells what it holds: leave out `{name}`.")
