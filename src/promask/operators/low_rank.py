"""Series of low rank: (pixel, frame) matrices with few singular values (Casorati matrices)."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from promask.operators.temporal import FRAMES

Matrices = Complex[Tensor, "matrix pixel frame"]
CLOSE = 1e-4
"""Eigenvalues that differ by less than this share of their sum count as equal in derivatives."""


def shrink_singular_values(
    series: Complex[Tensor, "batch channel frame *space"], threshold: Tensor, axes: Sequence[int]
) -> Complex[Tensor, "batch channel frame *space"]:
    """The series x of the smallest |x - series|^2 / 2 + threshold * sum of the singular values of x.

    Differentiable in the series.

    Args:
        series: Complex.
        threshold: For each item, (batch, 1, ...).
        axes: The axes of space, counted from the end, whose pixels make up a matrix; all other positions have
            matrices of their own.

    Returns:
        A series of lower rank.
    """
    inner = [FRAMES, *(axis % series.ndim for axis in axes)]
    outer = [axis for axis in range(series.ndim) if axis not in inner]
    order = [*outer, *inner[1:], FRAMES]
    arranged = series.permute(order)
    matrices = arranged.reshape(-1, arranged.shape[len(outer) : -1].numel(), series.shape[FRAMES])
    each = threshold.expand(*[series.shape[axis] for axis in outer], *[1] * len(inner)).reshape(-1)
    shrunk: Tensor = _Shrinkage.apply(matrices, each)  # type: ignore[no-untyped-call]
    back = [order.index(axis) for axis in range(series.ndim)]
    return shrunk.reshape(arranged.shape).permute(back)


class _Shrinkage(Function):
    # M -> M h(M^H M) with h(s^2) = max(1 - t / s, 0): through the small matrix of frames by frames. Its derivative
    # is that of a function of a Hermitian matrix (Daleckii and Krein), which equal eigenvalues do not disturb.
    @staticmethod
    def forward(ctx: Any, matrices: Tensor, threshold: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(matrices.mH @ matrices)
        ctx.save_for_backward(matrices, values, vectors, threshold)
        return matrices @ _function(_kept(values, threshold), vectors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        matrices, values, vectors, threshold = ctx.saved_tensors
        kept = _kept(values, threshold)
        product = vectors.mH @ (matrices.mH @ gradient) @ vectors
        inner = _divided_differences(values, kept, threshold) * (product + product.mH) / 2
        outer = vectors @ inner @ vectors.mH
        return gradient @ _function(kept, vectors) + 2 * matrices @ outer, None


def _kept(values: Float[Tensor, "matrix frame"], threshold: Float[Tensor, " matrix"]) -> Tensor:
    """The share of each singular value that is kept, by its square."""
    singular = values.clamp_min(torch.finfo(values.dtype).tiny).sqrt()
    return (1 - threshold[:, None] / singular).clamp_min(0)


def _function(values: Tensor, vectors: Tensor) -> Tensor:
    return (vectors * values[:, None].to(vectors.dtype)) @ vectors.mH


def _divided_differences(values: Tensor, kept: Tensor, threshold: Tensor) -> Tensor:
    """(h(a) - h(b)) / (a - b) for all pairs of eigenvalues, or the derivative of h where they are equal."""
    one, other = values[:, :, None], values[:, None]
    equal = (one - other).abs() <= CLOSE * (one + other).abs()
    middle = ((one + other) / 2).clamp_min(torch.finfo(values.dtype).tiny)
    derivative = threshold[:, None, None] / (2 * middle**1.5) * (middle.sqrt() > threshold[:, None, None])
    differences = (kept[:, :, None] - kept[:, None]) / torch.where(equal, 1, one - other)
    return torch.where(equal, derivative, differences)
