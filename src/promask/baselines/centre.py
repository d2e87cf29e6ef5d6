"""Low frequencies alone: the block around the centre of k-space."""

from promask.baselines.problem import Problem
from promask.types import UnitMask


def centre(problem: Problem) -> UnitMask:
    """The largest central block, of the shape of k-space, that the budget pays for."""
    return problem.best(problem.pattern.innermost(problem.budget).double())
