"""The entries of a table of methods, as they are written: rounded means, spreads, and which of them is best."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from promask.experiments.bootstrap import Advantage
from promask.experiments.scores import Scores
from promask.headings import METRICS, Metric

UNDEFINED = "-"


@dataclass(frozen=True)
class Entry:
    """A mean over masks and images, rounded."""

    mean: str
    spread: str = ""
    """The standard deviation over masks; empty for a single mask."""
    best: bool = False
    """Whether no other row is better, as far as the digits tell."""

    def __str__(self) -> str:
        return f"{self.mean} ± {self.spread}" if self.spread else self.mean


def quality_entries(rows: Sequence[Scores]) -> list[dict[str, Entry]]:
    """For each row of one acceleration, its entries by metric."""
    by_metric = {metric: _column(rows, metric, about) for metric, about in METRICS.items()}
    return [{metric: column[place] for metric, column in by_metric.items()} for place in range(len(rows))]


def _column(rows: Sequence[Scores], metric: str, about: Metric) -> list[Entry]:
    means = [row.mean(metric) for row in rows]
    best = max((about.sign * mean for mean in means if not np.isnan(mean)), default=np.nan)
    best_text = f"{about.sign * best:{about.style}}"
    entries = []
    for row, mean in zip(rows, means, strict=True):
        text = f"{mean:{about.style}}"
        spread = f"{row.spread(metric):{about.style}}" if row.masks > 1 and np.isfinite(mean) else ""
        entries.append(Entry(UNDEFINED) if np.isnan(mean) else Entry(text, spread, text == best_text))
    return entries


def factor(acceleration: float) -> str:
    """An acceleration that was asked for.

    >>> factor(8.0)
    'x8'
    """
    return f"x{acceleration:g}"


def achieved(row: Scores) -> str:
    """The mean acceleration of the masks."""
    return f"{np.mean(row.achieved):.4g}"


def seconds(row: Scores) -> str:
    """The mean time that a mask took."""
    mean = float(np.mean(row.seconds))
    return f"{mean:.0f}" if mean >= 10 else f"{mean:.2f}"


def difference(advantage: Advantage) -> str:
    """The mean and the interval of a difference, with signs."""
    style = f"+{METRICS[advantage.metric].style}"
    if advantage.interval is None:
        return f"{advantage.mean:{style}}"
    low, high = advantage.interval
    return f"{advantage.mean:{style}} [{low:{style}}, {high:{style}}]"
