"""Dice plus cross-entropy, where some classes may not have been annotated in some images.

A class that was not annotated is hidden in the background: there, both count as one, and its Dice does not count.
"""

import torch
from torch import Tensor

from promask.segmentation.classes import Classes, Labels
from promask.types import Logits, Scalar

SMOOTH = 1e-5
"""Added to both sides of the Dice ratio, in pixels, as MONAI does."""


def dice_cross_entropy(logits: Logits, labels: Labels, classes: Classes) -> Scalar:
    """The mean over the images of one minus the soft Dice of each class, plus the cross-entropy."""
    regions = classes.regions(labels)
    hidden = classes.hidden(labels) if (labels < 0).any() else None
    if classes.overlapping:
        entropy = torch.nn.functional.binary_cross_entropy_with_logits(
            logits, regions.to(logits.dtype), reduction="none"
        )
        if hidden is not None:
            entropy = entropy.masked_fill(hidden, 0)
        probabilities = logits.sigmoid()
    else:
        logarithms = logits.log_softmax(1)
        entropy = -_log_likelihood(logarithms, regions, hidden)
        probabilities = logarithms[:, 1:].exp()
    return entropy.mean() + _dice_loss(probabilities, regions, hidden)


def _log_likelihood(logarithms: Tensor, regions: Tensor, hidden: Tensor | None) -> Tensor:
    background = ~regions.any(1, keepdim=True)
    if hidden is None:
        return logarithms.gather(1, torch.cat([background, regions], 1).to(torch.uint8).argmax(1, keepdim=True))
    possible = torch.cat([background, regions | hidden], 1)
    return logarithms.masked_fill(~possible, -torch.inf).logsumexp(1, keepdim=True)


def _dice_loss(probabilities: Tensor, regions: Tensor, hidden: Tensor | None) -> Tensor:
    space = tuple(range(2, probabilities.ndim))
    truth = regions.to(probabilities.dtype)
    both = (probabilities * truth).sum(space)
    total = probabilities.sum(space) + truth.sum(space)
    losses = 1 - (2 * both + SMOOTH) / (total + SMOOTH)
    if hidden is None:
        return losses.mean()
    annotated = (~hidden.flatten(2).any(2)).to(losses.dtype)
    return ((losses * annotated).sum(1) / annotated.sum(1).clamp_min(1)).mean()
