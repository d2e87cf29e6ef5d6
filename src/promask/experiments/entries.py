"""The entries of a table of methods, as they are written: rounded means, spreads, and which of them is best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from promask.experiments.bootstrap import Advantage
from promask.experiments.scores import Comparison, Scores
from promask.headings import Metric

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


def quality_entries(rows: Sequence[Scores], metrics: Mapping[str, Metric]) -> list[dict[str, Entry]]:
    """For each row of one acceleration, its entries by metric."""
    by_metric = {metric: _column(rows, metric, about) for metric, about in metrics.items()}
    return [{metric: column[place] for metric, column in by_metric.items()} for place in range(len(rows))]


def rows_with_full(
    comparison: Comparison, acceleration: float, metrics: Mapping[str, Metric]
) -> list[tuple[Scores, dict[str, Entry]]]:
    """The rows of one acceleration and their entries, below the fully sampled images, which are never best."""
    rows = comparison.at(acceleration)
    result = list(zip(rows, quality_entries(rows, metrics), strict=True))
    if comparison.full is None:
        return result
    (entries,) = quality_entries([comparison.full], metrics)
    return [(comparison.full, {name: replace(entry, best=False) for name, entry in entries.items()}), *result]


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
    if not row.seconds:
        return UNDEFINED
    mean = float(np.mean(row.seconds))
    return f"{mean:.0f}" if mean >= 10 else f"{mean:.2f}"


def masks(row: Scores) -> str:
    """How many masks were made."""
    return str(row.masks) if row.seconds else UNDEFINED


def heading(acceleration: float, group: str) -> str:
    """Above a table.

    >>> heading(8.0, ""), heading(16.0, "ventricle")
    ('x8', 'x16, ventricle')
    """
    return f"{factor(acceleration)}, {group}" if group else factor(acceleration)


def difference(advantage: Advantage, metrics: Mapping[str, Metric]) -> str:
    """The mean and the interval of a difference, with signs."""
    style = f"+{metrics[advantage.metric].style}"
    if advantage.interval is None:
        return f"{advantage.mean:{style}}"
    low, high = advantage.interval
    return f"{advantage.mean:{style}} [{low:{style}}, {high:{style}}]"
