"""Variable density: random units, denser towards the centre of k-space."""

import torch
from torch.special import ndtr

from promask.baselines.problem import Problem
from promask.types import UnitMask, Units

WIDTH = 35 / 128
"""The standard deviation, as a share of the half width of k-space: 35 of 256 pixels, as published."""


def gaussian(problem: Problem) -> UnitMask:
    """Units drawn one after the other from a Gaussian around the centre, none of them twice.

    Adding Gumbel noise to the log density and keeping the largest is the same as drawing without replacement.
    """
    return _drawn(problem, -problem.pattern.distance() / (2 * WIDTH**2))


def gaussian_paper(problem: Problem) -> UnitMask:
    """The same from the density of the published code, which wraps around and may miss the centre of k-space.

    A normal number per axis is cut to a whole one, towards zero, and used as an index: the first line gets the
    share of two, negative indices count from the end, and what lies outside is drawn again.
    """
    rows, columns = (log_share(n) for n in problem.pattern.unit_shape)
    return _drawn(problem, rows[:, None] + columns)


def log_share(n: int) -> Units:
    """How likely each of n indices is in the published code."""
    index = torch.arange(n, dtype=torch.float64)

    def below(edge: Units) -> Units:
        return ndtr((edge - n // 2) / (WIDTH * max(n // 2, 1)))

    direct = below(index + 1) - below(torch.where(index == 0, -1.0, index))
    wrapped = below(index - n) - below(index - n - 1)
    return torch.log(direct + wrapped)


def _drawn(problem: Problem, log_density: Units) -> UnitMask:
    """Without replacement, as if a unit that comes again were drawn again."""
    uniform = torch.rand(log_density.shape, generator=problem.generator(), dtype=torch.float64)
    return problem.best(log_density - torch.log(-torch.log(uniform)))
