"""Losses: what the reconstructed images are for, as a number to be made small."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from torch import nn

from promask.errors import InputError
from promask.losses.base import Loss, Term, WeightedSum
from promask.losses.image import COMPLEX_LOSSES, LOSSES, SERIES_LOSSES, ImageLoss
from promask.losses.segmentation import SEGMENTATION, Segmentation, freeze
from promask.recon.base import Reconstruction
from promask.recon.network import Network
from promask.segmentation.classes import Classes
from promask.types import LossFunction

__all__ = [
    "COMPLEX_LOSSES",
    "LOSSES",
    "SERIES_LOSSES",
    "Classes",
    "ImageLoss",
    "Loss",
    "Segmentation",
    "Term",
    "WeightedSum",
    "make_loss",
]


def make_loss(loss: str | LossFunction, segmentation: Segmentation | None = None) -> Loss:
    """Make a loss from the text for it.

    >>> make_loss("0.3*mse + 0.7*ssim").name
    '0.3*mse + 0.7*ssim'

    Args:
        loss: `mse`, `l1`, `ssim`, `psnr`, `motion`, `complex-mse`, `complex-l1`, `segmentation`, a weighted sum
            of such, or a function of images and targets, (batch, channel, *space) both.
        segmentation: What `segmentation` stands for.

    Returns:
        The loss.

    Raises:
        InputError: If there is no such loss, or the weights are not positive.
    """
    if not isinstance(loss, str) or not ("*" in loss or "+" in loss):
        return _make_single(loss, segmentation)
    terms = []
    for text in re.split(r"(?<!\d[eE])\+", loss):  # not at the plus of 1e+6
        weight, _, name = text.partition("*")
        try:
            number = float(weight) if name else 0.0
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            raise InputError(
                f"A sum of losses must be like '0.5*segmentation + 0.5*mse', with positive weights, but is "
                f"{loss!r}."
            )
        terms.append(Term(number, _make_single(name.strip(), segmentation)))
    return WeightedSum(terms)


def _make_single(loss: str | LossFunction, segmentation: Segmentation | None) -> Loss:
    if loss != SEGMENTATION:
        return ImageLoss(loss)
    if segmentation is None:
        raise InputError("A segmentation needs a network: give one with `network`.")
    return segmentation


def find_segmentation(loss: Loss) -> Segmentation | None:
    """The segmentation that a loss is, or is a part of."""
    losses = [term.loss for term in loss.terms] if isinstance(loss, WeightedSum) else [loss]
    return next((each for each in losses if isinstance(each, Segmentation)), None)


def replace_network(loss: Loss, network: nn.Module) -> Loss:
    """The same loss with another network of the same kind."""
    if isinstance(loss, WeightedSum):
        return WeightedSum([replace(term, loss=replace_network(term.loss, network)) for term in loss.terms])
    return Segmentation(network, loss.loss, loss.classes) if isinstance(loss, Segmentation) else loss


@contextmanager
def freeze_networks(loss: Loss | None = None, recon: Reconstruction | None = None) -> Iterator[None]:
    """The networks of a loss and of a reconstruction in evaluation mode, without gradients to their weights."""
    segmentation = None if loss is None else find_segmentation(loss)
    with ExitStack() as stack:
        if segmentation is not None:
            stack.enter_context(freeze(segmentation.network))
        if isinstance(recon, Network):
            stack.enter_context(freeze(recon.module))
        yield
