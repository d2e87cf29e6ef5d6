"""How densely a mask samples k-space: against the distance from its centre, and along each direction."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from promask.evaluation.point_spread import direction_names
from promask.evaluation.rotations import IN_PLANE, AngularSampling, angular_sampling, nyquist_share, unit_rows
from promask.sampling.pattern import Pattern
from promask.types import UnitMask

BINS = 20
"""Of the distance from the centre to the end of an axis; corners are further away."""


@dataclass(frozen=True)
class SamplingDensity:
    """What a sequence programmer asks of a mask.

    The distance from the centre of k-space is relative to the ends of the axes: 1 is the ellipse within them.

    Args:
        directions: The undersampled axes, such as ("ky", "kz").
        samples: How many samples or lines are acquired.
        acceleration: All that could be acquired over those that are.
        acceleration_in_ellipse: The same within the ellipse.
        outside_ellipse: Samples that lie outside of it.
        radius: The middle of each bin of the distance.
        share: Of what there is in the bin, the part that is acquired; NaN where there is nothing.
        per_direction: For each direction, how many samples have each k of it.
        largest_gap: For each direction, the largest step from a sample to the next one of the same line along it.
        calibration: The size of the largest central block of which all is acquired, along each direction; of
            series, in every frame.
        per_frame: Where each frame or contrast has its own, how many samples or lines there are in each.
        indexed: What `per_frame` counts: `frame` or `contrast`; otherwise empty.
        angles: Of spokes and interleaves, at which angles they lie. Then `share` is that of angles at which
            neighbours are as near as samples of a Cartesian scan, and there are neither counts per direction nor
            gaps nor a block along it.
    """

    directions: tuple[str, ...]
    samples: int
    acceleration: float
    acceleration_in_ellipse: float
    outside_ellipse: int
    radius: tuple[float, ...]
    share: tuple[float, ...]
    per_direction: tuple[tuple[int, ...], ...]
    largest_gap: tuple[int, ...]
    calibration: tuple[int, ...]
    per_frame: tuple[int, ...] | None = None
    indexed: str = ""
    angles: AngularSampling | None = None

    def summary(self) -> dict[str, Any]:
        """Plain values, as commands print them with `--json`; None where there is no share."""
        plain = {name: list(each) if isinstance(each, tuple) else each for name, each in asdict(self).items()}
        plain["share"] = [None if math.isnan(each) else each for each in self.share]
        plain["per_direction"] = {
            name: list(each) for name, each in zip(self.directions, self.per_direction, strict=False)
        }
        plain["angles"] = None if self.angles is None else self.angles.summary()
        return plain


def sampling_density(units: UnitMask, pattern: Pattern) -> SamplingDensity:
    """Measure how densely a mask samples k-space.

    >>> lines = torch.tensor([1, 0, 0, 1, 1, 1, 0, 0], dtype=torch.bool)
    >>> found = sampling_density(lines, Pattern((4, 8), free=(1,)))
    >>> found.calibration, found.largest_gap, found.acceleration
    ((3,), (3,), 2.0)

    Args:
        units: What is acquired, (*unit_shape), centred.
        pattern: The undersampled axes.

    Returns:
        Densities, counts, gaps and the region that is sampled completely.
    """
    possible = ~pattern.padding().numpy()
    acquired = units.numpy() & possible
    distance = pattern.distance().sqrt().numpy()
    number = (distance * BINS + 1e-9).astype(int)
    bins = max(1, int(number.max()))  # what lies at the very end belongs to the last one
    counts, of = (np.bincount(number[each].clip(max=bins - 1), minlength=bins) for each in (acquired, possible))
    within = distance <= 1 + 1e-9
    axes = range(acquired.ndim)
    directions = axes[pattern.varies :]
    projections = [acquired.sum(tuple(other for other in axes if other != axis)) for axis in directions]
    always = units.all(0) if pattern.varies else units
    inside = int((acquired & within).sum())
    return SamplingDensity(
        direction_names(pattern),
        int(acquired.sum()),
        pattern.units / int(acquired.sum()),
        float(int((possible & within).sum()) / inside) if inside else math.inf,
        int((acquired & ~within).sum()),
        tuple(((np.arange(bins) + 0.5) / BINS).tolist()),
        tuple(np.divide(counts, of, out=np.full(len(of), np.nan), where=of > 0).tolist()),
        tuple(tuple(each.tolist()) for each in projections),
        tuple(_largest_gap(units, axis) for axis in directions),
        calibration_region(always),
        tuple(acquired.reshape(len(acquired), -1).sum(1).tolist()) if pattern.varies else None,
        pattern.indexed if pattern.varies else "",
    )


def rotation_density(units: UnitMask, pattern: Pattern) -> SamplingDensity:
    """The same for spokes and interleaves.

    Args:
        units: What is acquired, (*unit_shape).
        pattern: With a trajectory.

    Returns:
        The acceleration relative to a complete scan, densities, and the angles.
    """
    assert pattern.trajectory is not None
    rows, samples = unit_rows(units, pattern), int(units.sum())
    share = nyquist_share(rows, pattern.trajectory)
    return SamplingDensity(
        (*pattern.directions[pattern.free[-1] : pattern.free[-1] + pattern.encoded], *IN_PLANE),
        samples,
        pattern.full / samples,
        pattern.full / samples,
        0,
        tuple(((np.arange(len(share)) + 0.5) / len(share)).tolist()),
        share,
        (),
        (),
        (),
        tuple(rows.sum(1).tolist()) if pattern.varies else None,
        pattern.indexed if pattern.varies else "",
        angular_sampling(units, pattern),
    )


def calibration_region(units: UnitMask) -> tuple[int, ...]:
    """The size of the largest central block of which everything is acquired.

    >>> calibration_region(torch.tensor([[0, 1, 1, 0], [0, 1, 1, 1], [1, 1, 1, 1]], dtype=torch.bool))
    (3, 2)

    Args:
        units: What is acquired, (*unit_shape), centred.

    Returns:
        Its width along each axis: from n // 2 - width // 2 on, as in `Pattern.centre`.
    """
    complete = units.to(torch.int8)
    size = torch.ones([1] * units.ndim, dtype=torch.int64)
    for axis, n in enumerate(units.shape):
        offset = torch.arange(n) - n // 2
        # In the order in which a growing block reaches them, a block is the beginning of each axis.
        order = torch.where(offset < 0, -2 * offset, 2 * offset + 1).argsort()
        complete = complete.index_select(axis, order).cummin(axis).values
        size = size * (torch.arange(n) + 1).reshape([-1 if place == axis else 1 for place in range(units.ndim)])
    if not complete.any():
        return (0,) * units.ndim
    best = np.unravel_index(int((complete * size).argmax()), tuple(units.shape))
    return tuple(int(place) + 1 for place in best)


def _largest_gap(units: UnitMask, axis: int) -> int:
    """The largest step between neighbouring samples along an axis, over all its lines; 0 without neighbours."""
    lines = units.movedim(axis, -1).reshape(-1, units.shape[axis]).numpy()
    row, place = np.nonzero(lines)
    steps = np.diff(place)[np.diff(row) == 0]
    return int(steps.max()) if len(steps) else 0
