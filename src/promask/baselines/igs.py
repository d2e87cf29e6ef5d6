"""Iterative gradient sampling: greedy growth from the centre (Razumov et al. 2022).

Starting from the centre, add the units whose gradient promises most, over the learning images, until the budget is
used up. Lines are added one by one; single locations are so many that each sweep over the images adds several.
"""

import torch

from promask.baselines.problem import Problem
from promask.baselines.whole_gradient import examples, whole_gradient
from promask.types import UnitMask

IMAGES = 256
"""The most images in a sweep."""
SWEEPS = 64
"""How often the gradient is computed anew, if the units are not lines."""


def igs(problem: Problem) -> UnitMask:
    """Exactly the budget."""
    return _grown(problem, problem.budget)


def igs_paper(problem: Problem) -> UnitMask:
    """As published: the line to start from comes on top of the budget."""
    return _grown(problem, min(problem.budget + 1, problem.pattern.units))


def _grown(problem: Problem, count: int) -> UnitMask:
    pattern, task = problem.pattern, problem.task
    samples = examples(problem.data, IMAGES, task, problem.recon)
    chosen = problem.block() | pattern.centre(1)
    sweeps = count if len(pattern.free) == 1 else SWEEPS
    for size in sizes(int(chosen.sum()), count, sweeps):
        (gradient,) = whole_gradient(chosen, samples, pattern, task).gradients
        chosen = pattern.largest((-gradient).masked_fill(chosen, torch.inf), size)
    return chosen


def sizes(first: int, last: int, sweeps: int) -> list[int]:
    """How many units there are after each sweep: one more each time, or, if that takes too long, along a root.

    The last units of the budget are worth the least and depend the most on the others: towards the end, few are
    added at a time.

    >>> sizes(1, 4, sweeps=5)
    [2, 3, 4]
    >>> sizes(1, 101, sweeps=5)
    [46, 64, 78, 90, 101]
    """
    wanted = last - first
    if wanted <= sweeps:
        return list(range(first + 1, last + 1))
    return sorted({first + round(wanted * (sweep / sweeps) ** 0.5) for sweep in range(1, sweeps + 1)})
