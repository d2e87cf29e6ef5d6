"""How sure it is that promask is better: confidence intervals of paired differences, by the bootstrap."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from promask.evaluation.cells import Comparison, Scores, Values
from promask.evaluation.conventions import Metric

RESAMPLES = 10_000
LEVEL = 0.95
FEWEST = 5
"""Subjects to draw from, or else images: from fewer nothing can be said."""
CHUNK = 2**16
"""Values drawn at a time."""


@dataclass(frozen=True)
class Advantage:
    """What a learned row has over the best other row that is as free as it or less, in one metric."""

    method: str
    acceleration: float
    metric: str
    other: str
    """The best of the others by this metric."""
    mean: float
    """Of the differences, the learned row minus the other."""
    interval: tuple[float, float] | None
    """In which the mean lies for other subjects or images of the kind; None for few images."""
    sign: int
    """1 if more is better, -1 if less is."""
    each: tuple[float, ...]
    """The mean of every subject, or, where they are few, of every image."""

    @property
    def worst(self) -> float:
        """That of the subject (or image) that gains least, or loses most."""
        return min(self.each, key=lambda difference: self.sign * difference)

    @property
    def gaining(self) -> int:
        """How many of them gain."""
        return sum(self.sign * difference > 0 for difference in self.each)

    @property
    def better(self) -> bool | None:
        """True or False if the whole interval says so; None if it does not tell."""
        gains = [self.sign * end for end in self.interval or (-1, 1)]
        if min(gains) > 0:
            return True
        return False if max(gains) < 0 else None


def advantages(comparison: Comparison) -> list[Advantage]:
    """For each acceleration, learned row and metric, in this order; none where a metric is not defined."""
    return [
        advantage
        for acceleration in comparison.accelerations
        for learned in comparison.at(acceleration)
        if learned.is_proposed
        for advantage in _advantages_of(learned, acceleration, comparison)
    ]


def _advantages_of(learned: Scores, acceleration: float, comparison: Comparison) -> Iterator[Advantage]:
    rows = comparison.at(acceleration)
    others = [row for row in rows if not row.is_proposed and row.free <= learned.free]
    for metric, about in comparison.measure.own.items():
        known = [row for row in others if not np.isnan(row.mean(metric))]
        if not known:
            continue
        best = max(known, key=_by(metric, about))
        values, others_values = (row.quality[metric].mean(0) for row in (learned, best))
        scored = ~np.isnan(values) & ~np.isnan(others_values)
        with np.errstate(invalid="ignore"):  # PSNR may be infinite
            differences = values[scored] - others_values[scored]
        if not len(differences) or not np.isfinite(differences).all():
            continue
        subjects = [subject for subject, has in zip(comparison.subjects, scored, strict=True) if has]
        interval = paired_interval(differences, subjects) if len(differences) >= FEWEST else None
        sums, sizes = _drawn(differences, subjects)
        own, mean = tuple((sums / sizes).tolist()), float(differences.mean())
        yield Advantage(learned.method, acceleration, metric, best.method, mean, interval, about.sign, own)


def _by(metric: str, about: Metric) -> Callable[[Scores], float]:
    return lambda row: about.sign * row.mean(metric)


def are_enough(subjects: Sequence[str]) -> bool:
    """Whether there are enough subjects to draw from them."""
    return len(set(subjects)) >= FEWEST


def paired_interval(
    differences: Values,
    subjects: Sequence[str] = (),
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> tuple[float, float]:
    """The interval of the mean of paired differences, (images): percentiles over resamples with replacement.

    What is drawn is a subject with all its images, as these resemble each other; or an image, if subjects are few.
    """
    sums, sizes = _drawn(differences, subjects)
    generator = np.random.default_rng(seed)
    chunk = max(1, CHUNK // len(sums))
    means = []
    for start in range(0, resamples, chunk):
        chosen = generator.integers(len(sums), size=(min(chunk, resamples - start), len(sums)))
        means.append(sums[chosen].sum(1) / sizes[chosen].sum(1))
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)


def _drawn(differences: Values, subjects: Sequence[str]) -> tuple[Values, Values]:
    """Sums over the images of each subject, and how many these are; of each image, if subjects are few."""
    drawn = np.unique(subjects, return_inverse=True)[1] if are_enough(subjects) else np.arange(len(differences))
    sums, sizes = np.bincount(drawn, weights=differences), np.bincount(drawn)
    return sums.astype(np.float64), sizes.astype(np.float64)
