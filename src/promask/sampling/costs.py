"""Units that cost more than others: one scan time is shared over contrasts whose lines take different times.

Times become whole numbers in the same proportions, and a budget is a number of these.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Integer, Shaped
from torch import Tensor

FINEST = 1000
"""The largest denominator of a cost."""
WINDOW = 96
"""How many units of one cost are exchanged at most, after the best ratios were taken. For whole costs up to 31 no
better choice needs more (Eisenbrand and Weismantel 2018)."""


def whole_costs(cost: Sequence[float]) -> tuple[int, ...]:
    """The smallest whole numbers in the proportions of costs.

    >>> whole_costs((1, 2.5)), whole_costs((4.0, 4.0))
    ((2, 5), (1, 1))

    Args:
        cost: Positive numbers.

    Returns:
        As many whole numbers.
    """
    parts = [Fraction(str(each)).limit_denominator(FINEST) for each in cost]
    scale = math.lcm(*(each.denominator for each in parts))
    numbers = [int(each * scale) for each in parts]
    common = math.gcd(*numbers)
    return tuple(number // common for number in numbers)


def affordable(values: Shaped[Tensor, "*units"], costs: Integer[Tensor, "*units"], budget: int) -> int:
    """How many units of the largest values a budget pays for.

    >>> affordable(torch.tensor([0.5, 3.0, 2.0]), torch.tensor([1, 2, 5]), budget=7)
    2

    Args:
        values: Of each unit.
        costs: Of each unit, positive.
        budget: What they may cost together.

    Returns:
        Their number.
    """
    order = values.flatten().argsort(descending=True, stable=True)
    return int((costs.flatten()[order].cumsum(0) <= budget).sum())


def spend(
    values: Float[Tensor, " units"], costs: Integer[Tensor, " units"], budget: int
) -> Integer[Tensor, " chosen"]:
    """Choose units that spend as much of a budget as possible, and of such choices that of the largest sum.

    The units of the best ratios of value and cost come first, and a few units around the margin are exchanged so
    that the budget is used up: exactly the best choice for whole costs up to 31.

    >>> spend(torch.tensor([9.0, 8.0, 5.0, 4.0]), torch.tensor([3, 2, 1, 2]), budget=4).tolist()
    [0, 2]

    Args:
        values: Of each unit, in the order in which ties are chosen.
        costs: Of each unit, positive.
        budget: What they may cost together.

    Returns:
        The places of the chosen units, increasing.
    """
    worth = values.double()
    classes = [(costs == cost).nonzero().flatten() for cost in costs.unique()]
    classes = [own[worth[own].argsort(descending=True, stable=True)] for own in classes]
    by_ratio = (worth / costs).argsort(descending=True, stable=True)
    affordable = by_ratio[costs[by_ratio].cumsum(0) <= budget]
    taken = torch.zeros(len(worth), dtype=torch.bool)
    taken[affordable] = True
    counts = [int(taken[own].sum()) for own in classes]
    whole = [int(costs[own[0]]) for own in classes]
    sums = [torch.cat([worth.new_zeros(1), worth[own].cumsum(0)]).numpy() for own in classes]
    left = budget - int(costs[affordable].sum())
    moves = _exchange(counts, whole, sums, left)
    kept = [own[: count + move] for own, count, move in zip(classes, counts, moves, strict=True)]
    return torch.cat(kept).sort().values if kept else torch.zeros(0, dtype=torch.int64)


def _exchange(
    counts: Sequence[int], costs: Sequence[int], sums: Sequence[npt.NDArray[Any]], left: int
) -> list[int]:
    """How many units of each cost come (or leave), so that as much as possible of what is left is spent."""
    if left == 0 or not counts:
        return [0] * len(counts)
    window = min(3 * max(costs) + 3, WINDOW)
    reach = window * max(costs)
    best = np.full(2 * reach + 1, -np.inf)
    best[reach] = 0
    choices: list[npt.NDArray[np.int64]] = []
    for count, cost, of_class in zip(counts, costs, sums, strict=True):
        found, chosen = np.full_like(best, -np.inf), np.zeros(len(best), dtype=np.int64)
        for move in range(-min(window, count), min(window, len(of_class) - 1 - count) + 1):
            gain, shift = of_class[count + move] - of_class[count], cost * move
            source = best[max(0, -shift) : len(best) - max(0, shift)] + gain
            target = slice(max(0, shift), len(best) - max(0, -shift))
            better = source > found[target]
            found[target][better] = source[better]
            chosen[target][better] = move
        best = found
        choices.append(chosen)
    place = reach + max(spent for spent in range(-reach, min(left, reach) + 1) if np.isfinite(best[reach + spent]))
    moves = []
    for cost, chosen in zip(reversed(costs), reversed(choices), strict=True):
        moves.append(int(chosen[place]))
        place -= cost * moves[-1]
    return moves[::-1]
