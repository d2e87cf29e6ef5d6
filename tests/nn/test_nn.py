import copy
import runpy
from pathlib import Path

import cvxpy
import numpy as np
import pytest
import safetensors.torch
import torch

import promask
from helpers import assert_global_random_state_is_untouched, seeded
from promask.errors import InputError
from promask.nn import ProbabilisticMask, difference
from promask.sampling.straight_through import generator

KINDS = [
    ({"shape": (6, 9), "pattern": "2d"}, (6, 9)),
    ({"shape": (6, 9), "pattern": "1d"}, (9,)),
    ({"shape": (6, 9), "pattern": "1d", "axis": [0]}, (6,)),
    ({"shape": (4, 5, 6), "pattern": "2d"}, (5, 6)),
    ({"shape": (4, 5, 6), "pattern": "3d"}, (4, 5, 6)),
]
ESTIMATORS = ["difference", "gumbel"]


def kspace_for(layer, batch=3, channels=2, seed=0, dtype=torch.complex64):
    """K-space that decays from the centre."""
    noise = torch.randn(batch, channels, *layer.pattern.shape, generator=seeded(seed), dtype=dtype)
    decay = 1 / (0.05 + layer.pattern.distance())
    return noise * layer.pattern.expand(decay).to(noise.real.dtype)


def training_step(layer, optimiser, kspace, step, steps, weight=1.0):
    layer.anneal(step, steps)
    optimiser.zero_grad()
    loss = weight * (layer(kspace) - kspace).abs().square().mean()
    loss.backward()
    optimiser.step()
    layer.constrain()


def trained(layer, kspace, steps=100, **settings):
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.3)
    for step in range(1, steps + 1):
        training_step(layer, optimiser, kspace, step, steps, **settings)
    return layer


@pytest.mark.parametrize(("options", "unit_shape"), KINDS)
def test_evaluation_acquires_exactly_the_largest_probabilities(options, unit_shape):
    layer = ProbabilisticMask(acceleration=2.5, seed=3, **options).eval()
    assert layer.probabilities.shape == unit_shape
    assert layer.probabilities.dtype == torch.float32
    kspace = kspace_for(layer)
    units = layer.pattern.largest(layer.probabilities.detach(), layer.budget)
    assert units.sum() == layer.budget == int(np.prod(unit_shape) / 2.5)
    assert layer.mask.dtype == torch.bool
    assert torch.equal(layer.mask, layer.pattern.expand(units))
    assert torch.equal(layer(kspace), torch.where(layer.mask, kspace, 0))
    assert torch.equal(layer.masks_for(kspace), layer.mask.float().expand(3, 1, *layer.pattern.shape))
    assert torch.equal(layer.distribution.mode(), layer.mask)


@pytest.mark.parametrize(("options", "unit_shape"), KINDS)
def test_the_start_can_be_given_for_each_unit_or_location(options, unit_shape):
    theta = torch.rand(unit_shape, generator=seeded())
    layer = ProbabilisticMask(acceleration=2.5, init=theta.numpy(), **options)
    assert torch.equal(layer.probabilities, theta)
    again = ProbabilisticMask(acceleration=2.5, init=layer.mask, **options)
    assert torch.equal(again.mask, layer.mask)


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("options", "unit_shape"), KINDS)
def test_ties_go_to_the_centre_of_kspace(options, unit_shape, value):
    layer = ProbabilisticMask(acceleration=2.5, init=torch.full(unit_shape, value), **options)
    ties = layer.pattern.largest(torch.zeros(unit_shape), layer.budget)
    assert torch.equal(layer.pattern.restrict(layer.mask), ties)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(("options", "unit_shape"), KINDS)
def test_training_draws_a_mask_of_whole_units_for_each_item(options, unit_shape, estimator):
    layer = ProbabilisticMask(acceleration=2, estimator=estimator, **options)
    kspace = kspace_for(layer, batch=4)
    result = layer(kspace)
    assert result.dtype == kspace.dtype
    masks = result != 0
    assert torch.equal(result, torch.where(masks, kspace, 0))
    assert torch.equal(masks[:, 0], masks[:, 1]), "the channels share a mask"
    units = layer.pattern.restrict(masks[:, 0])
    assert len({tuple(item.flatten().tolist()) for item in units}) == 4, "the items do not"


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_masks_have_the_given_probabilities(estimator):
    theta = torch.tensor([0.0, 0.05, 0.3, 0.5, 0.9, 1.0])
    layer = ProbabilisticMask((2, 6), 2, "1d", init=theta, estimator=estimator)
    count = 50_000
    units = layer.masks_for(torch.ones(count, 1, 2, 6, dtype=torch.complex64))[:, 0, 0].detach()
    deviation = (theta * (1 - theta) / count).sqrt()
    assert ((units.mean(0) - theta).abs() <= 4 * deviation).all()
    assert abs(float(units.sum(1).mean()) - 2.75) < 4 * float(deviation.square().sum().sqrt())


@pytest.mark.parametrize("temperature", [1.0, 0.2])
@pytest.mark.parametrize(("options", "unit_shape"), KINDS)
def test_the_gumbel_gradient_is_the_published_one_written_out(options, unit_shape, temperature, monkeypatch):
    layer = ProbabilisticMask(acceleration=2, estimator="gumbel", margin=None, **options)
    layer.temperature = temperature
    kspace, weight = kspace_for(layer), kspace_for(layer, seed=1)
    gumbel = -torch.log(-torch.log(torch.rand(2, 3, *unit_shape, generator=seeded(2))))
    monkeypatch.setattr("promask.nn.logistic_noise", lambda *_: gumbel[1] - gumbel[0])
    (weight * layer(kspace)).abs().square().sum().backward()

    theta = layer.probabilities.detach().clone().requires_grad_()
    rho = torch.log(theta + 1e-20) - torch.log(1 - theta + 1e-20)
    soft = torch.sigmoid((rho + gumbel[1] - gumbel[0]) / temperature)
    hard = (soft >= 0.5).float()
    masks = layer.pattern.expand(hard - soft.detach() + soft)
    (weight * kspace * masks[:, None]).abs().square().sum().backward()
    torch.testing.assert_close(layer.probabilities.grad, theta.grad, rtol=1e-4, atol=1e-5)


def test_the_difference_is_that_of_the_losses_with_and_without_a_unit():
    """Of L = sum of E (m - a)^2 with an optimum a for each unit; some units are always drawn, or never."""
    masks = (torch.rand(5, 40, generator=seeded(), dtype=torch.float64) < 0.4).double()
    masks[:, :6], masks[:, 6:12] = 1, 0
    energies = torch.rand(5, 40, generator=seeded(1), dtype=torch.float64) * torch.logspace(0, 4, 40)
    best = torch.randn(40, generator=seeded(2), dtype=torch.float64)

    def loss(masks):
        return (energies * (masks - best).square()).sum()

    expected = []
    for unit in range(40):
        with_unit, without = masks.clone(), masks.clone()
        with_unit[:, unit], without[:, unit] = 1, 0
        expected.append(loss(with_unit) - loss(without))
    gradients = torch.func.grad(loss)(masks)
    torch.testing.assert_close(difference(masks, energies, gradients), torch.stack(expected))


@pytest.mark.parametrize(("options", "unit_shape"), KINDS)
def test_the_difference_through_the_layer(options, unit_shape):
    """The squared error of zero-filled k-space falls by the energy of a unit."""
    layer = ProbabilisticMask(acceleration=2, margin=None, **options)
    kspace = kspace_for(layer, dtype=torch.complex128)
    (layer(kspace) - kspace).abs().square().sum().backward()
    bound = [2 + axis for axis in range(len(layer.pattern.shape)) if axis not in layer.pattern.free]
    energy = kspace.abs().square().sum([0, 1, *bound]).float()
    torch.testing.assert_close(layer.probabilities.grad, -energy, rtol=1e-3, atol=1e-3 * float(energy.max()))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("centre", [0, 2])
def test_the_gradient_of_the_last_affordable_unit_is_the_margin(estimator, centre):
    layer = ProbabilisticMask((8, 8), 4, centre=centre, estimator=estimator, margin=0.5)
    kspace = kspace_for(layer)
    (layer(kspace) - kspace).abs().square().sum().backward()
    gains = -layer.probabilities.grad
    assert (gains[layer.pattern.centre(centre)] == 0).all()
    affordable = layer.budget - centre**2
    marginal = gains[~layer.pattern.centre(centre)].sort(descending=True).values[affordable - 1]
    torch.testing.assert_close(abs(float(marginal)), 0.5)


@pytest.mark.parametrize("training", [True, False])
def test_the_gradient_of_kspace_is_the_masked_one(training):
    layer = ProbabilisticMask((6, 9), 2).train(training)
    kspace, weight = kspace_for(layer).requires_grad_(), kspace_for(layer, seed=1)
    result = layer(kspace)
    result.backward(weight)
    assert torch.equal(kspace.grad, torch.where(result != 0, weight, 0))


@pytest.mark.parametrize("centre", [0, 2])
@pytest.mark.parametrize("share", [1.0, 1.4])
def test_constrain_agrees_with_a_convex_solver(centre, share):
    layer = ProbabilisticMask((6, 5), 3, centre=centre)
    moved = torch.randn(6, 5, generator=seeded(4))
    layer.probabilities.data.copy_(moved)
    layer.budget_now = share * layer.budget
    layer.constrain()
    nearest = cvxpy.Variable((6, 5))
    block = np.ix_([2, 3], [1, 2])
    limits = [nearest >= 0, nearest <= 1, cvxpy.sum(nearest) <= share * layer.budget]
    cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum_squares(nearest - moved.numpy())),
        limits + ([nearest[block] == 1] if centre else []),
    ).solve(solver=cvxpy.CLARABEL)
    np.testing.assert_allclose(layer.probabilities.detach().numpy(), nearest.value, atol=1e-5)


@pytest.mark.parametrize("annealing", ["cubic", "linear", "none"])
def test_the_budget_and_the_temperature_fall(annealing):
    layer = ProbabilisticMask((8, 8), 4, init=torch.ones(8, 8))
    budgets, temperatures = [], []
    for step in range(1, 11):
        layer.anneal(step, 10, annealing=annealing)
        layer.constrain()
        budgets.append(layer.budget_now)
        temperatures.append(layer.temperature)
        assert float(layer.probabilities.detach().sum()) <= layer.budget_now * (1 + 1e-6)
    assert budgets[0] == (16 if annealing == "none" else 64)
    assert budgets == sorted(budgets, reverse=True)
    assert budgets[-1] == 16
    np.testing.assert_allclose(temperatures, np.linspace(1, 0.03, 10), rtol=1e-6)


def test_the_centre_is_acquired_whatever_the_optimiser_does():
    layer = ProbabilisticMask((8, 8), 4, centre=3)
    kspace = kspace_for(layer)
    layer.probabilities.data = torch.linspace(1.5, -2, 64).reshape(8, 8)
    assert layer.masks_for(kspace)[:, 0, 3:6, 3:6].all()
    assert layer.eval().mask[3:6, 3:6].all()
    assert layer.mask.sum() == 16
    assert layer.distribution.mode()[3:6, 3:6].all()
    assert float(layer.distribution.probabilities.sum()) <= 16


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_saved_training_goes_on_identically(estimator):
    layer = ProbabilisticMask((8, 8), 4, centre=2, seed=5, estimator=estimator)
    kspace, steps = kspace_for(layer), 10
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    for step in range(1, 6):
        training_step(layer, optimiser, kspace, step, steps)

    saved = safetensors.torch.save(layer.state_dict())  # plain tensors: there is nothing else that it can save
    resumed = ProbabilisticMask((8, 8), 4, centre=2, seed=5, estimator=estimator)
    resumed.load_state_dict(safetensors.torch.load(saved))
    assert (resumed.budget_now, resumed.temperature) == (layer.budget_now, layer.temperature)
    second = torch.optim.Adam(resumed.parameters(), lr=0.1)
    second.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    for step in range(6, steps + 1):
        training_step(layer, optimiser, kspace, step, steps)
        training_step(resumed, second, kspace, step, steps)
        assert torch.equal(layer.probabilities, resumed.probabilities)
    assert torch.equal(layer(kspace), resumed(kspace))


def test_masks_come_from_the_seed_alone():
    layers = [ProbabilisticMask((8, 8), 4, seed=seed) for seed in (1, 1, 2)]
    kspace = kspace_for(layers[0])
    first, same, other = (layer(kspace) for layer in layers)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert not torch.equal(first, layers[0](kspace)), "a second pass draws anew"
    assert_global_random_state_is_untouched(lambda: trained(ProbabilisticMask((8, 8), 4), kspace, steps=3))
    start = torch.rand(8, 8, generator=generator(1, 0, "start"))
    assert torch.equal(layers[0].probabilities, start)


@pytest.mark.parametrize("weight", [2.0**-30, 1.0, 2.0**30])
@pytest.mark.parametrize("pattern", ["2d", "1d"])
def test_plain_adam_finds_the_closed_form_at_any_scale_of_the_loss(pattern, weight):
    """With zero-filling and the squared error, the best mask is that of the largest mean energies."""
    layer = ProbabilisticMask((24, 32), 4, pattern)
    kspace = kspace_for(layer, batch=8, channels=1)
    trained(layer, kspace, weight=weight)
    energy = layer.pattern.energies(kspace).mean(0)
    best = energy.flatten().topk(layer.budget).values.sum()
    assert energy[layer.pattern.restrict(layer.mask)].sum() > 0.999 * best
    assert float(layer.probabilities.detach().sum()) <= layer.budget


def test_sgd_learns_with_a_margin_of_1():
    layer = ProbabilisticMask((24, 32), 4, margin=1.0)
    kspace = kspace_for(layer, batch=8, channels=1)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.03)
    for step in range(1, 101):
        training_step(layer, optimiser, kspace, step, steps=100)
    energy = layer.pattern.energies(kspace).mean(0)
    assert energy[layer.mask].sum() > 0.999 * energy.flatten().topk(layer.budget).values.sum()


def test_the_layer_moves_and_is_copied_like_any_other():
    layer = ProbabilisticMask((8, 8), 4, centre=2)
    kspace = kspace_for(layer, dtype=torch.complex128)
    twin = copy.deepcopy(layer)
    assert torch.equal(layer(kspace), twin(kspace))
    assert layer(kspace).dtype == torch.complex128
    assert layer.eval().to("meta")(kspace.to("meta")).device.type == "meta"
    assert repr(layer) == (
        "ProbabilisticMask((8, 8), acceleration=4, free=(0, 1), centre=2, budget=16 of 64 units)"
    )


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, torch.float64])
def test_a_network_of_another_precision_has_the_same_mask(precision):
    layer = ProbabilisticMask((300, 301), 7.3)
    network = torch.nn.Sequential(copy.deepcopy(layer), torch.nn.Linear(2, 2)).to(precision)
    assert network[1].weight.dtype == precision
    assert network[0].budget_now == layer.budget == 12369
    assert torch.equal(network[0].probabilities, layer.probabilities)


@pytest.mark.parametrize(("acceleration", "centre"), [(1, 0), (64, 0), (64, 1), (4, 4)])
def test_the_ends_of_what_there_is_to_choose(acceleration, centre):
    layer = ProbabilisticMask((8, 8), acceleration, centre=centre)
    trained(layer, kspace_for(layer), steps=3)
    assert layer.mask.sum() == 64 // acceleration
    assert layer.pattern.restrict(layer.mask)[layer.pattern.centre(centre)].all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acceleration": 0.5}, "acceleration` must be"),
        ({"pattern": "4d"}, "Unknown pattern"),
        ({"pattern": "3d"}, "needs 3 axes"),
        ({"centre": 5}, "narrower centre"),
        ({"seed": -1}, "seed must be"),
        ({"estimator": "best"}, "Unknown estimator"),
        ({"margin": 0.0}, "margin must be"),
        ({"init": "energy"}, "Unknown start"),
        ({"init": torch.full((8, 8), 1.5)}, "from 0 to 1"),
        ({"init": torch.zeros(3)}, "units have shape"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        ProbabilisticMask(**{"shape": (8, 8), "acceleration": 4, **options})


def test_bad_input_is_refused():
    layer = ProbabilisticMask((8, 8), 4)
    for kspace, message in [
        (torch.zeros(1, 1, 8, 8), "must be complex, but is torch.float32"),
        (torch.zeros(8, 8, dtype=torch.complex64), r"its shape is \[8, 8\]"),
        (torch.zeros(1, 1, 8, 9, dtype=torch.complex64), r"its shape is \[1, 1, 8, 9\]"),
    ]:
        with pytest.raises(InputError, match=message):
            layer(kspace)
    with pytest.raises(InputError, match="from 16 to the number of units, 64"):
        layer.budget_now = 15
    with pytest.raises(InputError, match="temperature must be above 0"):
        layer.temperature = 0
    with pytest.raises(InputError, match="from 1 to 10"):
        layer.anneal(11, 10)
    with pytest.raises(InputError, match="Unknown annealing"):
        layer.anneal(1, 10, annealing="quick")


def test_what_was_learned_is_a_distribution():
    layer = ProbabilisticMask((8, 8), 4)
    trained(layer, kspace_for(layer), steps=5)
    assert isinstance(layer.distribution, promask.MaskDistribution)
    assert torch.equal(layer.distribution.probabilities, layer.probabilities)
    assert torch.equal(layer.distribution.mode(), layer.mask)


def test_the_example_beats_a_fixed_mask_after_a_few_steps():
    example = Path(__file__).parents[2] / "examples" / "joint_reconstruction.py"
    quality = runpy.run_path(str(example))["main"](steps=30)
    assert quality["learned"] > quality["Poisson disc"] + 1
