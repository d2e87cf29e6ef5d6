"""What is measured of series of contrasts: each contrast by itself, and, of echoes, the map of T2."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from promask.evaluation.temporal import mean_of

TISSUE = 0.1
"""Tissue is what is brighter than this share of the brightest pixel of the first echo."""
LONGEST = 4.0
"""T2 is told apart up to so many times the last echo time; longer ones count as this."""

Series = Float[Tensor, "batch channel contrast *space"]


@dataclass(frozen=True)
class ContrastQuality:
    """The quality of every contrast of every series.

    Args:
        psnr_of_contrasts: Of each series, the PSNR of every contrast, relative to the range of its own target.
        t2_error: Of each series of echoes, the median over tissue of the difference of T2 in ms; otherwise empty.
    """

    psnr_of_contrasts: list[list[float]] = field(default_factory=list)
    t2_error: list[float] = field(default_factory=list)

    @property
    def psnr_worst(self) -> list[float]:
        """Of each series, the PSNR of its worst contrast."""
        return [min(values) for values in self.psnr_of_contrasts]

    def summary(self) -> dict[str, Any]:
        """Means over the series; None where a metric is not defined."""
        means = [mean_of(values) for values in zip(*self.psnr_of_contrasts, strict=True)]
        t2 = {"t2_error": mean_of(self.t2_error)} if self.t2_error else {}
        return {"psnr_worst": mean_of(self.psnr_worst), "psnr_of_contrasts": means, **t2}


def fit_t2(echoes: Series, times: Sequence[float]) -> Float[Tensor, "batch channel *space"]:
    """Fit T2 to each pixel, by a line through the logarithms of its echoes, weighted with their squares.

    The weights are those of equal noise in all echoes.

    >>> times = [10.0, 20.0, 40.0]
    >>> decay = torch.exp(-torch.tensor(times) / 50).reshape(1, 1, 3, 1)
    >>> round(fit_t2(decay, times).item(), 3)
    50.0

    Args:
        echoes: Magnitudes.
        times: The echo times, in ms.

    Returns:
        T2 in ms, from 0 to four times the last echo time, which stands for pixels that do not decay.
    """
    time = torch.tensor(times, dtype=torch.float64).reshape(-1, *[1] * (echoes.ndim - 3))
    values = echoes.double().clamp_min(torch.finfo(torch.float32).tiny)
    weights, logs = values.square(), values.log()

    def mean(of: Tensor) -> Tensor:
        return (weights * of).sum(2) / weights.sum(2)

    at, height = mean(time.expand_as(values)).unsqueeze(2), mean(logs).unsqueeze(2)
    rate = -mean((time - at) * (logs - height)) / mean((time - at).square())
    longest = LONGEST * max(times)
    return (1 / rate.clamp_min(1 / longest)).clamp_max(longest)


def tissue(echoes: Series) -> Bool[Tensor, "batch channel *space"]:
    """Find the pixels that are not background, by the first echo of the fully sampled series.

    Args:
        echoes: Magnitudes.

    Returns:
        Whether each pixel is above 10 % of the brightest one.
    """
    first = echoes[:, :, 0]
    return first > TISSUE * first.flatten(1).amax(1).reshape(-1, *[1] * (first.ndim - 1))


def t2_errors(images: Series, targets: Series, times: Sequence[float]) -> list[float]:
    """The error of the map of T2 of each series: the median over tissue of the differences.

    Pixels whose T2 cannot be told in the fully sampled series are left out.

    Args:
        images: Reconstructed magnitudes.
        targets: Fully sampled magnitudes.
        times: The echo times, in ms.

    Returns:
        In ms; NaN where there is no tissue.
    """
    found, wanted = fit_t2(images, times), fit_t2(targets, times)
    counted = tissue(targets) & (wanted < LONGEST * max(times))
    errors = [(a - b).abs()[inside].tolist() for a, b, inside in zip(found, wanted, counted, strict=True)]
    return [statistics.median(values) if values else float("nan") for values in errors]
