"""Settings of how data are read, which every command has; they are checked when they are made."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, ClassVar, TypedDict

from promask.data.axes import CONTRAST, DIRECTIONS, FRAME, SLICE, Axes
from promask.errors import InputError, one_line
from promask.operators.trajectory import KINDS

Check = tuple[Any, Callable[[Any], bool], str]
"""The type of a setting, whether a value is allowed, and what to say is allowed."""

KSPACE = ("acquired", "emulated")
CONTENTS = ("image", "kspace")
PLANES = ("sagittal", "coronal", "axial")
"""By the axis perpendicular to them: x, y and z of the body."""
NO_READOUT = "none"
READOUTS = (*DIRECTIONS, NO_READOUT)
MOST_CANDIDATES = 10_000
"""Of spokes: all of them are kept in memory for every image."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is read from a file or an array, and how its values are interpreted.

    >>> Reading(size=[256, 256]).size
    (256, 256)
    """

    volumes: bool = False
    """Whether the samples are volumes with three axes rather than slices with two."""
    kspace: str = "acquired"
    """`acquired`: as measured, with its phase; `emulated`: that of the magnitude image, as in the paper."""
    array: str | None = None
    """The array of a file to read; None: `image` or `kspace`, or the only one."""
    holds: str | None = None
    """Whether that array is `image` or `kspace`, where its name does not tell."""
    axes: str | None = None
    """The roles of the axes of arrays, such as `slice coil ky kx`: see `promask.data.axes`; None: by a rule."""
    readout: str | None = None
    """The direction along which whole lines are read, `kx`, `ky`, `kz` or `none`; None: as the format tells."""
    each_frame: bool = False
    """Whether each frame of a series is a sample of its own; otherwise commands refuse frames."""
    per: str | None = None
    """`contrast`: each contrast has a pattern of its own; None: contrasts share theirs, as channels do."""
    plane: str | None = None
    """The plane of the slices of a NIfTI volume; None: the acquired one, across the longest side of the voxels."""
    slices: tuple[int | None, int | None] | None = None
    """The first slice to read and the one after the last; negative numbers count from the end."""
    size: tuple[int, ...] | None = None
    """Images are cropped, or padded with zeros, to this size around their centre."""
    select: tuple[str, ...] | None = None
    """Which files are read: words that all must fit; None: all files. A glob fits the name of a file or its path
    below the folder, any other word a part of the name between underscores, such as `T1w` or `ses-01`."""
    skip_bad: bool = False
    """Whether files and slices that cannot be used are left out with a warning; otherwise they are an error."""
    coils: int | None = None
    """The number of receive coils to simulate around images of one channel; None: none are simulated."""
    phase: float = 0.0
    """Standard deviation in radians of a smooth phase that is simulated, each image its own; 0: none is."""
    noise: float = 0.0
    """Standard deviation of the noise added to the real and to the imaginary part of k-space, relative to the
    largest magnitude of the image."""
    maps: str | None = None
    """A file of coil sensitivities, (coil, *space) or (N, coil, *space); None: those beside the data, if any."""
    trajectory: str | None = None
    """`radial` or `spiral`: the simulated scan acquires spokes or interleaves; None: Cartesian k-space."""
    candidates: int | None = None
    """How many spokes or interleaves, by equal steps of the angle, may be acquired; None: the next multiple of 96
    above what a complete scan has."""

    SCAN: ClassVar[tuple[str, ...]] = ("coils", "phase", "noise", "maps", "trajectory", "candidates")
    """Settings of the simulated scan, which do not change how files are prepared."""

    CHECKS: ClassVar[Mapping[str, Check]] = {
        "volumes": (bool, lambda value: True, "true or false"),
        "kspace": (str, KSPACE.__contains__, " or ".join(KSPACE)),
        "array": ((str, type(None)), lambda value: True, "the name of an array"),
        "holds": ((str, type(None)), lambda value: value in (None, *CONTENTS), " or ".join(CONTENTS)),
        "axes": ((str, type(None)), lambda value: value is None or bool(Axes.parse(value)), "names of axes"),
        "readout": ((str, type(None)), lambda value: value in (None, *READOUTS), " or ".join(READOUTS)),
        "each_frame": (bool, lambda value: True, "true or false"),
        "per": ((str, type(None)), lambda value: value in (None, CONTRAST), CONTRAST),
        "plane": ((str, type(None)), lambda value: value in (None, *PLANES), " or ".join(PLANES)),
        "slices": (
            (tuple, type(None)),
            lambda value: value is None or (len(value) == 2 and all(_whole(n) or n is None for n in value)),
            "two whole numbers, first and end, such as 10:40",
        ),
        "size": (
            (tuple, type(None)),
            lambda value: value is None or (len(value) in (1, 2, 3) and all(_whole(n) and n > 0 for n in value)),
            "whole numbers, such as 256 256",
        ),
        "select": (
            (tuple, type(None)),
            lambda value: value is None or (value != () and all(isinstance(word, str) and word for word in value)),
            "parts of file names, such as T1w or '*_T1w.nii.gz'",
        ),
        "skip_bad": (bool, lambda value: True, "true or false"),
        "coils": (
            (int, type(None)),
            lambda value: value is None or value >= 1,
            "a whole number of at least 1, such as 8",
        ),
        "phase": ((int, float), lambda value: 0 <= value < math.inf, "a number of at least 0, such as 1"),
        "noise": ((int, float), lambda value: 0 <= value < math.inf, "a number of at least 0, such as 0.01"),
        "maps": ((str, type(None)), lambda value: value != "", "the name of a file"),
        "trajectory": ((str, type(None)), lambda value: value in (None, *KINDS), " or ".join(KINDS)),
        "candidates": (
            (int, type(None)),
            lambda value: value is None or 1 <= value <= MOST_CANDIDATES,
            f"a whole number from 1 to {MOST_CANDIDATES}, such as 384",
        ),
    }

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            kind, allowed, wanted = self.CHECKS[name]
            value = _plain(value)
            value = (value,) if name in ("size", "axis") and _whole(value) else value
            value = (value,) if name in ("select", "axis") and isinstance(value, str) else value
            value = " ".join(map(str, value)) if name == "axes" and isinstance(value, tuple) else value
            object.__setattr__(self, name, value)
            is_number_as_bool = isinstance(value, bool) and kind is not bool
            if is_number_as_bool or not isinstance(value, kind) or not allowed(value):
                raise InputError(f"`{name}` must be {wanted}, but is {one_line(repr(value), most=80)}.")

    def reading_settings(self) -> dict[str, Any]:
        """These settings alone, by name; a configuration has others as well."""
        return {name: getattr(self, name) for name in Reading.CHECKS}

    def choose_slices(self, count: int, default: slice = slice(None)) -> range:
        """The numbers of the slices to read.

        Args:
            count: How many slices there are.
            default: Which of them to read if `slices` is None.

        Returns:
            The numbers, from 0.
        """
        return range(count)[default if self.slices is None else slice(*self.slices)]

    def choose_samples(self, counts: Mapping[str, int]) -> Sequence[int]:
        """The numbers of the samples to read: those of the chosen slices, with all frames of each.

        Args:
            counts: How many slices, frames and so on there are, the slowest first.

        Returns:
            The numbers, from 0, increasing.
        """
        total, along = math.prod(counts.values()), along_slices(counts)
        if along is None:
            return range(min(1, len(self.choose_slices(1))) * total)
        if self.slices is None or counts[along] == total:
            return self.choose_slices(total)
        names = list(counts)
        inner = math.prod(counts[name] for name in names[names.index(along) + 1 :])
        chosen = set(self.choose_slices(counts[along]))
        return [number for number in range(total) if number // inner % counts[along] in chosen]

    def final_size(self, space: tuple[int, ...]) -> tuple[int, ...]:
        """The size of an image after cropping and padding; a single number holds for each of its axes.

        Args:
            space: The size of the image as it was read, (*space).

        Returns:
            `size` with a number for each axis, or `space` if there is none.

        Raises:
            InputError: If `size` has another number of axes.
        """
        if self.size is None:
            return space
        size = self.size * len(space) if len(self.size) == 1 else self.size
        if len(size) != len(space):
            raise InputError(f"The size {list(size)} does not fit images of shape {list(space)}.")
        return size


def along_slices(counts: Mapping[str, int]) -> str | None:
    """What `slices` counts: slices, or without them the first of whatever else there is, but never frames."""
    return SLICE if SLICE in counts else next((name for name in counts if name != FRAME), None)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, lists (from JSON) as tuples, and paths as strings."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, PurePath):
        value = str(value)
    return tuple(value) if isinstance(value, list) else value


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class ReadingSettings(TypedDict, total=False):
    """The fields of `Reading` as keywords."""

    volumes: bool
    kspace: str
    array: str | None
    holds: str | None
    axes: str | Sequence[str] | None
    readout: str | None
    each_frame: bool
    per: str | None
    plane: str | None
    slices: tuple[int | None, int | None] | None
    size: Sequence[int] | None
    select: str | Sequence[str] | None
    skip_bad: bool
    coils: int | None
    phase: float
    noise: float
    maps: str | Path | None
    trajectory: str | None
    candidates: int | None
