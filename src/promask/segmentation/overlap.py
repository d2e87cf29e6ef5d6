"""How well regions are found: Dice, intersection over union, and Dice plus cross-entropy as a loss.

An image counts for a class if the class was annotated and is present, as in MONAI's metrics. A class that was not
annotated may be hidden in the background: there the loss counts both as one, and leaves its Dice out.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from promask.segmentation.classes import Classes, Labels, Regions
from promask.types import Logits, Scalar

PerClass = Float[Tensor, "batch class"]


@dataclass(frozen=True)
class Overlap:
    """The scores of each image and class; NaN where there is nothing to find."""

    dice: PerClass
    iou: PerClass


def overlap(predicted: Regions, truth: Regions, hidden: Regions) -> Overlap:
    """Dice and intersection over union of regions."""
    both, either, present = (
        part.flatten(2).sum(2, dtype=torch.float64) for part in (predicted & truth, predicted | truth, truth)
    )
    nothing = (present == 0) | hidden.flatten(2).any(2)
    iou = (both / either).masked_fill(nothing, torch.nan)
    return Overlap(dice=2 * iou / (1 + iou), iou=iou)


def overlap_of(logits: Logits, labels: Labels, classes: Classes) -> Overlap:
    """The scores of the outputs of a network."""
    return overlap(classes.predicted(logits), classes.regions(labels), classes.hidden(labels))


def macro(values: PerClass) -> float:
    """The mean over the classes of each image, and then over the images; NaN if there is nothing to find."""
    return float(values.nanmean(1).nanmean())


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
