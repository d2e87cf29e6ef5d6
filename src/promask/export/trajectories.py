"""Spokes and spiral interleaves that are acquired, as angles and coordinates."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from promask.errors import InputError
from promask.export.mask_file import ExportedMask
from promask.operators.trajectory import Trajectory
from promask.sampling.pattern import Pattern
from promask.types import Mask

TOLERANCE = 1e-6
"""Of coordinates that were kept in single precision, in cycles per pixel."""


@dataclass(frozen=True)
class Shots:
    """The rotations that a mask acquires, in the order of the frames, then of the angles, then of kz.

    >>> spokes = Trajectory.of("radial", (32, 32), candidates=8)
    >>> pattern = Pattern((8, 64), (0,), trajectory=spokes)
    >>> mask = pattern.expand(torch.arange(8) % 4 == 1)
    >>> shots = Shots.of(ExportedMask.of_pattern(mask, pattern))
    >>> shots.index.tolist(), shots.angles.rad2deg().tolist(), shots.points.shape
    ([1, 5], [22.5, 112.5], torch.Size([2, 64, 2]))

    Args:
        trajectory: The candidates.
        index: Which of them each shot is.
        frame: The number of the frame of each shot; None where all frames share theirs, or there are none.
        kz: The number along kz of each shot of a stack, DC at n // 2; None in slices.
        frames: How many frames there are that have shots of their own; otherwise 1.
        partitions: How many there are along kz; 1 in slices.
    """

    trajectory: Trajectory
    index: Integer[Tensor, " shot"]
    frame: Integer[Tensor, " shot"] | None = None
    kz: Integer[Tensor, " shot"] | None = None
    frames: int = 1
    partitions: int = 1

    @staticmethod
    def of(mask: ExportedMask) -> "Shots":
        """Those of a mask along a trajectory.

        Args:
            mask: Of spokes or interleaves, of frames or of a stack of them.

        Returns:
            What it acquires.

        Raises:
            InputError: If its k-space is Cartesian.
        """
        if mask.trajectory is None:
            raise InputError(
                "The mask is Cartesian, and has no spokes or interleaves: choose a format for masks, such as npy."
            )
        pattern = mask.pattern
        columns = dict(zip(pattern.free, pattern.restrict(mask.mask).nonzero().T, strict=True))
        rotation = int(bool(mask.indexed))
        stacked = mask.mask.ndim - rotation == 3
        if stacked and rotation + 1 not in columns:  # all kz have the same spokes
            raise InputError("The mask of a stack of spokes must have spokes of its own for every kz.")
        return Shots(
            mask.trajectory,
            columns[rotation],
            columns[0] if pattern.varies else None,
            columns[rotation + 1] if stacked else None,
            mask.mask.shape[0] if pattern.varies else 1,
            mask.mask.shape[rotation + 1] if stacked else 1,
        )

    def __len__(self) -> int:
        return len(self.index)

    @property
    def angles(self) -> Float[Tensor, " shot"]:
        """From 0 along x towards y, in radians."""
        return self.trajectory.angles[self.index]

    @cached_property
    def points(self) -> Float[Tensor, "shot sample axis"]:
        """Along y and x, or z, y and x in a stack, in cycles per pixel."""
        points = self.trajectory.points[self.index]
        if self.kz is None:
            return points
        z = (self.kz - self.partitions // 2) / self.partitions
        return torch.cat([z.to(points)[:, None, None].expand(*points.shape[:2], 1), points], 2)

    @property
    def matrix(self) -> tuple[int, ...]:
        """The size of the images, (y, x) or (z, y, x)."""
        return self.trajectory.matrix if self.kz is None else (self.partitions, *self.trajectory.matrix)

    def by_frame(self) -> Float[Tensor, "frame own sample axis"]:
        """The points of each frame, all of which must have as many shots; one frame if there are none."""
        if self.frame is None:
            return self.points[None]
        numbers = sorted(set(torch.bincount(self.frame, minlength=self.frames).tolist()))
        if len(numbers) > 1:
            raise InputError(
                f"The frames have from {numbers[0]} to {numbers[-1]} {self.trajectory.noun}, but this format "
                f"needs the same number in each: choose csv, mat or mrd."
            )
        return self.points.unflatten(0, (self.frames, -1))  # shots come in the order of the frames

    def table(self) -> Float[Tensor, "shot ..."]:
        """The angles in radians; with a second column for the number of the frame, or of kz from the centre."""
        beside = self.frame if self.kz is None else self.kz - self.partitions // 2
        return self.angles if beside is None else torch.stack([self.angles, beside.double()], 1)


def find_units(
    points: Float[Tensor, "shot sample axis"], frame: Integer[Tensor, " shot"], pattern: Pattern
) -> Mask:
    """The mask of shots by their coordinates: the inverse of `Shots`.

    Args:
        points: Along y and x, or z, y and x, in cycles per pixel.
        frame: The number of the frame of each.
        pattern: What could be acquired.

    Returns:
        The mask of all candidates, (*kspace).

    Raises:
        ValueError: If a shot is none of the candidates, or there twice.
    """
    trajectory = pattern.trajectory
    rotation, stacked = int(bool(pattern.indexed)), len(pattern.shape) - bool(pattern.indexed) == 3
    if trajectory is None or points.shape[1:] != (trajectory.samples, 2 + stacked):
        raise ValueError(f"its coordinates of shape {list(points.shape)} do not fit the trajectory that it states")
    last, own = trajectory.interleaf[-1], points[:, -1, -2:]
    turned = torch.atan2(own[:, 0], own[:, 1]) - torch.atan2(last[0], last[1])
    index = (turned * trajectory.candidates / trajectory.period).round().long() % trajectory.candidates
    kz = (points[:, 0, 0] * pattern.shape[-2]).round().long() + pattern.shape[-2] // 2
    columns = {0: frame} if pattern.varies else {}
    columns |= {rotation: index, **({rotation + 1: kz} if stacked else {})}
    units = torch.zeros(pattern.unit_shape, dtype=torch.bool)
    place = tuple(columns[axis] for axis in pattern.free)
    fits = all(((at >= 0) & (at < n)).all() for at, n in zip(place, units.shape, strict=True))
    if not fits or not torch.allclose(points[..., -2:], trajectory.points[index], atol=TOLERANCE, rtol=0):
        raise ValueError(f"its coordinates are not those of the {trajectory.noun} that it states")
    units[place] = True
    if int(units.sum()) != len(points):
        raise ValueError(f"it has one of its {trajectory.noun} twice")
    return pattern.expand(units)
