"""Samples at given places of k-space: spokes at any angles, or whatever else a scanner has measured."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from promask.operators.trajectory import BALANCE, RADIAL, SPIRAL, Trajectory

STRAIGHT = 1.0
"""How far the samples of a spoke may lie from a line through the centre, in cycles per field of view."""
RIM = 0.9
"""Cells that end outside of all samples, or nowhere, are as large as others from this share of the radius on."""


@dataclass(frozen=True, eq=False)
class MeasuredTrajectory(Trajectory):
    """A single candidate with all samples of a scan, which is acquired as a whole.

    >>> spokes = Trajectory.of("radial", (32, 32), candidates=4)
    >>> scan = MeasuredTrajectory.along(spokes.points, (32, 32))
    >>> scan.kind, scan.points.shape, bool(torch.allclose(scan.areas, spokes.areas.repeat(4)))
    ('radial', torch.Size([1, 256, 2]), True)

    Args:
        shots: The places of the samples of each shot, (y, x), in cycles per pixel.
    """

    shots: Float[Tensor, "shot sample 2"]

    @staticmethod
    def along(shots: Float[Tensor, "shot sample 2"], matrix: tuple[int, int]) -> "MeasuredTrajectory":
        """That of a scan.

        Args:
            shots: The places of the samples of each shot, (y, x), in cycles per pixel.
            matrix: The size of the images, (y, x).

        Returns:
            The trajectory: radial if all shots are straight and go through the centre.
        """
        kind = RADIAL if bool(_are_spokes(shots, matrix).all()) else SPIRAL
        return MeasuredTrajectory(kind, 1, shots.shape[0] * shots.shape[1], matrix, shots.double())

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    @property
    def interleaf(self) -> Float[Tensor, "samples 2"]:
        """All samples, one shot after the other."""
        return self.shots.flatten(0, 1)

    @cached_property
    def areas(self) -> Float[Tensor, " samples"]:
        """The area of k-space that belongs to each sample; that of a pixel is 1.

        That of a spoke reaches halfway to its neighbours on either side, whatever their angles.
        """
        found = _areas_of_spokes(self.shots) if self.kind == RADIAL else _voronoi(self.interleaf)
        return found.flatten() * math.prod(self.matrix)

    @cached_property
    def weights(self) -> Float[Tensor, " samples"]:
        """What samples count in iterative reconstructions: as for candidates at equal distances."""
        cycles = torch.linalg.vector_norm(self.interleaf, dim=1) * max(self.matrix)
        distance = (cycles - 1).abs()
        near = self.areas[distance <= max(0.5, float(distance.min()))].mean()
        return BALANCE * (self.areas * near).sqrt()


def _directions(shots: Float[Tensor, "shot sample 2"]) -> Float[Tensor, "shot 2"]:
    along = (shots[:, -1] - shots[:, 0]).double()
    return along / torch.linalg.vector_norm(along, dim=1, keepdim=True).clamp_min(1e-30)


def _are_spokes(shots: Float[Tensor, "shot sample 2"], matrix: tuple[int, int]) -> Bool[Tensor, " shot"]:
    """Whether the samples of each shot lie on a line through the centre."""
    y, x = _directions(shots).T[..., None]
    across = (shots[..., 0] * x - shots[..., 1] * y).abs() * max(matrix)
    closest = torch.linalg.vector_norm(shots, dim=2).amin(1) * max(matrix)
    return (across.amax(1) < STRAIGHT) & (closest < STRAIGHT)


def _areas_of_spokes(shots: Float[Tensor, "shot sample 2"]) -> Float[Tensor, "shot sample"]:
    """|r| dr dphi; a step that the centre lies in has what the trapezoidal rule misses at the kink of |r|."""
    directions = _directions(shots)
    radius = (shots * directions[:, None]).sum(2)
    step = torch.gradient(radius, dim=1)[0].abs()
    share = radius.abs() / step.clamp_min(1e-30)
    ring = torch.where(share < 0.499, (share.square() + 1 / 6) * step, radius.abs()) * step
    whole = bool((radius.amin(1) < -0.25 * radius.amax(1)).all())  # from one end of k-space to the other
    period = math.pi if whole else 2 * math.pi
    angles = torch.atan2(directions[:, 0], directions[:, 1]) % period
    order = angles.argsort()
    after = (angles[order.roll(-1)] - angles[order]) % period
    after = torch.where(after > 0, after, period) if len(order) == 1 else after
    gaps = torch.empty_like(angles).scatter(0, order, (after + after.roll(1)) / 2)
    return ring * gaps[:, None]


def _voronoi(points: Float[Tensor, "sample 2"]) -> Float[Tensor, " sample"]:
    """The area that is nearer to each sample than to others; samples at one place share theirs."""
    from scipy.spatial import QhullError, Voronoi

    places, which, count = np.unique(points.numpy().round(9), axis=0, return_inverse=True, return_counts=True)
    radius = np.hypot(*places.T)
    disc = math.pi * radius.max() ** 2 / len(places)
    try:
        cells = Voronoi(places)
    except QhullError:  # all on a line, or too few
        return torch.from_numpy((disc / count)[which.reshape(-1)])
    areas = np.full(len(places), np.nan)
    outside = np.hypot(*cells.vertices.T) > radius.max()
    for place, region in enumerate(cells.point_region):
        corners = cells.regions[region] if region >= 0 else []
        if corners and -1 not in corners and not outside[corners].any():
            y, x = cells.vertices[corners].T
            areas[place] = abs(np.dot(y, np.roll(x, -1)) - np.dot(x, np.roll(y, -1))) / 2
    known = np.isfinite(areas)
    rim = areas[known & (radius > RIM * radius.max())]
    rim = rim if len(rim) else areas[known]
    usual = np.median(rim) if len(rim) else disc
    return torch.from_numpy((np.where(known, areas, usual) / count)[which.reshape(-1)])
