"""Units of different costs: masks against integer programs, the projection against a convex solver."""

import dataclasses
import json
import math

import cvxpy
import numpy as np
import pytest
import torch
from scipy.optimize import LinearConstraint, milp

from helpers import seeded
from promask.errors import InputError
from promask.export.files import parse_pattern
from promask.sampling.costs import spend, whole_costs
from promask.sampling.distribution import MaskDistribution
from promask.sampling.limits import Limits, LimitSettings
from promask.sampling.pattern import Pattern
from promask.sampling.projection import project_costs

COSTS = {"alike": (1, 1, 1), "1 and 2.5": (1, 2.5, 1), "all different": (1, 1.4, 3.1), "coprime": (7, 11, 13)}


def lines(cost=(1, 2.5, 1), length=12, **about):
    """Three contrasts of twelve lines."""
    limits = Limits(cost=cost, **about)
    return Pattern((3, length, 4), (0, 1), indexed="contrast", limits=limits, contrasts=("T1", "FLAIR", "T2"))


def by_integer_program(values, costs, budget):
    """The largest sum that exactly a budget pays for; None if it cannot be spent exactly."""
    rows = LinearConstraint(np.array([costs]), budget, budget)
    found = milp(-np.asarray(values), constraints=rows, integrality=np.ones(len(values)), bounds=(0, 1))
    return -found.fun if found.success else None


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
@pytest.mark.parametrize("budget", [3, 17, 40, 61])
def test_what_is_chosen_is_the_best_that_spends_most(cost, budget):
    costs = torch.tensor(whole_costs(cost)).repeat_interleave(12)
    values = torch.randn(36, generator=seeded(budget), dtype=torch.float64)
    chosen = spend(values, costs, budget)
    spent = int(costs[chosen].sum())
    possible = [by_integer_program(values, costs.numpy(), each) for each in range(budget, spent, -1)]
    assert spent <= budget
    assert all(each is None for each in possible), "no choice spends more"
    assert math.isclose(
        float(values[chosen].sum()), by_integer_program(values, costs.numpy(), spent), abs_tol=1e-9
    )


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_projection_is_that_of_a_convex_solver(cost, share):
    pattern = lines(cost)
    theta = torch.randn(3, 12, generator=seeded(3), dtype=torch.float64) + 0.3
    always, budget = pattern.centre(2), share * pattern.units
    budget = max(budget, pattern.spent(always))
    found = pattern.project(theta, budget, always)
    wanted = cvxpy.Variable((3, 12))
    costs = pattern.costs.numpy().astype(float)
    rules = [wanted >= always.numpy(), wanted <= 1, cvxpy.sum(cvxpy.multiply(costs, wanted)) <= budget]
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(wanted - theta.numpy())), rules).solve(solver="CLARABEL")
    assert np.allclose(found, wanted.value, atol=1e-6)
    assert float((found * pattern.costs).sum()) <= budget + 1e-9


def test_the_projection_of_equal_costs_is_the_paper_s():
    pattern = Pattern((3, 12, 4), (0, 1), indexed="contrast")
    theta = torch.randn(3, 12, generator=seeded(5))
    plain = pattern.project(theta, 7.0, pattern.centre(0))
    assert torch.allclose(project_costs(theta, 7.0, torch.ones(3, 12)), plain, atol=1e-6)


def test_a_budget_is_one_of_scan_time():
    pattern = lines()
    assert (pattern.units, pattern.budget(4)) == (12 * (2 + 5 + 2), 27)
    expensive = pattern.largest(torch.tensor([0.0, 1.0, 0.0])[:, None].expand(3, 12), 27)
    assert expensive.sum(1).tolist() == [1, 5, 0], "five of cost 5, and one of cost 2 for what is left"
    assert pattern.spent(expensive) == 27


def test_the_calibration_region_is_paid_for():
    pattern = lines()
    mask = pattern.largest(torch.zeros(3, 12).masked_fill(pattern.centre(2), torch.inf), 27)
    assert mask[pattern.centre(2)].all()
    assert pattern.spent(mask) <= 27
    with pytest.raises(InputError, match="takes more scan time than x4 leaves"):
        pattern.block(4, 27)


def test_random_masks_cost_what_the_mode_does():
    pattern = lines()
    theta = pattern.project(torch.rand(3, 12, generator=seeded(1)), 27, pattern.centre(1))
    distribution = MaskDistribution(theta, pattern, 27)
    mode = pattern.restrict(distribution.mode())
    drawn = [pattern.restrict(mask) for mask in distribution.sample_exact(20, seed=0)]
    assert {tuple(mask.sum(1).tolist()) for mask in drawn} == {tuple(mode.sum(1).tolist())}
    assert len({mask.numpy().tobytes() for mask in drawn}) > 5
    assert all(mask[pattern.centre(1)].all() for mask in drawn)


def test_few_changes_lead_to_what_can_be_paid_for():
    pattern = lines()
    wished = torch.zeros(3, 12, dtype=torch.bool)
    wished[0, :6] = wished[1, :4] = True  # 12 + 20 of 27
    found = pattern.nearest(wished, pattern.centre(0), torch.arange(36.0).reshape(3, 12), 27)
    assert pattern.spent(found) == 27
    assert int((found & wished).sum()) >= 9, "one of cost 5 leaves"


def test_costs_are_kept_in_a_run():
    pattern = lines()
    assert parse_pattern(json.loads(json.dumps(dataclasses.asdict(pattern)))) == pattern


def test_contrasts_are_named_or_numbered():
    pattern = dataclasses.replace(lines(), limits=Limits())
    for cost in ({"FLAIR": 2.5}, {"flair": "2.5"}, ["1=5/2"], {1: 2.5}):
        assert LimitSettings(cost=cost).on(pattern).limits.cost == (1, 2.5, 1)
    assert LimitSettings(cost={"FLAIR": 2.5}, equal_per="contrast").on(pattern).limits == Limits(equal_per=0)


BAD = {
    "an unknown contrast": ({"cost": {"PD": 2}}, "no contrast 'PD' for `cost`: they are T1, FLAIR, T2"),
    "a number beyond": ({"cost": {3: 2}}, "or have numbers, 0 to 2"),
    "nothing": ({"cost": {"T1": 0}}, "must be a positive number for each of 3 contrasts"),
    "no number": ({"cost": ["T1=slow"]}, "`cost` must be a number for each, such as FLAIR=2.5"),
    "far apart": ({"cost": {"T1": 1000}}, "of comparable size"),
    "with a gap": ({"cost": {"T1": 2}, "largest_gap": {1: 3}}, "`cost` and `largest_gap` cannot hold together"),
    "with frames": ({"equal_per": "frame"}, "`equal_per` frame is for frames that have their own pattern"),
    "in time": ({"period": 3}, "`period` is for frames"),
}


@pytest.mark.parametrize(("settings", "sentence"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_one_sentence(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        LimitSettings(**settings).on(dataclasses.replace(lines(), limits=Limits()))


def test_costs_need_contrasts():
    for pattern in (Pattern((6, 4), (0,)), Pattern((3, 6, 4), (0, 1), indexed="frame")):
        with pytest.raises(InputError, match="`cost` is for contrasts that have their own pattern: set `per`"):
            LimitSettings(cost={0: 2}).on(pattern)
        assert not LimitSettings(cost={0: 2}).on(pattern, strict=False).limits.cost
