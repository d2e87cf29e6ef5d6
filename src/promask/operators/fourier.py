"""The centred, orthonormal Fourier transform: DC is at index n // 2 of every transformed axis.

Inside the learner's loop, k-space is kept in the order of `torch.fft` (DC at index 0), so that a step shifts
nothing. `spectrum` is that form: the plain transform of the image, whose inverse is the image itself.

Magnitudes and products of complex numbers, made so that a step spends its time on Fourier transforms.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Complex, Float, Num, Shaped
from torch import Tensor
from torch.autograd.function import once_differentiable


def space_axes(dimensions: int) -> tuple[int, ...]:
    """The last axes of an array: `space_axes(2) == (-2, -1)`."""
    return tuple(range(-dimensions, 0))


def to_kspace(image: Num[Tensor, "*shape"], axes: Sequence[int]) -> Complex[Tensor, "*shape"]:
    """Image to centred k-space over `axes`."""
    return torch.fft.fftshift(spectrum(torch.fft.ifftshift(image, axes), axes), axes)


def to_image(kspace: Complex[Tensor, "*shape"], axes: Sequence[int]) -> Complex[Tensor, "*shape"]:
    """Centred k-space to image over `axes`; the inverse, and the adjoint, of `to_kspace`."""
    return torch.fft.fftshift(from_spectrum(torch.fft.ifftshift(kspace, axes), axes), axes)


def spectrum(image: Num[Tensor, "*shape"], axes: Sequence[int]) -> Complex[Tensor, "*shape"]:
    """Image to k-space in FFT order, DC at index 0."""
    return torch.fft.fftn(image, dim=tuple(axes), norm="ortho")


def from_spectrum(spectrum: Complex[Tensor, "*shape"], axes: Sequence[int]) -> Complex[Tensor, "*shape"]:
    """K-space in FFT order to image."""
    return torch.fft.ifftn(spectrum, dim=tuple(axes), norm="ortho")


def centred(array: Shaped[Tensor, "*shape"], dimensions: int) -> Shaped[Tensor, "*shape"]:
    """FFT order to centred order, over the last `dimensions` axes of a mask, probabilities or spectrum."""
    return torch.fft.fftshift(array, space_axes(dimensions))


def fft_order(array: Shaped[Tensor, "*shape"], dimensions: int) -> Shaped[Tensor, "*shape"]:
    """Centred order to FFT order, over the last `dimensions` axes of a mask, probabilities or k-space."""
    return torch.fft.ifftshift(array, space_axes(dimensions))


def real_product(left: Complex[Tensor, "*shape"], right: Complex[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Re(conj(left) right), without the imaginary part that nobody needs.

    >>> real_product(torch.tensor([3 + 4j]), torch.tensor([1 + 2j]))
    tensor([11.])
    """
    parts = torch.view_as_real(left.resolve_conj()) * torch.view_as_real(right.resolve_conj())
    return parts[..., 0] + parts[..., 1]


class _Magnitude(torch.autograd.Function):
    # torch.abs guards against overflow of the squares, and its derivative divides complex numbers: together four
    # times slower than the plain root of the squares.
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        magnitudes = real_product(values, values).sqrt_()
        ctx.save_for_backward(values, magnitudes)
        return magnitudes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        values, magnitudes = ctx.saved_tensors
        smallest = torch.finfo(magnitudes.dtype).tiny
        return torch.mul(values, gradient / magnitudes.clamp_min(smallest))


def magnitude(values: Num[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """|z|, differentiable; the derivative at 0 is taken to be 0. Of real numbers as well.

    >>> magnitude(torch.tensor([3 + 4j, 0j]))
    tensor([5., 0.])
    """
    if not values.is_complex():
        return values.abs()
    result: Tensor = _Magnitude.apply(values)  # type: ignore[no-untyped-call]
    return result
