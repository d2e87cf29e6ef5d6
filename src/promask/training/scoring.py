"""How well a network segments fully sampled images."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from promask.segmentation.classes import Classes, Labels
from promask.segmentation.network import SegmentationNetwork
from promask.segmentation.scores import Overlap, macro, overlap_of
from promask.training.augmentation import Augment
from promask.types import Images, SampleSet

CHUNK = 16
"""Images segmented at a time."""


def stacked(
    data: SampleSet, indices: Sequence[int], classes: Classes, augment: Augment | None = None
) -> tuple[Images, Labels]:
    """Magnitude images and labels of some samples, perhaps changed at random."""
    pairs = []
    for index in indices:
        sample = data[index]
        image, label = data.geometry.judged(sample.image).abs(), data.geometry.judged(classes.label(sample))
        pairs.append(augment(image, label) if augment is not None else (image, label))
    return torch.stack([image for image, _ in pairs]), torch.stack([label for _, label in pairs])


def score(network: SegmentationNetwork, data: SampleSet) -> Overlap:
    """Dice and intersection over union of every image and class."""
    network.eval()
    indices = range(len(data))
    found = []
    with torch.no_grad():
        for start in indices[::CHUNK]:
            images, labels = stacked(data, indices[start : start + CHUNK], network.classes)
            found.append(overlap_of(network(images), labels, network.classes))
    return Overlap(torch.cat([each.dice for each in found]), torch.cat([each.iou for each in found]))


def summary(scores: Overlap, classes: Classes) -> dict[str, Any]:
    """The means of each class, and of all of them, as plain JSON; None where there is nothing to find."""
    by_class = {
        name: {"dice": _plain(float(dice)), "iou": _plain(float(iou))}
        for name, dice, iou in zip(classes.names, scores.dice.nanmean(0), scores.iou.nanmean(0), strict=True)
    }
    return {"dice": _plain(macro(scores.dice)), "iou": _plain(macro(scores.iou)), "classes": by_class}


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
