import numpy as np
import pytest
import torch

from helpers import seeded, smooth_images
from promask.operators import fourier

SHAPES = [(4, 6), (5, 7), (1, 8), (3, 4, 5)]


@pytest.mark.parametrize("shape", SHAPES)
def test_is_numpys_centred_orthonormal_transform(shape):
    image = torch.randn(2, *shape, dtype=torch.complex128, generator=seeded())
    axes = fourier.space_axes(len(shape))
    expected = np.fft.fftshift(np.fft.fftn(np.fft.ifftshift(image.numpy(), axes), axes=axes, norm="ortho"), axes)
    np.testing.assert_allclose(fourier.to_kspace(image, axes).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_inverse_and_adjoint(shape):
    axes = fourier.space_axes(len(shape))
    x, y = torch.randn(2, *shape, dtype=torch.complex128, generator=seeded())
    torch.testing.assert_close(fourier.to_image(fourier.to_kspace(x, axes), axes), x)
    forward = torch.vdot(fourier.to_kspace(x, axes).flatten(), y.flatten())
    backward = torch.vdot(x.flatten(), fourier.to_image(y, axes).flatten())
    torch.testing.assert_close(forward, backward)


def test_a_constant_image_is_one_sample_at_the_centre():
    kspace = fourier.to_kspace(torch.ones(6, 7), (0, 1))
    assert kspace[3, 3].real == pytest.approx((6 * 7) ** 0.5)
    assert kspace.abs().sum() == pytest.approx((6 * 7) ** 0.5, rel=1e-5)


@pytest.mark.parametrize("size", [(8, 6), (7, 5)])
def test_the_loops_order_gives_the_same_images_and_energies(size):
    """Masking in FFT order with a shifted mask is masking centred k-space: same magnitude image, not rolled."""
    image = smooth_images(1, 1, size)[0, 0]
    mask = torch.rand(size, generator=seeded()) < 0.5
    centred = fourier.to_image(fourier.to_kspace(image, (-2, -1)) * mask, (-2, -1))
    in_loop = fourier.from_spectrum(fourier.spectrum(image, (-2, -1)) * fourier.fft_order(mask, 2), (-2, -1))
    torch.testing.assert_close(in_loop, centred)
    assert torch.equal(fourier.centred(fourier.fft_order(mask, 2), 2), mask)
