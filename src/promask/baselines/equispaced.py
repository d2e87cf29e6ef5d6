"""Equally spaced lines with a fully sampled centre, as in parallel imaging."""

import torch

from promask.baselines.problem import Problem
from promask.types import UnitMask

CENTRE_SHARE = 0.04


def equispaced(problem: Problem) -> UnitMask:
    """4 % of the lines in the centre, the rest of the budget evenly over the other lines, at a random offset.

    The centre counts in the budget; a budget below 4 % is all centre.
    """
    pattern, budget = problem.pattern, problem.budget
    mask = problem.block(usual=min(budget, round(CENTRE_SHARE * pattern.units)))
    others = (~mask & ~pattern.padding()).nonzero().flatten()
    remaining = budget - int(mask.sum())
    if remaining:
        spacing = len(others) / remaining
        offset = torch.rand((), generator=problem.generator(), dtype=torch.float64) * spacing
        positions = offset + spacing * torch.arange(remaining, dtype=torch.float64)
        mask[others[positions.long().clamp_max(len(others) - 1)]] = True
    return mask


def equispaced_paper(problem: Problem) -> UnitMask:
    """Every `acceleration`-th line from a random offset, and 4 % of the lines in the centre on top of the budget.

    As published: 256 lines at x8, x16 and x32 are acquired about x6.2, x10 and x14.
    """
    pattern = problem.pattern
    mask = pattern.centre(round(CENTRE_SHARE * pattern.units) if problem.centre is None else problem.centre)
    lines = (~pattern.padding()).nonzero().flatten()
    start = torch.rand((), generator=problem.generator(), dtype=torch.float64)
    positions = ((start + torch.arange(problem.budget + 1)) * problem.acceleration).long()
    mask[lines[positions[positions < len(lines)]]] = True
    return mask
