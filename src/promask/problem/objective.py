"""The chain from masks to a loss and back: expand the masks, reconstruct, the loss, its derivatives.

With them, a network can be trained while the mask is learned: the paper's outlook.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from promask.errors import InputError
from promask.losses.base import Loss
from promask.recon.base import Reconstruction, reconstruct_batch
from promask.recon.zero_filled import ZERO_FILLED
from promask.sampling.pattern import Pattern
from promask.types import Batch, Scalar, UnitDraws, restore_tensor


@dataclass(frozen=True)
class LossAndSlopes:
    """The sum of the losses of the reconstructions, and its derivatives."""

    loss: Scalar
    gradients: UnitDraws
    """dL/dm, or L(m = 1) - L(m = 0) where m = 0, for the loss of each reconstruction."""
    weight_gradients: Sequence[Tensor] = ()
    """With respect to the weights of a network that is trained on."""


Differentiate = Callable[[UnitDraws, Batch, Pattern, Loss, Reconstruction, Sequence[Tensor]], LossAndSlopes]


def loss_and_slopes(
    masks: UnitDraws,
    batch: Batch,
    pattern: Pattern,
    task: Loss,
    recon: Reconstruction = ZERO_FILLED,
    weights: Sequence[Tensor] = (),
) -> LossAndSlopes:
    """Reconstruct every image of the batch with its own mask, and differentiate the task's loss, a mean."""
    masks = masks.detach().requires_grad_()
    on_grid = pattern.expand(masks).unsqueeze(1)  # (batch, 1, *space): shared by the channels
    images = reconstruct_batch(recon, batch, on_grid)
    loss = task(batch.geometry.crop(images), batch) * len(masks)
    gradients, *weight_gradients = torch.autograd.grad(loss, (masks, *weights), materialize_grads=True)
    return LossAndSlopes(loss.detach(), gradients, weight_gradients)


class Finetuning:
    """Steps of Adam for the weights of a network, from the gradients of the pieces of a batch.

    The network is in evaluation mode: what it has learned about the statistics of its layers is kept. Weights that
    were frozen stay as they are.
    """

    def __init__(self, network: nn.Module, rate: float) -> None:
        self.network = network.eval()
        self.weights = [weight for weight in network.parameters() if weight.requires_grad]
        if not self.weights:
            raise InputError("finetune has nothing to train: all weights of the network are frozen.")
        self.optimiser = torch.optim.Adam(self.weights, rate)

    def observe(self, gradients: Sequence[Tensor]) -> None:
        """Add the gradients of a piece."""
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)

    @property
    def gradients(self) -> list[Tensor]:
        """The sums so far, which may be changed in place."""
        for weight in self.weights:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
        return [weight.grad for weight in self.weights if weight.grad is not None]

    def step(self, count: int) -> None:
        """One step along the mean over so many images."""
        for weight in self.weights:
            assert weight.grad is not None
            weight.grad /= count
        self.optimiser.step()
        self.optimiser.zero_grad()

    def state(self) -> dict[str, Any]:
        """The weights and what Adam knows of them, as they are now."""
        adam = self.optimiser.state_dict()["state"]
        return {
            "weights": [weight.detach().clone() for weight in self.weights],
            "adam": [copy.deepcopy(adam[place]) for place in sorted(adam)],
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; one that does not fit is a ValueError or a LookupError."""
        with torch.no_grad():
            for weight, found in zip(self.weights, state["weights"], strict=True):
                weight.copy_(restore_tensor(found, weight))
        for weight, known in zip(self.weights, state["adam"] or [{}] * len(self.weights), strict=True):
            if known:
                self.optimiser.state[weight] = {name: value.clone() for name, value in known.items()}
