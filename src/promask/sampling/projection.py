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


def constrain(
    theta: Units, budget: float, always: UnitMask, never: UnitMask, costs: torch.Tensor | None = None
) -> Units:
    """The nearest probabilities within the budget; units that are always acquired take their share of it."""
    decided = always | never
    if not decided.any():
        return project(theta, budget) if costs is None else project_costs(theta, budget, costs)
    result, free = always.to(theta.dtype), ~decided
    if costs is None:
        result[free] = project(theta[free], budget - int(always.sum()))
    else:
        result[free] = project_costs(theta[free], budget - int(costs[always].sum()), costs[free])
    return result


def project_costs(theta: Units, budget: float, costs: torch.Tensor) -> Units:
    """The point nearest to `theta` with 0 <= theta <= 1 and sum(costs * theta) <= budget.

    It is clip(theta - lambda * costs, 0, 1). The sum falls with lambda, linearly between the places at which a
    unit leaves 1 or reaches 0; of the piece that holds the budget, lambda is known in closed form.

    >>> project_costs(torch.tensor([0.9, 0.6]), 1.0, torch.tensor([1, 2]))
    tensor([0.6800, 0.1600])
    """
    exact, costs = theta.detach().to(torch.float64), costs.to(torch.float64)
    clipped = exact.clamp(0, 1)
    if (costs * clipped).sum() <= budget:
        return clipped.to(theta.dtype)
    if budget <= 0:
        return torch.zeros_like(theta)
    low, high = torch.zeros((), dtype=torch.float64), (exact / costs).max()
    places = torch.cat([exact / costs, (exact - 1) / costs]).flatten()
    places = places[(places > low) & (places < high)].sort().values
    first, last = 0, len(places)
    while first < last:  # the first place at which the sum is within the budget
        middle = (first + last) // 2
        within = (costs * (exact - places[middle] * costs).clamp(0, 1)).sum() <= budget
        first, last = (first, middle) if within else (middle + 1, last)
    low, high = places[first - 1] if first else low, places[first] if first < len(places) else high
    inside = exact - (low + high) / 2 * costs
    whole, sloped = inside >= 1, (inside > 0) & (inside < 1)
    excess = costs[whole].sum() + (costs * exact)[sloped].sum() - budget
    multiplier = excess / costs[sloped].square().sum() if sloped.any() else high
    return rounded_down((exact - multiplier.clamp(low, high) * costs).clamp(0, 1), theta.dtype)
