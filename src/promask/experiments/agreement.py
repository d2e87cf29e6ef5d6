"""How far independent members of a run agree, and where in k-space they do (the paper's Figure 5)."""

from dataclasses import dataclass

import torch

from promask.geometry import central_slices
from promask.learning.run import Run
from promask.types import Units

AGREED = 0.01
"""The standard deviation over members up to which they agree on a unit."""


@dataclass(frozen=True)
class Region:
    """The units of a part of k-space, padding left out."""

    units: int
    agreed: float
    """The share of units that all members agree on."""
    mean_variance: float
    """Over the members, averaged over the units."""
    mean_std: float


@dataclass(frozen=True)
class Agreement:
    """Of all units, of those in the central half of every free axis, and of the others, if there are any."""

    members: int
    everywhere: Region
    centre: Region
    rest: Region | None


def agreement(run: Run) -> Agreement | None:
    """What the variance of probabilities over members says; None for a single member, or a plain mask."""
    if run.config.members < 2 or run.about.get("plain"):
        return None
    pattern = run.distribution.pattern
    centre = torch.zeros(pattern.unit_shape, dtype=torch.bool)
    centre[central_slices(pattern.unit_shape, [max(1, n // 2) for n in pattern.unit_shape])] = True
    units = ~pattern.padding()
    rest = run.variance[units & ~centre]
    return Agreement(
        members=run.config.members,
        everywhere=_region(run.variance[units]),
        centre=_region(run.variance[units & centre]),
        rest=_region(rest) if len(rest) else None,
    )


def _region(variance: Units) -> Region:
    variance = variance.to(torch.float64)
    deviation = variance.sqrt()
    return Region(
        units=len(variance),
        agreed=float((deviation <= AGREED).to(torch.float64).mean()),
        mean_variance=float(variance.mean()),
        mean_std=float(deviation.mean()),
    )
