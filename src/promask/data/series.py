"""Series: the frames or contrasts of each slice, which readers give one by one or as channels, as one sample."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
import torch

from promask.data.axes import COIL, CONTRAST, FRAME
from promask.data.file_set import FileSet, OnFile
from promask.data.sample_sets import ArraySet, Subset, resolve_subset
from promask.data.sensitivities import read_given_maps
from promask.data.simulate import simulate_scan
from promask.errors import InputError, InputWarning, count
from promask.types import AnyArray, Sample, SampleSet


class SeriesSet:
    """The series of a data set: of each slice all frames or contrasts, (channel, frame, *space).

    The simulated scan is that of the whole series: the noise of all frames is equally strong, and they share the
    coil sensitivities.

    Args:
        data: The frames or contrasts, one by one, or contrasts as channels.
        role: What is counted: `frame` or `contrast`.
    """

    def __init__(self, data: FileSet | ArraySet, role: str = FRAME) -> None:
        self.data, self.name, self.reading = data, data.name, data.reading
        self.counts: Mapping[str, int] = data.counts
        self.holds_kspace, self.understood = data.holds_kspace, data.understood
        self.in_channels = role == CONTRAST and data.geometry.channels == CONTRAST and data.shape[0] > 1
        self.rows = [[index] for index in range(len(data))] if self.in_channels else find_series(data, role)
        """The indices of the frames of each series."""
        channels, *space = data.shape
        length, geometry = len(self.rows[0]), data.geometry
        if self.in_channels:
            length, channels = channels, self.reading.coils or 1
            geometry = replace(geometry, channels=COIL if self.reading.coils else "")
        self.shape = (channels, length, *space)
        self.geometry = geometry.series(role, length)
        self.groups: Sequence[str] = [data.groups[first] for first, *_ in self.rows]
        held_out = data.held_out
        self.held_out = None if held_out is None else [held_out[first] for first, *_ in self.rows]
        numbers, scanned = range(len(self.rows)), (channels, *space)
        self._maps = read_given_maps(data.reading, data.name, scanned, [data.shape[1:]], [numbers])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int, /) -> Sample:
        found = [self.data.without_scan(row) for row in self.rows[index]]
        (first, maps), frames = found[0], [frame for frame, _ in found]
        maps = maps if self._maps is None else self._maps[index % len(self)]
        if self.in_channels:
            parts = [replace(first, image=first.image[number : number + 1]) for number in range(self.shape[1])]
            cleans = [] if first.clean is None else first.clean.split(1)
            frames = [replace(part, clean=clean) for part, clean in zip_longest(parts, cleans)]
        joined = replace(
            first,
            image=_stack([frame.image for frame in frames], 1),
            label=None if first.label is None else _stack([frame.label for frame in frames], 0),
            name=f"{self.name}, series {index % len(self)}",
            clean=None if first.clean is None else _stack([frame.clean for frame in frames], 1),
        )
        scan = (None if maps is None else maps.unsqueeze(1), index % len(self), self.reading, self.geometry)
        return simulate_scan(joined, *scan)

    def prepared(self, indices: Sequence[int], on_file: OnFile | None = None) -> Subset:
        """Some of the series, with the files of their frames prepared; those that lack a frame are left out."""
        if not isinstance(self.data, FileSet):
            return Subset(self, indices)
        frames = [row for index in indices for row in self.rows[index]]
        usable = set(resolve_subset(self.data.prepared(frames, on_file))[1])
        kept = [index for index in indices if usable.issuperset(self.rows[index])]
        if not kept:
            raise InputError(f"None of the series needed from {self.name} can be used.")
        return Subset(self, kept)


def _stack(arrays: Sequence[AnyArray | None], axis: int) -> torch.Tensor:
    # By NumPy, as it runs in threads that prefetch: see `stack_arrays`.
    return torch.from_numpy(np.stack([array.numpy() for array in arrays if array is not None], axis))


def find_series(data: FileSet | ArraySet, role: str = FRAME) -> list[list[int]]:
    """The indices of the frames of each series, in the order of time; or those of contrasts.

    Args:
        data: The frames, one by one; its `counts`, or those of its files, say how they lie.
        role: What is counted: `frame` or `contrast`.

    Returns:
        For each slice, the indices of its frames or contrasts.

    Raises:
        InputError: If series have different numbers of frames; with `skip_bad`, those that differ are left out.
    """
    if isinstance(data, FileSet):
        files = [(file.counts, file.numbers, file.name) for file in data.files]
    else:
        files = [(data.counts, range(len(data)), data.name)]
    series: list[list[int]] = []
    names, start = [], 0
    for counts, numbers, name in files:
        found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        axis = list(counts).index(role) if role in counts else None
        for index, number in enumerate(numbers, start):
            place = list(map(int, np.unravel_index(number, tuple(counts.values())))) if counts else [number]
            frame = 0 if axis is None else place.pop(axis)
            found.setdefault(tuple(place), []).append((frame, index))
        series += [[index for _, index in sorted(each)] for each in found.values()]
        names += [name] * len(found)
        start += len(numbers)
    lengths = [len(each) for each in series]
    usual = max(set(lengths), key=lengths.count)
    other = next((place for place, n in enumerate(lengths) if n != usual), None)
    if other is not None and data.reading.skip_bad:
        warnings.warn(
            f"Left out: {count(len(series) - lengths.count(usual), 'series')} without {usual} {role}s, "
            f"such as one of {names[other]} with {lengths[other]}.",
            InputWarning,
            stacklevel=2,
        )
        return [each for each in series if len(each) == usual]
    if other is not None:
        raise InputError(
            f"{names[other]} has a series of {count(lengths[other], role)}, but others have {usual}: all need "
            f"the same number; leave it out{', or take each frame by itself with `each_frame`' * (role == FRAME)}."
        )
    return series


def as_series(data: SampleSet) -> SampleSet:
    """Join the frames of each slice, unless there are none, or each is to be an image of its own.

    Contrasts are joined if each is to have a pattern of its own.

    Args:
        data: A data set as readers give it.

    Returns:
        The data set of series, or the same data set.

    Raises:
        InputError: If there are no contrasts to join, or frames as well.
    """
    if not isinstance(data, FileSet | ArraySet):
        return data
    counts = [file.counts for file in data.files] if isinstance(data, FileSet) else [data.counts]
    frames, contrasts = (any(each.get(role, 1) > 1 for each in counts) for role in (FRAME, CONTRAST))
    in_time = frames and not data.reading.each_frame
    if data.reading.per is None:
        return SeriesSet(data) if in_time else data
    if in_time:
        raise InputError(
            f"{data.name} has frames as well as contrasts, and patterns can differ between one of them: with "
            f"`each_frame`, each frame is an image of its own."
        )
    if not contrasts and not (data.geometry.channels == CONTRAST and data.shape[0] > 1):
        raise InputError(
            f"{data.name} has no contrasts that could have patterns of their own: leave out `per`, or name their "
            f"axis with `axes`, such as 'slice contrast y x'."
        )
    return SeriesSet(data, CONTRAST)
