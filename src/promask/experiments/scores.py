"""What a comparison measured: for every method and acceleration, the quality of each image under each mask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
    """That each mask took."""
    quality: Mapping[str, Values]
    """By metric: (seeds, images); NaN where a metric is not defined."""
    plain: Sequence[str | None] = ()
    """The plain mask that took the place of each learned one, if one did."""

    @property
    def is_promask(self) -> bool:
        """Whether this is promask itself rather than a baseline."""
        return self.method.partition(":")[0] == "promask"

    @property
    def masks(self) -> int:
        """One for each seed."""
        return len(self.achieved)

    def mean(self, metric: str) -> float:
        """Over images and seeds."""
        return float(self.quality[metric].mean())

    def spread(self, metric: str) -> float:
        """The standard deviation over seeds of the mean over images; 0 for a single seed."""
        means = self.quality[metric].mean(1)
        with np.errstate(invalid="ignore"):  # PSNR is infinite where all of k-space is acquired
            return float(means.std(ddof=1)) if len(means) > 1 else 0.0


@dataclass(frozen=True)
class Comparison:
    """All methods at all accelerations, on the same images."""

    data: str
    convention: str
    """`paper` or `fastmri`."""
    measured_on: str
    """What each value of a metric belongs to, with its number: `159 held-out slices`."""
    subjects: Sequence[str]
    """Of whom each value is."""
    scores: Sequence[Scores]

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
