"""Images of small total variation, periodic along each axis."""

from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from promask.operators.fourier import real_product
from promask.types import ComplexImages

ITERATIONS = 8

Field = Complex[Tensor, "axis batch channel *space"]
Thresholds = Float[Tensor, "batch ..."]


def differences(images: ComplexImages) -> Field:
    """From each pixel to the next one along each axis; after the last comes the first."""
    return torch.stack([images.roll(-1, axis).sub_(images) for axis in range(2, images.ndim)])


def differences_adjoint(field: Field) -> ComplexImages:
    """The adjoint: minus the divergence."""
    total = field.sum(0).neg_()
    for number, part in enumerate(field):
        total.add_(part.roll(1, number + 2))
    return total


def total_variation(images: ComplexImages) -> Float[Tensor, " batch"]:
    """The sum over the pixels of the length of the vector of differences."""
    return _squares(differences(images)).sqrt_().flatten(1).sum(1)


def denoise_total_variation(
    images: ComplexImages, thresholds: Thresholds, iterations: int = ITERATIONS
) -> ComplexImages:
    """Images that nearly minimise |x - images|^2 / 2 + threshold TV(x), by fast gradient projection.

    Beck and Teboulle (2009). Differentiable in the images: the derivative is that of the iterations.
    """
    result: Tensor = _Smoothing.apply(images, thresholds, iterations)  # type: ignore[no-untyped-call]
    return result


class _Smoothing(Function):
    # x = z - D^H u for the field u of vectors no longer than the threshold that makes |x| smallest. Only z is
    # kept; the fields are computed again to go back through them.
    @staticmethod
    def forward(ctx: Any, images: Tensor, thresholds: Tensor, iterations: int) -> Tensor:
        ctx.save_for_backward(images, thresholds)
        ctx.iterations = iterations
        field, _ = _dual(images, thresholds, iterations)
        return images - differences_adjoint(field)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        images, thresholds = ctx.saved_tensors
        _, steps = _dual(images, thresholds, ctx.iterations)
        step = _step_size(images)
        # The field of each iteration enters the momentum of the next one, and that of the one after.
        now, before = differences(gradient).neg_(), torch.zeros((), dtype=gradient.dtype)
        back = torch.zeros_like(gradient)
        for number in reversed(range(ctx.iterations)):
            momentum = number / (number + 3)
            gone = _projected_back(now, steps[number], thresholds)
            divergence = differences_adjoint(gone).mul_(step)
            back += divergence
            onward = gone.sub_(differences(divergence))
            now, before = torch.add(before, onward, alpha=1 + momentum), onward * -momentum
        return gradient + back, None, None


def _dual(images: Tensor, thresholds: Tensor, iterations: int) -> tuple[Tensor, list[Tensor]]:
    """The field, and what was projected in each iteration."""
    step = _step_size(images)
    field = before = torch.zeros((images.ndim - 2, *images.shape), dtype=images.dtype, device=images.device)
    steps = []
    for number in range(iterations):
        ahead = torch.lerp(before, field, 1 + number / (number + 3))
        ahead += differences(images - differences_adjoint(ahead)).mul_(step)
        before, field = field, ahead * _share(ahead, thresholds)
        steps.append(ahead)
    return field, steps


def _step_size(images: Tensor) -> float:
    """The inverse of the largest eigenvalue of D D^H."""
    return 1 / (4 * (images.ndim - 2))


def _share(field: Tensor, thresholds: Tensor) -> Tensor:
    """What vectors are multiplied with to be no longer than the threshold."""
    return _squares(field).rsqrt_().mul_(thresholds).clamp_max_(1)


def _projected_back(gradient: Tensor, field: Tensor, thresholds: Tensor) -> Tensor:
    """The derivative of the projection: without the part along a vector that is too long, and scaled as it is."""
    share = _share(field, thresholds)
    along = real_product(field, gradient).sum(0).div_(_squares(field)).masked_fill_(share == 1, 0)
    return torch.addcmul(gradient, field, along, value=-1).mul_(share)


def _squares(field: Tensor) -> Tensor:
    """The squared length of each vector, but not zero."""
    squares = real_product(field, field).sum(0)
    return squares.clamp_min_(torch.finfo(squares.dtype).tiny)
