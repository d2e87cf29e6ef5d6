"""The method of conjugate gradients (Hestenes and Stiefel 1952), for a batch of equations at once."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from promask.types import AnyImages

Numbers = Float[Tensor, "batch numbers"]


def conjugate_gradients(normal: Callable[[AnyImages], AnyImages], right: AnyImages, iterations: int) -> AnyImages:
    """An approximate solution of A x = b for each item of a batch, for a positive definite A.

    >>> conjugate_gradients(lambda x: 2 * x, torch.ones(1, 1, 3), iterations=1)
    tensor([[[0.5000, 0.5000, 0.5000]]])

    Complex numbers count as pairs of real ones, so that A may treat their parts differently.
    """
    solution, residual, direction = torch.zeros_like(right), right.clone(), right.clone()
    of_solution, of_residual, of_direction = map(_numbers, (solution, residual, direction))
    size = _inner(of_residual, of_residual)
    smallest = torch.finfo(size.dtype).tiny
    for _ in range(iterations):
        change = _numbers(normal(direction))
        step = size / _inner(of_direction, change).clamp_min(smallest)
        of_solution.addcmul_(of_direction, step)
        of_residual.addcmul_(change, step, value=-1)
        before, size = size, _inner(of_residual, of_residual)
        of_direction.mul_(size / before.clamp_min(smallest)).add_(of_residual)
    return solution


def _numbers(images: AnyImages) -> Numbers:
    """All real numbers of each item: a view."""
    images = images.contiguous()
    return (torch.view_as_real(images) if images.is_complex() else images).flatten(1)


def _inner(left: Numbers, right: Numbers) -> Float[Tensor, "batch 1"]:
    return torch.bmm(left.unsqueeze(1), right.unsqueeze(2)).squeeze(2)
