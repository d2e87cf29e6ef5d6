"""How well regions are found: Dice and intersection over union of every image and class.

An image counts for a class if the class was annotated and is there: as MONAI's metrics do, others have no score.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from promask.segmentation.classes import Classes, Labels, Regions
from promask.types import Logits

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
    """The scores of what a network sees."""
    return overlap(classes.predicted(logits), classes.regions(labels), classes.hidden(labels))


def macro(values: PerClass) -> float:
    """The mean over the classes of each image, and then over the images; NaN if there is nothing to find."""
    return float(values.nanmean(1).nanmean())
