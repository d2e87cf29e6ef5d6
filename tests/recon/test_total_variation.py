import cvxpy
import numpy as np
import pytest
import torch

from helpers import seeded
from promask.operators.finite_differences import (
    denoise_total_variation,
    differences,
    differences_adjoint,
    total_variation,
)


def noise(*shape, seed=0):
    return torch.randn(shape, generator=seeded(seed), dtype=torch.complex128)


def thresholds(*values, axes=2):
    return torch.tensor(values, dtype=torch.float64).reshape(-1, *[1] * (axes + 1))


@pytest.mark.parametrize("size", [(6, 5), (4, 3, 5)])
def test_differences(size):
    images = noise(2, 3, *size)
    field = differences(images)
    for number in range(len(size)):
        wanted = np.roll(images.numpy(), -1, number + 2) - images.numpy()
        np.testing.assert_allclose(field[number].numpy(), wanted)
    other = noise(*field.shape, seed=1)
    torch.testing.assert_close(
        (other.conj() * field).sum(), (differences_adjoint(other).conj() * images).sum(), msg="the adjoint"
    )


def test_total_variation_of_a_square():
    """A square of 3 x 4 pixels: its outline, but for two corners where one vector stands for two edges."""
    images = torch.zeros(1, 1, 8, 9, dtype=torch.complex128)
    images[..., 2:5, 3:7] = 2j
    torch.testing.assert_close(total_variation(images), thresholds(2 * (14 - 2 + np.sqrt(2))).flatten())


@pytest.mark.parametrize("size", [(6, 7), (4, 3, 4)])
def test_agrees_with_a_convex_solver(size):
    images = noise(1, 1, *size)
    count = images.numel()
    basis = torch.eye(count, dtype=torch.complex128).reshape(count, 1, *size)
    matrix = differences(basis).reshape(len(size), count, count).transpose(1, 2).real.numpy()
    parts = torch.view_as_real(images).reshape(count, 2).numpy()
    solution = cvxpy.Variable((count, 2))
    lengths = cvxpy.norm(cvxpy.hstack([each @ solution for each in matrix]), 2, axis=1)
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(solution - parts) / 2 + 0.4 * cvxpy.sum(lengths))).solve()
    result = denoise_total_variation(images, thresholds(0.4, axes=len(size)), iterations=2000)
    np.testing.assert_allclose(torch.view_as_real(result).reshape(count, 2).numpy(), solution.value, atol=1e-3)


def test_few_iterations_come_close():
    images = noise(1, 1, 32, 32)
    long, short = (denoise_total_variation(images, thresholds(0.1), *count) for count in ([500], []))
    assert (short - long).norm() < 0.05 * (images - long).norm()


def test_means_stay_and_large_thresholds_leave_nothing_else():
    images = noise(2, 1, 8, 8)
    result = denoise_total_variation(images, thresholds(0.3, 100.0), iterations=300)
    means = images.mean((-2, -1), keepdim=True)
    torch.testing.assert_close(result.mean((-2, -1), keepdim=True), means)
    torch.testing.assert_close(result[1:], means[1:].expand_as(result[1:]), atol=1e-4, rtol=0)
    torch.testing.assert_close(denoise_total_variation(images, thresholds(0.0, 0.0)), images)


@pytest.mark.parametrize("size", [(4, 5), (3, 4, 2)])
def test_gradient(size):
    images = noise(2, 1, *size).requires_grad_()
    limits = thresholds(0.2, 0.5, axes=len(size))
    torch.autograd.gradcheck(lambda x: denoise_total_variation(x, limits, 4), images)
