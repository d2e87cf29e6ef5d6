"""Each learner by itself: gains against exact differences, responses against an optimiser."""

import warnings

import pytest
import torch
from problems import EnergyProblem, evidence_of

from helpers import seeded, smooth_images
from promask import learn
from promask.learners import LEARNERS, GradientLearner
from promask.sampling.gains import Gains, GroupedRatio
from promask.sampling.projection import project
from promask.sampling.straight_through import bernoulli

GRADIENT_LEARNERS = [name for name, kind in LEARNERS.items() if issubclass(kind, GradientLearner)]


@pytest.mark.parametrize("name", GRADIENT_LEARNERS)
def test_every_gradient_learner_draws_and_proposes(name):
    rule = evidence_of(name, EnergyProblem())
    theta = torch.rand(20, generator=seeded(1))
    for step in range(1, 4):
        assert rule.begin(theta, step) > 0
        for count in (3, 2):  # a batch in two pieces
            masks = rule.draw(count)
            assert masks.shape == (count, 20)
            assert set(masks.unique().tolist()) <= {0, 1}
            spectra = torch.randn(count, 1, 1, 20, dtype=torch.complex64, generator=seeded(step))
            rule.observe(masks, -torch.rand(count, 20, generator=seeded(step)), spectra)
        proposal = rule.propose()
        assert proposal.shape == (20,)
        assert torch.isfinite(proposal).all()
        theta = project(proposal, 5)


def test_the_published_gradient_is_a_mean_over_all_pieces():
    """Slopes and gradients of two pieces, against the plain mean of their products and a step of torch's Adam."""
    evidence, products = evidence_of("gumbel-adam", EnergyProblem()), []
    theta = torch.full((20,), 0.4)
    evidence.begin(theta, 1)
    for count in (4, 2):
        masks = evidence.draw(count)
        gradients = torch.randn(count, 20, generator=seeded(count))
        products += list(evidence.draws.slope * gradients)
        evidence.observe(masks, gradients, torch.zeros(count, 1, 1, 20, dtype=torch.complex64))
    parameter = torch.nn.Parameter(theta.clone())
    parameter.grad = sum(products) / 6
    torch.optim.Adam([parameter], lr=0.01).step()
    with pytest.warns(UserWarning, match="At the scale of these images"):
        torch.testing.assert_close(evidence.propose(), parameter.data)


# Gains


def quadratic_problem(units=30, curvature_per_energy=1.7):
    """L(m) = sum_k E_k c/2 m_k^2 - sum_k b_k m_k: the difference L(1) - L(0) is c E_k / 2 - b_k, exactly."""
    energy = torch.logspace(0, -3, units, dtype=torch.float64)
    worth = energy * (0.5 + torch.rand(units, generator=seeded(4), dtype=torch.float64)) * curvature_per_energy

    def gradients(masks):
        return curvature_per_energy * energy * masks - worth

    return energy, gradients, curvature_per_energy * energy / 2 - worth


@pytest.mark.parametrize("theta", [0.05, 0.5, 0.97])
@pytest.mark.parametrize("count", [4, 64])
def test_gains_are_exact_for_a_quadratic_loss(theta, count):
    """After a single step, whichever way a unit was drawn, and though the images are of different strength."""
    energy, gradients, difference = quadratic_problem()
    gains = Gains(energy)
    gains.begin()
    masks = bernoulli(torch.full_like(energy, theta), count, seeded(3))
    assert 0 < masks.mean() < 1
    strength = torch.linspace(0.5, 1.5, count, dtype=torch.float64)[:, None]
    gains.observe(masks, strength * gradients(masks), strength * energy)
    torch.testing.assert_close(gains.estimate(novelty=1.0), -difference)


def test_gains_of_certain_units_are_found_from_the_others():
    """Units that are never or always drawn take the curvature of the rest."""
    energy, gradients, difference = quadratic_problem()
    probabilities = torch.full_like(energy, 0.5)
    probabilities[::3], probabilities[1::3] = 0, 1
    gains = Gains(energy)
    gains.begin()
    masks = bernoulli(probabilities, 8, seeded())
    gains.observe(masks, gradients(masks), energy.expand_as(masks))
    torch.testing.assert_close(gains.estimate(novelty=1.0), -difference)


def test_groups_have_a_curvature_of_their_own():
    """Strong units at which the loss is flat, such as the centre of k-space under SSIM."""
    energy = torch.logspace(0, -3, 30, dtype=torch.float64)
    factor = torch.cat((torch.full((3,), 0.01), torch.full((27,), 2.0))).double()  # the first two groups: 1 + 2
    gains = Gains(energy)
    gains.begin()
    masks = bernoulli(torch.full_like(energy, 0.5), 64, seeded())
    gains.observe(masks, factor * energy * (masks - 0.8), energy.expand_as(masks))
    torch.testing.assert_close(gains.estimate(novelty=1.0), 0.3 * factor * energy, rtol=0.2, atol=0)


def test_the_mean_energy_of_the_data_replaces_that_of_the_batch():
    """A complex squared error, dL/dm = -2 (1 - m) E: the gain is the mean energy, whatever the batch held."""
    energy = torch.logspace(0, -2, 10, dtype=torch.float64)
    gains = Gains(energy)
    gains.begin()
    masks = bernoulli(torch.full_like(energy, 0.5), 8, seeded())
    of_images = energy * -torch.log(torch.rand(8, 10, generator=seeded(1), dtype=torch.float64))
    assert ((of_images.mean(0) / energy - 1).abs() > 0.2).any()
    gains.observe(masks, -2 * (1 - masks) * of_images, of_images)
    torch.testing.assert_close(gains.estimate(novelty=1.0), energy)


def test_new_evidence_counts_by_its_novelty():
    """A gain of 1 for all units, then of 2, with a weight of 0.1."""
    energy = torch.ones(4, dtype=torch.float64)
    gains = Gains(energy)
    masks = torch.tensor([[0.0, 1, 0, 1], [1, 0, 1, 0]], dtype=torch.float64)
    for gain, novelty, expected in ((1.0, 1.0, 1.0), (2.0, 0.1, 1.1)):
        gains.begin()
        gains.observe(masks, (masks - 0.5) - gain, energy.expand_as(masks))
        torch.testing.assert_close(gains.estimate(novelty), torch.full_like(energy, expected))


# Responses


def respond(gain, budget, step=1, always=()):
    rule = evidence_of("best-response", EnergyProblem(len(gain), budget, always=always))
    rule.begin(torch.full((len(gain),), 0.5), step)
    rule.gains.estimate = lambda novelty: gain
    return rule.propose()


def test_the_response_maximises_the_gain_less_the_penalty():
    """Against projected gradient ascent on sum(theta (gain / q + T^2 field)) - T / 2 |theta - 1/2|^2."""
    field = 0.1 * torch.tensor([0, 1, 1, 1, 0, -1, -1, -1])  # frequencies 0, 1, 2, 3, -4, -3, -2, -1
    gain = torch.tensor([9.0, 4.0, 3.0, 2.0, 1.5, 1.0, 0.2, -1.0])
    theta = project(respond(gain, budget=3), 3)
    other = torch.full_like(gain, 3 / 8, dtype=torch.float64)
    for _ in range(2000):
        other = project(other.double() + 0.05 * (gain / 3.0 + 4.0 * field - 2.0 * (other - 0.5)), 3)
    torch.testing.assert_close(theta.double(), other, atol=1e-3, rtol=0)


@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1e9])
def test_the_response_does_not_depend_on_the_scale(scale):
    gain = torch.randn(20, generator=seeded()).exp()
    torch.testing.assert_close(respond(scale * gain, 5), respond(gain, 5))


def test_no_gain_at_all_is_no_reason_to_break():
    proposal = respond(torch.zeros(20), 5)
    assert torch.isfinite(proposal).all()
    assert float(project(proposal, 5).sum()) == pytest.approx(5)


def test_units_that_are_always_acquired_take_their_place_in_the_ranking():
    """With a budget of 3 of which one is taken, the second best of the others is marginal.

    At a temperature of 2 the field adds 0.2 to the frequencies 1 and 2, and takes it from -2 and -1.
    """
    gain = torch.tensor([0.0, 8.0, 4.0, 2.0, 1.0])
    proposal = respond(gain, 3, always=[0])
    torch.testing.assert_close(proposal, torch.tensor([1.5, 1.7, 1.2, 0.55, 0.425]))


# The warning of the published rule


@pytest.mark.parametrize(("scale", "warned"), [(1.0, True), (0.006, False), (1e-5, True)])
def test_the_published_rule_warns_of_a_scale_that_defeats_it(scale, warned):
    images = smooth_images(4, size=(16, 16), phase=False).float()
    images = scale * images / images.max()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learn(images, 4, preset="paper", members=1, steps=300, batch_size=4, samples=1, patience=1)
    assert bool(caught) == warned
    if warned:
        assert "scale the images, or use the default preset" in str(caught[0].message)


def test_what_is_known_of_the_curvature_does_not_fade():
    """Once all units are decided, hundreds of steps bring no evidence; the ratio stays the last one."""
    ratio = GroupedRatio(torch.tensor([4.0, 2.0, 1.0, 1.0]))
    assert ratio(torch.zeros(4), torch.zeros(4)).tolist() == [0, 0, 0, 0]
    below = torch.tensor([0.4, 0.2, 0.1, 0.1])
    known = ratio(3 * below, below)
    torch.testing.assert_close(known, torch.full((4,), 3.0))
    for _ in range(1000):
        last = ratio(torch.zeros(4), torch.zeros(4))
    assert torch.equal(last, known)


@pytest.mark.parametrize("name", GRADIENT_LEARNERS)
def test_what_is_skipped_leaves_the_random_numbers_as_what_is_drawn(name):
    """So that processes of which each draws its own masks draw the same as a single one."""
    drawing, skipping = (evidence_of(name, EnergyProblem(33, 7)) for _ in range(2))
    theta = torch.linspace(-0.3, 1.3, 33, dtype=torch.float64).clamp(0, 1)
    for rule in (drawing, skipping):
        rule.begin(theta, 1)
    drawing.draw(3)
    skipping.skip(3)
    assert torch.equal(drawing.draw(5), skipping.draw(5))
