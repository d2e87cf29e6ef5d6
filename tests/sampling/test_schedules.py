import itertools

import pytest

from promask.sampling import schedules

PAPER = {"steps": 2500, "units": 65536, "target": 8192}


def test_the_papers_three_phases():
    """250 steps of exploration with S = D, then annealing, then 250 steps at the target."""
    values = [schedules.budget(step, **PAPER) for step in range(1, 2501)]
    assert values[:250] == [65536] * 250
    assert values[250] < 65536
    assert values[2248] > 8192
    assert values[2249:] == [8192] * 251
    assert all(before >= after for before, after in itertools.pairwise(values))


def test_cubic_and_linear_half_way():
    """Half way through the annealing: (1/2)^3 and 1/2 of what is above the target is left."""
    assert schedules.budget(1250, **PAPER) == pytest.approx(8192 + (65536 - 8192) / 8)
    assert schedules.budget(1250, **PAPER, annealing="linear") == pytest.approx(8192 + (65536 - 8192) / 2)


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 9])
def test_short_runs_end_at_the_target(steps):
    assert schedules.budget(steps, steps, units=100, target=10) == 10


@pytest.mark.parametrize(("exploration", "exploitation"), [(0, 0), (1, 0), (0, 1), (0.5, 0.5)])
def test_extreme_phases_end_at_the_target(exploration, exploitation):
    last = schedules.budget(10, 10, 100, 10, exploration, exploitation)
    assert last == 10


def test_without_annealing_the_target_holds_all_along():
    assert {schedules.budget(step, **PAPER, annealing="none") for step in range(1, 2501)} == {8192}


def test_linear():
    """The paper's temperature: from 1 to 0.03."""
    values = [schedules.linear(step, 2500, first=1.0, last=0.03) for step in range(1, 2501)]
    assert values[0] == 1
    assert values[-1] == pytest.approx(0.03)
    steps = {round(before - after, 12) for before, after in itertools.pairwise(values)}
    assert len(steps) == 1


def test_geometric():
    values = [schedules.geometric(step, 11, first=0.1, last=0.01) for step in range(1, 12)]
    assert values[0] == pytest.approx(0.1)
    assert values[5] == pytest.approx(0.1 / 10**0.5)
    assert values[-1] == pytest.approx(0.01)
