"""The race of shapes: the one that is known to be best wins, and all run on the same images."""

import math

import numpy as np
import pytest
import torch
from problems import optimised

from helpers import samples_of, seeded, smooth_images
from promask.learners.shape_race import log_energy, shapes
from promask.learning.config import Config
from promask.losses.image import ImageLoss
from promask.operators.fourier import centred, fft_order, space_axes, spectrum
from promask.problem.problem import starting_probabilities
from promask.sampling.distribution import MaskDistribution
from promask.sampling.pattern import Pattern
from promask.sampling.straight_through import generator

PATTERN = Pattern((16, 12), (0, 1))
LINES = Pattern((16, 12), (1,))
FEW = {"learner": "shape-race", "steps": 5, "batch_size": 2, "init": "energy"}


class Cost:
    """A task that tells the acquired locations from the images, and wants them to be cheap."""

    name, needs_labels = "cost", False

    def __init__(self, cost):
        self.cost = fft_order(cost, cost.ndim)

    def label(self, sample):
        raise NotImplementedError

    def __call__(self, images, batch):
        axes = space_axes(self.cost.ndim)
        share = (spectrum(images, axes).abs() > 0.5 * batch.spectra.abs()).double()
        return (share * self.cost).sum(axes).mean()


def ellipse(shape=(16, 12)):
    """Cheap is what is near to the first axis, and not far from the centre."""
    y, x = np.meshgrid(*[(np.arange(n) - n // 2) / n for n in shape], indexing="ij")
    return torch.from_numpy((y / 2) ** 2 + (2 * x) ** 2)


COSTS = {"ellipse": (PATTERN, ellipse()), "one side": (PATTERN, -PATTERN.half().double())}


@pytest.fixture
def samples():
    return samples_of(smooth_images(11, dtype=torch.complex64))


def config(acceleration=4, **settings):
    return Config.preset("default", acceleration=acceleration, **FEW | settings)


def raced(data, task, pattern=PATTERN, on_step=None, **settings):
    made = config(**settings)
    start = starting_probabilities(made.init, data, pattern)
    return optimised(data, pattern, task, made, start, on_step=on_step)


def family(samples, pattern, acceleration=4, centre=0):
    axes = len(pattern.free)
    always, never = (fft_order(units, axes) for units in (pattern.centre(centre), pattern.padding()))
    return shapes(log_energy(samples.mean_energy(pattern)), pattern, pattern.budget(acceleration), always, never)


def mode(theta, pattern, acceleration=4):
    probabilities = centred(theta, len(pattern.free))
    return pattern.restrict(MaskDistribution(probabilities, pattern, pattern.budget(acceleration)).mode())


@pytest.mark.parametrize(("pattern", "cost"), COSTS.values(), ids=COSTS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_cheapest_shape_wins(samples, pattern, cost, seed):
    """Every image says the same here, so no round can retire it."""
    theta, _ = raced(samples, Cost(cost), pattern, seed=seed)
    of = family(samples, pattern)
    costs = [float((cost * centred(of.mask(weights), 2)).sum()) for weights in of.candidates()]
    assert float(cost[mode(theta, pattern)].sum()) == pytest.approx(min(costs))
    assert min(costs) < costs[0], "it is not the energy mask"


def test_same_seed_same_bits(samples):
    task = ImageLoss("l1")
    one, again = (raced(samples, task, seed=3, batch_size=1) for _ in range(2))
    assert torch.equal(one[0], again[0])
    assert one[1] == again[1]
    others = [raced(samples, task, seed=seed, batch_size=1)[1].loss[0] for seed in range(5)]
    assert len(set(others)) > 1, "other seeds begin with other images"


def test_members_begin_with_other_images(samples):
    start = starting_probabilities("energy", samples, PATTERN)
    made = config(members=6, batch_size=1)
    first = {optimised(samples, PATTERN, ImageLoss("mse"), made, start, member)[1].loss[0] for member in range(6)}
    assert len(first) > 1


@pytest.mark.parametrize("piece", [2 * 2 * 16 * 12, 2**19], ids=["in pieces", "at once"])
def test_the_race_by_brute_force(piece, monkeypatch):
    """All losses computed again with NumPy, image by image, and the rounds run by hand."""
    monkeypatch.setattr("promask.problem.batches.PIECE", piece)
    samples = samples_of(smooth_images(11, channels=2, dtype=torch.complex64))
    theta, history = raced(samples, ImageLoss("mse"), seed=6, batch_size=3)

    of = family(samples, PATTERN)
    images = np.stack([sample.image.numpy() for sample in samples.data])
    order = torch.randperm(11, generator=generator(6, 0, "batches")).numpy()

    def loss(place, image):
        filled = np.abs(np.fft.ifft2(np.fft.fft2(images[image]) * masks[place]))
        return np.square(filled - np.abs(images[image])).mean()

    masks = [of.mask(weights).numpy() for weights in of.candidates()]
    left, seen, losses = list(range(len(masks))), 0, []
    for end in (3, 6, 11):
        totals = {place: sum(loss(place, image) for image in order[:end]) for place in left}
        left = sorted(left, key=totals.__getitem__)
        losses.append(totals[left[0]] / end)
        winner = left[0]
        left, seen = left[: math.ceil(len(left) / 2)], end
    assert seen == 11
    np.testing.assert_allclose(history.loss, losses, rtol=1e-4)
    np.testing.assert_array_equal(fft_order(mode(theta, PATTERN), 2).numpy(), masks[winner] > 0)


@pytest.mark.parametrize("centre", [0, 3])
@pytest.mark.parametrize(
    "pattern",
    [PATTERN, LINES, Pattern((16, 12), (0, 1), ((2, 16), (0, 11)))],
    ids=["2d", "1d", "padded"],
)
def test_probabilities_keep_the_budget_and_have_a_mode_of_the_race(samples, pattern, centre):
    seen = []
    settings = {"centre": centre, "acceleration": 2.5, "seed": 1}
    on_step = {"on_step": lambda progress: seen.append(progress.probabilities)}
    raced(samples, ImageLoss("mse"), pattern, **on_step, **settings)
    of = family(samples, pattern, 2.5, centre)
    possible = [centred(of.mask(weights), len(pattern.free)) > 0 for weights in of.candidates()]
    for theta in seen:
        assert ((theta >= 0) & (theta <= 1)).all()
        assert 0.75 * pattern.budget(2.5) < theta.double().sum() <= pattern.budget(2.5)
        distribution = MaskDistribution(theta, pattern, pattern.budget(2.5))
        assert any(torch.equal(pattern.restrict(distribution.mode()), units) for units in possible)
        assert (theta[pattern.centre(centre)] == 1).all()
        assert not theta[pattern.padding()].any()
    assert len(seen) == 4


class Asking:
    """A task that is given losses to return, call by call."""

    name, needs_labels = "asking", False

    def __init__(self, losses):
        self.losses = losses

    def label(self, sample):
        raise NotImplementedError

    def __call__(self, images, batch):
        assert not torch.is_grad_enabled(), "a gradient was asked for"
        assert not images.requires_grad
        return torch.tensor(next(self.losses))


def test_no_gradient_is_asked_for_and_half_retires(samples):
    """23 shapes on 2 images, 12 on 2 more, 6 on 4 more, 3 on the last 3: each round fits into one piece."""
    calls = iter(torch.rand(1000, generator=seeded()).tolist())
    raced(samples, Asking(calls))
    assert len(list(calls)) == 1000 - 23 - 12 - 6 - 3


def test_lines_have_no_directions(samples):
    calls = iter(torch.rand(1000, generator=seeded()).tolist())
    raced(samples, Asking(calls), LINES, steps=1)
    assert len(list(calls)) == 1000 - 15


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_it(samples, loss):
    calls = iter([0.5] * 23 + [0.5] * 5 + [loss] + [0.5] * 100)
    with pytest.raises(FloatingPointError, match=f"The loss became {loss} at step 2"):
        raced(samples, Asking(calls))


def test_probabilities_of_ones_own_are_reshaped(samples):
    """The first shape is the base itself."""
    cheap = torch.rand(16, 12, generator=seeded(8))
    calls = iter([0.1] + [0.5] * 22)
    start = starting_probabilities(cheap, samples, PATTERN)
    theta, _ = optimised(samples, PATTERN, Asking(calls), config(init="given", steps=1), start)
    assert torch.equal(mode(theta, PATTERN), PATTERN.largest(cheap, PATTERN.budget(4)))


def test_probabilities_of_nothing_are_a_start_too(samples):
    """All units are alike then."""
    start = starting_probabilities(torch.zeros(16, 12), samples, PATTERN)
    theta, _ = optimised(samples, PATTERN, ImageLoss("mse"), config(init="given"), start)
    assert theta.isfinite().all()
