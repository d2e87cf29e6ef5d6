"""Training a network on while the mask is learned: the paper's outlook."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from promask.errors import InputError


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

    def step(self, count: int) -> None:
        """One step along the mean over so many images."""
        for weight in self.weights:
            assert weight.grad is not None
            weight.grad /= count
        self.optimiser.step()
        self.optimiser.zero_grad()
