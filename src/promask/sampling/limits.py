"""What a 3D protocol demands of a mask, beside its number of samples.

- An elliptical shutter: the corners of k-space are never acquired.
- A calibration region (ACS) that is a block or an ellipse.
- Partial Fourier: of a direction, only a share is acquired, from its positive end; what is left out are the most
  negative frequencies.
- A largest gap of n along a direction: in every row along it, any n neighbouring places that may be acquired hold
  a sample. So two neighbours are at most n apart, and at most n - 1 places are left out at either end of a row.
  Places that are never acquired do not count: a row with fewer than n others need not hold a sample.
- The same number of samples for every kz that has places to acquire, as segmented scans need it; or for every
  frame, or for every few frames that follow each other, of a series; or for every contrast.
- What a line of each contrast costs: the number of lines is then one of whole units of scan time.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch

from promask.errors import InputError
from promask.types import UnitMask

if TYPE_CHECKING:
    from promask.sampling.pattern import Pattern

ELLIPSE, BLOCK = "ellipse", "block"
FRAME, CONTRAST, TOTAL = "frame", "contrast", "none"
SHUTTERS, ACS_SHAPES = (ELLIPSE,), (BLOCK, ELLIPSE)
MOST_UNEQUAL = 100
"""How many times as much as a line of another contrast a line may cost."""

BY_DIRECTION = {
    "partial_fourier": (Fraction, "ky=6/8"),
    "largest_gap": (int, "ky=4"),
    "cost": (Fraction, "FLAIR=2.5"),
}
"""Settings that are values by direction or contrast: what they are, and an example."""
OWN = {FRAME: ": choose the pattern kt", CONTRAST: ": set `per` contrast"}
"""How frames and contrasts get patterns of their own."""

Extent = Sequence[tuple[int, int]]
Share = float
Direction = int | str


@dataclass(frozen=True)
class Limits:
    """The limits of a pattern; directions are positions among its undersampled axes.

    >>> Limits(partial_fourier=((0, 0.75),)).never((8, 3), ((0, 8), (0, 3))).sum(0)
    tensor([2, 2, 2])

    Args:
        shutter: `ellipse`, or None for all of k-space.
        acs_shape: The shape of the calibration region: `block` or `ellipse`.
        partial_fourier: Directions, and the share of each that is acquired: above 0.5, up to 1.
        largest_gap: A direction, and the largest distance of neighbouring samples along it; empty for any.
        equal_per: The direction for every place of which there is the same number of samples; None for none.
        equal_group: How many neighbouring places, frames of a series, have that number together.
        cost: What a unit of each contrast costs, such as seconds for a line; empty: all cost the same.
    """

    shutter: str | None = None
    acs_shape: str = BLOCK
    partial_fourier: tuple[tuple[int, Share], ...] = ()
    largest_gap: tuple[tuple[int, int], ...] = ()
    equal_per: int | None = None
    equal_group: int = 1
    cost: tuple[float, ...] = ()

    @property
    def couple(self) -> bool:
        """Whether what may be acquired depends on what else is: not only on the place and the number."""
        return bool(self.largest_gap or self.cost) or self.equal_per is not None

    @property
    def leave_out(self) -> bool:
        """Whether there are places that are never acquired."""
        return self.shutter is not None or bool(self.partial_fourier)

    @property
    def name_within(self) -> str:
        """What they leave, in words."""
        return "acquired part" if self.partial_fourier else self.shutter or "covered part"

    def check(self, shape: Sequence[int], extent: Extent, indexed: bool = False) -> None:
        """Refuse limits that no mask on a grid of units could keep.

        Args:
            shape: The size of the grid.
            extent: The part of each of its axes that the scanner covers.
            indexed: Whether the first axis counts frames or contrasts, and is no direction.

        Raises:
            InputError: If a limit is impossible, or two of them are not possible together.
        """
        if self.shutter not in (None, *SHUTTERS) or self.acs_shape not in ACS_SHAPES:
            raise InputError(
                f"`shutter` must be {ELLIPSE} and `acs_shape` {' or '.join(ACS_SHAPES)}, but they are "
                f"{self.shutter!r} and {self.acs_shape!r}."
            )
        named = [*(position for position, _ in (*self.partial_fourier, *self.largest_gap)), self.equal_per or 0]
        if any(not 0 <= position < len(shape) for position in named):
            raise InputError(f"The limits {self} do not fit {len(shape)} undersampled directions.")
        equal = self.equal_per is not None and not (indexed and self.equal_per == 0)
        if len(shape) - indexed < 2 and (self.shutter is not None or equal):
            raise InputError(
                "`shutter` and `equal_per` need two undersampled directions, but there is one: of a volume, "
                "set `volumes`."
            )
        grouped = shape[self.equal_per or 0]
        if self.equal_group != 1 and (self.equal_per is None or grouped % max(self.equal_group, 1)):
            raise InputError(
                f"`equal_per` frame={self.equal_group} needs a number that divides the {grouped} frames."
            )
        for position, share in self.partial_fourier:
            if not 0.5 < share <= 1:
                raise InputError(
                    f"`partial_fourier` must be a share above 0.5, up to 1, such as 6/8, but is {share:g}."
                )
            if self._begin(position, share, extent) > shape[position] // 2:
                raise InputError(
                    f"`partial_fourier` {share:g} leaves out the centre of k-space: choose a larger share."
                )
        if self.cost:
            self._check_cost(shape[0] if indexed else 0)
        if any(gap < 1 for _, gap in self.largest_gap):
            raise InputError(
                f"`largest_gap` must be a whole number of at least 1, but is {self.largest_gap[0][1]}."
            )
        if len(self.largest_gap) > 1:
            raise InputError("`largest_gap` is possible along one direction, but several were given: choose one.")
        if self.largest_gap and self.largest_gap[0][0] == self.equal_per:
            raise InputError(
                "`largest_gap` and `equal_per` cannot be for the same direction: choose the other one for the gap."
            )

    def _check_cost(self, contrasts: int) -> None:
        if len(self.cost) != contrasts or any(not 0 < each < math.inf for each in self.cost):
            raise InputError(
                f"`cost` must be a positive number for each of {contrasts} contrasts, but is {list(self.cost)}."
            )
        if max(self.cost) > MOST_UNEQUAL * min(self.cost):
            raise InputError(
                f"`cost` must be of comparable size for all contrasts, but goes from {min(self.cost):g} to "
                f"{max(self.cost):g}: at most {MOST_UNEQUAL} times as much."
            )
        if self.largest_gap or self.equal_per is not None:
            other = "largest_gap" if self.largest_gap else "equal_per"
            raise InputError(f"`cost` and `{other}` cannot hold together: leave out one of them.")

    @staticmethod
    def _begin(position: int, share: Share, extent: Extent) -> int:
        start, stop = extent[position]
        return start + math.floor((stop - start) * (1 - share) + 1e-9)

    def never(self, shape: Sequence[int], extent: Extent, indexed: bool = False) -> UnitMask:
        """Find the units that are never acquired, padding left out.

        Args:
            shape: The size of the grid of units.
            extent: The part of each of its axes that the scanner covers.
            indexed: Whether the first axis counts frames or contrasts, and is no direction.

        Returns:
            (*shape): corners outside the shutter, and what partial Fourier leaves out.
        """
        result = torch.zeros(tuple(shape), dtype=torch.bool)
        if self.shutter == ELLIPSE:
            halves = [max(n // 2 - a, b - 1 - n // 2, 1.0) for n, (a, b) in zip(shape, extent, strict=True)]
            halves[0] = math.inf if indexed else halves[0]
            result |= _ellipse(shape, [0.0] * len(halves), halves) > 1 + 1e-9
        for position, share in self.partial_fourier:
            result.movedim(position, 0)[: self._begin(position, share, extent)] = True
        return result

    def centre(self, shape: Sequence[int], width: int) -> UnitMask:
        """Find the units of the calibration region.

        Args:
            shape: The size of the grid of units.
            width: Along every axis.

        Returns:
            (*shape).
        """
        block = torch.zeros(tuple(shape), dtype=torch.bool)
        starts = [max(0, n // 2 - width // 2) for n in shape]
        block[tuple(slice(start, start + width) for start in starts)] = True
        if self.acs_shape == BLOCK or width < 1:
            return block
        widths = [min(width, n) for n in shape]
        middles = [(each - 1) / 2 - each // 2 for each in widths]
        return block & (_ellipse(shape, middles, [each / 2 for each in widths]) <= 1)

    def keep(self, positions: Sequence[int]) -> "Limits":
        """The limits that remain when only some of the directions are undersampled.

        Args:
            positions: Which ones are kept, in their order.

        Returns:
            The same limits, renumbered; those of the other directions are dropped, and of a single direction also
            the shutter and the equal numbers.
        """
        places = {position: place for place, position in enumerate(positions)}
        several = len(places) > 1
        return Limits(
            self.shutter if several else None,
            self.acs_shape,
            tuple((places[position], share) for position, share in self.partial_fourier if position in places),
            tuple((places[position], gap) for position, gap in self.largest_gap if position in places),
            places.get(self.equal_per) if several and self.equal_per is not None else None,
            self.equal_group if self.equal_per in places else 1,
            self.cost if 0 in places else (),
        )

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> "Limits":
        """Read limits as a run.json holds them.

        Args:
            record: By the names of the fields; empty for none.

        Returns:
            The limits.
        """
        pairs = {
            name: tuple((int(position), kind(value)) for position, value in record.get(name, ()))
            for name, kind in (("partial_fourier", float), ("largest_gap", int))
        }
        cost = {"cost": tuple(map(float, record.get("cost", ())))}
        return Limits(
            **{field.name: record[field.name] for field in fields(Limits) if field.name in record} | pairs | cost
        )


def _ellipse(shape: Sequence[int], middles: Sequence[float], halves: Sequence[float]) -> torch.Tensor:
    """The squared distance of each unit from the middle, which is an offset from n // 2, in half axes."""
    along = [
        ((torch.arange(n, dtype=torch.float64) - n // 2 - middle) / half).square()
        for n, middle, half in zip(shape, middles, halves, strict=True)
    ]
    return torch.stack(torch.meshgrid(*along, indexing="ij")).sum(0)


@dataclass(frozen=True, kw_only=True)
class LimitSettings:
    """Limits as they are asked for: directions are names such as `ky`, or numbers of axes.

    >>> LimitSettings(partial_fourier={"ky": "6/8"}).partial_fourier
    (('ky', 0.75),)

    Args:
        shutter: `ellipse`: corners of k-space are never acquired.
        acs_shape: The shape of the calibration region: `block` or `ellipse`.
        partial_fourier: The share of directions that is acquired, such as {"ky": 0.75}.
        largest_gap: The largest distance of neighbouring samples along a direction, such as {"ky": 4}.
        equal_per: The direction for every place of which there is the same number of samples, such as `kz`; of
            series `frame`, or `frame=5` for every five frames together, or `contrast`; `none` for one total
            number. None: every frame, where frames have patterns of their own.
        period: After so many frames the pattern begins anew; 0: it does not repeat.
        cost: What a line of a contrast costs, such as {"FLAIR": 2.5} seconds; those that are not named cost 1.
    """

    shutter: str | None = None
    acs_shape: str = BLOCK
    partial_fourier: Any = ()
    largest_gap: Any = ()
    equal_per: Direction | None = None
    period: int = 0
    cost: Any = ()

    def __post_init__(self) -> None:
        for name in BY_DIRECTION:
            object.__setattr__(self, name, by_direction(name, getattr(self, name)))
        if self.equal_per is not None:
            object.__setattr__(self, "equal_per", _plain_direction(self.equal_per))
            _counted_together(self.equal_per)  # or refuse it
        if self.shutter not in (None, *SHUTTERS):
            raise InputError(f"`shutter` must be {ELLIPSE}, but is {self.shutter!r}.")
        if self.acs_shape not in ACS_SHAPES:
            raise InputError(f"`acs_shape` must be {' or '.join(ACS_SHAPES)}, but is {self.acs_shape!r}.")

    @staticmethod
    def of(settings: Any) -> "LimitSettings":
        """Those of an object that has them as attributes, such as a `Config`.

        Args:
            settings: The object.

        Returns:
            The limits alone.
        """
        return LimitSettings(**{field.name: getattr(settings, field.name) for field in fields(LimitSettings)})

    @staticmethod
    def as_asked(pattern: "Pattern") -> dict[str, Any]:
        """The limits of a pattern as settings of `learn`.

        Args:
            pattern: A pattern with limits.

        Returns:
            By name; directions are numbers of axes.
        """
        limits, free = pattern.limits, pattern.free
        equal: Direction | None = None if limits.equal_per is None else free[limits.equal_per]
        if pattern.varies and equal is None:
            equal = TOTAL
        elif pattern.varies and equal == 0:
            equal = pattern.indexed + (f"={limits.equal_group}" if limits.equal_group > 1 else "")
        return {
            "shutter": limits.shutter,
            "acs_shape": limits.acs_shape,
            "partial_fourier": {free[position]: share for position, share in limits.partial_fourier},
            "largest_gap": {free[position]: gap for position, gap in limits.largest_gap},
            "equal_per": equal,
            "period": pattern.period,
            "cost": dict(enumerate(limits.cost)),
        }

    def on(self, pattern: "Pattern", strict: bool = True) -> "Pattern":
        """Add these limits to a pattern.

        Args:
            pattern: The undersampled directions.
            strict: Whether limits of directions that are not undersampled are refused; otherwise they are dropped.

        Returns:
            The pattern with the limits.

        Raises:
            InputError: If there is no such direction, or a limit is impossible.
        """
        dimensions = len(pattern.shape)

        def position(name: str, direction: Direction) -> int | None:
            axis = axis_number(direction, pattern.directions, dimensions)
            if not -dimensions <= axis < dimensions:
                raise InputError(
                    f"There is no axis {axis} for `{name}`: axes have numbers, 0 to {dimensions - 1}."
                )
            if name == "partial_fourier" and pattern.indexed and axis % dimensions == 0:
                raise InputError(f"`{name}` is for directions of k-space, and not for {pattern.indexed}s.")
            if axis % dimensions in pattern.free:
                return pattern.free.index(axis % dimensions)
            if not strict:
                return None
            raise InputError(f"`{name}` is for undersampled directions, and {direction} is not one of them.")

        single = len(pattern.free) < 2 and not strict
        found: dict[str, Any] = {"shutter": None if single else self.shutter, "acs_shape": self.acs_shape}
        for name in ("partial_fourier", "largest_gap"):
            places = ((position(name, direction), value) for direction, value in getattr(self, name))
            found[name] = tuple((place, value) for place, value in places if place is not None)
        counted, together = _counted_together(self.equal_per)
        varies = pattern.varies and counted in ("", pattern.indexed)
        if varies and (together or (self.equal_per is None and pattern.indexed == FRAME)):
            found |= {"equal_per": 0, "equal_group": together or 1}
        elif together and strict:
            raise InputError(f"`equal_per` {counted} is for {counted}s that have their own pattern{OWN[counted]}.")
        elif self.equal_per is not None and not together and self.equal_per != TOTAL:
            place = position("equal_per", self.equal_per)
            found["equal_per"] = None if single else place
        in_time = pattern.varies and pattern.indexed == FRAME
        if self.period and strict and not in_time:
            raise InputError(f"`period` is for frames that have their own pattern{OWN[FRAME]}.")
        costs = self._costs(pattern, strict) if self.cost else ()
        if found.get("equal_per") != 0:  # with equal numbers, costs make no difference
            found["cost"] = costs
        return replace(pattern, limits=Limits(**found), period=self.period if in_time else 0)

    def _costs(self, pattern: "Pattern", strict: bool) -> tuple[float, ...]:
        """What a unit of each contrast costs; none, if contrasts have no patterns of their own."""
        if not (pattern.varies and pattern.indexed == CONTRAST):
            if strict:
                raise InputError(f"`cost` is for contrasts that have their own pattern{OWN[CONTRAST]}.")
            return ()
        costs, names = [1.0] * pattern.shape[0], [name.lower() for name in pattern.contrasts]
        for contrast, cost in self.cost:
            place = contrast if isinstance(contrast, int) else None
            if place is None and contrast.lower() in names:
                place = names.index(contrast.lower())
            if place is None or not 0 <= place < len(costs):
                known = ", ".join(pattern.contrasts) or "not named in the data"
                raise InputError(
                    f"There is no contrast {contrast!r} for `cost`: they are {known}, or have numbers, 0 to "
                    f"{len(costs) - 1}."
                )
            costs[place] = cost
        return tuple(costs)


def _counted_together(equal_per: Direction | None) -> tuple[str, int]:
    """For how many frames (or contrasts) together numbers are equal; nothing if it is for a direction.

    >>> _counted_together("frame"), _counted_together("frame=5"), _counted_together("kz")
    (('frame', 1), ('frame', 5), ('', 0))
    """
    if not isinstance(equal_per, str) or not equal_per.startswith((FRAME, CONTRAST)):
        return "", 0
    found = re.fullmatch(rf"({CONTRAST}|{FRAME}(?:=([1-9]\d{{0,8}}))?)", equal_per)
    if found is None:
        raise InputError(
            f"`equal_per` must be such as frame, frame=5, contrast, kz or none, but is {equal_per!r}."
        )
    return equal_per.partition("=")[0], int(found[2] or 1)


def by_direction(name: str, values: Any) -> tuple[tuple[Direction, Any], ...]:
    """Values by direction, in an order: from a mapping, from pairs, or from texts such as `ky=4`.

    >>> by_direction("largest_gap", {"ky": 4, "0": 3})
    (('ky', 4), (0, 3))

    Args:
        name: The setting: `partial_fourier`, whose values are shares such as 0.75 or 6/8, `largest_gap`, or
            `cost`, whose values belong to contrasts.
        values: A mapping, pairs, or texts.

    Returns:
        Pairs.

    Raises:
        InputError: If a value is no such number.
    """
    kind, wanted = BY_DIRECTION[name]
    try:
        if not isinstance(values, Mapping):
            values = dict(each.split("=") if isinstance(each, str) else each for each in values)
        pairs = values.items()
        result = tuple(
            (_plain_direction(direction), int(value) if kind is int else float(Fraction(str(value))))
            for direction, value in pairs
        )
        if kind is int and any(
            number != float(value) for (_, number), (_, value) in zip(result, pairs, strict=True)
        ):
            raise ValueError
    except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise InputError(f"`{name}` must be a number for each, such as {wanted}, but is {values!r}.") from error
    return result


def _plain_direction(direction: Any) -> Direction:
    if isinstance(direction, bool) or not isinstance(direction, int | str):
        raise TypeError
    return int(direction) if isinstance(direction, str) and re.fullmatch(r"-?\d+", direction) else direction


def axis_number(axis: Direction, directions: Sequence[str], dimensions: int) -> int:
    """The number of an axis that is given by its number or its direction; `y` is short for `ky`.

    Args:
        axis: The number, or the direction.
        directions: The names of all axes; empty if they are not known.
        dimensions: How many axes there are.

    Returns:
        The number.

    Raises:
        InputError: If there is no such direction.
    """
    if isinstance(axis, int):
        return axis
    name = f"k{axis.lower().removeprefix('k')}"
    if name not in directions:
        encoded = [each for each in directions if each.startswith("k")]
        if axis in directions:
            raise InputError(
                f"The axis {axis} is not encoded, and is no direction: choose from {', '.join(encoded)}."
            )
        known = f"are {', '.join(encoded)}" if directions else f"have numbers, 0 to {dimensions - 1}"
        raise InputError(f"There is no direction {axis!r}: the axes of k-space {known}.")
    return list(directions).index(name)


NO_LIMITS, NONE_ASKED = Limits(), LimitSettings()
