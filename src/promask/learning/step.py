"""The gradient of a task's loss with respect to the masks: masks, reconstructions, the loss, and back."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from promask.patterns import Pattern
from promask.recon import zero_filled
from promask.tasks import Task
from promask.types import Batch, Scalar, UnitDraws


@dataclass(frozen=True)
class Backpropagated:
    """The sum of the losses of the reconstructions, and its derivatives."""

    loss: Scalar
    gradients: UnitDraws
    """dL/dm for the loss of each reconstruction."""
    of_weights: Sequence[Tensor] = ()
    """With respect to the weights of a network that is trained on."""


def backpropagate(
    masks: UnitDraws, batch: Batch, pattern: Pattern, task: Task, weights: Sequence[Tensor] = ()
) -> Backpropagated:
    """Reconstruct every image of the batch with its own mask, and differentiate the task's loss, a mean."""
    masks = masks.detach().requires_grad_()
    on_grid = pattern.expand(masks).unsqueeze(1)  # (batch, 1, *space): shared by the channels
    images = zero_filled(batch.spectra, on_grid, len(pattern.shape))
    loss = task(batch.geometry.judged(images), batch) * len(masks)
    gradients, *of_weights = torch.autograd.grad(loss, (masks, *weights), materialize_grads=True)
    return Backpropagated(loss.detach(), gradients, of_weights)
