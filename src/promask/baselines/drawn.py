"""Masks drawn at random: of uniform density, of variable density, and Poisson discs."""

import math

import numpy as np
import torch
from torch.special import ndtr

from promask.baselines.problem import CENTRE_SHARE, BaselineProblem
from promask.types import UnitMask, Units


def random(problem: BaselineProblem) -> UnitMask:
    """Units at random, each as likely as any other."""
    return problem.best(problem.random())


WIDTH = 35 / 128
"""The standard deviation, as a share of the half width of k-space: 35 of 256 pixels, as published."""


def gaussian(problem: BaselineProblem) -> UnitMask:
    """Units drawn one after the other from a Gaussian around the centre, none of them twice.

    Adding Gumbel noise to the log density and keeping the largest is the same as drawing without replacement.
    """
    return _draw(problem, -problem.pattern.distance() / (2 * WIDTH**2))


def gaussian_paper(problem: BaselineProblem) -> UnitMask:
    """The same from the density of the published code, which wraps around and may miss the centre of k-space.

    A normal number per axis is cut to a whole one, towards zero, and used as an index: the first line gets the
    share of two, negative indices count from the end, and what lies outside is drawn again.
    """
    rows, columns = (log_share(n) for n in problem.pattern.unit_shape)
    return _draw(problem, rows[:, None] + columns)


def log_share(n: int) -> Units:
    """How likely each of n indices is in the published code."""
    index = torch.arange(n, dtype=torch.float64)

    def below(edge: Units) -> Units:
        return ndtr((edge - n // 2) / (WIDTH * max(n // 2, 1)))

    direct = below(index + 1) - below(torch.where(index == 0, -1.0, index))
    wrapped = below(index - n) - below(index - n - 1)
    return torch.log(direct + wrapped)


def _draw(problem: BaselineProblem, log_density: Units) -> UnitMask:
    """Without replacement, as if a unit that comes again were drawn again."""
    return problem.best(log_density - torch.log(-torch.log(problem.random())))


ATTEMPTS = 30
"""Rejected neighbours after which a sample is given up, as in sigpy."""
HALVINGS = 14
"""How closely the growth of the discs is fitted to the budget."""
EXCESS = 1.05
"""A fit that is close enough."""


def poisson(problem: BaselineProblem) -> UnitMask:
    """Samples that keep about 1 + s |k| from each other, and a fully sampled centre, without corners.

    The largest s that reaches the budget is searched for, and the excess is removed at random. Below about x1.6
    there is no such s, as the discs do not fill the grid: the rest is then drawn at random from what is left.
    The centre counts in the budget.
    """
    pattern, budget, generator = problem.pattern, problem.budget, problem.generator()
    width = max(1, round(CENTRE_SHARE * min(pattern.unit_shape)))
    kept = problem.block(default=min(width, math.isqrt(budget)))
    distance, allowed = pattern.distance().sqrt(), ~pattern.never()
    seed = int(torch.randint(2**31, (), generator=generator))

    low, high, found = 0.0, float(max(pattern.unit_shape)), kept
    for _ in range(HALVINGS):
        slope = (low + high) / 2
        tried = (discs(1 + slope * distance, seed) & (distance < 1) | kept) & allowed
        size = int(tried.sum())
        if size >= budget or low == 0:
            found = tried
        if budget <= size <= EXCESS * budget:
            break
        low, high = (slope, high) if size >= budget else (low, slope)
    order = torch.rand(pattern.unit_shape, generator=generator, dtype=torch.float64) + found.double()
    return problem.best(order.masked_fill(kept, torch.inf))


def discs(radius: Units, seed: int) -> UnitMask:
    """Samples of which none lies within the disc of another; on a grid that is not square, discs are ellipses.

    The search over `radius` that sigpy builds around this need not end, so that only its core is called.
    """
    from sigpy.mri.samp import _poisson

    height, width = radius.shape
    longest = max(height, width)
    along_x, along_y = (np.maximum(radius.numpy() * n / longest, 1) for n in (width, height))
    return torch.from_numpy(_poisson(width, height, ATTEMPTS, along_x, along_y, (0, 0), seed)) > 0
