import pytest
import torch

from helpers import seeded
from promask.updates import UPDATES, Adam, BudgetScaled


def gradients(count=20, size=50, scale=1.0):
    return scale * torch.randn(count, size, generator=seeded(), dtype=torch.float64)


def apply(update, values):
    theta = torch.full_like(values[0], 0.5)
    for gradient in values:
        theta = update(theta, gradient, -gradient)
    return theta


def test_adam_is_torchs():
    values = gradients(scale=1e-6)
    parameter = torch.nn.Parameter(torch.full_like(values[0], 0.5))
    optimiser = torch.optim.Adam([parameter], lr=0.01)
    for gradient in values:
        parameter.grad = gradient.clone()
        optimiser.step()
    torch.testing.assert_close(apply(Adam(0.01, steps=20, budget=5), values), parameter.data)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e9])
def test_the_budget_scaled_step_does_not_depend_on_the_scale(scale):
    reference = apply(BudgetScaled(0.05, steps=20, budget=5), gradients())
    torch.testing.assert_close(apply(BudgetScaled(0.05, steps=20, budget=5), gradients(scale=scale)), reference)


def test_the_marginal_unit_moves_by_the_step_size():
    """With a budget of 3 the third gain is marginal, and moves are clipped at three times that."""
    gain = torch.tensor([8.0, 4.0, 2.0, 1.0, 0.5, 0.0])
    moved = BudgetScaled(0.1, steps=10, budget=3)(torch.zeros(6), -gain, gain)
    torch.testing.assert_close(moved, torch.tensor([0.3, 0.2, 0.1, 0.05, 0.025, 0.0]))


def test_the_marginal_gain_is_not_taken_from_the_noise():
    """With a budget of 5 out of 6 it is the median that counts, not the fifth."""
    gain = torch.tensor([8.0, 4.0, 2.0, 1.0, 1e-9, 0.0])
    moved = BudgetScaled(0.1, steps=10, budget=5)(torch.zeros(6), -gain, gain)
    torch.testing.assert_close(moved, torch.tensor([0.3, 0.2, 0.1, 0.05, 0.0, 0.0]))


@pytest.mark.parametrize("name", UPDATES)
def test_no_gradient_no_move(name):
    theta = torch.rand(10, generator=seeded())
    moved = UPDATES[name](0.1, 10, 3)(theta, torch.zeros(10), torch.zeros(10))
    assert torch.equal(moved, theta)
