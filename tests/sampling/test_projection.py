import cvxpy
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from helpers import seeded
from promask.sampling.projection import project


def check_kkt(theta, budget):
    """The conditions that hold at the projection and nowhere else, to the precision of the numbers."""
    result = project(theta, budget)
    assert result.dtype == theta.dtype
    assert result.shape == theta.shape
    exact, theta = result.to(torch.float64).flatten(), theta.to(torch.float64).flatten()
    precision = torch.finfo(result.dtype).eps
    assert exact.min() >= 0
    assert exact.max() <= 1
    total = float(exact.sum())
    assert total <= budget * (1 + (1e-13 if theta.dtype == torch.float64 and result.dtype == torch.float64 else 0))
    if float(theta.clamp(0, 1).sum()) <= budget:
        assert torch.equal(exact, theta.clamp(0, 1).to(result.dtype).to(torch.float64))
        return
    # The budget binds: one multiplier serves all entries strictly between 0 and 1.
    inside = (exact > 0) & (exact < 1)
    lost = budget - total
    assert lost <= precision * max(1, int(inside.sum())), "the budget is used up to rounding"
    # Differences, not a multiplier, are compared: they stay small however large theta is.
    reference = theta[inside][0] if inside.any() else theta[exact == 1].min()
    at_reference = exact[inside][0] if inside.any() else 1.0
    expected = (theta - reference + at_reference).clamp(0, 1)
    if inside.any():
        assert (expected - exact).abs().max() <= 4 * precision
    else:
        assert theta[exact == 1].min() - 1 >= theta[exact == 0].max() - 4 * precision


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("seed", [0, 1])
def test_agrees_with_a_convex_solver(size, share, seed):
    theta = torch.randn(size, generator=seeded(seed), dtype=torch.float64)
    budget = share * size
    variable = cvxpy.Variable(size)
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum_squares(variable - theta.numpy())),
        [variable >= 0, variable <= 1, cvxpy.sum(variable) <= budget],
    )
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    np.testing.assert_allclose(project(theta, budget).numpy(), variable.value, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 7, 100, 10**4, 10**6, 10**7])
def test_kkt_for_all_sizes(size):
    theta = torch.rand(size, generator=seeded()) * 1.5 - 0.2
    check_kkt(theta, budget=max(1, size // 8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "values",
    [
        [0.5] * 12,
        [1.0] * 12,
        [1e30] * 12,
        [1e30, 1e30, 1e30, -1e30, 1e-30, 0.0],
        [1e8, 1e8 + 8, 1e8 - 8, 1e8, 0, 0],
        [3e38, -3e38, 3e38, 0.5, 0.5, 0.5],
        [0.2, 0.1, 0.05, 0.0, 0.0, 0.0],
        [1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        [-5.0, -4.0, -3.0, -2.0, -1.0, -0.5],
        [1e-40, 1e-45, 1.0, 1.0, 1.0, 0.0],
    ],
)
@pytest.mark.parametrize("budget", [1, 2, 2.5, 3, 5.999])
def test_kkt_for_equal_huge_and_feasible_values(values, budget, dtype):
    check_kkt(torch.tensor(values, dtype=dtype), budget)


def test_equal_huge_values_share_the_budget_equally():
    assert torch.equal(project(torch.full((4,), 1e30), 2), torch.full((4,), 0.5))


@given(
    hnp.arrays(np.float32, st.integers(1, 60), elements=st.floats(-4, 4, width=32)),
    st.floats(0.01, 70),
)
@settings(deadline=None, max_examples=300)
def test_kkt_for_anything(values, budget):
    check_kkt(torch.from_numpy(values), budget)


@given(hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(-2, 3, width=32)), st.integers(1, 40))
@settings(deadline=None, max_examples=100)
def test_projecting_twice_changes_nothing(values, budget):
    once = project(torch.from_numpy(values), budget)
    assert torch.equal(project(once, budget), once)


def test_by_hand():
    torch.testing.assert_close(project(torch.tensor([0.9, 0.6, 0.1]), 1), torch.tensor([0.65, 0.35, 0.0]))
    torch.testing.assert_close(
        project(torch.tensor([[2.0, 0.4], [0.4, -1]]), 1.4), torch.tensor([[1, 0.2], [0.2, 0]])
    )
    assert project(torch.tensor([2.0, -1.0]), 2).tolist() == [1, 0]
    assert project(torch.tensor([2.0, 1.0]), 0).tolist() == [0, 0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_refuses_what_is_not_a_number(bad):
    with pytest.raises(ValueError, match="finite"):
        project(torch.tensor([0.5, bad]), 1)


def test_does_not_change_its_input():
    theta = torch.tensor([0.9, 0.6])
    project(theta, 1)
    assert theta.tolist() == pytest.approx([0.9, 0.6])
