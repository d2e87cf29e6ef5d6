"""The non-uniform Fourier transform, against its definition."""

import math
import sys

import pytest
import torch

from helpers import seeded
from promask.errors import InputError
from promask.operators.fourier import to_kspace
from promask.operators.nufft import Nufft, convolve


def matrix(points: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    y, x = (torch.arange(n, dtype=torch.float64) - n // 2 for n in shape)
    turns = points[:, 0, None, None] * y[:, None] + points[:, 1, None, None] * x
    return torch.polar(torch.ones_like(turns), -2 * torch.pi * turns).flatten(1) / math.sqrt(math.prod(shape))


@pytest.mark.parametrize("shape", [(12, 10), (9, 11), (2, 7)])
@pytest.mark.parametrize("images", [1, 3])
def test_definition_adjoint_and_normal_operator(shape, images):
    points = torch.rand(40, 2, generator=seeded(), dtype=torch.float64) - 0.5
    points[0], points[1] = -0.5, 0.5
    transform, explicit = Nufft(points, shape), matrix(points, shape)
    image = torch.randn(images, *shape, generator=seeded(1), dtype=torch.complex128)
    samples = torch.randn(images, 40, generator=seeded(2), dtype=torch.complex128)
    assert torch.allclose(transform(image), torch.einsum("sp,np->ns", explicit, image.flatten(1)), atol=1e-9)
    back = torch.einsum("sp,ns->np", explicit.conj(), samples).reshape(image.shape)
    assert torch.allclose(transform.adjoint(samples), back, atol=1e-9)
    weights = torch.rand(40, generator=seeded(3), dtype=torch.float64)
    expected = torch.einsum("sp,s,sq,nq->np", explicit.conj(), weights + 0j, explicit, image.flatten(1))
    assert torch.allclose(convolve(image, transform.kernel(weights)).flatten(1), expected, atol=1e-9)
    assert torch.dist(transform(image.to(torch.complex64)), transform(image)) < 1e-5 * transform(image).norm()
    assert transform(image[0].real).shape == (40,)


@pytest.mark.parametrize("shape", [(8, 6), (7, 5)])
def test_on_the_grid_it_is_the_orthonormal_transform(shape):
    y, x = ((torch.arange(n, dtype=torch.float64) - n // 2) / n for n in shape)
    points = torch.stack(torch.meshgrid(y, x, indexing="ij"), -1).reshape(-1, 2)
    image = torch.randn(2, *shape, generator=seeded(), dtype=torch.complex128)
    assert torch.allclose(Nufft(points, shape)(image).reshape(image.shape), to_kspace(image, (-2, -1)), atol=1e-9)


@pytest.mark.parametrize("wrong", [0.6, -0.51, math.nan, math.inf])
def test_places_outside_of_kspace_are_refused(wrong):
    points = torch.zeros(3, 2)
    points[1, 0] = wrong
    with pytest.raises(InputError, match="must be from -1/2 to 1/2 cycles per pixel"):
        Nufft(points, (8, 8))


def test_without_finufft_there_is_a_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "finufft", None)
    with pytest.raises(InputError, match=r"not installed: pip install 'promask\[radial\]'"):
        Nufft(torch.zeros(3, 2), (8, 8))(torch.ones(8, 8))
