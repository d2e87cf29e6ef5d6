"""What changes over a run, as plain functions of the step, which counts from 1 as in Algorithm 1."""

import math
from collections.abc import Mapping

ANNEALING_POWER: Mapping[str, int] = {"cubic": 3, "linear": 1}
"""Cubic is the schedule that the paper cites (Zhu and Gupta 2017); linear is the one its supplement prints."""
ANNEALINGS = (*ANNEALING_POWER, "none")
"""None: the target holds from the first step."""


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
    if annealing == "none":
        return target
    start, end = exploration * steps, (1 - exploitation) * steps
    if step >= end:
        return target
    remaining = min(1.0, (end - step) / (end - start)) if end > start else 1.0
    return target + (units - target) * remaining ** ANNEALING_POWER[annealing]


def linear(step: int, steps: int, first: float, last: float) -> float:
    """A number that changes by equal differences from the first step to the last.

    >>> [round(linear(step, 3, first=1, last=0), 6) for step in (1, 2, 3)]
    [1.0, 0.5, 0.0]
    """
    return first + (last - first) * _progress(step, steps)


def geometric(step: int, steps: int, first: float, last: float) -> float:
    """A number that changes by equal factors from the first step to the last.

    >>> [round(geometric(step, 3, first=0.05, last=0.0005), 6) for step in (1, 2, 3)]
    [0.05, 0.005, 0.0005]
    """
    return first * math.pow(last / first, _progress(step, steps))


def _progress(step: int, steps: int) -> float:
    return (step - 1) / max(steps - 1, 1)
