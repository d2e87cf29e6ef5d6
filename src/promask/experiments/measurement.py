"""How cells are measured: the quality of the images, or what a network finds in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from promask.conventions import find_convention
from promask.errors import InputError
from promask.evaluation import evaluate, segmented
from promask.headings import METRICS, Measure, overlap_metrics
from promask.recon import ZERO_FILLED, Reconstruction
from promask.segmentation.scores import Overlap
from promask.tasks import SEGMENTATION, Segmentation
from promask.types import Mask, SampleSet

PerValue = Mapping[str, list[float]]
"""By metric, a value for each image or volume; NaN where there is none."""


@runtime_checkable
class Measurement(Protocol):
    """What the numbers of a comparison are, and how they are found."""

    @property
    def measure(self) -> Measure:
        """How they are told."""

    def of_mask(self, mask: Mask, data: SampleSet) -> PerValue:
        """Of all samples, reconstructed; not of metrics that are a share of another one."""

    def of_full(self, data: SampleSet) -> PerValue | None:
        """The same of the fully sampled images; None if they are what others are measured by."""


@dataclass(frozen=True)
class ImageQuality:
    """PSNR, SSIM and NMSE in a convention."""

    convention: str
    recon: Reconstruction = ZERO_FILLED

    @property
    def measure(self) -> Measure:
        """That of the convention."""
        rule = find_convention(self.convention)
        return Measure(self.convention, "reconstruction", rule.of, rule.sentence, METRICS)

    def of_mask(self, mask: Mask, data: SampleSet) -> PerValue:
        """The quality of all images or volumes."""
        evaluation = evaluate(mask, data, "all", convention=self.convention, recon=self.recon)
        return {name: getattr(evaluation, name) for name in METRICS}

    def of_full(self, data: SampleSet) -> None:
        """They are what others are measured by."""


@dataclass(frozen=True)
class SegmentationQuality:
    """Dice and IoU of what a network finds."""

    task: Segmentation
    recon: Reconstruction = ZERO_FILLED

    @property
    def measure(self) -> Measure:
        """That of the classes of the network."""
        assert self.task.classes is not None
        return segmentation_measure(self.task.classes.names)

    def of_mask(self, mask: Mask, data: SampleSet) -> PerValue:
        """The scores of all images."""
        return self._values(segmented(self.task, data, mask, self.recon))

    def of_full(self, data: SampleSet) -> PerValue:
        """The scores of all images; some must have one."""
        values = self._values(segmented(self.task, data, None, self.recon))
        if torch.tensor(values["dice"]).isnan().all():
            assert self.task.classes is not None
            raise InputError(
                f"Nothing can be measured on {data.name}: in none of the held-out images is there a label of what "
                f"the network finds, {', '.join(self.task.classes.names)}."
            )
        return values

    def _values(self, scores: Overlap) -> PerValue:
        assert self.task.classes is not None
        names = self.task.classes.names
        result: dict[str, list[float]] = {}
        for metric, values in (("dice", scores.dice), ("iou", scores.iou)):
            result[metric] = values.nanmean(1).tolist()
            if len(names) > 1:
                result |= {f"{name}_{metric}": values[:, place].tolist() for place, name in enumerate(names)}
        return result


def segmentation_measure(classes: tuple[str, ...]) -> Measure:
    """How the segmentation of these classes is told."""
    mean = " The mean over the classes of an image comes first." if len(classes) > 1 else ""
    return Measure(
        SEGMENTATION,
        "segmentation",
        "image",
        f"Dice and intersection over union (IoU) of what the network finds in the reconstructed images, of "
        f"{', '.join(classes)}; an image counts for a class that is in it.{mean} Kept is the share of the mean of "
        f"the fully sampled images.",
        overlap_metrics(classes),
    )
