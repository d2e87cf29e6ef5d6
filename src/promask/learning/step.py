"""The gradient of a task's loss with respect to the masks: masks, reconstructions, the loss, and back."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from promask.patterns import Pattern
from promask.recon import zero_filled
from promask.types import Batch, ComplexImages, Scalar, UnitDraws

Task = Callable[[ComplexImages, Batch], Scalar]


@dataclass(frozen=True)
class Backpropagated:
    """The sum of the losses of the reconstructions, and dL/dm for the loss of each of them."""

    loss: Scalar
    gradients: UnitDraws


def backpropagate(masks: UnitDraws, batch: Batch, pattern: Pattern, task: Task) -> Backpropagated:
    """Reconstruct every image of the batch with its own mask, and differentiate the task's loss, a mean."""
    masks = masks.detach().requires_grad_()
    on_grid = pattern.expand(masks).unsqueeze(1)  # (batch, 1, *space): shared by the channels
    images = zero_filled(batch.spectra, on_grid, len(pattern.shape))
    loss = task(batch.geometry.judged(images), batch) * len(masks)
    (gradients,) = torch.autograd.grad(loss, masks)
    return Backpropagated(loss.detach(), gradients)
