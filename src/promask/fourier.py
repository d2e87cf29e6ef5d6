"""The centred, orthonormal Fourier transform: DC is at index n // 2 of every transformed axis.

Inside the learner's loop, k-space is kept in the order of `torch.fft` (DC at index 0), so that a step shifts
nothing. `spectrum` is that form: the plain transform of the image, whose inverse is the image itself.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Complex, Num, Shaped
from torch import Tensor


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
