"""A largest gap between samples along a direction: the best mask, and the nearest probabilities.

Rows run along the direction, (row, place). The places of a row that may be acquired lie side by side. Every `gap`
neighbours of them, a window, hold a sample, or probabilities that sum to at least 1.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

FAR = 100.0
"""Values further than this from the margin are taken to be as far: they are certain anyway."""
PATIENCE, CLOSE, TO_BOUNDARY = 3, 1e-9, 0.995
"""The interior-point method: steps without progress, its error at the end, how far a step may go to a bound."""
PENALTIES, MOST_STEPS = (1e-3, 1e-4, 1e-5, 1e-6, *([1e-7] * 12)), 5
"""Rounds of Newton's method, with less and less of a penalty for the distance from the last, and their steps."""
PRECISION, ROUGH, SHORTEST = 1e-8, 1e-4, 1e-9
"""To which sums are kept, what is better than the interior point, and the least share of a step that is tried."""


@dataclass(frozen=True)
class GapRows:
    """Rows in which neighbouring samples are at most `gap` places apart, in groups of rows.

    Args:
        gap: The length of the windows.
        allowed: Which places may be acquired, (row, place).
        always: Which of them are acquired in any case, (row, place).
        group: The number of the group of each row, (row,).
    """

    gap: int
    allowed: Flags
    always: Flags
    group: Counts

    @property
    def windows(self) -> Flags:
        """Whether there is a window at each place, its first, that has no sample yet, (row, place)."""
        found = np.zeros_like(self.allowed)
        if self.gap <= self.allowed.shape[1]:
            inside, acquired = (
                np.lib.stride_tricks.sliding_window_view(each, self.gap, 1) for each in (self.allowed, self.always)
            )
            found[:, : inside.shape[1]] = inside.all(-1) & ~acquired.any(-1)
        return found

    def totals(self, of_rows: npt.NDArray[np.generic]) -> Counts:
        """Sums over the rows of each group, (group,), of whole numbers."""
        return np.bincount(self.group, of_rows.astype(np.float64)).astype(np.int64)

    def fewest(self) -> Counts:
        """How many samples each row has at least, (row,)."""
        windows, needed = self.windows, self.always.sum(1)
        reached = np.zeros(len(needed), np.int64)
        for place in range(windows.shape[1]):  # a sample at the end of a window reaches furthest
            empty = windows[:, place] & (place >= reached)
            needed, reached = needed + empty, np.where(empty, place + self.gap, reached)
        return np.asarray(needed, np.int64)

    def largest(self, values: Numbers, counts: Counts) -> Flags:
        """The mask of largest sum, by dynamic programming over rows, and then over groups.

        The largest sum of a row is a concave function of its number of samples, as windows are intervals (their
        matrix is totally unimodular): so the numbers of a group are increased one by one, where most is gained.

        Args:
            values: One for each place, (row, place), finite.
            counts: How many samples each group has, (group,): possible ones.

        Returns:
            (row, place): what is acquired.
        """
        rows, length = values.shape
        fewest = self.fewest()
        spare = counts - self.totals(fewest)
        most = np.minimum(self.allowed.sum(1), fewest + spare[self.group])
        place = np.arange(length)
        begin, end = self.allowed.argmax(1)[:, None], length - self.allowed[:, ::-1].argmax(1)[:, None]
        last = np.maximum.accumulate(np.where(self.always, place, -length - self.gap), 1)
        before = np.concatenate([np.full((rows, 1), -length - self.gap), last[:, :-1]], 1)
        reach = np.minimum(self.gap, place - before)  # a sample that is always acquired is not passed by
        worth = np.where(self.allowed, values, -np.inf)
        can_begin = (place < begin + self.gap) & (before < 0)
        can_end = (place >= end - self.gap) & (place >= last[:, -1:])

        best = np.where(can_begin, worth, -np.inf)
        steps = np.zeros((int(most.max(initial=0)) + 1, rows, length), np.min_scalar_type(self.gap))
        totals, ends = np.full((len(steps), rows), -np.inf), np.zeros((len(steps), rows), np.int64)
        totals[0] = np.where(fewest == 0, 0, -np.inf)
        for count in range(1, len(steps)):
            if count > 1:
                behind = np.full_like(best, -np.inf)
                for step in range(1, min(self.gap, length - 1) + 1):
                    moved = np.where(reach[:, step:] >= step, best[:, :-step], -np.inf)
                    better = moved > behind[:, step:]
                    behind[:, step:][better] = moved[better]
                    steps[count, :, step:][better] = step
                best = worth + behind
            possible = np.where(can_end, best, -np.inf)
            ends[count] = possible.argmax(1)
            totals[count] = possible.max(1, initial=-np.inf)

        chosen = np.zeros_like(self.allowed)
        taken = fewest + self._increments(totals, fewest, most, spare)
        at = ends[taken, np.arange(rows)]
        for count in range(len(steps) - 1, 0, -1):
            there = np.flatnonzero(taken >= count)
            chosen[there, at[there]] = True
            at[there] -= steps[count, there, at[there]]
        return chosen

    def _increments(self, totals: Numbers, fewest: Counts, most: Counts, spare: Counts) -> Counts:
        """How many samples each row has above its fewest, (row,): the largest gains of each group."""
        numbers = np.arange(len(totals) - 1)[:, None]
        possible = (numbers >= fewest) & (numbers < most)
        with np.errstate(invalid="ignore"):
            gains = np.where(possible, np.diff(totals, axis=0), np.inf)
        gains = np.minimum.accumulate(gains, 0)[possible]  # concave but for rounding
        row = np.broadcast_to(np.arange(len(fewest)), possible.shape)[possible]
        order = np.lexsort((-gains, self.group[row]))  # stable: a row takes its first sample first
        sorted_group = self.group[row[order]]
        rank = np.arange(len(order)) - np.searchsorted(sorted_group, sorted_group)
        return np.bincount(row[order][rank < spare[sorted_group]], minlength=len(fewest))

    def nearest(self, values: Numbers, budgets: Numbers) -> Numbers:
        """The nearest probabilities whose windows sum to at least 1, and whose groups sum to at most a budget.

        Args:
            values: One for each place, (row, place).
            budgets: What each group may sum to, (group,): at least its fewest samples.

        Returns:
            (row, place); 1 where samples are always acquired, and 0 where none may be.
        """
        free = self.allowed & ~self.always
        group = np.repeat(self.group, self.allowed.shape[1])[free.ravel()]
        left = budgets - self.totals(self.always.sum(1))
        y = values[free] - _pivots(values[free], group, left)[group]
        result = self.always.astype(np.float64)
        result[free] = Nearest(y.clip(-FAR, FAR), self.windows[free], group, left, self.gap).find()
        return result


def _pivots(values: Numbers, group: Counts, budgets: Numbers) -> Numbers:
    """For each group a number that its multiplier is not below: without windows it is within 1 above it."""
    pivots = np.zeros(len(budgets))
    for number, budget in enumerate(budgets):
        own = values[group == number]
        if own.clip(0, 1).sum() > budget > 0:
            place = len(own) - math.ceil(budget)
            pivots[number] = max(0.0, np.partition(own, place)[place] - 1)
    return pivots


class Nearest:
    """The x nearest to y with 0 <= x <= 1, sums of at least 1 over windows, and up to a budget over groups.

    x = clip(y + W^T fill - price, 0, 1). The multipliers, of windows and of groups, are at least 0 and minimise a
    convex function that is quadratic in pieces. An interior-point method (Mehrotra 1992) leads near them, and
    Newton's method on the pieces to their end. Windows couple neighbours alone, so that all equations are banded,
    but for a row for each group. All arrays are flat, (place,); what belongs to a window is at its first place.

    Args:
        y: The point.
        windows: Whether a window begins at each place; its places follow each other.
        group: The group of each place.
        budgets: What each group may sum to.
        gap: The length of the windows.
    """

    def __init__(self, y: Numbers, windows: Flags, group: Counts, budgets: Numbers, gap: int) -> None:
        self.y, self.windows, self.group, self.budgets = y, windows, group, budgets
        self.width = gap if windows.any() else 1
        places, filled = len(windows), int(windows.sum())
        self.ends = np.cumsum([places, places, filled])
        self.bounds = np.concatenate([np.zeros(places), np.full(places, -1.0), np.ones(filled), -budgets])

    def find(self) -> Numbers:
        """The nearest point."""
        inner, multipliers = self._approach()
        least = np.inf
        for penalty in PENALTIES:
            x = self._shifted(multipliers).clip(0, 1)
            unmet = _unmet(multipliers, self._kept(x))
            if unmet < least:
                result, least = x, unmet
            if unmet <= PRECISION:
                break
            multipliers = self._minimise(multipliers, penalty)
        return result if least <= ROUGH else inner

    def _approach(self) -> tuple[Numbers, Numbers]:
        """A point between the bounds that is nearly the nearest one, and its multipliers."""
        from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded

        places = len(self.y)
        x = np.full(places, 0.5)
        slacks = np.maximum(self._apply(x) - self.bounds, 0.5)
        multipliers = np.full(len(slacks), max(1.0, float(np.abs(self.y).max(initial=0))))
        best, least, since = (x, multipliers), np.inf, 0
        while since < PATIENCE:
            of_x, of_slacks = x - self.y - self._adjoint(multipliers), self._apply(x) - self.bounds - slacks
            mean = float(slacks @ multipliers) / len(slacks)
            error = max(mean, float(np.abs(of_x).max()), float(np.abs(of_slacks).max()))
            since += 1
            if error < least:
                best, least, since = (x, multipliers), error, 0
            if error <= CLOSE or not np.isfinite(error):
                break
            weights = multipliers / slacks
            try:
                factor = (cholesky_banded(self._bands(weights), lower=True, check_finite=False), True)
            except LinAlgError:
                break  # as near as rounding lets it come
            ones = cho_solve_banded(factor, np.ones(places), check_finite=False)
            stiffness = weights[self.ends[2] :]
            coupling = (stiffness / (1 + stiffness * self._totals(ones)))[self.group] * ones

            def step(target: Numbers | float) -> tuple[Numbers, Numbers, Numbers]:  # called in this round alone
                wanted = target - slacks * multipliers  # noqa: B023
                right = self._adjoint((wanted - multipliers * of_slacks) / slacks) - of_x  # noqa: B023
                alone = cho_solve_banded(factor, right, check_finite=False)  # noqa: B023
                dx = alone - self._totals(alone)[self.group] * coupling  # noqa: B023
                d_slacks = self._apply(dx) + of_slacks  # noqa: B023
                return dx, d_slacks, (wanted - multipliers * d_slacks) / slacks  # noqa: B023

            _, ds, dz = step(0.0)
            length = min(1.0, _to_zero(slacks, ds), _to_zero(multipliers, dz))
            after = float((slacks + length * ds) @ (multipliers + length * dz)) / len(slacks)
            dx, ds, dz = step(mean * (after / mean) ** 3 - ds * dz)
            length = min(1.0, TO_BOUNDARY * min(_to_zero(slacks, ds), _to_zero(multipliers, dz)))
            x, slacks, multipliers = x + length * dx, slacks + length * ds, multipliers + length * dz
        x, multipliers = best
        fill = np.zeros(places)
        fill[self.windows] = multipliers[self.ends[1] : self.ends[2]]
        return x.clip(0, 1), np.concatenate([fill, multipliers[self.ends[2] :]])

    def _minimise(self, start: Numbers, penalty: float) -> Numbers:
        """The multipliers that minimise the dual function and a penalty for the distance from the start."""
        now = start
        value, slope = self._dual(now, start, penalty)
        for _ in range(MOST_STEPS):
            unmet = _unmet(now, slope)
            if unmet <= PRECISION / 10:
                break
            step, length = self._step(now, slope, penalty, held=(now <= min(1e-6, unmet)) & (slope > 0)), 1.0
            while length > SHORTEST:
                trial = np.maximum(now + length * step, 0)
                after, its_slope = self._dual(trial, start, penalty)
                if after <= value + 1e-4 * float(slope @ (trial - now)) + 1e-15 * abs(value):
                    break
                length /= 2
            else:
                break  # as near as rounding lets it come
            now, value, slope = trial, after, its_slope
        return now

    def _dual(self, multipliers: Numbers, start: Numbers, penalty: float) -> tuple[float, Numbers]:
        """The function to minimise, and its slope."""
        x, moved = self._shifted(multipliers).clip(0, 1), multipliers - start
        kept, distance = self._kept(x), x - self.y
        value = float(multipliers @ kept) - float(distance @ distance) / 2 + penalty / 2 * float(moved @ moved)
        return value, kept + penalty * moved

    def _step(self, multipliers: Numbers, slope: Numbers, penalty: float, held: Flags) -> Numbers:
        """Newton's step for all multipliers but those that are held: they become 0."""
        from scipy.linalg import cho_solve_banded, cholesky_banded

        places, width = len(self.y), self.width
        shifted = self._shifted(multipliers)
        inside = np.concatenate([[0.0], np.cumsum((shifted > 0) & (shifted < 1))])
        moving = ~held[:places]
        bands = np.zeros((width, places))
        for offset in range(width):  # places inside both windows, that at i and that at i + offset
            both = inside[width : places + 1] - inside[offset : places + 1 - width + offset]
            bands[offset, : len(both)] = both
            bands[offset, : places - offset] *= moving[: places - offset] & moving[offset:]
        within = bands[0].copy()
        bands[0] += np.where(moving, penalty, 1)
        right = np.stack([np.where(moving, -slope[:places], 0), within], 1)
        factor = cholesky_banded(bands, lower=True, check_finite=False)
        alone, coupled = cho_solve_banded((factor, True), right, check_finite=False).T
        stiffness = self._totals(np.diff(inside)) + penalty - self._totals(within * coupled)
        prices = (self._totals(within * alone) - slope[places:]) / np.maximum(stiffness, penalty)
        prices = np.where(held[places:], 0, prices)
        return np.where(held, -multipliers, np.concatenate([alone + coupled * prices[self.group], prices]))

    def _shifted(self, multipliers: Numbers) -> Numbers:
        fill, price = np.split(multipliers, [len(self.y)])
        return self.y - price[self.group] + self._spread(fill)

    def _kept(self, x: Numbers) -> Numbers:
        """By how much each constraint is kept; 1 where there is no window."""
        return np.concatenate([np.where(self.windows, self._sums(x) - 1, 1), self.budgets - self._totals(x)])

    def _apply(self, x: Numbers) -> Numbers:
        """All that must not be below the bounds."""
        return np.concatenate([x, -x, self._sums(x)[self.windows], -self._totals(x)])

    def _adjoint(self, multipliers: Numbers) -> Numbers:
        low, high, filled, price = np.split(multipliers, self.ends)
        of_windows = np.zeros(len(low))
        of_windows[self.windows] = filled
        return low - high - price[self.group] + self._spread(of_windows)

    def _bands(self, weights: Numbers) -> Numbers:
        """The lower diagonals of 1 + A^T weights A, without its groups."""
        low, high, filled, _ = np.split(weights, self.ends)
        bands, entry, of_windows = np.zeros((self.width, len(low))), np.zeros(len(low)), np.zeros(len(low))
        of_windows[self.windows] = filled
        for shift in range(self.width):  # windows that hold a place, and that by width - 1 - shift after it
            entry[shift:] += of_windows[: len(low) - shift]
            bands[self.width - 1 - shift] = entry
        bands[0] += 1 + low + high
        return bands

    def _sums(self, x: Numbers) -> Numbers:
        """Over each window."""
        result = x.copy()
        for shift in range(1, self.width):
            result[:-shift] += x[shift:]
        return result

    def _spread(self, of_windows: Numbers) -> Numbers:
        result = of_windows.copy()
        for shift in range(1, self.width):
            result[shift:] += of_windows[:-shift]
        return result

    def _totals(self, x: Numbers) -> Numbers:
        return np.bincount(self.group, x, len(self.budgets)).astype(np.float64)


def _to_zero(values: Numbers, step: Numbers) -> float:
    """How many steps it takes until the first of positive values is 0."""
    return 1 / max(float((-step / values).max()), 1e-30)


def _unmet(multipliers: Numbers, slopes: Numbers) -> float:
    """How far from the minimum: a multiplier or its slope should be 0, and neither below."""
    return float(np.abs(np.minimum(multipliers, slopes)).max())
