"""The loop against what is known: the literal Algorithm 1, finite differences, brute force, the closed form."""

import itertools

import pytest
import torch
from benchmarks.textbook import Settings, textbook
from problems import optimised

from helpers import samples_of, seeded, smooth_images
from promask import learn
from promask.baselines import baseline_mask
from promask.data.arrays import from_images
from promask.data.builtin.cardiac import cardiac
from promask.data.builtin.knee import knee
from promask.data.sources import load
from promask.evaluation.evaluate import evaluate
from promask.learning.config import Config
from promask.losses.image import LOSSES, ImageLoss
from promask.operators.fourier import centred, fft_order, from_spectrum, spectrum, to_kspace
from promask.problem.batches import index_batches
from promask.problem.objective import loss_and_slopes
from promask.sampling.pattern import Pattern
from promask.sampling.straight_through import generator, logistic_noise

# Step for step


@pytest.mark.parametrize("free", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize(
    ("steps", "annealing", "exploration", "exploitation"),
    [(60, "cubic", 0.1, 0.1), (60, "linear", 0.1, 0.1), (25, "cubic", 0.1, 0.1), (33, "linear", 0.25, 0.05)],
)
def test_the_paper_preset_is_algorithm_1_step_for_step(free, steps, annealing, exploration, exploitation):
    """With the same start, batches and random numbers the two give the same probabilities after every step."""
    images = smooth_images(count=5, channels=2, size=(8, 7))
    pattern = Pattern((8, 7), free)
    phases = {"exploration": exploration, "exploitation": exploitation}
    config = Config.preset(
        "paper", acceleration=4, steps=steps, batch_size=3, samples=2, annealing=annealing, seed=3, **phases
    )
    after_step = []
    theta, history = optimised(
        samples_of(images),
        pattern,
        ImageLoss("mse"),
        config,
        lambda generator: torch.rand(pattern.unit_shape, generator=generator, dtype=torch.float64),
        on_step=lambda progress: after_step.append(progress.probabilities),
    )

    keepdims = [n if axis in free else 1 for axis, n in enumerate(pattern.shape)]
    start = torch.rand(pattern.unit_shape, generator=generator(3, 0, "start"), dtype=torch.float64)
    noise_source = generator(3, 0, "noise")
    pending = []

    def gumbel(shape):
        """First g1, then g0, such that g1 - g0 is the logistic number that the library draws."""
        if pending:
            return pending.pop()
        noise = logistic_noise((shape[0] * shape[1], *pattern.unit_shape), start, noise_source)
        noise = centred(noise, len(free)).reshape(shape)
        g0 = -torch.log(-torch.log(torch.rand(shape, generator=seeded(9), dtype=torch.float64)))
        pending.append(g0)
        return g0 + noise

    power = {"cubic": 3, "linear": 1}[annealing]
    settings = Settings(acceleration=4, iterations=steps, samples=2, power=power, **phases)
    literal = textbook(
        to_kspace(images, (-2, -1)),
        centred(start, len(free)).reshape(keepdims),
        settings,
        torch.nn.functional.mse_loss,
        index_batches(5, 3, generator(3, 0, "batches")),
        gumbel,
    )
    for ours, theirs in zip(after_step, literal, strict=True):
        torch.testing.assert_close(ours.reshape(keepdims), theirs, atol=1e-9, rtol=0)
    assert torch.equal(after_step[-1], centred(theta, len(free)))
    assert len(history.loss) == steps
    assert (theta - start).abs().max() > 0.1, "the run must have gone somewhere for this test to mean something"


def test_the_paper_preset_is_section_4():
    config = Config.preset("paper", acceleration=8)
    assert (config.steps, config.batch_size, config.samples, config.members) == (2500, 32, 4, 10)
    assert (config.learner, config.learning_rate, config.annealing, config.loss) == (
        "gumbel-adam",
        0.01,
        "cubic",
        "mse",
    )
    assert (config.exploration * 2500, config.exploitation * 2500) == (250, 250)
    assert (config.init, config.pattern, config.patience, config.centre) == ("uniform", None, 0, 0)


# The gradient


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("free", [(0, 1), (1,)])
def test_the_mask_gradient_is_that_of_finite_differences(name, free):
    images = smooth_images(count=2, channels=2, size=(8, 8))
    pattern, task = Pattern((8, 8), free), ImageLoss(name)
    (batch,) = samples_of(images).pieces(torch.arange(2))
    masks = 0.2 + 0.6 * torch.rand((2, *pattern.unit_shape), generator=seeded(), dtype=torch.float64)

    def loss(values):
        return float(loss_and_slopes(values, batch, pattern, task).loss)

    gradient = loss_and_slopes(masks, batch, pattern, task).gradients
    for index in [(0, 0), (1, 3), (0, 5)]:
        place = index[:1] + (index[1],) * len(free)
        step = torch.zeros_like(masks)
        step[place] = 1e-5
        difference = (loss(masks + step) - loss(masks - step)) / 2e-5
        assert float(gradient[place]) == pytest.approx(difference, rel=1e-5, abs=1e-10)


# Optima


def tiny_images():
    """Anatomy in 8 x 8 pixels: the head, slices of the brain, and hearts and knees with phase."""
    yield averaged(load("head").images[0, 0])
    brains = load("brain").images[:, 0]
    drawn = (torch.from_numpy(draw(subjects=2, phase=True).image) for draw in (cardiac, knee))
    for images, indices in ((brains, (5, 35)), *((each, (0, 9)) for each in drawn)):
        yield from (averaged(images[index, :192, :192]) for index in indices)


def averaged(image):
    width = len(image) // 8
    return image.to(torch.complex64).reshape(8, width, 8, width).mean((1, 3))


def losses_of(choices, spectra, target):
    """The loss of many masks: an image is the sum of what each chosen location contributes to it."""
    parts = from_spectrum(torch.diag(spectra.flatten()).reshape(64, 8, 8), (-2, -1)).reshape(64, 64)
    parts = torch.cat([parts.real, parts.imag], 1)
    for chosen in choices.split(4000):
        images = torch.zeros(len(chosen), 64).scatter_(1, chosen, 1.0) @ parts
        magnitude = torch.hypot(images[:, :64], images[:, 64:])
        yield (magnitude - target.flatten()).square().mean(1)


def test_the_learner_finds_the_optimum_of_a_tiny_grid():
    """Against all 635,376 masks of 4 locations out of 64.

    Seen, for eleven such images: the best mask for ten, and the third best, within 1.2 % of the smallest loss, for
    the other one. Rounding differs between machines, so a little less is asked for.
    """
    choices = torch.tensor(list(itertools.combinations(range(64), 4)))
    ranks, excess = [], []
    for image in tiny_images():
        spectra, target = spectrum(image, (-2, -1)), image.abs()
        losses = torch.cat(list(losses_of(choices, spectra, target)))
        mask = fft_order(learn(from_images(image), acceleration=16).mask, 2)
        loss = (from_spectrum(spectra * mask, (-2, -1)).abs() - target).square().mean()
        ranks.append(int((losses < loss * (1 - 1e-5)).sum()))
        excess.append(float(loss / losses.min()) - 1)
    assert ranks[0] == 0
    assert ranks.count(0) >= len(ranks) - 2
    assert max(ranks) < 5
    assert max(excess) < 0.03


@pytest.mark.parametrize("acceleration", [2, 6, 16])
@pytest.mark.parametrize(("pattern", "axis"), [("2d", None), ("1d", 0), ("1d", 1)])
def test_the_learner_is_as_good_as_the_closed_form(pattern, axis, acceleration):
    """The units of largest energy are optimal for the complex error, and near it for magnitudes."""
    data = from_images(smooth_images(20, size=(32, 24), dtype=torch.complex64))
    run = learn(data, acceleration, pattern=pattern, axis=axis)
    closed_form = baseline_mask("energy", data, run.distribution.pattern, acceleration)
    learned, known = (sum(evaluate(mask, data).psnr) / 20 for mask in (run.mask, closed_form))
    assert learned > known - 0.15


def test_the_default_does_not_depend_on_the_scale_of_the_images():
    images = smooth_images(6, size=(16, 16), dtype=torch.complex64)
    reference = learn(from_images(images), acceleration=8)
    for scale in (1e-4, 1e4):
        run = learn(from_images(images * scale), acceleration=8)
        assert (run.mask & reference.mask).sum() >= 31, scale
