"""Masks and probabilities that keep the limits of a pattern which couple its units: gaps, and equal numbers.

Units are centred, (*units). The units of equal numbers, those of one kz, are a group; without this limit all units
are one group. What no mask could keep is refused.
"""

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from promask.errors import InputError
from promask.sampling.costs import spend
from promask.sampling.gaps import GapRows
from promask.sampling.limits import NO_LIMITS
from promask.sampling.projection import constrain
from promask.types import UnitMask, Units

if TYPE_CHECKING:
    from promask.sampling.pattern import Pattern

TIE = 1e-9
"""Values that differ by less than this share of their range may be taken for equal where gaps are limited."""
FILLED = 1 - 1e-9
"""What a window must sum to at least."""


def group_of(pattern: "Pattern") -> torch.Tensor:
    """The number of the group of each unit, (*units); -1 for groups without a unit that may be acquired."""
    result = torch.zeros(pattern.unit_shape, dtype=torch.int64)
    position = pattern.limits.equal_per
    if position is not None:
        possible = (~pattern.never()).movedim(position, 0).flatten(1).any(1)
        numbers = torch.where(possible, possible.cumsum(0) - 1, -1).div(
            pattern.limits.equal_group, rounding_mode="floor"
        )
        result.movedim(position, 0)[:] = numbers.reshape(-1, *[1] * (result.ndim - 1))
    return result


@functools.lru_cache(maxsize=2)  # asked for every candidate of a search
def _groups_in_order(pattern: "Pattern") -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers of the units of each group, (group, units), nearest to the centre first, and which of them never
    are acquired: the last ones."""
    never, group = pattern.never().flatten(), group_of(pattern).flatten()
    order = pattern.distance().flatten().masked_fill(never, torch.inf).argsort(stable=True)
    order = order[group[order] >= 0]
    order = order[group[order].argsort(stable=True)].reshape(int(group.max()) + 1, -1)
    return order, never[order]


def rows_of(pattern: "Pattern", always: UnitMask) -> GapRows:
    """The rows along the direction of the largest gap; those in no group hold nothing."""
    ((position, gap),) = pattern.limits.largest_gap
    group = _rows(group_of(pattern), position)[:, 0].clip(0)
    return GapRows(gap, _rows(~pattern.never(), position), _rows(always, position), group)


def _rows(units: torch.Tensor, position: int) -> npt.NDArray[Any]:
    along = units.movedim(position, -1)
    return np.ascontiguousarray(along.reshape(-1, along.shape[-1]).numpy())


def _from_rows(rows: npt.NDArray[Any], pattern: "Pattern") -> torch.Tensor:
    ((position, _),) = pattern.limits.largest_gap
    shape = list(pattern.unit_shape)
    shape.append(shape.pop(position))
    return torch.from_numpy(rows).reshape(shape).movedim(-1, position).contiguous()


def largest(pattern: "Pattern", values: Units, count: int) -> UnitMask:
    """The feasible mask of exactly `count` units with the largest sum of values: see `Pattern.largest`."""
    values = values.detach().cpu().double()
    always = values.isposinf() & ~pattern.never()
    check_numbers(pattern, always, count)
    if pattern.limits.cost:
        return _spend(pattern, values, always, count)
    if not pattern.limits.largest_gap:
        chosen = torch.zeros(values.numel(), dtype=torch.bool)
        nearest_first, last = _groups_in_order(pattern)
        values = values.flatten()[nearest_first].masked_fill(last, -torch.inf)
        order = values.argsort(dim=1, descending=True, stable=True)
        chosen[nearest_first.gather(1, order[:, : count // len(order)])] = True
        return chosen.reshape(pattern.unit_shape)
    order = pattern.by_value(values)
    share = count // (int(group_of(pattern).max()) + 1)
    finite = values[values.isfinite()]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    span = high - low or 1.0
    nearer = torch.zeros(values.numel(), dtype=torch.float64)
    nearer[pattern.by_value(torch.zeros_like(values))] = torch.linspace(
        TIE * span, 0, len(order), dtype=torch.float64
    )
    worth = values.nan_to_num(posinf=high, neginf=low - span * count) + nearer.reshape(values.shape)
    rows = rows_of(pattern, always)
    counts = np.full(int(rows.group.max()) + 1, share)
    return _from_rows(rows.largest(_rows(worth, pattern.limits.largest_gap[0][0]), counts), pattern)


def _spend(pattern: "Pattern", values: Units, always: UnitMask, budget: int) -> UnitMask:
    """Spend a budget on units of different costs: those that must be chosen, then those of the largest values.

    Values are an order of preference: of several choices that spend as much, the one of the largest sum of values
    times costs is taken.
    """
    order = pattern.by_value(values)
    order = order[~always.flatten()[order]]
    finite = values[values.isfinite()]
    low = float(finite.min()) - float(finite.max() - finite.min()) * len(order) if len(finite) else 0.0
    costs = pattern.costs.flatten()[order]
    worth = values.nan_to_num(neginf=low).flatten()[order] * costs
    chosen = always.flatten().clone()
    chosen[order[spend(worth, costs, budget - pattern.spent(always))]] = True
    return chosen.reshape(pattern.unit_shape)


def project(pattern: "Pattern", theta: Units, budget: float, always: UnitMask) -> Units:
    """The nearest feasible probabilities: see `Pattern.project`."""
    never = pattern.never()
    theta, always = theta.detach().cpu(), always.cpu()
    group = group_of(pattern)
    budgets = budget / (int(group.max()) + 1)
    if pattern.limits.cost:
        return constrain(theta, budget, always, never, pattern.costs)
    if pattern.limits.equal_per is None:
        result = constrain(theta, budget, always, never)
    else:
        result = torch.zeros_like(theta)
        for number in range(int(group.max()) + 1):
            own = group == number
            result[own] = constrain(theta[own], budgets, always[own], never[own])
    if not pattern.limits.largest_gap:
        return result
    rows, position = rows_of(pattern, always), pattern.limits.largest_gap[0][0]
    windows = rows.windows
    if windows.any():
        sums = np.lib.stride_tricks.sliding_window_view(_rows(result.double(), position), rows.gap, 1).sum(-1)
        if (sums[windows[:, : sums.shape[1]]] < FILLED).any():
            few = rows.totals(rows.fewest())
            exact = rows.nearest(_rows(theta.double(), position), np.maximum(budgets, few.astype(np.float64)))
            return _from_rows(exact, pattern).to(theta.dtype)
    return result


def nearest(pattern: "Pattern", units: UnitMask, always: UnitMask, worth: Units, budget: int) -> UnitMask:
    """The feasible mask with as many of the given units as possible, and otherwise those of most worth."""
    ranks = worth.detach().cpu().flatten().argsort().argsort().reshape(units.shape)
    values = units.cpu().double() + 1e-3 * ranks.double() / ranks.numel()
    return pattern.largest(values.masked_fill(always.cpu(), torch.inf), budget)


def equal_budget(pattern: "Pattern", budget: int, acceleration: float) -> int:
    """The largest number of units within a budget that leaves as many for each group: see `Pattern.budget`."""
    if pattern.limits.equal_per is None:
        return budget
    groups = int(group_of(pattern).max()) + 1
    if budget < groups:
        each = pattern.name_of(pattern.limits.equal_per)
        raise InputError(
            f"`equal_per` {each} needs at least {groups} samples, one for each, but x{acceleration:g} leaves "
            f"{budget}: choose a lower acceleration."
        )
    return budget - budget % groups


def check_block(pattern: "Pattern", block: UnitMask, whole: UnitMask, width: int, budget: int) -> None:
    """Refuse a calibration region that no mask can have; `whole` is that with what the limits leave out."""
    limits, size = pattern.limits, pattern.spent(block)
    if size > budget and limits.cost:
        raise InputError(
            f"A `centre` of width {width} in each {pattern.indexed} takes more scan time than x"
            f"{pattern.units / budget:.4g} leaves: choose a narrower centre or a lower acceleration."
        )
    if size > budget and pattern.varies:
        raise InputError(
            f"A `centre` of width {width} has {size // len(block)} samples or lines in each {pattern.indexed}, "
            f"but only {budget // len(block)} are acquired: choose a narrower centre or a lower acceleration."
        )
    if size > budget:
        raise InputError(
            f"A `centre` of width {width} has {size} samples or lines, but only {budget} are acquired: "
            f"choose a narrower centre or a lower acceleration."
        )
    if limits.partial_fourier and not limits.shutter and (whole & ~block).any():
        raise InputError(
            f"A `centre` of width {width} reaches into what `partial_fourier` leaves out: choose a narrower "
            f"centre or a larger share."
        )
    if limits != NO_LIMITS:
        check_numbers(pattern, block, budget)


def check_numbers(pattern: "Pattern", always: UnitMask, count: int) -> None:
    """Refuse a number of units that cannot be acquired together with the limits, and what is always acquired."""
    limits, possible = pattern.limits, ~pattern.never()
    total = pattern.spent(possible)
    if count > total:
        names = [name for name in ("shutter", "partial_fourier") if getattr(limits, name)]
        within = " and ".join(f"`{name}`" for name in names) or "the covered part"
        raise InputError(
            f"{count} samples or lines are to be acquired, but {within} leaves {total} of them: choose a higher "
            f"acceleration, or leave it out."
        )
    group = group_of(pattern)
    groups = int(group.max()) + 1
    share = count // groups
    if limits.equal_per is not None:
        each = pattern.name_of(limits.equal_per)
        if share * groups != count:
            raise InputError(
                f"`equal_per` {each} needs a multiple of {groups} samples, but {count} are to be acquired."
            )
        places, kept = (torch.bincount(group[units], minlength=groups) for units in (possible, always))
        if int(places.min()) < share:
            with_shutter = "`shutter`" if limits.shutter else "`partial_fourier`"
            raise InputError(
                f"{with_shutter} and `equal_per` {each} cannot hold together: one {each} has {int(places.min())} "
                f"places, but {share} samples are to be acquired for each; leave out one of them."
            )
        if int(kept.max()) > share:
            raise InputError(
                f"A `centre` with {int(kept.max())} samples for one {each} does not fit `equal_per` {each}, which "
                f"leaves {share} for each: choose a narrower centre or a lower acceleration."
            )
    if limits.largest_gap:
        ((position, gap),) = limits.largest_gap
        rows = rows_of(pattern, always)
        needed = rows.totals(rows.fewest())
        if int(needed.max()) > share:
            of = "" if limits.equal_per is None else f" for each {pattern.name_of(limits.equal_per)}"
            raise InputError(
                f"`largest_gap` {pattern.name_of(position)}={gap} needs at least {int(needed.max())} samples or "
                f"lines{of}, but only {share} are acquired: choose a larger gap, a narrower centre or a lower "
                f"acceleration."
            )


def without_coupling(pattern: "Pattern") -> "Pattern":
    """The same pattern without the limits that couple its units."""
    return replace(pattern, limits=replace(pattern.limits, largest_gap=(), equal_per=None, equal_group=1))
