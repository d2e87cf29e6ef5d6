"""The exact projection onto {0 <= theta <= 1, sum(theta) <= budget}: Eqs. 6 and 7 of the paper."""

import math

import torch

from promask.types import UnitMask, Units

PRECISION = 2.0**-50
"""Of the multiplier, measured from a pivot within 1 of it."""


def project(theta: Units, budget: float) -> Units:
    """The feasible point nearest to `theta`: clip(theta - max(0, lambda), 0, 1).

    Exact to the precision of the numbers, whatever their size, in a few passes over them. The result is rounded
    towards zero, so that its sum does not exceed the budget.

    >>> project(torch.tensor([0.9, 0.6, 0.1]), budget=1.0)
    tensor([0.6500, 0.3500, 0.0000])
    """
    exact = theta.detach().to(torch.float64)
    if not math.isfinite(exact.abs().max()):
        raise ValueError("The values to project must be finite.")
    clipped = exact.clamp(0, 1)
    if clipped.sum() <= budget:
        return clipped.to(theta.dtype)
    if budget <= 0:
        return torch.zeros_like(theta)

    # Only differences matter once the budget binds. The ceil(S)-th largest value is within 1 of lambda, so
    # measured from it the numbers that decide are small, however large theta is.
    pivot = nth_largest(exact, math.ceil(budget))
    exact = exact - pivot
    undecided = exact[(exact > -1) & (exact < 1)]
    remaining = budget - int((exact >= 1).sum())
    shifted = (exact - _threshold(undecided, remaining)).clamp(0, 1)

    return rounded_down(shifted, theta.dtype)


def rounded_down(exact: Units, dtype: torch.dtype) -> Units:
    """The nearest numbers of this type that are not larger; for numbers from 0 on."""
    result = exact.to(dtype)
    return torch.where(result > exact, torch.nextafter(result, torch.zeros_like(result)), result)


def nth_largest(values: Units, n: int) -> torch.Tensor:
    """The n-th largest value, counted from 1.

    >>> nth_largest(torch.tensor([3.0, 1.0, 2.0]), 2)
    tensor(2.)
    """
    return values.flatten().kthvalue(values.numel() - n + 1).values


def _threshold(values: torch.Tensor, budget: float) -> float:
    """The root of f(t) = sum(clip(values - t, 0, 1)) - budget in [-1, 0], where f falls from >= 0 to <= 0.

    f is piecewise linear. Newton's step on the current piece, kept inside the bracket, ends on the piece that
    holds the root, and there it is exact.
    """
    low, high = -1.0, 0.0
    t = (low + high) / 2
    while True:
        shifted = (values - t).clamp_(0, 1)
        excess = float(shifted.sum()) - budget
        sloped = int(((shifted > 0) & (shifted < 1)).sum())
        low, high = (t, high) if excess > 0 else (low, t)
        newton = t + excess / sloped if sloped else math.nan
        if excess == 0:
            return t
        if abs(newton - t) <= PRECISION:
            return min(max(newton, low), high)
        following = newton if low < newton < high else (low + high) / 2
        if following in (low, high):
            return high
        t = following


def constrain(theta: Units, budget: float, always: UnitMask, never: UnitMask) -> Units:
    """The nearest probabilities within the budget; units that are always acquired take their share of it."""
    decided = always | never
    if not decided.any():
        return project(theta, budget)
    result = always.to(theta.dtype)
    result[~decided] = project(theta[~decided], budget - int(always.sum()))
    return result
