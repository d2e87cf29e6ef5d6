"""What physicists look at, for spokes and interleaves: point-spread functions, densities of angles, and gaps.

The point-spread function is the adjoint transform of the samples, each weighted by the area of k-space that it
stands for, as gridding has it. It is looked at on twice the field of view, where streaks begin. Where each frame
has its own spokes, it is that of x-f space; of a stack, it spreads along z as well.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Bool, Complex, Float, Shaped
from torch import Tensor

from promask.evaluation.point_spread import (
    OVERSAMPLING,
    PointSpread,
    first_minimum,
    half_maximum_width,
    spread_profile,
)
from promask.operators.fourier import to_image
from promask.operators.nufft import Nufft
from promask.operators.trajectory import COMPLETE, RADIAL, Trajectory
from promask.recon.gridding import gap_weights
from promask.sampling.pattern import Pattern
from promask.types import Sample, UnitMask

FIELDS = 2
"""Fields of view along each axis that the point-spread function is looked at on."""
REACH = 8
"""Pixels from the peak that widths are looked for in."""
IN_PLANE = ("ky", "kx")
"""The names of the directions that spokes lie in."""
BINS = 20
"""Of the distance from the centre of k-space to its edge."""
ANGLES = 36
"""At which the density of angles is kept."""
SMOOTHING = 1 / 24
"""The standard deviation of the kernel that makes a density of spokes, as a share of the circle, at least."""
OF_GAP = 0.7
"""The same relative to the mean distance of neighbours."""


@dataclass(frozen=True)
class AngularSampling:
    """At which angles spokes or interleaves lie.

    Args:
        noun: `spokes` or `interleaves`.
        candidates: How many angles there are to choose from.
        complete: How many a complete scan has, in each frame or partition.
        degrees: Angles at equal steps, from 0 along x towards y.
        density: How many there are about each of these angles, relative to evenly spread ones.
        smallest_gap: Between neighbours of one frame or partition, in degrees.
        largest_gap: The same.
        nyquist_radius: Up to which part of the radius of k-space neighbours in the largest gap are no further
            apart than the samples of a Cartesian scan.
        per_partition: Of a stack, how many there are at each kz.
    """

    noun: str
    candidates: int
    complete: int
    degrees: tuple[float, ...]
    density: tuple[float, ...]
    smallest_gap: float
    largest_gap: float
    nyquist_radius: float
    per_partition: tuple[int, ...] | None = None

    def summary(self) -> dict[str, Any]:
        """Plain values, as commands print them with `--json`."""
        return {name: list(each) if isinstance(each, tuple) else each for name, each in asdict(self).items()}


def unit_rows(units: Shaped[Tensor, "*units"], pattern: Pattern) -> Shaped[Tensor, "rows candidates"]:
    """Units as rows of all candidates: one for each frame or partition that has its own, or a single one.

    Args:
        units: (*unit_shape), of a pattern with a trajectory.
        pattern: The pattern.

    Returns:
        The same values.
    """
    return units.T if pattern.encoded else units.reshape(-1, units.shape[-1])


def rotation_spread(units: UnitMask, pattern: Pattern, fields: int = FIELDS) -> Complex[Tensor, "rows y x"]:
    """The point-spread function at whole pixels.

    Args:
        units: What is acquired, (*unit_shape).
        pattern: With a trajectory.
        fields: How many fields of view it is computed on, along each axis.

    Returns:
        With the peak of 1 at n // 2: rows are temporal frequencies, or positions along z; otherwise there is one.
    """
    trajectory = _trajectory(pattern)
    weights = gap_weights(unit_rows(units, pattern).double())
    shape = (fields * trajectory.matrix[0], fields * trajectory.matrix[1])
    planes = torch.stack([_adjoint(row, trajectory, shape) for row in weights])
    spread = to_image(planes, (-3,)) * math.sqrt(len(planes))
    return spread / (weights.sum() * trajectory.areas.sum()).clamp_min(1e-30)


def _adjoint(
    weights: Float[Tensor, " candidates"], trajectory: Trajectory, shape: tuple[int, int], finer: int = 1
) -> Complex[Tensor, "y x"]:
    """Of weighted rotations: the sum of exp(2 pi i k r), at distances of pixels, or of parts of them."""
    chosen = weights.nonzero().flatten()
    if not len(chosen):
        return torch.zeros(shape, dtype=torch.complex64)
    samples = (weights[chosen, None] * trajectory.areas).flatten().to(torch.complex64)
    transform = Nufft(trajectory.points[chosen].flatten(0, 1) / finer, shape)
    return transform.adjoint(samples) * math.sqrt(math.prod(shape))


def rotation_profile(units: UnitMask, pattern: Pattern, axis: int) -> Float[Tensor, " points"]:
    """The magnitude of the point-spread function in the plane of the spokes, along an axis through the peak.

    Args:
        units: What is acquired, (*unit_shape).
        pattern: With a trajectory.
        axis: 0 along y, 1 along x.

    Returns:
        From the peak to `REACH` pixels, as many points per pixel as `spread_profile` has; of frames, of all of
        them together.
    """
    trajectory = _trajectory(pattern)
    weights = gap_weights(unit_rows(units, pattern).double()).sum(0)
    length = 2 * REACH * OVERSAMPLING
    shape = (length, 2) if axis == 0 else (2, length)
    magnitudes = _adjoint(weights, trajectory, shape, OVERSAMPLING).abs()
    return magnitudes.select(1 - axis, 1)[length // 2 :] / magnitudes.max()


def rotation_point_spread(units: UnitMask, pattern: Pattern, voxel: Sequence[float] = ()) -> PointSpread:
    """Measure the point-spread function of spokes or interleaves.

    The main lobe is the ellipse that ends at the first minima along y and x. K-space is a disc, so that a complete
    scan has side lobes, too: rings around the peak, of 10 % at whole pixels.

    Args:
        units: What is acquired, (*unit_shape).
        pattern: With a trajectory.
        voxel: The size of a voxel in mm along each axis of the images; empty if it is not known.

    Returns:
        Widths, the main lobe, and what lies outside of it, up to the distance of a field of view from the peak.
    """
    magnitudes = rotation_spread(units, pattern).abs().double()
    everything = torch.ones_like(units)
    profiles, complete = ([rotation_profile(of, pattern, axis) for axis in (0, 1)] for of in (units, everything))
    names: tuple[str, ...] = IN_PLANE
    if pattern.encoded:
        rows = unit_rows(units, pattern)
        profiles = [spread_profile(rows.any(1), 0), *profiles]
        complete = [spread_profile(torch.ones(len(rows), dtype=torch.bool), 0), *complete]
        names = (pattern.directions[pattern.free[-1]], *IN_PLANE)
    widths = [half_maximum_width(profile) for profile in profiles]
    lobe = [first_minimum(profile) for profile in profiles]
    across, y, x = (_from_middle(n) for n in magnitudes.shape)
    seen = y[:, None].square() + x.square() < max(_trajectory(pattern).matrix) ** 2
    within = (y[:, None] / lobe[-2]).square() + (x / lobe[-1]).square() < 1 - 1e-9
    outside = ~(within & (across.abs() < (lobe[0] if pattern.encoded else 0.5))[:, None, None]) & seen
    energies = magnitudes.square() * seen
    still = magnitudes[len(magnitudes) // 2][~within & seen].max() if pattern.varies else None
    sizes = voxel[-len(names) :]
    return PointSpread(
        names,
        tuple(widths),
        tuple(width / half_maximum_width(full) for width, full in zip(widths, complete, strict=True)),
        tuple(width * size for width, size in zip(widths, sizes, strict=True)) if voxel else None,
        tuple(lobe),
        float(magnitudes[outside].max()),
        float(energies[outside].sum() / energies.sum()),
        None if still is None else float(still),
    )


def _from_middle(n: int) -> Float[Tensor, " n"]:
    return torch.arange(n, dtype=torch.float64) - n // 2


def angular_sampling(units: UnitMask, pattern: Pattern) -> AngularSampling:
    """Measure at which angles spokes or interleaves lie.

    >>> from promask.types import Geometry
    >>> spokes = Pattern.on((16, 16), Geometry(), "radial")
    >>> found = angular_sampling(torch.arange(96) % 24 == 0, spokes)
    >>> found.largest_gap, round(found.nyquist_radius, 3)
    (45.0, 0.159)

    Args:
        units: What is acquired, (*unit_shape).
        pattern: With a trajectory.

    Returns:
        Densities, gaps, and the radius within which nothing is undersampled.
    """
    trajectory, rows = _trajectory(pattern), unit_rows(units, pattern)
    found = gaps(rows)
    step = math.degrees(trajectory.period) / trajectory.candidates
    places = torch.arange(ANGLES) / ANGLES
    return AngularSampling(
        trajectory.noun,
        trajectory.candidates,
        trajectory.full,
        tuple((places * math.degrees(trajectory.period)).tolist()),
        tuple(angular_density(rows, places).tolist()),
        step * float(found.min()),
        step * float(found.max()),
        float(nyquist_radius(found.max() * step, trajectory)),
        tuple(rows.sum(1).tolist()) if pattern.encoded else None,
    )


def gaps(rows: Bool[Tensor, "rows candidates"]) -> Float[Tensor, " gaps"]:
    """The distances of all neighbours, around the circle, in steps from candidate to candidate.

    >>> gaps(torch.tensor([[True, False, False, True, False, False, False, False]]))
    tensor([3., 5.])

    Args:
        rows: What is acquired of each frame or partition; those without any are left out.

    Returns:
        One for each that is acquired: to the next one, or all of the circle.
    """
    count, found = rows.shape[1], []
    for row in rows:
        place = row.nonzero().flatten()
        if len(place):
            found.append(torch.cat([place[1:], place[:1] + count]) - place)
    return torch.cat(found).float()


def angular_density(
    rows: Shaped[Tensor, "rows candidates"], places: Float[Tensor, " places"]
) -> Float[Tensor, " places"]:
    """How densely spokes lie, smoothed, relative to evenly spread ones.

    Args:
        rows: What is acquired of each frame or partition.
        places: Where, as shares of the circle.

    Returns:
        A density with the mean 1 around the circle.
    """
    counts = rows.sum(0).double()
    width = max(SMOOTHING, OF_GAP * len(rows) / float(counts.sum()))
    harmonics = torch.arange(1, 1 + math.ceil(1.5 / width), dtype=torch.float64)
    fall = torch.exp(-2 * (torch.pi * width * harmonics).square())
    known = torch.arange(len(counts), dtype=torch.float64) / len(counts)
    turns = 2j * torch.pi * harmonics
    waves = (torch.exp(-turns[:, None] * known) * counts).sum(1) / counts.sum() * fall
    return 1 + 2 * (waves * torch.exp(turns * places.double()[:, None])).real.sum(1)


def nyquist_radius(degrees: Float[Tensor, "*gaps"], trajectory: Trajectory) -> Float[Tensor, "*gaps"]:
    """Up to which radius two neighbours are as near as samples of a Cartesian scan, as a part of that of k-space.

    Spokes at an angle g are r g apart at the radius r. Arms of spirals, which are no further apart than their
    pitch, are r g / sqrt(1 + (r / a)^2) apart, where a radian leads outwards by a.

    Args:
        degrees: The angle between the neighbours.
        trajectory: The candidates.

    Returns:
        From 0 to 1.
    """
    pitch = 0.0 if trajectory.kind == RADIAL else 2 * math.pi / COMPLETE
    excess = (degrees.double().deg2rad().square() - pitch**2).clamp_min(1e-12)
    return (2 / (max(trajectory.matrix) * excess.sqrt())).clamp_max(1)


def nyquist_share(rows: Bool[Tensor, "rows candidates"], trajectory: Trajectory) -> tuple[float, ...]:
    """At each distance from the centre, the share of angles where neighbours are near enough.

    Args:
        rows: What is acquired of each frame or partition.
        trajectory: The candidates.

    Returns:
        For `BINS` parts of the radius.
    """
    found = gaps(rows)
    reach = nyquist_radius(found * (math.degrees(trajectory.period) / trajectory.candidates), trajectory)
    middles = (torch.arange(BINS) + 0.5) / BINS
    return tuple(float(found[reach >= middle].sum() / found.sum()) for middle in middles)


def angular_energy(samples: Iterable[Sample], pattern: Pattern) -> Float[Tensor, " candidates"]:
    """The energy of images in the part of k-space that each rotation stands for, relative to the mean.

    Args:
        samples: Acquired along the trajectory of the pattern; all images count alike.
        pattern: With a trajectory.

    Returns:
        The mean over the images.
    """
    trajectory = _trajectory(pattern)
    axis = -3 if len(pattern.shape) - bool(pattern.indexed) == 3 else -2
    total = torch.zeros(trajectory.candidates, dtype=torch.float64)
    for sample in samples:
        assert sample.kspace is not None
        energies = (sample.kspace.abs().square() @ trajectory.areas.float())[..., None].movedim(axis, -1)
        of_each = energies.double().flatten(0, -2).sum(0)
        total += of_each / of_each.mean().clamp_min(1e-30)
    return total / total.mean().clamp_min(1e-30)


def _trajectory(pattern: Pattern) -> Trajectory:
    assert pattern.trajectory is not None
    return pattern.trajectory
