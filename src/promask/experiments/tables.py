"""A comparison as Markdown and CSV."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np

from promask.experiments.bootstrap import FEWEST, LEVEL, RESAMPLES, advantages, are_enough
from promask.experiments.entries import (
    Entry,
    achieved,
    difference,
    factor,
    heading,
    masks,
    rows_with_full,
    seconds,
)
from promask.experiments.scores import Comparison, Scores, mean_of_known

BOLD = "The best mean is bold."


def markdown(comparison: Comparison) -> str:
    """The table of each acceleration, how it was measured, and what promask has over the best other."""
    several = any(row.masks > 1 for row in comparison.scores)
    metrics = comparison.measure.metrics
    parts = []
    for group, of_group in comparison.measure.groups():
        names = [about.heading for about in of_group.values()]
        headings = ["method", "achieved acceleration", *names, "seconds", *["masks"] * several]
        for acceleration in comparison.accelerations:
            lines = [
                [row.method, achieved(row), *map(_bold, entries.values()), seconds(row), *[masks(row)] * several]
                for row, entries in rows_with_full(comparison, acceleration, of_group)
            ]
            parts += [f"### {heading(acceleration, group)}", _markdown_table(headings, lines, left=1)]
    parts.append(" ".join([*notes(comparison), BOLD, "Seconds are those that one mask took."]))
    gained = [
        [
            factor(each.acceleration),
            each.method,
            metrics[each.metric].title,
            each.other,
            difference(each, metrics),
        ]
        for each in advantages(comparison)
    ]
    if gained:
        table = _markdown_table(["acceleration", "row", "metric", "best other", "difference"], gained, left=4)
        parts += ["### promask minus the best other", table, about_differences(comparison)]
    return "\n\n".join(parts) + "\n"


def notes(comparison: Comparison) -> Iterator[str]:
    """How quality was measured, on what, and what the numbers are."""
    yield comparison.measure.sentence
    yield f"Measured on {comparison.data}: {comparison.measured_on}."
    if any(row.masks > 1 for row in comparison.scores):
        yield "± is the standard deviation over the masks of several seeds."
    yield from _about_plain_masks(comparison)


def _about_plain_masks(comparison: Comparison) -> Iterator[str]:
    """Where learning ended with a mask that needs none."""
    for method in comparison.methods:
        places: dict[str, list[str]] = {}
        for row in comparison.scores:
            for name in dict.fromkeys(filter(None, row.plain)) if row.method == method else ():
                places.setdefault(name, []).append(factor(row.acceleration))
        for name, accelerations in places.items():
            yield f"{method} ended with the mask of {name} at {', '.join(accelerations)}."


def about_differences(comparison: Comparison) -> str:
    """What the table of differences holds."""
    noun = comparison.measure.of
    count, subjects = len(comparison.subjects), len(set(comparison.subjects))
    drawn = f"{subjects} subjects" if are_enough(comparison.subjects) else f"{noun}s as if they were independent"
    interval = (
        f" In brackets: the {LEVEL:.0%} interval of the mean difference of these masks, paired by {noun}, from "
        f"{RESAMPLES} bootstrap resamples of the {drawn}."
        if count >= FEWEST
        else f" From {count} {noun}{'s' * (count > 1)}, no interval can be told."
    )
    best = "The best other is the best of the methods with as many free axes or fewer."
    less = [about.heading for about in comparison.measure.own.values() if about.sign < 0]
    return f"{best}{interval}{''.join(f' Of {name}, less is better.' for name in less)}"


def _bold(entry: Entry) -> str:
    return str(Entry(f"**{entry.mean}**", entry.spread)) if entry.best else str(entry)


def _markdown_table(headings: Sequence[str], lines: Iterable[Sequence[str]], left: int) -> str:
    """The first columns flush left, the others flush right."""
    alignment = ["---"] * left + ["---:"] * (len(headings) - left)
    table = [headings, alignment, *([cell.replace("|", "\\|") for cell in line] for line in lines)]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def summary_csv(comparison: Comparison) -> str:
    """One line per method and acceleration, in full precision; empty where a metric is not defined."""
    return _csv(records(comparison))


def records(comparison: Comparison) -> list[dict[str, Any]]:
    """The rows of all tables: means and standard deviations by name, None where there is none."""
    metrics = comparison.measure.metrics
    return [
        {
            "data": comparison.data,
            "convention": comparison.measure.name,
            "method": row.method,
            "acceleration": row.acceleration,
            "achieved": float(np.mean(row.achieved)),
            "masks": row.masks if row.seconds else 0,
            **{name: value for metric in metrics for name, value in _mean_and_deviation(row, metric)},
            "seconds": float(np.mean(row.seconds)) if row.seconds else None,
        }
        for row in (*([comparison.full] if comparison.full else []), *comparison.scores)
    ]


def differences(comparison: Comparison) -> list[dict[str, Any]]:
    """What promask has over the best other: means with the ends of their intervals, None where there is none."""
    return [
        {
            "method": each.method,
            "acceleration": each.acceleration,
            "metric": each.metric,
            "best_other": each.other,
            "difference": each.mean,
            "low": each.interval[0] if each.interval else None,
            "high": each.interval[1] if each.interval else None,
        }
        for each in advantages(comparison)
    ]


def differences_csv(comparison: Comparison) -> str:
    """One line per row of promask, acceleration and metric."""
    return _csv(differences(comparison))


def masks_csv(comparison: Comparison) -> str:
    """One line per mask, numbered from 0."""
    return _csv(
        {
            "data": comparison.data,
            "convention": comparison.measure.name,
            "method": row.method,
            "acceleration": row.acceleration,
            "mask": mask,
            "achieved": float(row.achieved[mask]),
            **{name: _finite(mean_of_known(row.quality[name][mask])) for name in comparison.measure.metrics},
            "seconds": float(row.seconds[mask]),
        }
        for row in comparison.scores
        for mask in range(row.masks)
    )


def _mean_and_deviation(row: Scores, metric: str) -> Iterator[tuple[str, float | None]]:
    yield metric, _finite(row.mean(metric))
    yield f"{metric}_std", _finite(row.spread(metric)) if row.masks > 1 else None


def _finite(value: SupportsFloat) -> float | None:
    return float(value) if math.isfinite(value) else None


def _csv(lines: Iterable[Mapping[str, Any]]) -> str:
    lines = list(lines)
    if not lines:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
