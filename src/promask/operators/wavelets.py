"""Daubechies wavelets with two vanishing moments, orthonormal and periodic, and images made sparse in them."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from promask.operators.fourier import real_product
from promask.types import ComplexImages

LEVELS = 4
LONG, FEWEST = 32, 2
"""The length of an axis from which on it is made longer if it has fewer levels than these, so that it has all."""
SMALLEST = 8
"""Axes that are shorter than this are not halved any more, nor are those of odd length."""
STEPS = (3, 5, 7)
"""How far the grid moves along each axis; in 2^LEVELS moves, it has been at every place of the axis."""

# The four taps as lifting steps (Daubechies and Sweldens 1998): each adds a multiple of one half of the values to
# the other half, in place. That is half the work of a convolution, and the inverse takes the same steps back.
_PREDICT = -math.sqrt(3)
_UPDATE, _UPDATE_NEXT = math.sqrt(3) / 4, (math.sqrt(3) - 2) / 4
_NORM = (math.sqrt(3) + 1) / math.sqrt(2)
"""In the end, low-pass values are multiplied with this, and high-pass values divided by it."""

Coefficients = Complex[Tensor, "batch channel *space"]
Thresholds = Float[Tensor, "batch ..."]


def levels(size: int) -> int:
    """How often an axis is halved.

    >>> levels(256), levels(40), levels(7)
    (4, 3, 0)
    """
    count = 0
    while count < LEVELS and size >= SMALLEST and size % 2 == 0:
        size, count = size // 2, count + 1
    return count


def to_wavelets(images: ComplexImages) -> Coefficients:
    """The coefficients, coarse ones first along each axis; as many of them as there are pixels."""
    coefficients = torch.empty_like(images)
    coarse = images
    for axes in _halved_axes(images.shape):
        corner = _corner(coefficients, coarse.shape)
        _halves(corner, axes).copy_(_phases(coarse, axes))
        for axis in axes:
            low, high = torch.view_as_real(corner).chunk(2, axis)
            high.add_(low, alpha=_PREDICT)
            low.add_(high, alpha=_UPDATE)
            low.add_(high.roll(-1, axis), alpha=_UPDATE_NEXT)
            high.add_(low.roll(1, axis))
        coarse = _scaled(corner, axes, _NORM).clone()
    _corner(coefficients, coarse.shape).copy_(coarse)
    return coefficients


def from_wavelets(coefficients: Coefficients) -> ComplexImages:
    """The images, by the inverse of `to_wavelets`, which is its adjoint."""
    return _joined(coefficients.clone())


def _joined(coefficients: Tensor) -> Tensor:
    """The images, from coefficients that are not needed any more."""
    shapes, halved = [coefficients.shape], _halved_axes(coefficients.shape)
    for axes in halved:
        shapes.append(torch.Size(n // 2 if axis in axes else n for axis, n in enumerate(shapes[-1])))
    coarse = _corner(coefficients, shapes[-1])
    for axes, shape in zip(reversed(halved), reversed(shapes[:-1]), strict=True):
        corner = _corner(coefficients, shape)
        _corner(corner, coarse.shape).copy_(coarse)
        _scaled(corner, axes, 1 / _NORM)
        for axis in axes:
            low, high = torch.view_as_real(corner).chunk(2, axis)
            high.sub_(low.roll(1, axis))
            low.sub_(high.roll(-1, axis), alpha=_UPDATE_NEXT)
            low.sub_(high, alpha=_UPDATE)
            high.sub_(low, alpha=_PREDICT)
        coarse = torch.empty(shape, dtype=coefficients.dtype, device=coefficients.device)
        phases, halves = _phases(coarse, axes), _halves(corner, axes)
        for odd in (0, 1):  # one after the other, or PyTorch would go through memory in pairs
            phases.select(_last(axes), odd).copy_(halves.select(_last(axes), odd))
    return coarse


def shrink_wavelets(images: ComplexImages, thresholds: Thresholds, number: int = 0) -> ComplexImages:
    """Images whose coefficients are smaller by a threshold, or zero; the coarsest ones stay as they are.

    These minimise |x - images|^2 / 2 + threshold |W x|_1. Differentiable in the images. The number, that of an
    iteration, moves the grid of the wavelets, lest its edges show in the images.
    """
    padded = images
    for axis, n in enumerate(images.shape[2:], start=2):
        if n >= LONG and levels(n) < FEWEST:  # of an odd size, or nearly: mirrored at its end
            places = torch.arange(-(-n // 2**LEVELS) * 2**LEVELS, device=images.device)
            padded = padded.index_select(axis, torch.where(places < n, places, 2 * n - 1 - places))
    result: Tensor = _Shrinkage.apply(padded, thresholds, number)  # type: ignore[no-untyped-call]
    return _corner(result, images.shape)


class _Shrinkage(Function):
    # Of a coefficient c, the share 1 - t / |c| is left, or nothing.
    @staticmethod
    def forward(ctx: Any, images: Tensor, thresholds: Tensor, number: int) -> Tensor:
        coefficients = to_wavelets(_moved(images, number))
        left = _squares(coefficients).rsqrt_().mul_(-thresholds).add_(1).clamp_min_(0)
        _corner(left, [n >> levels(n) for n in images.shape]).fill_(1)
        ctx.save_for_backward(coefficients, left)
        ctx.number = number
        return _moved(_joined(coefficients * left), -number)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        coefficients, left = ctx.saved_tensors
        gradient = to_wavelets(_moved(gradient, ctx.number))
        taken = left.ceil().sub_(left)  # t / |c|, but zero where nothing is left
        along = real_product(coefficients, gradient).mul_(taken).div_(_squares(coefficients))
        back = _joined(gradient.mul_(left).addcmul_(coefficients, along))
        return _moved(back, -ctx.number), None, None


def _moved(images: Tensor, number: int) -> Tensor:
    axes = range(2, images.ndim)
    return images.roll([number * step for step in STEPS[: len(axes)]], tuple(axes)) if number else images


def _squares(values: Tensor) -> Tensor:
    """|z|^2, but not zero."""
    squares = real_product(values, values)
    return squares.clamp_min_(torch.finfo(squares.dtype).tiny)


def _halved_axes(shape: torch.Size) -> list[list[int]]:
    """For each level, the axes that it halves."""
    counts = {axis: levels(shape[axis]) for axis in range(2, len(shape))}
    return [[axis for axis in counts if level < counts[axis]] for level in range(max(counts.values()))]


def _corner(values: Tensor, shape: Sequence[int]) -> Tensor:
    """The first values along each axis of space."""
    return values[(slice(None), slice(None), *(slice(size) for size in shape[2:]))]


def _phases(values: Tensor, axes: list[int]) -> Tensor:
    """A view in which each of the axes has become two: whether a place is odd, and which of those it is."""
    for axis in reversed(axes):
        values = values.unflatten(axis, (-1, 2)).transpose(axis, axis + 1)
    return values


def _halves(values: Tensor, axes: list[int]) -> Tensor:
    """A view in which each of the axes has become two: whether a place is in the second half, and where in it."""
    for axis in reversed(axes):
        values = values.unflatten(axis, (2, -1))
    return values


def _last(axes: list[int]) -> int:
    """Where the last axis is in these views."""
    return axes[-1] + len(axes) - 1


def _scaled(values: Tensor, axes: list[int], factor: float) -> Tensor:
    """Low-pass halves along each axis times the factor and high-pass halves divided by it, in place.

    What is low along every axis is returned.
    """
    for highs in itertools.product((False, True), repeat=len(axes)):
        part = values
        for axis, high in zip(axes, highs, strict=True):
            half = values.shape[axis] // 2
            part = part.narrow(axis, half if high else 0, half)
        exponent = len(axes) - 2 * sum(highs)
        if exponent:
            part.mul_(factor**exponent)
        if not any(highs):
            low = part
    return low
