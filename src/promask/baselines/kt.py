"""Masks of series: lattices and golden steps that change from frame to frame, and masks that all frames share.

For contrasts there are masks that all share, and masks with the same number of units in each.
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from promask.baselines.fixed import energy
from promask.baselines.problem import BaselineProblem
from promask.baselines.tuned import best_of, variable_density
from promask.sampling import kt
from promask.sampling.pattern import Pattern
from promask.types import UnitMask


def kt_lattice(problem: BaselineProblem) -> UnitMask:
    """The best k-t lattice (Tsao et al. 2003): the spacing, the shift between frames and the ACS are tuned."""
    return best_of(problem, kt.lattices(problem.pattern, problem.budget, problem.centre))


def kt_golden(problem: BaselineProblem) -> UnitMask:
    """Lines at equal shares of a variable density, moved by a golden step; density, step and ACS are tuned."""
    return best_of(problem, kt.goldens(problem.pattern, problem.budget, problem.centre))


def static_variable_density(problem: BaselineProblem) -> UnitMask:
    """Variable density, tuned for the series, with the same units in every frame."""
    return in_every_frame(problem, variable_density)


def static_energy(problem: BaselineProblem) -> UnitMask:
    """The units of largest mean energy over all frames, the same in every frame."""
    return in_every_frame(problem, energy)


def equal_energy(problem: BaselineProblem) -> UnitMask:
    """The units of largest mean energy of each frame or contrast, the same number in each.

    Where that leaves some over, they are the next of largest energy.
    """
    limits = replace(problem.pattern.limits, equal_per=0, equal_group=1, largest_gap=(), cost=())
    equal = replace(problem.pattern, limits=limits)
    most = equal.units / len(problem.block())  # one in each, at the least
    return problem.best(
        energy(replace(problem, pattern=equal, acceleration=min(problem.acceleration, most))).double()
    )


def in_every_frame(problem: BaselineProblem, make: Callable[[BaselineProblem], UnitMask]) -> UnitMask:
    """A mask that is made for all frames together, in each of them.

    Where one total number is to be kept that frames cannot share equally, the first ones have a unit more: the
    innermost that is left.

    Args:
        problem: That of a pattern whose frames have units of their own.
        make: A baseline.

    Returns:
        (*units), centred: exactly the budget.
    """
    shared = shared_pattern(problem.pattern)
    alike = replace(problem, pattern=shared, acceleration=min(problem.acceleration, shared.units))
    units = make(alike)
    if shared.limits.couple:
        units = alike.best(units.double())
    order = shared.by_value(units.double())  # what is acquired, and then from the centre outwards
    ranks = torch.full((units.numel(),), torch.inf, dtype=torch.float64)
    ranks[order] = torch.arange(len(order), dtype=torch.float64)
    return problem.best(-ranks.reshape(units.shape).expand(problem.pattern.unit_shape))


def shared_pattern(pattern: Pattern) -> Pattern:
    """The pattern within a frame, for all frames.

    >>> lines = shared_pattern(Pattern((20, 6, 4), free=(0, 1), indexed="frame"))
    >>> lines.free, lines.expand(lines.centre(2)).shape
    ((1,), torch.Size([20, 6, 4]))

    Args:
        pattern: A pattern whose frames have units of their own.

    Returns:
        One of the same directions, with their limits, that does not vary.
    """
    positions = range(1, len(pattern.free))
    return replace(pattern, free=pattern.free[1:], limits=pattern.limits.keep(positions), period=0)
