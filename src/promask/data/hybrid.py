"""Volumes in hybrid space: each position along the readout is a slice of its own.

Along an axis that is not undersampled, one inverse Fourier transform separates the positions: k-space (kx, ky, kz)
becomes (x, ky, kz), and every x can be reconstructed by itself, with the coil sensitivities at x. Samples are kept
in image space, where this transform has been made, so that a slice is a part of the volume.
"""

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from promask.data.cache import Column, ColumnWriter, find_or_write
from promask.data.sample_sets import reading_of
from promask.operators.fourier import combined_magnitude
from promask.types import AnyArray, Sample, SampleSet, SlicePlace, central_slices

ARRAYS = ("image", "label", "maps", "clean")
"""What of a sample has an axis along the readout."""
VERSION = 1
"""Of how slices are kept on disk; those of another version are not used."""


def slice_at(sample: Sample, axis: int, position: int, scale: float | None = None) -> Sample:
    """The slice of a volume at one position along an axis of space, which goes away.

    Args:
        sample: A volume, (channel, *space).
        axis: An axis of space, counted from 0.
        position: Where along it.
        scale: The largest magnitude of the volume, if it is known already.

    Returns:
        The slice, with its label, coil sensitivities and image without noise: views of those of the volume.
    """

    def cut(values: AnyArray | None) -> AnyArray | None:
        return None if values is None else values.select(axis + 1, position)

    return replace(
        sample,
        image=sample.image.select(axis + 1, position),
        label=None if sample.label is None else sample.label.select(axis, position),
        name=f"{sample.name}, position {position}",
        maps=cut(sample.maps),
        clean=cut(sample.clean),
        place=SlicePlace(axis, position, largest_magnitude(sample) if scale is None else scale),
    )


def largest_magnitude(sample: Sample) -> float:
    """The largest magnitude of a sample over all coils, without the noise that was added."""
    image = sample.image if sample.clean is None else sample.clean
    return float(combined_magnitude(image, 0).max())


class HybridSet:
    """The slices of all volumes of a data set along one axis, volume by volume.

    Positions outside of the part of the volume that is evaluated are left out. The volume of the last slice stays
    in memory: slices are quick to read one after the other. Otherwise all of them are kept on disk.

    Args:
        data: The volumes, with their coil sensitivities if these are needed.
        axis: The axis of space that the slices lie along.
        on_disk: Whether slices are read in random order, from the cache on disk.
    """

    def __init__(self, data: SampleSet, axis: int, on_disk: bool = False) -> None:
        self.data, self.axis, self.on_disk, self.name = data, axis, on_disk, data.name
        channels, *space = data.shape
        region = data.geometry.region or tuple(space)
        (kept,) = central_slices([space[axis]], [region[axis]])
        self.positions = range(space[axis])[kept]
        """Along the axis, of each volume."""
        self.shape = (channels, *space[:axis], *space[axis + 1 :])
        self.geometry, self.reading = data.geometry.without(axis), reading_of(data)
        repeated = [index for index in range(len(data)) for _ in self.positions]
        self.groups: Sequence[str] = [data.groups[index] for index in repeated]
        self.held_out = None if data.held_out is None else [data.held_out[index] for index in repeated]
        self._lock = threading.Lock()
        self._volume: tuple[int, Sample, float] | None = None
        """The last one, its index before it, and its largest magnitude."""
        self._columns: dict[int, tuple[Sample, float, dict[str, Column]]] = {}
        """Of each volume that is on disk, the sample without its arrays, its largest magnitude, and its slices."""

    def __len__(self) -> int:
        return len(self.data) * len(self.positions)

    def __getitem__(self, index: int, /) -> Sample:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        number, place = divmod(index % len(self), len(self.positions))
        with self._lock:
            if not self.on_disk:
                volume, scale = self._read(number)
                return slice_at(volume, self.axis, self.positions[place], scale)
            if number not in self._columns:
                volume, scale = self._read(number)
                self._volume = None
                about = replace(volume, image=volume.image.new_empty(0), label=None, maps=None, clean=None)
                self._columns[number] = about, scale, self._write(volume)
        about, scale, columns = self._columns[number]
        arrays: dict[str, Any] = {name: columns[name][place] if name in columns else None for name in ARRAYS}
        position = self.positions[place]
        name = f"{about.name}, position {position}"
        return replace(about, **arrays, name=name, place=SlicePlace(self.axis, position, scale))

    def _read(self, number: int) -> tuple[Sample, float]:
        if self._volume is None or self._volume[0] != number:
            self._volume = None  # before the next one takes memory
            volume = self.data[number]
            self._volume = number, volume, largest_magnitude(volume)
        return self._volume[1:]

    def _write(self, volume: Sample) -> dict[str, Column]:
        """The slices of a volume on disk, found by the content of the volume."""
        arrays = {name: values for name in ARRAYS if (values := getattr(volume, name)) is not None}
        content = hashlib.sha256(f"hybrid {VERSION} {self.axis} {self.positions}".encode())
        for name, values in arrays.items():
            content.update(f"{name} {list(values.shape)} {values.dtype}".encode())
            content.update(values.contiguous().numpy())

        def write(folder: Path) -> dict[str, Any]:
            about = {}
            for name in arrays:
                with ColumnWriter(folder / name) as column:
                    for position in self.positions:
                        column.append(getattr(slice_at(volume, self.axis, position, 0), name))
                about[name] = column.about
            return about

        def fits(folder: Path, about: dict[str, Any]) -> bool:
            columns = {name: Column(folder / name, **about[name]) for name in arrays}
            first = slice_at(volume, self.axis, 0, 0)
            return all(
                column.rows == len(self.positions)
                and (column.shape, column.dtype) == (values.shape, values.numpy().dtype)
                for column, values in ((column, getattr(first, name)) for name, column in columns.items())
            )

        folder, about = find_or_write(content.hexdigest(), write, fits)
        return {name: Column(folder / name, **about[name]) for name in arrays}


def join_slices(slices: Sequence[torch.Tensor], axis: int) -> torch.Tensor:
    """Put the slices of a volume together again.

    Args:
        slices: Some positions each, in order, (positions, channel, *space without the axis).
        axis: The axis of space that they lie along.

    Returns:
        The volume, (1, channel, *space).
    """
    return torch.cat(list(slices)).movedim(0, axis + 1).unsqueeze(0)
