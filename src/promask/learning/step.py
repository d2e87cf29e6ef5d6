"""What the units of drawn masks are worth to a task: masks, reconstructions, the loss, and back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from promask.fourier import fft_order
from promask.patterns import Pattern
from promask.recon import ZERO_FILLED, Encoding, Reconstruction, hybrid, over_coils
from promask.tasks import Task
from promask.types import Batch, Scalar, UnitDraws


@dataclass(frozen=True)
class Backpropagated:
    """The sum of the losses of the reconstructions, and its derivatives."""

    loss: Scalar
    gradients: UnitDraws
    """dL/dm, or L(m = 1) - L(m = 0) where m = 0, for the loss of each reconstruction."""
    of_weights: Sequence[Tensor] = ()
    """With respect to the weights of a network that is trained on."""


Differentiate = Callable[[UnitDraws, Batch, Pattern, Task, Reconstruction, Sequence[Tensor]], Backpropagated]


def backpropagate(
    masks: UnitDraws,
    batch: Batch,
    pattern: Pattern,
    task: Task,
    recon: Reconstruction = ZERO_FILLED,
    weights: Sequence[Tensor] = (),
) -> Backpropagated:
    """Reconstruct every image of the batch with its own mask, and differentiate the task's loss, a mean."""
    masks = masks.detach().requires_grad_()
    on_grid = pattern.expand(masks).unsqueeze(1)  # (batch, 1, *space): shared by the channels
    images = recon(batch.spectra, on_grid, batch.maps)
    loss = task(batch.geometry.judged(images), batch) * len(masks)
    gradients, *of_weights = torch.autograd.grad(loss, (masks, *weights), materialize_grads=True)
    return Backpropagated(loss.detach(), gradients, of_weights)


def insert(
    masks: UnitDraws,
    batch: Batch,
    pattern: Pattern,
    task: Task,
    recon: Reconstruction = ZERO_FILLED,
    weights: Sequence[Tensor] = (),
) -> Backpropagated:
    """Reconstruct as above, and estimate how the loss would change if missing units were put into the image.

    A reconstruction that fills in trusts an acquired sample entirely, and its derivative at a weight of 0 says
    little about a weight of 1. But it is known what the samples would be, and so, to second order, what comes of
    changing the image by them: the slope s along this change, and a curvature c in proportion to their energy e,
    such that the best weight is 1 for all missing units together. L(1) - L(0) = s + c e / 2.
    """
    on_grid = pattern.expand(masks).unsqueeze(1)
    with torch.set_grad_enabled(bool(weights)):
        made = recon(batch.spectra, on_grid, batch.maps)
    combined = batch.maps is None and made.shape[1] != batch.spectra.shape[1]
    if combined or not made.is_complex():  # in a way that has no way back
        return backpropagate(masks, batch, pattern, task, recon, weights)
    images = made.detach().requires_grad_()
    loss = task(batch.geometry.judged(images), batch) * len(masks)
    of_images, *of_weights = torch.autograd.grad(
        loss, (images, *weights), allow_unused=True, materialize_grads=True
    )
    if weights:
        through = torch.autograd.grad(made, tuple(weights), of_images, allow_unused=True, materialize_grads=True)
        of_weights = [direct + indirect for direct, indirect in zip(of_weights, through, strict=True)]
    with torch.no_grad():
        kspace, _, axes = hybrid(batch.spectra, on_grid)
        encoding = Encoding(batch.maps, axes)
        missed = encoding(made.detach()).neg_().add_(kspace)
        slopes, energies = (
            pattern.total(over_coils(each, missed).squeeze(1)) for each in (encoding(of_images), missed)
        )
        covered = fft_order(~pattern.padding(), len(pattern.free)).to(masks.device)
        missing = ((masks == 0) & covered).to(slopes.dtype)
        within = tuple(range(1, masks.ndim))
        needed = torch.finfo(slopes.dtype).tiny
        curvature = -(slopes * missing).sum(within, True) / (energies * missing).sum(within, True).clamp_min(
            needed
        )
        worth = slopes + curvature.clamp_min(0) / 2 * energies
    return Backpropagated(loss.detach(), worth, of_weights)
