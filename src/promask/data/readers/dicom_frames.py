"""Frames of DICOM series: which images show one slice at several times, and in what order."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from pydicom import Dataset

TIMES = (
    "TriggerTime",
    "NominalCardiacTriggerDelayTime",
    "ActualCardiacTriggerDelayTime",
    "TemporalPositionIdentifier",
    "TemporalPositionIndex",
)
"""What says that images of one slice are frames, if it differs between them all; the first that does is used."""
CLOCKS = ("AcquisitionTime", "ContentTime")
"""What orders frames of which nothing but `PROMISES` tells, if it differs; otherwise their numbers do."""
PROMISES = ("CardiacNumberOfImages", "NumberOfTemporalPositions")
"""How many frames a slice has."""
WEIGHTINGS = ("EchoTime", "EffectiveEchoTime", "InversionTime", "DiffusionBValue")
"""Images of one slice that differ in these are contrasts, whatever their times are."""
PLACES = ("SliceLocation", "InStackPositionNumber")
"""Where a slice lies, if its position and its orientation are missing."""
FOR_ALL, FOR_EACH = "SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"
"""Where a file of several images tells what holds for all of them, and what for each."""
GROUPS = (
    "PlanePositionSequence",
    "PlaneOrientationSequence",
    "FrameContentSequence",
    "CardiacSynchronizationSequence",
    "MREchoSequence",
    "MRDiffusionSequence",
)
"""The parts of these that are looked at."""
NEEDED = (*TIMES, *CLOCKS, *PROMISES, *WEIGHTINGS, "SliceLocation", FOR_ALL, FOR_EACH)


Time = tuple[float, ...]


class Moment(NamedTuple):
    """Where and when an image was measured."""

    plane: tuple[float, ...]
    """The same for all images of a slice."""
    place: float
    """Across the slices."""
    times: tuple[Time | None, ...]
    """`TIMES` and `CLOCKS`, None where the header does not tell, and the number in the series and in the file."""
    weighting: tuple[float | None, ...]
    """`WEIGHTINGS`."""


def find_moments(header: "Dataset", images: int) -> tuple[Moment, ...]:
    """Where and when each of the images of a file was measured; empty if its header does not tell where."""
    parts = list(_items(header, FOR_EACH))
    if images != max(1, len(parts)):
        return ()
    shared = [item for part in _items(header, FOR_ALL) for item in _inner(part)]
    own = [list(_inner(part)) for part in parts] or [[]]
    number = _number([header], "InstanceNumber") or 0.0
    found = [_moment([*each, *shared, header], (number, index)) for index, each in enumerate(own)]
    return tuple(moment for moment in found if moment is not None) if None not in found else ()


def promises_frames(header: "Dataset") -> bool:
    """Whether a header says that slices have several frames."""
    return any((_number([header], name) or 0) > 1 for name in PROMISES)


def find_slices(moments: Sequence[Moment], promised: bool) -> list[list[int]] | None:
    """The images of each slice, by their index: slices in the order of their places, frames in that of time.

    `promised` says that there are frames, whether or not times tell. None: nothing says that images are frames.
    """
    planes: dict[tuple[float, ...], list[int]] = {}
    for index, moment in enumerate(moments):
        planes.setdefault(moment.plane, []).append(index)
    several = [[moments[index] for index in images] for images in planes.values() if len(images) > 1]
    which = _choose_time(several, promised)
    if which is None:
        return None

    def time(index: int, which: int = which) -> Time:
        return moments[index].times[which] or ()

    def where(images: Sequence[int]) -> tuple[float, Time]:
        return moments[images[0]].place, min(time(index, -1) for index in images)

    return sorted((sorted(images, key=time) for images in planes.values()), key=where)


def _choose_time(slices: Sequence[Sequence[Moment]], promised: bool) -> int | None:
    """Which of the times tells the images of each of these slices apart; None if they are no frames."""

    def tells(which: int) -> bool:
        found = ([moment.times[which] for moment in images] for images in slices)
        return all(None not in times and len(set(times)) == len(times) for times in found)

    if not slices or any(len({moment.weighting for moment in images}) > 1 for images in slices):
        return None
    known = range(len(TIMES))
    absent = all(len({moment.times[: len(TIMES)] for moment in images}) == 1 for images in slices)
    others = range(len(TIMES), len(TIMES) + len(CLOCKS) + 1) if promised and absent else ()
    return next((which for which in (*known, *others) if tells(which)), None)


def _moment(sources: Sequence["Dataset"], number: Time) -> Moment | None:
    """From the parts of a header, of which the first that knows something tells it."""
    where = _plane(sources)
    if where is None:
        return None
    times = (_number(sources, name) for name in (*TIMES, *CLOCKS))
    weighting = tuple(_number(sources, name) for name in WEIGHTINGS)
    return Moment(*where, (*(None if time is None else (time,) for time in times), number), weighting)


def _plane(sources: Sequence["Dataset"]) -> tuple[tuple[float, ...], float] | None:
    position, along = (
        _numbers(sources, name, n) for name, n in (("ImagePositionPatient", 3), ("ImageOrientationPatient", 6))
    )
    if position and along:
        place = float(np.cross(along[:3], along[3:]) @ np.asarray(position))
        return (*(round(x, 2) for x in position), *(round(x, 3) for x in along)), round(place, 3)
    location = next((x for x in (_number(sources, name) for name in PLACES) if x is not None), None)
    return None if location is None else ((round(location, 2),), location)


def _items(dataset: "Dataset", name: str) -> Iterator["Dataset"]:
    with suppress(Exception):  # what is damaged here tells nothing
        yield from dataset.get(name) or ()


def _inner(part: "Dataset") -> Iterator["Dataset"]:
    return (item for name in GROUPS for item in _items(part, name))


def _numbers(sources: Sequence["Dataset"], name: str, count: int) -> tuple[float, ...] | None:
    for source in sources:
        with suppress(Exception):
            values = tuple(float(value) for value in source.get(name) or ())
            if len(values) == count and all(map(math.isfinite, values)):
                return values
    return None


def _number(sources: Sequence["Dataset"], name: str) -> float | None:
    for source in sources:
        with suppress(Exception):
            value = float(source.get(name))
            if math.isfinite(value):
                return value
    return None
