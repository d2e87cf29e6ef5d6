"""Masks of the trade whose few numbers are tuned: each candidate is a mask, and the one of least loss is taken.

The loss is that of the problem, with its reconstruction, on a few of the images that masks are made from.
"""

import itertools
from collections.abc import Iterable

import torch

from promask.baselines.drawn import fitted_discs, gumbel
from promask.baselines.problem import ACS_WIDTH, CENTRE_SHARE, BaselineProblem
from promask.baselines.searched import COLUMNS, MaskLoss
from promask.types import UnitMask, Units

TUNING_IMAGES = 16
"""The most images that decide between candidates."""
ROUNDS = ((2, 8), (TUNING_IMAGES, 1))
"""A race: on how many images candidates are compared, and how many of them stay."""
COLUMN_ROUNDS = ((24, 24), (96, 6), (COLUMNS, 1))
"""The same for columns of series."""

SHARES = (5 / 8, 6 / 8, 7 / 8)
"""What partial Fourier acquires along one direction."""
POWERS = (2, 4, 8, 16)
"""The exponents of variable density."""
POWERS_OVER_TIME = (0.5, 1, 2, 4, 8)
"""The same for series of frames, which fill each other's gaps."""
GROWTHS = (0.5, 1, 2, 4)
"""The powers of |k| with which the distances of Poisson discs grow."""
TINY = 1e-9


def best_of(problem: BaselineProblem, candidates: Iterable[UnitMask]) -> UnitMask:
    """The candidate of least loss on up to 16 images; of more than 8, two images decide which 8 are compared.

    Of series, 384 columns decide between the best 6, 96 say which these are, and 24 which 24 are looked at.
    """
    left = list({units.numpy().tobytes(): units for units in candidates}.values())
    if len(left) == 1:
        return left[0]
    mask_loss = MaskLoss.of(problem, TUNING_IMAGES)
    for most, keep in COLUMN_ROUNDS if mask_loss.series else ROUNDS:
        if len(left) > keep:
            losses = [mask_loss.value(units, most) for units in left]
            left = [left[place] for place in sorted(range(len(left)), key=losses.__getitem__)[:keep]]
    return left[0]


def centres(problem: BaselineProblem, narrowest: float = CENTRE_SHARE) -> list[UnitMask]:
    """Calibration regions to choose from: a share of the width, 24, and as wide as half of the budget allows."""
    sides = problem.pattern.unit_shape[problem.pattern.varies :]
    return [problem.acs(width) for width in (round(narrowest * min(sides)), ACS_WIDTH, max(sides))]


def poisson_tuned(problem: BaselineProblem) -> UnitMask:
    """Poisson discs, or lines at such distances; how the distances grow with |k| and the centre are tuned."""
    choices = itertools.product(centres(problem), GROWTHS)
    return best_of(problem, (fitted_discs(problem, kept, growth) for kept, growth in choices))


def variable_density(problem: BaselineProblem) -> UnitMask:
    """Units drawn from the density (1 - |k|)^p around a calibration region; p and the region are tuned.

    |k| is 1 at the farthest unit. Where frames have units of their own, they are drawn anew in each of them.
    """
    distance, noise = problem.pattern.distance().sqrt(), gumbel(problem)
    farthest = distance[problem.allowed].max().clamp_min(TINY)
    log_density = (1 - distance / farthest).clamp_min(TINY).log()
    series = bool(problem.pattern.indexed)
    regions = [*([problem.acs(0)] if series else []), *centres(problem)]
    choices = itertools.product(regions, POWERS_OVER_TIME if series else POWERS)
    return best_of(
        problem,
        (problem.best((power * log_density + noise).masked_fill(kept, torch.inf)) for kept, power in choices),
    )


def partial_fourier(problem: BaselineProblem) -> UnitMask:
    """A solid block, one side of which is cut off along one direction; the direction and how much are tuned.

    5/8, 6/8 or 7/8 of a central block of the shape of k-space, as large as the budget pays for.
    """
    choices = itertools.product(range(problem.pattern.encoded), SHARES)
    return best_of(problem, (problem.best(-needed_block(problem.pattern.unit_shape, *cut)) for cut in choices))


def needed_block(shape: tuple[int, ...], direction: int, share: float) -> Units:
    """The relative width of the smallest block that has a unit, if only `share` of it is acquired in a direction.

    >>> needed_block((8,), 0, 6 / 8)
    tensor([2.0000, 1.5000, 1.0000, 0.5000, 0.1250, 0.3750, 0.6250, 0.8750],
           dtype=torch.float64)
    """
    needed = torch.zeros(shape, dtype=torch.float64)
    for position, n in enumerate(shape):
        offset = torch.arange(n, dtype=torch.float64) - n // 2
        reach = 2 * share - 1 if position == direction else 1
        width = torch.where(offset < 0, -2 * offset / reach, 2 * offset + 1) / n
        needed = needed.maximum(width.reshape([-1 if p == position else 1 for p in range(len(shape))]))
    return needed
