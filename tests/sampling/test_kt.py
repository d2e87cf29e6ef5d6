"""k-t lattices and golden steps, against rules written out by hand."""

import itertools

import pytest
import torch

from helpers import seeded
from promask.sampling import kt
from promask.sampling.limits import Limits
from promask.sampling.pattern import Pattern

PATTERNS = {
    "equal per frame": Pattern((6, 24, 16), (0, 1), indexed="frame", limits=Limits(equal_per=0)),
    "one total": Pattern((5, 17, 4), (0, 1), indexed="frame"),
    "equal per two frames": Pattern((4, 9), (0, 1), indexed="frame", limits=Limits(equal_per=0, equal_group=2)),
    "periodic": Pattern((6, 20, 3), (0, 1), indexed="frame", period=3, limits=Limits(equal_per=0)),
    "padded, partial Fourier": Pattern(
        (4, 25, 3),
        (0, 1),
        extent=((0, 4), (2, 25), (0, 3)),
        indexed="frame",
        limits=Limits(equal_per=0, partial_fourier=((1, 0.75),)),
    ),
    "two directions": Pattern((4, 12, 10), (0, 1, 2), indexed="frame", limits=Limits(equal_per=0)),
    "two directions, equal per kz": Pattern((4, 12, 10), (0, 1, 2), indexed="frame", limits=Limits(equal_per=2)),
    "one line": Pattern((4, 1, 3), (0, 1), indexed="frame", limits=Limits(equal_per=0)),
}


def by_hand(pattern, values, count):
    """In every group the units of largest value, then nearest to the centre, then first in memory."""
    limits, distance = pattern.limits, pattern.distance()
    units = [unit for unit in itertools.product(*map(range, pattern.unit_shape)) if not pattern.never()[unit]]

    def group(unit):
        return 0 if limits.equal_per is None else unit[limits.equal_per] // limits.equal_group

    chosen = torch.zeros(pattern.unit_shape, dtype=torch.bool)
    groups = sorted({group(unit) for unit in units})
    for number in groups:
        own = [unit for unit in units if group(unit) == number]
        own.sort(key=lambda unit: (-float(values[unit]), float(distance[unit]), unit))
        for unit in own[: count // len(groups)]:
            chosen[unit] = True
    return chosen


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_the_largest_of_each_frame(pattern):
    budget = pattern.budget(min(3, pattern.unit_shape[-1]))
    for seed in range(3):
        # Whole numbers: many of them are equal.
        values = torch.randint(4, pattern.unit_shape, generator=seeded(seed)).double()
        assert torch.equal(pattern.largest(values, budget), by_hand(pattern, values, budget))
    values[values == 0] = -torch.inf
    assert torch.equal(pattern.largest(values, budget), by_hand(pattern, values, budget))


def other_centres(pattern, budget, width):
    first = next(kt.lattices(pattern, budget, width))
    return kt.with_other_centres(pattern, budget, first, width)


@pytest.mark.parametrize("candidates", [kt.lattices, kt.goldens, other_centres])
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_candidates_keep_the_budget_and_the_centre(pattern, candidates):
    for acceleration in (1, 1.5, 3):
        if not pattern.units <= acceleration * pattern.acquirable or acceleration > pattern.unit_shape[-1]:
            continue
        budget = pattern.budget(acceleration)
        for width in (None, 0, 1):
            for units in candidates(pattern, budget, width):
                assert int(units.sum()) == budget
                assert not units[pattern.never()].any()
                assert units[pattern.centre(width or 0)].all()
                if pattern.limits.equal_per == 0:
                    of_groups = units.flatten(1).sum(1).reshape(-1, pattern.limits.equal_group).sum(1)
                    assert of_groups.unique().numel() == 1


def test_a_lattice_of_the_acceleration():
    """24 lines at x4 without a centre: every fourth line, one line further in each frame."""
    pattern = PATTERNS["equal per frame"]
    wanted = torch.tensor([[(line - 12 - frame) % 4 == 0 for line in range(24)] for frame in range(6)])
    assert any(torch.equal(units, wanted) for units in kt.lattices(pattern, pattern.budget(4), 0))


def test_a_centre_of_its_own():
    """Every sixth of 24 lines, and every third of those next to the centre: the outermost make room."""
    pattern = Pattern((2, 24), (0, 1), indexed="frame", limits=Limits(equal_per=0))
    units = pattern.largest(kt.lattice(pattern, 6, [2]), 8)
    assert [row.nonzero().flatten().tolist() for row in units] == [[0, 6, 12, 18], [2, 8, 14, 20]]
    found = [
        [row.nonzero().flatten().tolist() for row in each] for each in kt.with_other_centres(pattern, 8, units)
    ]
    assert [[0, 6, 12, 18], [8, 13, 14, 20]] in found


def test_lattices_of_two_zones():
    """Every third of the lines near the centre and every sixth of the others, each shifted by a golden share."""
    pattern = Pattern((2, 24), (0, 1), indexed="frame", limits=Limits(equal_per=0))
    found = [[row.nonzero().flatten().tolist() for row in each] for each in kt.two_zones(pattern, 10)]
    assert [[6, 9, 12, 15, 18], [7, 10, 13, 16, 19]] in found, "within the inner zone"
    assert all(len(row) == 5 for units in found for row in units)


@pytest.mark.parametrize("spacing", [2, 3, 5, 8, 12, 20, 31])
def test_the_usual_shift_reaches_every_line(spacing):
    pattern = Pattern((spacing, 80), (0, 1), indexed="frame")
    units = kt.lattice(pattern, spacing, [kt.usual_shift(spacing)]) > 0
    assert (units.sum(0) == 1).all(), "each line comes once in as many frames"


def golden_by_hand(weights, number, start):
    """Lines in turn: where the density has reached an equal share, or the nearest free line, of two the lower."""
    total, free = sum(weights), [weight > 0 for weight in weights]
    chosen = []
    for count in range(number):
        share = (count + start) / number * total
        place = next((i for i in range(len(weights)) if sum(weights[: i + 1]) > share + 1e-12), len(weights) - 1)
        line = min((i for i in range(len(weights)) if free[i]), key=lambda i: (abs(i - place), i))
        free[line] = False
        chosen.append(line)
    return sorted(chosen)


@pytest.mark.parametrize("power", [1, 2])
def test_golden_steps_divide_the_density(power):
    lines, frames, number = 24, 6, 7
    pattern = Pattern((frames, lines), (0, 1), indexed="frame", limits=Limits(equal_per=0))
    kept = pattern.centre(2)
    values = kt.golden(pattern, frames * number, power, kt.GOLDEN, kept)
    units = pattern.largest(values.masked_fill(kept, torch.inf), frames * number)
    weights = [max(1 - abs(line - 12) / 12, 0.5 / lines) ** power for line in range(lines)]
    weights = [0 if kept[0, line] else weight for line, weight in enumerate(weights)]
    for frame in range(frames):
        others = golden_by_hand(weights, number - 2, frame * kt.GOLDEN % 1)
        assert units[frame].nonzero().flatten().tolist() == sorted([11, 12, *others])
