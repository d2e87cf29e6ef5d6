"""Spokes through the centre of k-space, on its grid."""

import math

import torch

from promask.baselines.problem import Problem
from promask.types import UnitMask


def radial(problem: Problem) -> UnitMask:
    """Spokes at equal angles, rotated by a random one, cut off where the budget ends.

    As few as reach the budget: one spoke fewer would not. Angles are those of an ellipse that fits k-space.
    """
    turn = math.pi * float(torch.rand((), generator=problem.generator(), dtype=torch.float64))
    kept, allowed = problem.block(), ~problem.pattern.padding()

    def reached(count: int) -> UnitMask:
        return (spokes(problem.pattern.unit_shape, count, turn) | kept) & allowed

    enough = 1
    while reached(enough).sum() < problem.budget:
        enough *= 2
    few = enough // 2
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if reached(middle).sum() >= problem.budget else (middle, enough)
    return problem.best((-problem.pattern.distance()).masked_fill(~reached(enough), -torch.inf))


def spokes(shape: tuple[int, ...], count: int, turn: float) -> UnitMask:
    """Full diameters, without gaps: the nearest location at each step along the axis on which it is longer."""
    halves = torch.tensor([max(n // 2, 1) for n in shape], dtype=torch.float64)
    angles = turn + math.pi * torch.arange(count, dtype=torch.float64) / count
    directions = halves * torch.stack([angles.cos(), angles.sin()], -1)
    directions = directions / directions.abs().amax(-1, keepdim=True)
    reach = max(shape) // 2
    steps = torch.arange(-reach, reach + 1, dtype=torch.float64)
    locations = (directions[:, None] * steps[:, None]).round().long() + torch.tensor([n // 2 for n in shape])
    inside = ((locations >= 0) & (locations < torch.tensor(shape))).all(-1)
    mask = torch.zeros(shape, dtype=torch.bool)
    mask[tuple(locations[inside].T)] = True
    return mask
