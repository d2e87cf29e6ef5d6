"""Variable density without clusters: Poisson discs that grow with the distance from the centre, from sigpy."""

import math

import numpy as np
import torch

from promask.baselines.problem import Problem
from promask.types import UnitMask, Units

CENTRE_SHARE = 0.04
"""The width of the central block, as a share of the shorter axis."""
ATTEMPTS = 30
"""After how many rejected neighbours a sample is given up, as usual in sigpy."""
HALVINGS = 14
"""How closely the growth of the discs is fitted to the budget."""
EXCESS = 1.05
"""A fit that is close enough."""


def poisson(problem: Problem) -> UnitMask:
    """Samples that keep about 1 + s |k| from each other, and a fully sampled centre, without corners.

    The largest s that reaches the budget is searched for, and the excess is removed at random. Below about x1.6
    there is no such s, as the discs do not fill the grid: the rest is then drawn at random from what is left.
    The centre counts in the budget.
    """
    pattern, budget, generator = problem.pattern, problem.budget, problem.generator()
    width = max(1, round(CENTRE_SHARE * min(pattern.unit_shape)))
    kept = problem.block(usual=min(width, math.isqrt(budget)))
    distance, allowed = pattern.distance().sqrt(), ~pattern.padding()
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
