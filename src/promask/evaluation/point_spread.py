"""The point-spread function of a mask: how wide it makes a point, and what it puts elsewhere.

It is the Fourier transform of the mask over the undersampled axes, 1 at its peak. Along the other axes nothing is
undersampled, and a point stays a point. Where each frame has its own lines, it is the transform over frames as
well: where a point goes in space, and to which temporal frequencies (x-f space). Contrasts have nothing to do with
each other: each has its own, and the numbers are those of the one with the fewest samples.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from promask.operators.fourier import space_axes, to_image
from promask.sampling.limits import CONTRAST
from promask.sampling.pattern import Pattern
from promask.types import UnitMask

OVERSAMPLING = 32
"""Points per pixel at which widths are looked for."""


@dataclass(frozen=True)
class PointSpread:
    """What the point-spread function of a mask is, in numbers.

    The main lobe is the box around the peak that ends, along each undersampled axis, at the first minimum of the
    magnitude. Side lobes and energies are those at whole pixels, where a fully sampled scan has neither.

    Args:
        directions: The undersampled axes, such as ("ky", "kz").
        width: The full width at half maximum of the magnitude along each of them, in pixels.
        widening: The same relative to a scan of all that can be acquired, which has 1.207 pixels without padding.
        width_mm: The width in mm; None if the size of voxels is not known.
        main_lobe: From the peak to the first minimum along each axis, in pixels.
        side_lobe: The largest magnitude outside of the main lobe, relative to the peak.
        energy_outside: The share of the energy that lies outside of the main lobe.
        average_side_lobe: Where each frame has its own lines, the side lobe of what all frames together acquire;
            the others are those over all temporal frequencies, of which the main lobe has the lowest alone.
    """

    directions: tuple[str, ...]
    width: tuple[float, ...]
    widening: tuple[float, ...]
    width_mm: tuple[float, ...] | None
    main_lobe: tuple[float, ...]
    side_lobe: float
    energy_outside: float
    average_side_lobe: float | None = None

    def summary(self) -> dict[str, Any]:
        """Plain values, as commands print them with `--json`."""
        return {name: list(each) if isinstance(each, tuple) else each for name, each in asdict(self).items()}


def point_spread(units: UnitMask, pattern: Pattern, voxel: Sequence[float] = ()) -> PointSpread:
    """Measure the point-spread function of a mask.

    >>> found = point_spread(torch.ones(64, dtype=torch.bool), Pattern((4, 64), free=(1,)))
    >>> [round(width, 3) for width in found.width], round(found.side_lobe, 6)
    ([1.207], 0.0)

    Args:
        units: What is acquired, (*unit_shape), centred.
        pattern: The undersampled axes.
        voxel: The size of a voxel in mm along each axis of k-space; empty if it is not known.

    Returns:
        Widths, the main lobe, and what lies outside of it.
    """
    if pattern.varies and pattern.indexed == CONTRAST:
        fewest = int(units.flatten(1).sum(1).argmin())
        return point_spread(units[fewest], pattern.alone(), voxel[1:])
    magnitudes = spread_function(units).abs()
    directions = range(pattern.varies, len(pattern.free))
    profiles = [spread_profile(units, position) for position in directions]
    complete = [spread_profile(~pattern.padding(), position) for position in directions]
    widths = [half_maximum_width(profile) for profile in profiles]
    first_minima = [first_minimum(profile) for profile in profiles]
    ends = [1.0] * pattern.varies + first_minima
    outside = torch.zeros(units.shape, dtype=torch.bool)
    for position, (n, end) in enumerate(zip(units.shape, ends, strict=True)):
        beyond = (torch.arange(n) - n // 2).abs() >= end - 0.5 / OVERSAMPLING
        outside |= beyond.reshape([-1 if place == position else 1 for place in range(units.ndim)])
    energies = magnitudes.square()
    still = magnitudes[len(units) // 2][outside[len(units) // 2]] if pattern.varies else None
    axes = [pattern.free[position] for position in directions]
    return PointSpread(
        direction_names(pattern),
        tuple(widths),
        tuple(width / half_maximum_width(full) for width, full in zip(widths, complete, strict=True)),
        tuple(width * voxel[axis] for width, axis in zip(widths, axes, strict=True)) if voxel else None,
        tuple(first_minima),
        _largest(magnitudes[outside]),
        float(energies[outside].sum() / energies.sum()),
        None if still is None else _largest(still),
    )


def _largest(values: Float[Tensor, " places"]) -> float:
    return float(values.max()) if len(values) else 0.0


def spread_function(units: Shaped[Tensor, "*units"], axes: int | None = None) -> Shaped[Tensor, "*units"]:
    """The point-spread function at whole pixels.

    Args:
        units: What is acquired, (*unit_shape), centred.
        axes: Over how many axes, the last ones, it spreads; None: all of them. Each entry along the others has a
            function of its own.

    Returns:
        Complex, (*unit_shape), with the peak of 1 at n // 2.
    """
    over = space_axes(units.ndim if axes is None else axes)
    values = to_image(units.to(torch.complex128), over)
    count = units.double().sum(list(over), keepdim=True).clamp_min(1)
    return values * (math.sqrt(math.prod(units.shape[axis] for axis in over)) / count)


def spread_profile(units: UnitMask, position: int) -> Float[Tensor, " points"]:
    """The magnitude of the point-spread function along one axis, through the peak.

    Args:
        units: What is acquired, (*unit_shape), centred.
        position: The number of the axis of the units.

    Returns:
        From the peak to half the field of view, `OVERSAMPLING` points per pixel. The other half is the same.
    """
    # Along an axis through the origin, all samples of one k have the same phase.
    others = [place for place in range(units.ndim) if place != position]
    counts = units.double().sum(others) if others else units.double()
    n = len(counts)
    magnitudes = torch.fft.rfft(counts, n * OVERSAMPLING).abs() / counts.sum()
    return magnitudes[: n * OVERSAMPLING // 2 + 1]


def half_maximum_width(profile: Float[Tensor, " points"]) -> float:
    """The full width at half maximum of a `spread_profile`, in pixels; the field of view if it has none."""
    values = profile.numpy()
    below = np.flatnonzero(values < 0.5)
    if not len(below):
        return 2 * (len(values) - 1) / OVERSAMPLING
    end = int(below[0])
    crossing = end - (0.5 - values[end]) / (values[end - 1] - values[end])
    return float(2 * crossing / OVERSAMPLING)


def direction_names(pattern: Pattern) -> tuple[str, ...]:
    """The names of the undersampled directions, such as ("ky", "kz"), or their numbers; frames are none."""
    axes = pattern.free[pattern.varies :]
    return tuple(pattern.directions[axis] if pattern.directions else f"axis {axis}" for axis in axes)


def first_minimum(profile: Float[Tensor, " points"]) -> float:
    """Where the magnitude rises for the first time, in pixels from the peak; beyond the end if it never does."""
    rising = np.flatnonzero(np.diff(profile.numpy()) > 1e-9)
    return float(rising[0] if len(rising) else len(profile)) / OVERSAMPLING
