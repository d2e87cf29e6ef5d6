"""Patterns over time of the trade: lattices that shift from frame to frame, and golden steps through a density.

Each is a way to order the units of every frame; how many of them are acquired, the pattern says.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import torch

from promask.errors import InputError
from promask.sampling.feasible import check_numbers
from promask.sampling.pattern import Pattern
from promask.types import UnitMask, Units

GOLDEN = (5**0.5 - 1) / 2
"""The golden ratio."""
STEPS = (GOLDEN, 1 - GOLDEN, 0.2764, 0.45)
"""Shifts from frame to frame, in distances of neighbouring lines: golden ones first."""
POWERS = (0.5, 1, 2, 3)
"""The exponents of variable densities."""
WIDTHS = (0, 4, 8, 12)
"""Widths of the lines in the centre that all frames acquire."""
MOST_CENTRE = 0.7
"""The largest share of the lines of a frame that lie in that centre."""
NARROWEST, WIDEST = 0.5, 1.25
"""The spacings of lattices that are tried, in accelerations: narrow ones leave out the outermost lines."""
INNER = (0, 0.25, 0.5)
"""The spacings of lattices around the centre of other masks, in accelerations; 0: all units."""
REACHES = (0, 0.03, 0.08, 0.16)
"""How far these reach, in half widths of k-space."""
ZONES = (0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1, 1.25, 1.5, 1.75)
"""The spacings of lattices of two zones, in accelerations: any two of them, the smaller one inside."""
PARTS = (0.4, 0.55, 0.7, 0.85)
"""What the inner zone has of the lines of each frame."""
FIRST = 8.0
"""More than any distance from the centre."""


def lattice(pattern: Pattern, spacing: int, shifts: Sequence[int]) -> Units:
    """Values by which the units of a k-t lattice come first: every `spacing`-th line, shifted from frame to frame.

    >>> lines = Pattern((2, 6), free=(0, 1), indexed="frame")
    >>> (lattice(lines, 3, [1]) > 0).int()
    tensor([[1, 0, 0, 1, 0, 0],
            [0, 1, 0, 0, 1, 0]], dtype=torch.int32)

    With two directions, lines are also shifted from kz to kz.

    Args:
        pattern: A pattern whose frames have units of their own.
        spacing: The distance of neighbouring lines.
        shifts: From frame to frame; with two directions, before it that from kz to kz.

    Returns:
        (*units), centred: larger where the lattice is, and towards the centre.
    """
    frames, *space = pattern.unit_shape
    offset = -shifts[-1] * torch.arange(frames).reshape(-1, *[1] * len(space))
    for position, n in enumerate(space):
        place = (torch.arange(n) - n // 2).reshape(-1, *[1] * (len(space) - 1 - position))
        offset = offset + (place if position == 0 else -shifts[0] * place)
    return FIRST * (offset % spacing == 0) - pattern.distance()


def golden(pattern: Pattern, budget: int, power: float, step: float, kept: UnitMask) -> Units:
    """Values by which units come first that lie at equal shares of a density, moved by a step from frame to frame.

    Along one direction, the lines of a frame divide the density (1 - |k|)^power into equal shares, and the next
    frame has them further by a share of `step`. With two directions, units come in the order of a Kronecker
    sequence, divided by the density.

    Args:
        pattern: A pattern whose frames have units of their own.
        budget: How many units are acquired in all.
        power: Of the density; 0: all lines are equally likely.
        step: From frame to frame, in shares.
        kept: Units that are acquired anyway, and have no share, (*units).

    Returns:
        (*units), centred.
    """
    frames, *space = pattern.unit_shape
    distance = pattern.distance().sqrt()
    density = (1 - distance / distance.max().clamp_min(1e-12)).clamp_min(0.5 / max(space)) ** power
    density = density.masked_fill(kept | pattern.never(), 0)
    time = torch.arange(frames, dtype=torch.float64) * step
    if len(space) > 1:
        order = time.reshape(-1, *[1] * len(space))
        for position, n in enumerate(space):
            places = torch.arange(n, dtype=torch.float64) * GOLDEN ** (1 + position / 2)
            order = order + places.reshape(-1, *[1] * (len(space) - 1 - position))
        return -(order % 1) / density.clamp_min(1e-12)
    values = -pattern.distance()
    number = budget // frames - int(kept[0].sum())
    shares = density.cumsum(1) / density.sum(1, keepdim=True)
    wanted = (torch.arange(number, dtype=torch.float64) + time[:, None] % 1) / max(number, 1)
    places = torch.searchsorted(shares, wanted, right=True).clamp_max(density.shape[1] - 1)
    for frame, (free, row) in enumerate(zip((density > 0).tolist(), places.tolist(), strict=True)):
        values[frame, nearest_free(free, row)] += FIRST
    return values


def nearest_free(free: Sequence[bool], places: Sequence[int]) -> list[int]:
    """For each place in turn the nearest one that is still free, of two the lower.

    >>> nearest_free([True, True, False, True], [1, 1, 1])
    [1, 0, 3]

    Args:
        free: Whether each place is free at first.
        places: Those that are wished for.

    Returns:
        As many different places, or all that are free.
    """
    left, found = list(free), list[int]()
    for place in places:
        near = ((place - distance, place + distance) for distance in range(len(left)))
        inside = (each for each in itertools.chain.from_iterable(near) if 0 <= each < len(left))
        nearest = next((each for each in inside if left[each]), None)
        if nearest is not None:
            left[nearest] = False
            found.append(nearest)
    return found


def centres(pattern: Pattern, budget: int, width: int | None = None) -> list[UnitMask]:
    """Centres to choose from, which all frames acquire: of the given width, or of several that leave lines over.

    Args:
        pattern: A pattern whose frames have units of their own.
        budget: How many units are acquired in all.
        width: That of the calibration region, if it is given.

    Returns:
        Units, (*units) each.
    """
    if width is not None:
        return [pattern.block(width, budget)]
    found = (pattern.centre(each) for each in WIDTHS)
    return [kept for kept in found if int(kept.sum()) <= MOST_CENTRE * budget and _fits(pattern, kept, budget)]


def _fits(pattern: Pattern, kept: UnitMask, budget: int) -> bool:
    """Whether masks that keep the limits can have a centre; of none at all, whoever makes masks will tell."""
    try:
        check_numbers(pattern, kept, budget)
    except InputError:
        return not kept.any()
    return True


def lattices(pattern: Pattern, budget: int, width: int | None = None) -> Iterator[UnitMask]:
    """The k-t lattices of a pattern: several spacings around the acceleration, all shifts, several centres.

    What a lattice has too many of is left out, the outermost first; what it lacks is added, the innermost first.

    Args:
        pattern: A pattern whose frames have units of their own.
        budget: How many units are acquired in all.
        width: That of the calibration region; None: several are tried.

    Yields:
        Units of exactly the budget, (*units).
    """
    share = pattern.units / budget
    spacings = range(max(1, round(NARROWEST * share)), max(1, round(WIDEST * share)) + 1)
    directions = len(pattern.unit_shape) - 1
    for kept, spacing in itertools.product(centres(pattern, budget, width), spacings):
        across = [()] if directions == 1 else [(shift,) for shift in range(1, max(2, spacing))]
        for shift, others in itertools.product(range(1, max(2, spacing // 2 + 1)), across):
            values = lattice(pattern, spacing, (*others, shift))
            yield pattern.largest(values.masked_fill(kept, torch.inf), budget)


def with_other_centres(
    pattern: Pattern, budget: int, units: UnitMask, width: int | None = None
) -> Iterator[UnitMask]:
    """The same mask with a lattice of its own around the centre, of several spacings, shifts and widths.

    What is too much then is left out, the outermost first; what lacks is added, the innermost first.

    Args:
        pattern: A pattern whose frames have units of their own.
        budget: How many units are acquired in all.
        units: The mask, (*units), centred.
        width: That of the calibration region, if it is given.

    Yields:
        Units of exactly the budget, (*units).
    """
    kept, distance = pattern.block(width or 0, budget), pattern.distance()
    share, directions = pattern.units / budget, len(pattern.unit_shape) - 1
    for spacing, reach in itertools.product(sorted({max(1, round(each * share)) for each in INNER}), REACHES):
        for shift in range(1, max(2, spacing // 2 + 1)):
            inner = lattice(pattern, spacing, (*[1] * (directions - 1), shift)) > 0
            values = FIRST * torch.where(distance <= reach**2, inner, units) - distance
            yield pattern.largest(values.masked_fill(kept, torch.inf), budget)


def two_zones(pattern: Pattern, budget: int, width: int | None = None) -> Iterator[UnitMask]:
    """Lattices with a narrow spacing around the centre and a wide one outside: of several spacings and widths.

    What moves is found in the lines around the centre, which must be acquired often; of the outer ones, most
    belong to what stands still, and a few times are enough. What is too much is left out, the outermost first;
    what lacks is added, the innermost first.

    Args:
        pattern: A pattern whose frames have units of their own.
        budget: How many units are acquired in all.
        width: That of the calibration region, if it is given.

    Yields:
        Units of exactly the budget, (*units).
    """
    kept, distance = pattern.block(width or 0, budget), pattern.distance()
    share, directions = pattern.units / budget, len(pattern.unit_shape) - 1
    nearest = distance[0].flatten().sort().values
    spacings = sorted({max(1, round(each * share)) for each in ZONES})
    for (inner, outer), part in itertools.product(itertools.combinations(spacings, 2), PARTS):
        reach = nearest[min(round(part * inner / share * len(nearest)), len(nearest) - 1)]
        near, far = (
            lattice(pattern, spacing, (*[1] * (directions - 1), usual_shift(spacing))) > 0
            for spacing in (inner, outer)
        )
        values = FIRST * torch.where(distance <= reach, near, far) - distance
        yield pattern.largest(values.masked_fill(kept, torch.inf), budget)


def usual_shift(spacing: int) -> int:
    """The shift of a lattice from frame to frame by which lines that are near in time are far apart.

    >>> [usual_shift(spacing) for spacing in (1, 4, 5, 8, 10, 20)]
    [0, 1, 2, 3, 3, 7]

    Args:
        spacing: The distance of neighbouring lines.

    Returns:
        The number next to a golden share of the spacing that has no common divisor with it, so that all lines
        are acquired in turn.
    """
    wanted = (1 - GOLDEN) * spacing
    return min((n for n in range(spacing) if math.gcd(n, spacing) == 1), key=lambda n: abs(n - wanted))


def goldens(pattern: Pattern, budget: int, width: int | None = None) -> Iterator[UnitMask]:
    """Golden steps through variable densities: several densities, steps and centres.

    Args:
        pattern: A pattern whose frames have units of their own.
        budget: How many units are acquired in all.
        width: That of the calibration region; None: several are tried.

    Yields:
        Units of exactly the budget, (*units).
    """
    for kept, power, step in itertools.product(centres(pattern, budget, width), POWERS, STEPS):
        values = golden(pattern, budget, power, step, kept)
        yield pattern.largest(values.masked_fill(kept, torch.inf), budget)
