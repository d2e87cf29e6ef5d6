import numpy as np
import pytest
import pywt
import torch

from helpers import seeded, smooth_images
from promask.operators.wavelets import from_wavelets, levels, shrink_wavelets, to_wavelets

SIZES = [(32, 32), (40, 18), (7, 24), (5, 7), (16, 8, 12), (64, 2)]


def noise(*shape, seed=0):
    return torch.randn(shape, generator=seeded(seed), dtype=torch.complex128)


def one_level(values, axis):
    """By PyWavelets, which begins at another pixel and has the other sign."""
    low, high = pywt.dwt(np.roll(values, -1, axis), "db2", mode="periodization", axis=axis)
    return np.concatenate([low, -np.roll(high, 1, axis)], axis)


@pytest.mark.parametrize("size", SIZES)
def test_coefficients_are_those_of_pywavelets(size):
    images = noise(2, 3, *size)
    wanted, counts = images.numpy().copy(), [levels(n) for n in size]
    for level in range(max(counts)):
        corner = tuple(slice(n >> min(level, count)) for n, count in zip(size, counts, strict=True))
        for axis, count in enumerate(counts):
            if level < count:
                wanted[:, :, *corner] = one_level(wanted[:, :, *corner], axis + 2)
    np.testing.assert_allclose(to_wavelets(images).numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_orthonormal(size):
    left, right = noise(2, 1, *size), noise(2, 1, *size, seed=1)
    torch.testing.assert_close(from_wavelets(to_wavelets(left)), left)
    torch.testing.assert_close(to_wavelets(from_wavelets(left)), left)
    inner = (to_wavelets(left).conj() * to_wavelets(right)).sum()
    torch.testing.assert_close(inner, (left.conj() * right).sum())


def test_arguments_are_left_alone():
    images = noise(1, 1, 16, 16)
    before = images.clone()
    to_wavelets(images), from_wavelets(images), shrink_wavelets(images, torch.ones(1, 1, 1, 1))
    assert torch.equal(images, before)


def test_straight_lines_have_no_details():
    """Two vanishing moments, away from where the end meets the beginning."""
    ramp = torch.arange(64).to(torch.complex128).expand(1, 1, 64, 64)
    assert to_wavelets(ramp)[..., :, 33:].abs().max() < 1e-10


@pytest.mark.parametrize("number", [0, 3])
@pytest.mark.parametrize("size", [(16, 12), (8, 8, 10)])
def test_shrinkage_is_soft_thresholding(size, number):
    images, thresholds = noise(2, 1, *size), torch.tensor([0.3, 2.0]).double().reshape(2, *[1] * (len(size) + 1))
    axes = tuple(range(2, 2 + len(size)))
    steps = [number * step for step in (3, 5, 7)][: len(size)]
    coefficients = to_wavelets(images.roll(steps, axes)).numpy()
    wanted = pywt.threshold(coefficients[0], 0.3), pywt.threshold(coefficients[1], 2.0)
    corner = tuple(slice(n >> levels(n)) for n in size)
    for item in (0, 1):
        wanted[item][:, *corner] = coefficients[item][:, *corner]
    result = to_wavelets(shrink_wavelets(images, thresholds, number).roll(steps, axes))
    torch.testing.assert_close(result, torch.as_tensor(np.stack(wanted)))


def test_the_grid_comes_to_every_place():
    images = smooth_images(1, size=(64, 64))
    thresholds = torch.full((1, 1, 1, 1), 0.1, dtype=torch.float64)
    moved = [shrink_wavelets(images, thresholds, number) for number in range(17)]
    assert all((moved[number] - moved[0]).abs().max() > 1e-3 for number in range(1, 16))
    torch.testing.assert_close(moved[16], moved[0])


@pytest.mark.parametrize("number", [0, 2])
def test_gradient(number):
    images = noise(2, 1, 6, 8).requires_grad_()
    thresholds = torch.tensor([0.5, 1.5], dtype=torch.float64).reshape(2, 1, 1, 1)
    torch.autograd.gradcheck(lambda x: shrink_wavelets(x, thresholds, number), images)


def test_nothing_stays_nothing():
    images = torch.zeros(1, 1, 16, 16, dtype=torch.complex64, requires_grad=True)
    result = shrink_wavelets(images, torch.zeros(1, 1, 1, 1))
    (gradient,) = torch.autograd.grad(result.real.sum(), images)
    assert not result.any()
    assert torch.isfinite(torch.view_as_real(gradient)).all()
