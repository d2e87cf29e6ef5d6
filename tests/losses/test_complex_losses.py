"""Losses of complex images: against NumPy, and where they differ from those of magnitudes."""

import numpy as np
import pytest
import torch
from suites import check_loss

from helpers import seeded, smooth_images
from promask import learn
from promask.data.arrays import from_images
from promask.data.builtin.cardiac import cardiac
from promask.data.reading import Reading
from promask.data.sample_sets import ArraySet
from promask.data.sources import load
from promask.errors import InputError
from promask.losses import make_loss
from promask.losses.base import needs_phase
from promask.losses.image import COMPLEX_LOSSES, LOSSES, ImageLoss
from promask.losses.segmentation import Segmentation
from promask.operators.fourier import spectrum
from promask.problem.batches import SpectraSet
from promask.recon.zero_filled import ZERO_FILLED, Sense
from promask.types import Batch

CPU = torch.device("cpu")
BY_NUMPY = {
    "complex-mse": lambda error: np.mean(np.abs(error) ** 2),
    "complex-l1": lambda error: np.mean(np.abs(error)),
}


def batch_of(images):
    return Batch(spectrum(images, (-2, -1)), images)


def off(targets, size=0.1, seed=1):
    noise = torch.randn(targets.shape, generator=seeded(seed), dtype=targets.dtype)
    return (targets + size * noise).requires_grad_()


def test_there_is_a_line_for_each():
    assert COMPLEX_LOSSES.keys() == BY_NUMPY.keys()
    assert not COMPLEX_LOSSES.keys() & LOSSES.keys()


@pytest.mark.parametrize("name", BY_NUMPY)
@pytest.mark.parametrize("dtype", [torch.complex128, torch.complex64])
def test_the_value_is_numpys(name, dtype):
    targets = smooth_images(3, 2, (9, 8), dtype=dtype)
    images = off(targets)
    expected = BY_NUMPY[name](images.detach().numpy() - targets.numpy())
    value = ImageLoss(name)(images, batch_of(targets))
    assert not value.is_complex()
    assert float(value.detach()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", BY_NUMPY)
def test_properties_of_real_images(name):
    """For which they are what the others are."""
    check_loss(COMPLEX_LOSSES[name])
    targets = smooth_images(2, 1, (9, 8), phase=False)
    images = targets + 0.1 * torch.rand(targets.shape, generator=seeded(), dtype=torch.float64)
    same = LOSSES[name.removeprefix("complex-")](images, targets)
    torch.testing.assert_close(COMPLEX_LOSSES[name](images, targets), same)


@pytest.mark.parametrize("name", BY_NUMPY)
def test_the_gradient(name):
    targets = smooth_images(2, 2, (5, 4))
    task, batch = ImageLoss(name), batch_of(targets)
    assert torch.autograd.gradcheck(lambda images: task(images, batch), off(targets))
    (at_the_target,) = torch.autograd.grad(task(exact := targets.clone().requires_grad_(), batch), exact)
    assert (at_the_target == 0).all()


@pytest.mark.parametrize("name", BY_NUMPY)
def test_the_phase_counts(name):
    """An image whose phase alone is wrong: |1 - e^(i a)| = 2 sin(a / 2) times its magnitude."""
    targets, angle = smooth_images(2, 1, (9, 8)), 0.7
    images = (targets * torch.polar(torch.ones(()).double(), torch.tensor(angle).double())).requires_grad_()
    batch = batch_of(targets)
    expected = BY_NUMPY[name](2 * np.sin(angle / 2) * targets.numpy())
    assert float(ImageLoss(name)(images, batch).detach()) == pytest.approx(expected)
    for blind in LOSSES:
        assert abs(float(ImageLoss(blind)(images, batch).detach())) < 1e-12


def test_a_loss_of_ones_own_may_ask_for_the_phase():
    targets = smooth_images(2, 1, (9, 8))
    images = off(targets)

    def real_part(image, target):
        return (image - target).real.square().mean()

    with_phase = ImageLoss(real_part, phase=True)
    assert with_phase.needs_phase
    assert with_phase.name == "real_part"
    expected = np.mean((images.detach().numpy() - targets.numpy()).real ** 2)
    assert float(with_phase(images, batch_of(targets)).detach()) == pytest.approx(expected)
    assert not ImageLoss(real_part).needs_phase


def test_sums_of_both_kinds():
    task = make_loss("0.5*mse + 0.25*complex-mse + 2*complex-l1")
    assert task.name == "0.5*mse + 0.25*complex-mse + 2*complex-l1"
    assert needs_phase(task)
    assert not needs_phase(make_loss("0.5*mse + 0.5*ssim"))
    targets = smooth_images(3, 1, (9, 8))
    images, batch = off(targets), batch_of(targets)
    one, other = images.detach().numpy(), targets.numpy()
    mse = np.mean((np.abs(one) - np.abs(other)) ** 2)
    parts = [
        0.5 * mse,
        *(w * BY_NUMPY[name](one - other) for w, name in ((0.25, "complex-mse"), (2, "complex-l1"))),
    ]
    assert float(task(images, batch).detach()) == pytest.approx(sum(parts))
    shares = task.scaled_by([0.1, 0.2, 0.4])
    assert needs_phase(shares)
    expected = parts[0] / 0.1 + parts[1] / 0.2 + parts[2] / 0.4
    assert float(shares(images, batch).detach()) == pytest.approx(expected)


def test_tasks_that_say_nothing_of_the_phase_need_none():
    class Task:
        name, needs_labels = "mine", False

        def label(self, sample):
            raise NotImplementedError

        def __call__(self, images, batch):
            return images.abs().mean()

    assert not needs_phase(Task())
    assert not needs_phase(Segmentation(torch.nn.Conv2d(1, 2, 1), torch.nn.CrossEntropyLoss()))


@pytest.mark.parametrize(
    ("loss", "phase"), [("complex-mse", True), ("1*mse + 1*complex-l1", True), ("mse", False)]
)
def test_targets_have_a_phase_if_it_is_asked_for(loss, phase):
    images = smooth_images(3, 1, (12, 10))
    samples = SpectraSet.for_loss(ArraySet(images, "test"), CPU, make_loss(loss), ZERO_FILLED)
    (batch,) = samples.pieces(torch.arange(3))
    assert torch.equal(batch.targets, images if phase else images.abs())
    coils = load(cardiac(subjects=2, slices=1, size=16).image, Reading(coils=3))
    (batch,) = SpectraSet.for_loss(coils, CPU, make_loss(loss), Sense()).pieces(torch.arange(2))
    expected = (coils[1].maps.conj() * coils[1].image).sum(0)
    torch.testing.assert_close(batch.targets[1, 0], expected if phase else expected.abs())


@pytest.mark.parametrize(
    ("loss", "settings"),
    [
        ("complex-l1", {}),
        ("0.5*mse + 0.5*complex-mse", {}),
        ("complex-mse", {"preset": "paper", "members": 1}),
        ("0.5*mse + 0.5*complex-l1", {"recon": "cg-sense"}),
    ],
)
def test_masks_are_learned_for_them(loss, settings):
    images = smooth_images(3, 3 if "recon" in settings else 1, (16, 12), dtype=torch.complex64)
    run = learn(from_images(images), 4, loss=loss, steps=4, batch_size=3, **settings)
    assert run.config.loss == loss
    assert int(run.mask.sum()) == 48


def test_the_squared_error_of_complex_numbers_wants_the_units_of_most_energy():
    """By Parseval, zero-filled: nothing is better, and nothing else is found."""
    images = smooth_images(4, 1, (16, 12), dtype=torch.complex64)
    energy = np.abs(np.fft.fftshift(np.fft.fft2(images.numpy()), (-2, -1))) ** 2
    best = np.argsort(energy.mean((0, 1)).ravel())[-48:]
    run = learn(from_images(images), 4, loss="complex-mse")
    assert set(np.flatnonzero(run.mask.numpy())) == set(best)


def test_unknown_losses_name_them():
    with pytest.raises(InputError, match=r"Unknown loss 'complex-ssim': choose one of .*complex-mse, complex-l1"):
        ImageLoss("complex-ssim")
