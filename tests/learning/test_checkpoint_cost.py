"""The cost of checkpoints: a small share of the time, however long steps and checkpoints take."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promask.learning.checkpoint import SHARE, Clock


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(1e-4, 0.5), st.floats(1e-4, 0.2)), min_size=1, max_size=400))
def test_at_most_a_fiftieth_of_the_time_is_spent(steps):
    """However long steps and checkpoints take, up to what the last checkpoint took more than the one before."""
    time = 0.0
    clock = Clock(now=lambda: time)
    costs = [clock.last]
    for step, cost in steps:
        time += step
        if clock.is_due():
            with clock.timing():
                time += cost
            costs.append(cost)
            assert clock.spent <= SHARE * time + max(0.0, costs[-1] - costs[-2])
    assert clock.written == len(costs) - 1
    assert clock.spent == pytest.approx(sum(costs[1:]))


def test_due_after_a_second_and_then_when_affordable():
    times = iter([0.0, 0.99, 1.0, 1.0, 1.1, 10.0, 10.1])
    clock = Clock(now=lambda: next(times))
    assert [clock.is_due(), clock.is_due()] == [False, True]
    with clock.timing():  # takes 0.1 s: the second one is affordable after 10 s
        pass
    assert [clock.is_due(), clock.is_due()] == [False, True]
