"""What a comparison measured: for every method and acceleration, the quality of each image under each mask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from promask.headings import Measure

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """One method at one acceleration, over its seeds."""

    method: str
    """As it was asked for, such as `igs:1d`."""
    free: int
    """How many axes of k-space are free: 1 for lines."""
    acceleration: float
    """The one that was asked for."""
    achieved: Sequence[float]
    """Of the mask of each seed."""
    seconds: Sequence[float]
    """That each mask took; none for the fully sampled images, which need no mask."""
    quality: Mapping[str, Values]
    """By metric: (seeds, images); NaN where a metric is not defined, and those images do not count."""
    plain: Sequence[str | None] = ()
    """The plain mask that took the place of each learned one, if one did."""
    for_this: bool = True
    """Whether a method that learns did so for what is measured, rather than for something else."""

    @property
    def is_promask(self) -> bool:
        """Whether this is promask itself rather than a baseline."""
        return self.method.partition(":")[0] == "promask"

    @property
    def is_proposed(self) -> bool:
        """Whether this is promask as it is meant to be used, which others are compared with."""
        return self.is_promask and self.for_this

    @property
    def masks(self) -> int:
        """One for each seed."""
        return len(self.achieved)

    def mean(self, metric: str) -> float:
        """Over images and seeds."""
        return float(mean_of_known(self.quality[metric].ravel()))

    def spread(self, metric: str) -> float:
        """The standard deviation over seeds of the mean over images; 0 for a single seed."""
        means = mean_of_known(self.quality[metric])
        with np.errstate(invalid="ignore"):  # PSNR is infinite where all of k-space is acquired
            return float(means.std(ddof=1)) if len(means) > 1 else 0.0


def mean_of_known(values: Values) -> Values:
    """The mean over the last axis of the values that are known; NaN if there are none."""
    known = ~np.isnan(values)
    counts = known.sum(-1)
    sums = np.where(known, values, 0).sum(-1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def with_shares(quality: Mapping[str, Values], full: Mapping[str, Values], measure: Measure) -> dict[str, Values]:
    """The quality in all metrics of a measure; shares are relative to the mean of the fully sampled images."""
    result = {}
    for name, metric in measure.metrics.items():
        if metric.share_of is None:
            result[name] = quality[name]
        else:
            whole = float(mean_of_known(full[metric.share_of].ravel()))
            result[name] = quality[metric.share_of] / (whole or np.nan)
    return result


@dataclass(frozen=True)
class Comparison:
    """All methods at all accelerations, on the same images."""

    data: str
    measure: Measure
    measured_on: str
    """What each value of a metric belongs to, with its number: `159 held-out slices`."""
    subjects: Sequence[str]
    """Of whom each value is."""
    scores: Sequence[Scores]
    full: Scores | None = None
    """The fully sampled images, if they have a quality; never among the methods."""

    @property
    def methods(self) -> list[str]:
        """In the order of the table."""
        return list(dict.fromkeys(scores.method for scores in self.scores))

    @property
    def accelerations(self) -> list[float]:
        """In increasing order."""
        return sorted({scores.acceleration for scores in self.scores})

    def at(self, acceleration: float) -> list[Scores]:
        """The methods at one acceleration, in the order of the table."""
        return [scores for scores in self.scores if scores.acceleration == acceleration]

    def is_told(self, metric: str) -> bool:
        """Whether a metric is defined for any of them."""
        return any(np.isfinite(row.mean(metric)) for row in self.scores)
