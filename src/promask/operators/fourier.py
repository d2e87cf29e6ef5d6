"""Orthonormal Fourier transforms, centred and in FFT order; magnitudes and products of complex numbers.

Centred means that DC is at index n // 2 of every transformed axis, in k-space and in image space: the convention
of every array that a user gives or gets. Inside the loop, k-space is kept in the order of `torch.fft` (DC at index
0), so that a step shifts nothing. `spectrum` is that form: the plain transform of the image, whose inverse is the
image.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Complex, Float, Num, Shaped
from torch import Tensor
from torch.autograd.function import once_differentiable


def space_axes(dimensions: int) -> tuple[int, ...]:
    """The last axes of an array: `space_axes(2) == (-2, -1)`."""
    return tuple(range(-dimensions, 0))


def to_kspace(image: Num[Tensor, "*shape"], axes: Sequence[int]) -> Complex[Tensor, "*shape"]:
    """Transform an image to centred k-space.

    Args:
        image: Real or complex, of any shape.
        axes: The axes to transform, such as (-2, -1).

    Returns:
        K-space of the same shape, DC at index n // 2.
    """
    return torch.fft.fftshift(spectrum(torch.fft.ifftshift(image, axes), axes), axes)


def to_image(kspace: Complex[Tensor, "*shape"], axes: Sequence[int]) -> Complex[Tensor, "*shape"]:
    """Transform centred k-space to the image: the inverse, and the adjoint, of `to_kspace`.

    Args:
        kspace: Complex, of any shape, DC at index n // 2.
        axes: The axes to transform, such as (-2, -1).

    Returns:
        The complex image, of the same shape.
    """
    return torch.fft.fftshift(from_spectrum(torch.fft.ifftshift(kspace, axes), axes), axes)


def spectrum(image: Num[Tensor, "*shape"], axes: Sequence[int]) -> Complex[Tensor, "*shape"]:
    """Image to k-space in FFT order, DC at index 0."""
    return torch.fft.fftn(image, dim=tuple(axes), norm="ortho")


def from_spectrum(spectrum: Complex[Tensor, "*shape"], axes: Sequence[int]) -> Complex[Tensor, "*shape"]:
    """K-space in FFT order to image."""
    return torch.fft.ifftn(spectrum, dim=tuple(axes), norm="ortho")


def kspace_from_spectrum(values: Complex[Tensor, "*shape"], axes: Sequence[int]) -> Complex[Tensor, "*shape"]:
    """The spectrum of an image to its centred k-space: `to_kspace` of the image, without transforms."""
    return torch.fft.fftshift(values * _centring_phase(values, axes), axes)


def spectrum_from_kspace(kspace: Complex[Tensor, "*shape"], axes: Sequence[int]) -> Complex[Tensor, "*shape"]:
    """Centred k-space of an image to its spectrum: the inverse, and the adjoint, of `kspace_from_spectrum`."""
    values = torch.fft.ifftshift(kspace, axes)
    return values * _centring_phase(values, axes).conj()


def _centring_phase(values: Tensor, axes: Sequence[int]) -> Tensor:
    """What moves the origin of image space from index 0 to n // 2: e^(2 pi i k (n // 2) / n) along each axis."""
    result = torch.ones((), dtype=values.dtype, device=values.device)
    for axis in axes:
        n = values.shape[axis]
        turns = torch.arange(n, dtype=torch.float64, device=values.device) * (n // 2) % n / n
        phase = torch.polar(torch.ones_like(turns), 2 * torch.pi * turns).to(values.dtype)
        result = result * phase.reshape(-1, *[1] * (-axis - 1))
    return result


def collapse_constant_axes(mask: Tensor, axes: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
    """A mask with length 1 along those of the axes where it is known not to vary, and the others of the axes."""
    constant = [axis for axis in axes if mask.shape[axis] == 1 or mask.stride(axis) == 0]
    for axis in constant:
        mask = mask.narrow(axis, 0, 1)
    return mask, tuple(axis for axis in axes if axis not in constant)


def shift_mask(mask: Tensor, axes: Sequence[int], shift: Callable[[Tensor, Sequence[int]], Tensor]) -> Tensor:
    """A mask shifted by `fftshift` or `ifftshift`; what is a broadcast view stays one."""
    collapsed, varying = collapse_constant_axes(mask, axes)
    return shift(collapsed, varying).expand(mask.shape) if varying else mask


def centred(array: Shaped[Tensor, "*shape"], dimensions: int) -> Shaped[Tensor, "*shape"]:
    """FFT order to centred order, over the last `dimensions` axes of a mask, probabilities or spectrum."""
    return torch.fft.fftshift(array, space_axes(dimensions)) if dimensions else array


def fft_order(array: Shaped[Tensor, "*shape"], dimensions: int) -> Shaped[Tensor, "*shape"]:
    """Centred order to FFT order, over the last `dimensions` axes of a mask, probabilities or k-space."""
    return torch.fft.ifftshift(array, space_axes(dimensions)) if dimensions else array


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


def combined_magnitude(values: Num[Tensor, "*shape"], axis: int) -> Float[Tensor, "*others"]:
    """The root of the sum of squares over an axis: the magnitude of an image of several coils.

    >>> combined_magnitude(torch.tensor([[3j, 0j], [4 + 0j, 1j]]), axis=0)
    tensor([5., 1.])
    """
    # torch.linalg.vector_norm is four times slower for complex numbers.
    squares = real_product(values, values) if values.is_complex() else values.square()
    return squares.sum(axis).sqrt()
