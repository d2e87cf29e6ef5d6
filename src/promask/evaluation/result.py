"""What an evaluation finds: the quality of every image, what was measured and how, and the means."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from promask.data.axes import CONTRAST, FRAME
from promask.data.description import DataDescription
from promask.evaluation.contrasts import ContrastQuality
from promask.evaluation.noise import NoiseMap
from promask.evaluation.physics import MaskPhysics
from promask.evaluation.temporal import TemporalQuality
from promask.learning.records import DataRecord
from promask.recon.zero_filled import ZeroFilled
from promask.segmentation.classes import Overlap


@dataclass(frozen=True)
class SegmentationScores:
    """How well a network segments each class in every image: with the mask, and fully sampled."""

    classes: tuple[str, ...]
    with_mask: Overlap
    full: Overlap

    def summary(self) -> dict[str, Any]:
        """Means over the classes of an image, and then over the images; and those of each class."""
        result: dict[str, Any] = {}
        by_class: dict[str, dict[str, float | None]] = {name: {} for name in self.classes}
        for metric in ("dice", "iou"):
            for name, overlap in ((metric, self.with_mask), (f"{metric}_full", self.full)):
                values: torch.Tensor = getattr(overlap, metric)
                result[name] = _finite(values.nanmean(1).nanmean())
                for of_class, mean in zip(by_class.values(), values.nanmean(0), strict=True):
                    of_class[name] = _finite(mean)
            full = result[f"{metric}_full"]
            result[f"{metric}_kept"] = result[metric] / full if full else None
        return {**result, "classes": by_class}


@dataclass(frozen=True)
class Evaluation:
    """The quality of every image, volume or series, and the part of the data that they belong to.

    Args:
        psnr: Peak signal-to-noise ratio in dB, a value for each image, volume or series.
        ssim: Structural similarity; NaN for images that are too small.
        nmse: Squared error relative to the energy of the fully sampled image.
        acceleration: The acceleration that the mask achieves.
        data: The images that were measured: their source, part, number, shape and subjects.
        convention: How quality was measured: `paper` or `fastmri`.
        of: What each value belongs to: `image`, `volume` or `series`.
        segmented: Dice and IoU of each image, if there is a network.
        recon: The name of the reconstruction.
        network: The file of the network, or another name for it; None without a network.
        physics: The point-spread function and the sampling density of the mask.
        noise: The noise amplification of one image, if it was asked for and coils are combined.
        acceleration_within: The acceleration within the shutter and what partial Fourier acquires, of a run that
            has such limits.
        temporal: Of series of frames, the quality of what moves.
        contrasts: Of series of contrasts, the quality of each of them; of echoes also that of T2.
    """

    psnr: list[float]
    ssim: list[float]
    nmse: list[float]
    acceleration: float
    data: DataRecord
    convention: str
    of: str
    segmented: SegmentationScores | None = None
    recon: str = ZeroFilled.name
    network: str | None = None
    physics: MaskPhysics | None = None
    noise: NoiseMap | None = None
    acceleration_within: float | None = None
    temporal: TemporalQuality | None = None
    contrasts: ContrastQuality | None = None

    def values(self, metric: str) -> list[float]:
        """A metric of every image, volume or series.

        Args:
            metric: Such as `psnr`; of series of frames also `psnr_moving` and `nmse_differences`, of contrasts
                `psnr_worst` and `t2_error`.

        Returns:
            NaN where it is not defined.
        """
        parts = (self, self.temporal, self.contrasts)
        found: list[float] = getattr(next(part for part in parts if hasattr(part, metric)), metric)
        return found

    @property
    def indexed(self) -> str:
        """Of series, what was counted: `frame` or `contrast`; otherwise empty."""
        return FRAME if self.temporal else CONTRAST if self.contrasts else ""

    @property
    def images(self) -> int:
        """How many were measured."""
        return self.data.images

    @property
    def part(self) -> str:
        """The part of the data: `train`, `test` or `all`."""
        return self.data.part

    def of_part(self, part: str, read: DataDescription) -> "Evaluation":
        """The same for images that were given by themselves.

        Args:
            part: The part of the data that they are.
            read: What was understood of the whole.

        Returns:
            A new evaluation; this one is not changed.
        """
        return replace(self, data=replace(self.data, part=part, read=read))

    def summary(self) -> dict[str, Any]:
        """Means over what was measured; None where a metric is not defined (SSIM of images below 7 pixels)."""
        count = len(self.psnr)
        means = {name: _finite(sum(getattr(self, name)) / count) for name in ("psnr", "ssim", "nmse")}
        about = {name: getattr(self, name) for name in ("acceleration", "images", "part", "convention", "recon")}
        within = {"acceleration_within": self.acceleration_within} if self.acceleration_within is not None else {}
        volumes = {"volumes": count} if self.of == "volume" else {}
        temporal = self.temporal.summary() if self.temporal else {}
        contrasts = self.contrasts.summary() if self.contrasts else {}
        segmented = self.segmented.summary() if self.segmented else {}
        physics = self.physics.summary() if self.physics else {}
        noise = {"noise": self.noise.summary()} if self.noise else {}
        parts = (means, temporal, contrasts, segmented, about, within, volumes, physics, noise)
        return {**{name: value for part in parts for name, value in part.items()}, "data": self.data.summary()}


def mean_and_spread(evaluations: Sequence[Evaluation], metrics: Sequence[str]) -> dict[str, Any]:
    """The mean of each metric over several masks, and the standard deviation over them under `<metric>_spread`.

    None where a metric is not defined for one of the masks; a single mask has no spread.
    """
    summaries = [evaluation.summary() for evaluation in evaluations]
    result: dict[str, Any] = {}
    for name in metrics:
        values = [summary[name] for summary in summaries]
        defined = None not in values
        result[name] = statistics.mean(values) if defined and len(values) > 1 else values[0] if defined else None
        if len(values) > 1:
            result[f"{name}_spread"] = statistics.stdev(values) if defined else None
    return result


def _finite(mean: float | torch.Tensor) -> float | None:
    return float(mean) if math.isfinite(mean) else None
