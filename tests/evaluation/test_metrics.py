import numpy as np
import pytest
import skimage.metrics
import torch
from scipy.ndimage import correlate1d
from skimage.metrics import _structural_similarity

from helpers import seeded, smooth_images
from promask.errors import InputError
from promask.losses import metrics


@pytest.fixture
def pairs():
    targets = smooth_images(4, 1, (24, 31), phase=False).float() * 3 + 0.5
    noise = torch.randn(targets.shape, generator=seeded(1))
    return targets + 0.3 * noise, targets


def scaled(images, targets):
    """The paper's convention, in NumPy: by the target's range, clipped."""
    for image, target in zip(images.double().numpy(), targets.double().numpy(), strict=True):
        low, high = target.min(), target.max()
        yield np.clip((image - low) / (high - low), 0, 1), (target - low) / (high - low)


def test_psnr_is_scikit_images(pairs):
    expected = [skimage.metrics.peak_signal_noise_ratio(y, x, data_range=1) for x, y in scaled(*pairs)]
    np.testing.assert_allclose(metrics.psnr(*pairs).numpy(), expected, rtol=1e-5)


def test_nmse_is_scikit_images(pairs):
    expected = [
        skimage.metrics.normalized_root_mse(y, x, normalization="euclidean") ** 2 for x, y in scaled(*pairs)
    ]
    np.testing.assert_allclose(metrics.nmse(*pairs).numpy(), expected, rtol=1e-5)


def test_ssim_is_scikit_images_with_a_7_x_7_window(pairs, monkeypatch):
    """scikit-image truncates the Gaussian at 3.5 sigma, which for sigma 1 is 9 x 9; at 3 sigma it is 7 x 7."""
    blur = _structural_similarity.gaussian
    monkeypatch.setattr(
        _structural_similarity, "gaussian", lambda image, **options: blur(image, **(options | {"truncate": 3.0}))
    )
    expected = []
    for x, y in scaled(*pairs):
        _, local = skimage.metrics.structural_similarity(
            y[0], x[0], data_range=1, gaussian_weights=True, sigma=1, use_sample_covariance=False, full=True
        )
        expected.append(local[3:-3, 3:-3].mean())
    np.testing.assert_allclose(metrics.ssim(*pairs).numpy(), expected, rtol=1e-4)


@pytest.mark.parametrize("size", [(24, 31), (9, 10, 11)])
def test_ssim_with_a_uniform_window_is_scikit_images_default(size):
    targets = smooth_images(3, 1, size, phase=False)
    images = targets + 0.1 * torch.rand(targets.shape, generator=seeded(), dtype=torch.float64)
    expected = [
        skimage.metrics.structural_similarity(y[0], x[0], data_range=1)
        for x, y in zip(images.numpy(), targets.numpy(), strict=True)
    ]
    result = metrics.structural_similarity(images, targets, metrics.UNIFORM)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-9)


def test_channels_are_averaged():
    targets = smooth_images(2, 3, (16, 16), phase=False)
    images = targets + 0.05 * torch.rand(targets.shape, generator=seeded(), dtype=torch.float64)
    each = [metrics.structural_similarity(images[:, [c]], targets[:, [c]]) for c in range(3)]
    torch.testing.assert_close(metrics.structural_similarity(images, targets), torch.stack(each).mean(0))


def test_volumes_have_a_window_of_three_axes():
    """The windowed mean over three axes, against SciPy's correlation along each of them."""
    volume = torch.rand(1, 1, 9, 10, 11, generator=seeded(), dtype=torch.float64)
    weights = np.exp(-(np.arange(-3, 4) ** 2) / 2)
    expected = volume[0, 0].numpy()
    for axis in range(3):
        expected = correlate1d(expected, weights / weights.sum(), axis=axis)
    np.testing.assert_allclose(metrics.GAUSSIAN.mean(volume)[0, 0].numpy(), expected[3:-3, 3:-3, 3:-3])


def test_metrics_do_not_depend_on_scale_or_offset(pairs):
    images, targets = (values.double() for values in pairs)
    for metric in (metrics.psnr, metrics.ssim, metrics.nmse):
        torch.testing.assert_close(metric(images * 50 + 7, targets * 50 + 7), metric(images, targets))


def test_perfect_images(pairs):
    _, targets = pairs
    assert (metrics.ssim(targets, targets) > 1 - 1e-6).all()
    assert (metrics.nmse(targets, targets) == 0).all()
    assert torch.isinf(metrics.psnr(targets, targets)).all()


def test_the_callers_tensors_are_left_alone(pairs):
    copies = [values.clone() for values in pairs]
    for metric in (metrics.psnr, metrics.ssim, metrics.nmse):
        metric(*pairs)
    assert all(torch.equal(before, after) for before, after in zip(copies, pairs, strict=True))


def test_images_smaller_than_the_window():
    tiny = torch.rand(1, 1, 6, 20, generator=seeded())
    with pytest.raises(InputError, match=r"at least 7 pixels along each axis, but the images are \[6, 20\]"):
        metrics.ssim(tiny, tiny)
