"""One step of Algorithm 1, up to the gradient: masks, reconstructions, the task's loss, and back."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from promask.patterns import Pattern
from promask.recon import zero_filled
from promask.sampling import Draws
from promask.types import Batch, ComplexImages, Scalar, UnitDraws

Task = Callable[[ComplexImages, Batch], Scalar]


@dataclass(frozen=True)
class Backpropagated:
    """The mean loss over all drawn masks, and its gradient with respect to each of them."""

    loss: float
    mask_gradient: UnitDraws


def backpropagate(draws: Draws, batch: Batch, pattern: Pattern, task: Task) -> Backpropagated:
    """Reconstruct every image of the batch with its own masks, and differentiate the task's loss."""
    masks = draws.masks.detach().requires_grad_()
    spectra = batch.spectra.unsqueeze(1)  # (batch, 1, channel, *space): shared by the draws of an image
    on_grid = pattern.expand(masks).unsqueeze(2)  # (batch, draws, 1, *space): shared by the channels
    images = zero_filled(spectra, on_grid, len(pattern.shape))
    loss = task(images.flatten(0, 1), batch)
    (mask_gradient,) = torch.autograd.grad(loss, masks)
    return Backpropagated(float(loss.detach()), mask_gradient)
