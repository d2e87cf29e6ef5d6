"""Measurements that are lines with counters, as scanners store them: put in their places in k-space.

Files of BART have the same volumes with two phase encodings.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from promask.data.atomic import Array
from promask.data.axes import COIL, CONTRAST, DIRECTIONS, FRAME, SLICE
from promask.data.reading import Reading
from promask.data.sample_file import COMPLEX, RawSample, SampleFile
from promask.data.sandbox import check_claim
from promask.errors import InputError
from promask.types import Geometry, central_slices, scaled_extent

ROLES = (SLICE, FRAME, CONTRAST)
"""What the counters of lines tell apart, in the order in which samples are numbered."""


def refuse_trajectory(path: Path, trajectory: str) -> None:
    """Refuse lines that are not those of a Cartesian grid."""
    if trajectory != "cartesian":
        raise InputError(f"{path} has a {trajectory} trajectory: promask reads Cartesian k-space.")


def cut_volumes(
    volume: Callable[[int], Array], chosen: Sequence[int], depth: int, whole: bool, encoded: bool
) -> Iterator[RawSample]:
    """The samples of these numbers: whole volumes, or slices along the last axis, `depth` for each volume.

    `volume` reads the volume of a number, (coil, x, y, z); if it is `encoded`, it is transformed along z first.
    """
    last, values = -1, np.empty(0)
    for number in chosen:
        if number // depth != last:
            last = number // depth
            values = volume(last)
            if encoded and depth > 1:
                values = _centred(np.fft.ifft, values).astype(np.complex64)
        yield np.ascontiguousarray(values if whole else values[..., number % depth]), None


def _centred(transform: Callable[..., Array], values: Array) -> Array:
    """A unitary transform along the last axis, with the zero in the middle on both sides."""
    with np.errstate(all="ignore"):  # values that are not finite are told of later
        return np.fft.fftshift(transform(np.fft.ifftshift(values, axes=-1), norm="ortho"), axes=-1)


@dataclass(frozen=True)
class Lines:
    """The lines of a measurement and their places on its grid, (readout, phase encoding 1, phase encoding 2).

    Args:
        path: The file that holds them.
        shape: The grid, with the oversampled readout.
        width: The readout that remains, the centre of the image, when its oversampling is removed.
        coils: The number of coils of each line, (line,).
        samples: The number of samples of each line, (line,).
        cut: How many of them to leave out at the start and at the end, (line, 2).
        centre: The sample at the centre of k-space, (line,).
        places: The places of the lines along both phase encodings, (line, 2).
        turned: Whether each line was read from right to left, (line,).
        counters: For each of `ROLES`, the counters that tell which one a line belongs to, (line, counter).
            Lines that are alike in all of them and in their place are averaged.
        read: Reads the values of these lines, (coil, sample) each, one after the other.
    """

    path: Path
    shape: tuple[int, int, int]
    width: int
    coils: Array
    samples: Array
    cut: Array
    centre: Array
    places: Array
    turned: Array
    counters: Mapping[str, Array]
    read: Callable[[Array], Iterator[Array]]

    def describe(self, reading: Reading, image: Sequence[int], voxel: tuple[float, ...]) -> SampleFile:
        """The samples, all of them fully sampled: each slice, frame and contrast with its coils.

        Args:
            reading: Whether they are slices or volumes, and which of them are read.
            image: The size of the part of the image that is evaluated, for each of `DIRECTIONS`; 0 for all of it.
            voxel: The size of a voxel in mm along each of `DIRECTIONS`; empty if it is not known.

        Returns:
            The samples, (coil, kx, ky), or (coil, kx, ky, kz) if they are volumes.

        Raises:
            InputError: If lines are missing, or do not fit the grid.
        """
        grid = (self.width, *self.shape[1:])
        coils = int(self.coils.max())
        # A sample is put together in memory, then transformed.
        check_claim(coils * math.prod(grid) * COMPLEX, self.path)
        readout = self._readout()
        extent = (scaled_extent(readout, self.shape[0], self.width), *self._encoded())
        depth, axes = (1, 3) if reading.volumes else (grid[2], 2)
        # The slices of a volume follow each other, so that it is read once.
        found = self._samples(ROLES if depth == 1 else (*ROLES[1:], ROLES[0]))
        self._check_complete(found, extent)

        def volume(index: int) -> Array:
            return self._sample(np.flatnonzero(found.of_line == index), coils, readout, extent[0])

        region = tuple(min(n, wanted or n) for n, wanted in zip(grid, image, strict=True))[:axes]
        return SampleFile(
            files=(self.path,),
            shape=(coils, *grid[:axes]),
            numbers=found.choose(reading, depth),
            read=lambda chosen: cut_volumes(volume, chosen, depth, reading.volumes, encoded=True),
            holds_kspace=True,
            geometry=Geometry(
                extent[:axes],
                region if region != grid[:axes] else (),
                DIRECTIONS[:axes],
                readout=0,
                channels=COIL if coils > 1 else "",
                voxel=voxel[:axes],
            ),
            counts={name: count * (depth if name == SLICE else 1) for name, count in found.counts.items()},
            understood="the format"
            + ("; oversampling of the readout removed" if self.width < self.shape[0] else ""),
            cut=DIRECTIONS[2] if depth > 1 else "",
            variant="lines",
        )

    def _readout(self) -> tuple[int, int]:
        """Start and end of all lines along the oversampled readout."""
        lengths, starts = self.samples - self.cut.sum(1), self.shape[0] // 2 - self.centre + self.cut[:, 0]
        if any(len(np.unique(values)) > 1 for values in (lengths, starts, self.coils)):
            raise InputError(f"The lines of {self.path} differ in their coils, their length or their centre.")
        return self._checked(int(starts[0]), int(starts[0] + lengths[0]), self.shape[0])

    def _encoded(self) -> list[tuple[int, int]]:
        """Start and end of what was measured along both phase encodings; what lies outside is padding."""
        ends = zip(self.places.min(0).tolist(), (self.places.max(0) + 1).tolist(), self.shape[1:], strict=True)
        return [self._checked(*each) for each in ends]

    def _checked(self, start: int, stop: int, size: int) -> tuple[int, int]:
        if start < 0 or stop > size:
            raise InputError(f"The lines of {self.path} do not fit the matrix {list(self.shape)} of its header.")
        if not start <= size // 2 < stop:
            raise InputError(f"{self.path} is damaged: its lines do not cover the centre of k-space.")
        return start, stop

    def _samples(self, order: Sequence[str]) -> "_Samples":
        """The samples that the lines belong to, numbered in an order of roles, slowest first."""
        roles = [np.unique(self.counters[role], axis=0, return_inverse=True) for role in order]
        keys = np.stack([which.reshape(-1) for _, which in roles], axis=1)
        found, of_line = np.unique(keys, axis=0, return_inverse=True)
        counts = {role: len(values) for role, (values, _) in zip(order, roles, strict=True)}
        every = math.prod(counts.values()) == len(found)
        slices = found[:, order.index(SLICE)]
        return _Samples(len(found), of_line.reshape(-1), slices, counts if every else {})

    def _check_complete(self, found: "_Samples", extent: Sequence[tuple[int, int]]) -> None:
        _, (first, last), (bottom, top) = extent
        wanted = (last - first) * (top - bottom)
        measured = np.unique(np.column_stack([found.of_line, self.places]), axis=0)
        lines = np.bincount(measured[:, 0], minlength=found.number)
        if (lines != wanted).any():
            index = int(np.argmax(lines != wanted))
            raise InputError(
                f"{self.path} is undersampled: its image {index} has {lines[index]} of {wanted} lines; "
                f"masks need full k-space."
            )

    def _sample(self, lines: Array, coils: int, readout: tuple[int, int], kept: tuple[int, int]) -> Array:
        """The k-space of a sample, (coil, readout, phase encoding 1, phase encoding 2), averages averaged."""
        kspace = np.zeros((coils, self.width, *self.shape[1:]), np.complex64)
        count = np.zeros(self.shape[1:], np.float32)
        (inner,) = central_slices(self.shape[:1], [self.width])
        for line, values in zip(lines, self.read(lines), strict=True):
            before, after = self.cut[line]
            values = values[:, before : values.shape[1] - after]
            row = np.zeros((coils, self.shape[0]), np.complex64)
            row[:, slice(*readout)] = values[:, ::-1] if self.turned[line] else values
            if self.width < self.shape[0]:
                row = _centred(np.fft.fft, _centred(np.fft.ifft, row)[:, inner])
            place = tuple(self.places[line])
            kspace[:, slice(*kept), place[0], place[1]] += row[:, slice(*kept)]
            count[place] += 1
        return kspace / np.maximum(count, 1)


class _Samples(NamedTuple):
    """How lines make samples."""

    number: int
    of_line: Array
    """The sample of each line."""
    slices: Array
    """The slice of each sample."""
    counts: Mapping[str, int]
    """How many there are of each role, slowest first; empty if not all of their combinations were measured."""

    def choose(self, reading: Reading, depth: int) -> Sequence[int]:
        """The samples of the chosen slices, with all frames and contrasts; each volume has `depth` slices."""
        if reading.slices is None:
            return range(self.number * depth)
        slices = (self.slices[:, None] * depth + np.arange(depth)).reshape(-1)
        return np.flatnonzero(np.isin(slices, reading.choose_slices(int(slices.max()) + 1))).tolist()
