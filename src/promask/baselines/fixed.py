"""Masks by a rule: the centre of k-space, the largest energy, equally spaced lines, and spokes on the grid."""

import math

import torch

from promask.baselines.problem import CENTRE_SHARE, BaselineProblem
from promask.data.file_set import prepare
from promask.operators.fourier import centred, space_axes, spectrum
from promask.sampling.limits import CONTRAST
from promask.types import UnitMask


def centre(problem: BaselineProblem) -> UnitMask:
    """The largest central block, of the shape of k-space, that the budget pays for."""
    return problem.best(problem.pattern.innermost(problem.budget).double())


def energy(problem: BaselineProblem) -> UnitMask:
    """The units of largest mean energy |k|^2.

    For zero-filling and the complex squared error, Parseval's theorem makes this the best mask there is. Contrasts
    count alike, whatever their scale is; where they have costs, what counts is the energy per cost.
    """
    data, pattern = prepare(problem.data), problem.pattern
    dimensions = len(pattern.shape) - data.geometry.indexes
    total = torch.zeros(pattern.shape, dtype=torch.float64, device=problem.device)
    for index in range(len(data)):
        image = data[index].image.to(problem.device)
        if pattern.indexed == CONTRAST:
            image = image / torch.linalg.vector_norm(image, dim=0).flatten(1).amax(1).reshape(
                -1, *[1] * dimensions
            )
        total += spectrum(image, space_axes(dimensions)).abs().square().sum(0)
    return problem.best(pattern.total(centred(total.cpu(), dimensions)) / pattern.costs)


def equispaced(problem: BaselineProblem) -> UnitMask:
    """4 % of the lines in the centre, the rest of the budget evenly over the other lines, at a random offset.

    The centre counts in the budget; a budget below 4 % is all centre.
    """
    kept = problem.block(default=min(problem.budget, round(CENTRE_SHARE * problem.pattern.units)))
    return spread_lines(problem, kept, torch.rand((), generator=problem.generator(), dtype=torch.float64))


def spread_lines(problem: BaselineProblem, kept: UnitMask, offset: float | torch.Tensor) -> UnitMask:
    """Lines that are kept, and the rest of the budget evenly over the others, from an offset in spacings."""
    mask = kept.clone()
    others = (problem.allowed & ~mask).nonzero().flatten()
    remaining = problem.budget - int(mask.sum())
    if remaining:
        spacing = len(others) / remaining
        positions = offset * spacing + spacing * torch.arange(remaining, dtype=torch.float64)
        mask[others[positions.long().clamp_max(len(others) - 1)]] = True
    return mask


def equispaced_paper(problem: BaselineProblem) -> UnitMask:
    """Every `acceleration`-th line from a random offset, and 4 % of the lines in the centre on top of the budget.

    As published: 256 lines at x8, x16 and x32 are acquired about x6.2, x10 and x14.
    """
    pattern = problem.pattern
    mask = pattern.centre(round(CENTRE_SHARE * pattern.units) if problem.centre is None else problem.centre)
    lines = (~pattern.never()).nonzero().flatten()
    start = torch.rand((), generator=problem.generator(), dtype=torch.float64)
    positions = ((start + torch.arange(problem.budget + 1)) * problem.acceleration).long()
    mask[lines[positions[positions < len(lines)]]] = True
    return mask


def radial(problem: BaselineProblem) -> UnitMask:
    """Spokes at equal angles, rotated by a random one, cut off where the budget ends.

    As few as reach the budget: one spoke fewer would not. Angles are those of an ellipse that fits k-space.
    """
    turn = math.pi * float(torch.rand((), generator=problem.generator(), dtype=torch.float64))
    kept, allowed = problem.block(), problem.allowed

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
