"""Magnitudes and products of complex numbers, made so that a step spends its time on Fourier transforms."""

from typing import Any

import torch
from jaxtyping import Complex, Float, Num
from torch import Tensor
from torch.autograd.function import once_differentiable


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
