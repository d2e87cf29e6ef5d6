import pytest
import torch
from suites import check_loss

from helpers import seeded, smooth_images
from promask.errors import InputError
from promask.losses import metrics
from promask.losses.image import LOSSES, ImageLoss
from promask.operators.fourier import spectrum
from promask.types import Batch


@pytest.mark.parametrize("name", LOSSES)
def test_properties_of_losses(name):
    check_loss(LOSSES[name])


def test_losses_are_the_usual_ones():
    targets = smooth_images(3, 2, (16, 16), phase=False)
    images = targets + 0.1 * torch.rand(targets.shape, generator=seeded(), dtype=torch.float64)
    torch.testing.assert_close(LOSSES["mse"](images, targets), torch.nn.functional.mse_loss(images, targets))
    torch.testing.assert_close(LOSSES["l1"](images, targets), torch.nn.functional.l1_loss(images, targets))
    lowest, highest = (bound(targets, (1, 2, 3), keepdim=True) for bound in (torch.amin, torch.amax))
    within = images.clamp(lowest, highest)  # where the metric's clipping has nothing to do
    torch.testing.assert_close(LOSSES["ssim"](within, targets), 1 - metrics.ssim(within, targets).mean())


def test_ssim_survives_an_offset_in_single_precision():
    targets = torch.rand(2, 1, 32, 32, generator=seeded())
    images = targets + 0.05 * torch.randn(targets.shape, generator=seeded(1))
    expected = LOSSES["ssim"](images.double(), targets.double())
    for offset in (0, 1000):
        assert LOSSES["ssim"](images + offset, targets + offset) == pytest.approx(float(expected), abs=1e-3)


def batch_of(images):
    return Batch(spectra=spectrum(images, (-2, -1)), targets=images.abs())


def test_every_image_is_compared_with_its_own_target():
    targets = smooth_images(2, 1, (8, 8))
    assert ImageLoss("mse")(targets.clone().requires_grad_(), batch_of(targets)) < 1e-20
    assert ImageLoss("mse")(targets.flip(0).requires_grad_(), batch_of(targets)) > 1e-6


def test_any_callable_is_a_loss():
    targets = smooth_images(2, 1, (8, 8))
    images = (1.1 * targets).requires_grad_()
    expected = torch.nn.functional.huber_loss(images.abs(), targets.abs())
    assert ImageLoss(torch.nn.HuberLoss())(images, batch_of(targets)) == expected


@pytest.mark.parametrize("bad", [lambda x, y: 1.0, lambda x, y: (x - y).abs(), lambda x, y: y.sum()])
def test_a_callable_that_is_no_loss(bad):
    targets = smooth_images(1, 1, (8, 8))
    with pytest.raises(InputError, match="must return a scalar tensor"):
        ImageLoss(bad)(targets.clone().requires_grad_(), batch_of(targets))


def test_unknown_loss():
    with pytest.raises(InputError, match="Unknown loss 'mape': choose one of mse, l1, ssim"):
        ImageLoss("mape")
