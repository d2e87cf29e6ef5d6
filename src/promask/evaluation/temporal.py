"""What is measured of series beside image quality: where things move, how they change, and when errors occur.

Most of a series stands still, and the temporal mean is a good image of it: a frozen heart has a high PSNR. What
moves is therefore measured by itself, and the temporal mean of the fully sampled series, which shows no motion at
all, is measured beside every mask.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from promask.losses import metrics
from promask.losses.metrics import GAUSSIAN, Window

MOVING = 0.3
"""A pixel moves if its temporal standard deviation is above this share of the largest ones of its series."""
LARGEST = 0.999
"""The quantile that stands for the largest ones."""

Series = Float[Tensor, "batch channel frame *space"]


@dataclass(frozen=True)
class FrozenQuality:
    """The quality of the fully sampled temporal mean of every series, as if it were a reconstruction.

    Args:
        psnr: Over the whole series.
        psnr_moving: Within what moves.
        ssim: The mean over frames.
        nmse: Over the whole series.
        nmse_differences: Of frame-to-frame differences: 1, as there are none.
    """

    psnr: list[float] = field(default_factory=list)
    psnr_moving: list[float] = field(default_factory=list)
    ssim: list[float] = field(default_factory=list)
    nmse: list[float] = field(default_factory=list)
    nmse_differences: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float | None]:
        """Means over the series; None where a metric is not defined."""
        return {name: mean_of(values) for name, values in vars(self).items()}


@dataclass(frozen=True)
class TemporalQuality:
    """The quality of what moves, of every series.

    Args:
        psnr_moving: PSNR within what moves; NaN where nothing does.
        nmse_differences: Squared error of the differences of neighbouring frames, relative to their energy in the
            fully sampled series; NaN where nothing moves.
        over_time: Of each series, the PSNR of every frame, relative to the range of the series.
        frozen: The fully sampled temporal mean in place of the reconstruction.
    """

    psnr_moving: list[float] = field(default_factory=list)
    nmse_differences: list[float] = field(default_factory=list)
    over_time: list[list[float]] = field(default_factory=list)
    frozen: FrozenQuality = field(default_factory=FrozenQuality)

    def add(self, images: Series, targets: Series, window: Window = GAUSSIAN) -> None:
        """Take further series into account, whose values a convention has scaled: a peak is 1.

        Args:
            images: Reconstructed magnitudes.
            targets: Fully sampled magnitudes.
            window: That of SSIM in the convention.
        """
        moving = moving_region(targets)
        self.psnr_moving.extend(psnr_within(images, targets, moving).tolist())
        self.nmse_differences.extend(nmse_of_differences(images, targets).tolist())
        self.over_time.extend(psnr_over_time(images, targets).tolist())
        mean = targets.mean(2, keepdim=True).expand_as(targets)
        error = metrics.energy(mean - targets)
        self.frozen.psnr.extend(metrics.decibels(error / targets[0].numel()).tolist())
        self.frozen.psnr_moving.extend(psnr_within(mean, targets, moving).tolist())
        self.frozen.ssim.extend(similarity_of_frames(mean, targets, window).tolist())
        self.frozen.nmse.extend((error / metrics.energy(targets)).tolist())
        self.frozen.nmse_differences.extend(nmse_of_differences(mean, targets).tolist())

    def summary(self) -> dict[str, Any]:
        """Means over the series; None where a metric is not defined."""
        times = [mean_of(values) for values in zip(*self.over_time, strict=True)]
        return {
            "psnr_moving": mean_of(self.psnr_moving),
            "nmse_differences": mean_of(self.nmse_differences),
            "psnr_over_time": times,
            "frozen": self.frozen.summary(),
        }


def moving_region(targets: Series) -> Bool[Tensor, "batch channel *space"]:
    """Find the pixels that move.

    >>> beating = torch.zeros(1, 1, 2, 3, 3)
    >>> beating[0, 0, 1, 1, 1] = 1
    >>> moving_region(beating).nonzero()
    tensor([[0, 0, 1, 1]])

    Args:
        targets: Fully sampled magnitudes.

    Returns:
        Whether the standard deviation of each pixel over the frames is above 30 % of the 99.9th percentile of its
        series.
    """
    deviations = targets.double().std(2, correction=0)
    largest = np.quantile(deviations.flatten(1).cpu().numpy(), LARGEST, axis=1)
    limits = MOVING * torch.from_numpy(largest).to(deviations)
    return deviations > limits.reshape(-1, *[1] * (deviations.ndim - 1))


def psnr_within(
    images: Series, targets: Series, region: Bool[Tensor, "batch channel *space"]
) -> Float[Tensor, " batch"]:
    """The PSNR over all frames of the pixels of a region, for a peak of 1; NaN without such pixels.

    Args:
        images: Reconstructed magnitudes.
        targets: Fully sampled magnitudes.
        region: Pixels that count.

    Returns:
        In dB, of each series.
    """
    squares = ((images - targets).square() * region.unsqueeze(2)).flatten(1).sum(1, dtype=torch.float64)
    return metrics.decibels(squares / (targets.shape[2] * region.flatten(1).sum(1)))


def nmse_of_differences(images: Series, targets: Series) -> Float[Tensor, " batch"]:
    """The squared error of the differences of neighbouring frames, relative to their energy in the target.

    >>> beating = torch.tensor([0.0, 1.0, 0.0, 1.0]).reshape(1, 1, 4, 1, 1)
    >>> nmse_of_differences(0.5 * beating, beating).item()
    0.25

    Args:
        images: Reconstructed magnitudes.
        targets: Fully sampled magnitudes.

    Returns:
        Of each series; NaN where nothing changes.
    """
    energy = metrics.energy(targets.diff(dim=2))
    error = metrics.energy(images.diff(dim=2) - targets.diff(dim=2))
    return torch.where(energy > 0, error / energy, torch.nan)


def psnr_over_time(images: Series, targets: Series) -> Float[Tensor, "batch frame"]:
    """The PSNR of every frame, for a peak of 1.

    Args:
        images: Reconstructed magnitudes.
        targets: Fully sampled magnitudes.

    Returns:
        In dB, of each frame of each series.
    """
    squares = (images - targets).square().transpose(1, 2).flatten(2)
    return metrics.decibels(squares.mean(2, dtype=torch.float64).flatten()).reshape(squares.shape[:2])


def similarity_of_frames(images: Series, targets: Series, window: Window) -> Float[Tensor, " batch"]:
    """SSIM as the mean over frames, with a window in space alone; NaN where it does not fit.

    Args:
        images: Reconstructed magnitudes, from 0 to 1.
        targets: Fully sampled magnitudes, from 0 to 1.
        window: How the pixels around a position count.

    Returns:
        Of each series.
    """
    images, targets = (each.flatten(1, 2) for each in (images, targets))  # frames are averaged over like channels
    if not window.fits(targets):
        return torch.full((len(targets),), torch.nan)
    return metrics.structural_similarity(images, targets, window)


def mean_of(values: Sequence[float]) -> float | None:
    """The mean over what is known, NaN left out; None if nothing is, or it is not finite.

    >>> mean_of([1.0, float("nan"), 3.0]), mean_of([])
    (2.0, None)
    """
    known = [value for value in values if not math.isnan(value)]
    mean = sum(known) / len(known) if known else math.nan
    return mean if math.isfinite(mean) else None
