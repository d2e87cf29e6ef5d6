"""What changes over a run, as plain functions of the step, which counts from 1 as in Algorithm 1."""

import math

ANNEALING_POWER = {"cubic": 3, "linear": 1}
"""Cubic is the schedule that the paper cites (Zhu and Gupta 2017); linear is the one its supplement prints."""


def budget(
    step: int,
    steps: int,
    units: int,
    target: int,
    exploration: float = 0.1,
    exploitation: float = 0.1,
    annealing: str = "cubic",
) -> float:
    """How much the probabilities may sum to after a step: all units, then fewer and fewer, then the target.

    >>> [round(budget(step, steps=10, units=100, target=10)) for step in range(1, 11)]
    [100, 70, 48, 32, 21, 15, 11, 10, 10, 10]
    """
    start, end = exploration * steps, (1 - exploitation) * steps
    if step >= end:
        return target
    remaining = min(1.0, (end - step) / (end - start)) if end > start else 1.0
    return target + (units - target) * remaining ** ANNEALING_POWER[annealing]


def temperature(step: int, steps: int, first: float = 1.0, last: float = 0.03) -> float:
    """The softness tau of the relaxed masks, falling linearly from the first step to the last."""
    return first + (last - first) * _progress(step, steps)


def step_size(step: int, steps: int, first: float, last: float) -> float:
    """A step size that falls geometrically from the first step to the last.

    >>> [round(step_size(step, 3, first=0.05, last=0.0005), 6) for step in (1, 2, 3)]
    [0.05, 0.005, 0.0005]
    """
    return first * math.pow(last / first, _progress(step, steps))


def _progress(step: int, steps: int) -> float:
    return (step - 1) / max(steps - 1, 1)
