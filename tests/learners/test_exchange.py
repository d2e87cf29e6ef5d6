"""The rule that exchanges members of one mask, and the worths that it asks for, against brute force."""

import itertools

import pytest
import torch
from problems import EnergyProblem, evidence_of
from scipy.stats import spearmanr

from helpers import coil_maps, seeded, smooth_images
from promask.data.builtin.cardiac import cardiac
from promask.data.simulate import simulated_maps
from promask.learners.exchange import loss_and_insertions
from promask.losses import make_loss
from promask.operators.fourier import fft_order, spectrum
from promask.problem.objective import loss_and_slopes
from promask.recon.cg_sense import CgSense
from promask.recon.network import Network
from promask.recon.zero_filled import ZERO_FILLED, Sense
from promask.sampling.pattern import Pattern
from promask.types import Batch

AXES = (-2, -1)


def exchange(units=40, budget=10, steps=40, seed=0, energy=None, always=(), never=(), judge=None):
    energy = torch.linspace(2, 1, units, dtype=torch.float64) if energy is None else energy
    return evidence_of("exchange", EnergyProblem(units, budget, energy, always, never, judge), steps, seed)


def steps_of(rule, change, theta, count=4):
    """The masks that were drawn and the mask that was proposed, step by step."""
    for step in range(1, rule.steps + 1):
        assert rule.begin(theta, step) > 0
        masks = rule.draw(count)
        no_spectra = torch.zeros(count, 1, 1, masks.shape[1], dtype=torch.complex128)
        rule.observe(masks, torch.stack([change(mask) for mask in masks]), no_spectra)
        theta = rule.propose()
        yield masks, theta


def last_of(rule, change, theta, count=4):
    return list(steps_of(rule, change, theta, count))[-1][1]


def random(units, seed=0):
    return torch.rand(units, generator=seeded(seed), dtype=torch.float64)


def indices(mask):
    return set(mask.nonzero().flatten().tolist())


# The rule


def test_every_mask_has_the_budget_and_what_is_fixed():
    """Though what is always acquired is worth least, and what never is, most."""
    worth = random(40, 1)
    worth[[17, 18]], worth[[5, 6, 7]] = -1, 9
    rule = exchange(steps=120, always=(17, 18), never=(5, 6, 7))
    theta = random(40).masked_fill(rule.problem.never, 0)
    for step, (masks, proposal) in enumerate(steps_of(rule, lambda mask: -worth, theta)):
        assert set(proposal.tolist()) == {0, 1}
        assert int(proposal.sum()) == 10
        for mask in (*masks, proposal):
            assert mask[[17, 18]].all()
            assert not mask[[5, 6, 7]].any()
            assert mask[0] == 1, "the strongest unit"
        # In the first draws, nothing is known of the candidates.
        assert set(masks.sum(1).tolist()) == ({9} if step == 0 else {10})
    assert indices(proposal) == {
        0,
        17,
        18,
        *worth[1:].masked_fill(worth[1:] == 9, 0).topk(7).indices.add(1).tolist(),
    }


@pytest.mark.parametrize(("budget", "always"), [(1, ()), (40, ()), (3, (8, 9, 10)), (2, (0, 39))])
def test_where_there_is_nothing_to_exchange(budget, always):
    for masks, proposal in steps_of(
        exchange(budget=budget, always=always, steps=5), lambda mask: -random(40), random(40)
    ):
        assert int(proposal.sum()) == budget
        assert proposal[list(always)].all()
        assert (masks.sum(1) >= budget - max(1, round(0.05 * budget))).all()


@pytest.mark.parametrize("first", [1, 5, 8])
def test_a_start_that_leaves_the_choice_takes_no_padding(first):
    """Probabilities of zero elsewhere are no better than those of padding."""
    padding = [first, first + 1, first + 2, first + 3]
    rule = exchange(units=12, budget=6, steps=3, never=padding)
    theta = torch.zeros(12, dtype=torch.float64)
    theta[0] = 1
    for masks, proposal in steps_of(rule, lambda mask: -random(12), theta):
        assert not masks[:, padding].any()
        assert int(proposal.sum()) == 6
        assert not proposal[padding].any()


def test_the_seed_decides():
    def course(seed):
        return [
            torch.cat((masks, mask[None]))
            for masks, mask in steps_of(exchange(seed=seed), lambda mask: -random(40, 1), random(40))
        ]

    one, again, other = course(0), course(0), course(1)
    assert all(torch.equal(left, right) for left, right in zip(one, again, strict=True))
    assert not all(torch.equal(left[:4], right[:4]) for left, right in zip(one, other, strict=True))


def test_members_are_asked_in_turn():
    rule = exchange(units=60, budget=20)
    rule.begin(random(60), 1)
    masks = torch.cat((rule.draw(10), rule.draw(9)))  # a batch in two pieces
    members = indices(rule.members)
    missing = [members - indices(mask) for mask in masks]
    assert all(len(each) == 1 for each in missing)
    assert set.union(*missing) == members - {0}, "each of them once, but for the strongest"


def test_candidates_come_in_proportion_to_their_worth():
    rule = exchange(units=5, budget=2)
    rule.begin(torch.tensor([1.0, 0.9, 0, 0, 0], dtype=torch.float64), 1)
    rule.within[:] = True
    rule.worths, rule.counts = torch.tensor([0, 0, 6.0, 3.0, -1.0]).double(), torch.ones(5).double()
    masks = rule.draw(3000)
    assert (masks.sum(1) == 2).all()
    assert not masks[:, [1, 4]].any()
    assert masks[:, 2].mean() == pytest.approx(2 / 3, abs=0.03)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(3))
def test_units_that_add_up_are_found_exactly(seed, scale):
    worth = random(40, 10 + seed)
    worth[0] = 2  # that of the strongest unit
    found = last_of(exchange(steps=120, seed=seed), lambda mask: -scale * worth, random(40, seed))
    assert indices(found) == indices_of_largest(worth, 10)


def test_units_that_add_up_are_found_though_images_differ():
    """The worth in an image is off by half as much as units differ."""
    worth, noise = random(40, 3), seeded(4)
    worth[0] = 2

    def change(mask):
        return -worth + 0.15 * torch.randn(40, generator=noise, dtype=torch.float64)

    found = indices(last_of(exchange(steps=120), change, random(40)))
    assert len(found & indices_of_largest(worth, 10)) >= 8
    assert worth[list(found)].sum() > 0.96 * worth.topk(10).values.sum()


@pytest.mark.parametrize("widest", [11, 14, 20, 40])
def test_the_mask_reaches_as_far_as_the_images_say(widest):
    """Distant units are worth most, but the loss of a mask grows with what lies beyond some of them."""
    worth = torch.arange(40, dtype=torch.float64)

    def judge(units):
        return float((units * torch.where(torch.arange(40) < widest, -worth, 1000.0)).sum())

    rule = exchange(steps=120, judge=judge)
    start = torch.linspace(1, 0, 40, dtype=torch.float64)
    masks = [mask for _, mask in steps_of(rule, lambda mask: -worth, start)]
    beyond = [int(mask[widest:].sum()) for mask in masks]
    assert beyond[-1] == 0
    assert judge(masks[-1]) <= judge((start > start[10]).double()), "never worse than the start"
    if widest >= 14:  # the first reach is of 13 units
        assert int(masks[-1][10:].sum()) >= 3
    if widest == 40:
        assert indices(masks[-1]) == {0, *range(31, 40)}


def indices_of_largest(values, count):
    return set(values.topk(count).indices.tolist())


ENERGY = torch.tensor([1, 0.8, 0.6, 0.45, 0.35, 0.25, 0.2, 0.25, 0.35, 0.45, 0.6, 0.8], dtype=torch.float64)


def loss_of_neighbours(mask):
    """What is lost of the energy if units tell four fifths of their neighbours."""
    near = torch.maximum(mask.roll(1, -1), mask.roll(-1, -1))
    return (ENERGY * (1 - torch.maximum(mask, 0.8 * near))).sum(-1)


def change_by_each(mask):
    """L(m = 1) - L(m = 0) for every missing unit."""
    with_each = torch.maximum(mask, torch.eye(12, dtype=torch.float64))
    return loss_of_neighbours(with_each) - loss_of_neighbours(mask)


def test_units_that_know_their_neighbours_keep_their_distance():
    """Against all 495 masks, and against the units of most worth, each by itself, which are one block."""
    every = torch.zeros(495, 12, dtype=torch.float64)
    for mask, chosen in zip(every, itertools.combinations(range(12), 4), strict=True):
        mask[list(chosen)] = 1
    losses = loss_of_neighbours(every)
    best = every[losses.argmin()]
    assert indices(best) == {0, 3, 6, 9}
    alone = -change_by_each(torch.zeros(12, dtype=torch.float64))
    block = torch.zeros(12, dtype=torch.float64)
    block[alone.topk(4).indices] = 1
    assert float((block * block.roll(1)).sum()) == 3
    worst, least = float(loss_of_neighbours(block)), float(losses.min())

    def judge(units):
        return float(loss_of_neighbours(units.double()))

    rules = [exchange(12, 4, 120, seed, ENERGY, judge=judge) for seed in range(6)]
    found = torch.stack([last_of(rule, change_by_each, ENERGY) for rule in rules])
    lost = (loss_of_neighbours(found) - least) / (worst - least)
    assert lost.mean() < 0.2
    assert lost.max() < 0.4
    assert (found * found.roll(1, -1)).sum(-1).mean() < 0.5, "next to none are neighbours"
    assert (lost == 0).any()


# Worths by `loss_and_insertions`


def masks_of(pattern, count, share=0.4, seed=2):
    return (torch.rand(count, *pattern.unit_shape, generator=seeded(seed)) < share).double()


def batch_of(count, coils=None, channels=1, size=(12, 10)):
    images = smooth_images(count, channels, size)
    maps = None if coils is None else coil_maps(coils, size)
    return Batch(spectrum(images if maps is None else maps * images, AXES), images, maps=maps)


@torch.no_grad()
def losses_of(masks, batch, pattern, task, recon):
    """Of every image with its own mask, one by one."""
    every = []
    for number, mask in enumerate(masks):
        one = Batch(batch.spectra[number, None], batch.targets[number, None], maps=batch.maps)
        every.append(task(recon.from_spectra(one.spectra, pattern.expand(mask), one.maps), one))
    return torch.stack(every)


def true_changes(masks, batch, pattern, task, recon):
    """L(m = 1) - L(m = 0) of every image for every unit, by reconstructing each of them."""
    before = losses_of(masks, batch, pattern, task, recon)
    changes = torch.zeros_like(masks)
    for unit in itertools.product(*map(range, pattern.unit_shape)):
        more = masks.clone()
        more[(slice(None), *unit)] = 1
        changes[(slice(None), *unit)] = losses_of(more, batch, pattern, task, recon) - before
    return before, changes


PATTERNS = {"1d": Pattern((12, 10), (1,)), "rows": Pattern((12, 10), (0,)), "2d": Pattern((12, 10), (0, 1))}


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_worths_are_exact_where_units_add_up(pattern, channels):
    """Zero-filled images, and the squared error of complex numbers."""
    batch, task, masks = batch_of(3, channels=channels), make_loss("complex-mse"), masks_of(pattern, 3)
    result = loss_and_insertions(masks, batch, pattern, task, ZERO_FILLED)
    before, changes = true_changes(masks, batch, pattern, task, ZERO_FILLED)
    torch.testing.assert_close(result.loss, before.sum())
    torch.testing.assert_close(result.gradients * (1 - masks), changes, atol=1e-14, rtol=1e-9)
    assert (changes[masks == 0] < 0).all()


def hearts_seen_by_coils(size):
    images = torch.as_tensor(cardiac(subjects=4, slices=1, size=size).image)[:, None].to(torch.complex128)
    maps = simulated_maps(4, (size, size))[None].to(torch.complex128)
    return Batch(spectrum(maps * images, AXES), images, maps=maps)


def worths_and_changes(free, recon, loss, differentiate=loss_and_insertions, seed=1):
    """The means over some images, for the missing units of one mask, whose density falls with the distance."""
    size = 32 if len(free) == 1 else 16
    pattern, batch, task = Pattern((size, size), free), hearts_seen_by_coils(size), make_loss(loss)
    density = 1 / (1 + 6 * fft_order(pattern.distance(), len(free)))
    chance = torch.rand(density.shape, generator=seeded(seed), dtype=torch.float64)
    mask = (chance < 0.4 * density / density.mean()).double()
    mask.view(-1)[0] = 1
    worths = differentiate(mask.expand(4, *mask.shape).contiguous(), batch, pattern, task, recon).gradients.mean(0)
    missing = (mask == 0).nonzero()
    more = mask.repeat(len(missing), *[1] * mask.ndim)
    for number, unit in enumerate(missing.tolist()):
        more[(number, *unit)] = 1
    with torch.no_grad():
        losses = [
            task(recon.from_spectra(batch.spectra, pattern.expand(each)[None, None], batch.maps), batch)
            for each in (mask, *more)
        ]
    return worths[mask == 0], torch.stack(losses[1:]) - losses[0]


@pytest.mark.parametrize(("recon", "least"), [(Sense(), 0.9), (CgSense(), 0.75)], ids=["sense", "cg-sense"])
@pytest.mark.parametrize(
    ("free", "loss", "masks"), [((1,), "complex-mse", 3), ((1,), "mse", 3), ((0, 1), "mse", 1)]
)
def test_worths_are_in_the_order_of_the_true_ones(free, loss, masks, recon, least):
    """Not exactly: other samples would be inferred otherwise from those that come."""
    agreements, signs = [], []
    for seed in range(1, 1 + masks):
        worths, changes = worths_and_changes(free, recon, loss, seed=seed)
        agreements.append(spearmanr(worths, changes).statistic)
        important = changes.abs() > 0.1 * changes.abs().max()
        signs.append((worths.sign() == changes.sign())[important])
    assert sum(agreements) / masks > least
    assert torch.cat(signs).double().mean() > 0.95


def test_worths_have_the_size_of_the_true_ones_where_a_reconstruction_fills_in():
    """The derivative at a weight of 0 is that of a sample which is hardly trusted, and many times as large."""
    worths, changes = worths_and_changes((1,), CgSense(), "mse")
    derivatives, _ = worths_and_changes((1,), CgSense(), "mse", loss_and_slopes)
    assert 0.05 < worths.sum() / changes.sum() < 2
    assert derivatives.sum() / changes.sum() > 10


@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("coils", [None, 3])
def test_the_gradients_to_a_network_are_those_of_backpropagation(coils, consistent):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.Tanh(), torch.nn.Conv2d(4, 2, 3, padding=1)
        module = torch.nn.Sequential(*layers, torch.nn.Identity()).double()
    recon, weights = Network(module, consistent), list(module.parameters())
    pattern, batch = PATTERNS["1d"], batch_of(3, coils)
    masks, task = masks_of(pattern, 3), make_loss("mse")
    one, other = (
        each(masks, batch, pattern, task, recon, weights) for each in (loss_and_insertions, loss_and_slopes)
    )
    torch.testing.assert_close(one.loss, other.loss)
    for left, right in zip(one.weight_gradients, other.weight_gradients, strict=True):
        assert right.abs().max() > 0
        torch.testing.assert_close(left, right)
    assert loss_and_insertions(masks, batch, pattern, task, recon).weight_gradients == []
    assert all(weight.grad is None for weight in weights)
