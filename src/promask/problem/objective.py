"""The chain from masks to a loss and back: expand the masks, reconstruct, the loss, its derivatives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from promask.losses.base import Loss
from promask.recon.base import Reconstruction, reconstruct_spectra
from promask.recon.zero_filled import ZERO_FILLED
from promask.sampling.pattern import Pattern
from promask.types import Batch, Scalar, UnitDraws


@dataclass(frozen=True)
class Backpropagated:
    """The sum of the losses of the reconstructions, and its derivatives."""

    loss: Scalar
    gradients: UnitDraws
    """dL/dm, or L(m = 1) - L(m = 0) where m = 0, for the loss of each reconstruction."""
    of_weights: Sequence[Tensor] = ()
    """With respect to the weights of a network that is trained on."""


Differentiate = Callable[[UnitDraws, Batch, Pattern, Loss, Reconstruction, Sequence[Tensor]], Backpropagated]


def backpropagate(
    masks: UnitDraws,
    batch: Batch,
    pattern: Pattern,
    task: Loss,
    recon: Reconstruction = ZERO_FILLED,
    weights: Sequence[Tensor] = (),
) -> Backpropagated:
    """Reconstruct every image of the batch with its own mask, and differentiate the task's loss, a mean."""
    masks = masks.detach().requires_grad_()
    on_grid = pattern.expand(masks).unsqueeze(1)  # (batch, 1, *space): shared by the channels
    images = reconstruct_spectra(recon, batch.spectra, on_grid, batch.maps)
    loss = task(batch.geometry.crop(images), batch) * len(masks)
    gradients, *of_weights = torch.autograd.grad(loss, (masks, *weights), materialize_grads=True)
    return Backpropagated(loss.detach(), gradients, of_weights)
