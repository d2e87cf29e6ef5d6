"""The entries of a table of methods, as they are written: rounded means, spreads, and which of them is best.

A comparison as LaTeX, in the form of Table 1 of the paper, whatever is measured.

A comparison as Markdown and CSV.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, SupportsFloat

import numpy as np

from promask.evaluation.bootstrap import FEWEST, LEVEL, RESAMPLES, Advantage, advantages, are_enough
from promask.evaluation.cells import Comparison, Scores, mean_of_known
from promask.evaluation.measures import Metric

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


SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
    }
)


def latex(comparison: Comparison) -> str:
    """A row per method, a group of columns per acceleration; metrics of parts are further groups of rows."""
    accelerations = comparison.accelerations
    _, first = next(comparison.measure.groups())
    width = 1 + 2 * len(first)
    arrows = {1: r"$\uparrow$", -1: r"$\downarrow$"}
    names = [rf"\textit{{{about.heading.partition(' (')[0]}}} {arrows[about.sign]}" for about in first.values()]
    headings = [r"$\alpha$", *(rf"\multicolumn{{2}}{{c}}{{{name}}}" for name in names)]
    groups = [rf"\multicolumn{{{width}}}{{c}}{{\textbf{{\texttt{{{factor(a)}}}}}}}" for a in accelerations]
    ends = [1 + width * place for place in range(1 + len(accelerations))]
    rules = [rf"\cmidrule(lr){{{before + 1}-{last}}}" for before, last in pairwise(ends)]
    body: list[str] = []
    for group, metrics in comparison.measure.groups():
        if group:
            body += [r"\midrule", _latex_row([rf"\multicolumn{{{ends[-1]}}}{{l}}{{\textit{{{escaped(group)}}}}}"])]
        body += map(_latex_row, _body(comparison, metrics))
    note = escaped(" ".join([*notes(comparison), BOLD]))
    return "\n".join(
        [
            r"% \usepackage{booktabs} for the rules, \usepackage{graphicx} for \resizebox",
            r"\begin{table}",
            r"\centering",
            r"\resizebox{\ifdim\width>\textwidth \textwidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{('r' + 'r@{}l' * len(first)) * len(accelerations)}}}",
            r"\toprule",
            _latex_row(["", *groups]),
            " ".join(rules),
            _latex_row(["", *headings * len(accelerations)]),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            rf"\caption{{Quality of {comparison.measure.wanted}. $\alpha$ is the achieved acceleration. {note}}}",
            r"\label{tab:comparison}",
            r"\end{table}",
            "",
        ]
    )


def _body(comparison: Comparison, metrics: Mapping[str, Metric]) -> Iterator[list[str]]:
    """The rows of one group of metrics; empty where a method was not asked for an acceleration."""
    first = [comparison.full.method] if comparison.full else []
    found: dict[str, dict[float, list[str]]] = {method: {} for method in (*first, *comparison.methods)}
    for acceleration in comparison.accelerations:
        for row, entries in rows_with_full(comparison, acceleration, metrics):
            found[row.method][acceleration] = [achieved(row), *map(_latex_entry, entries.values())]
    empty = ["", *["&"] * len(metrics)]
    for method, cells in found.items():
        yield [escaped(method), *(cell for x in comparison.accelerations for cell in cells.get(x, empty))]


def escaped(text: str) -> str:
    """Text in which nothing is special to LaTeX.

    >>> escaped("50%_of")
    '50\\\\%\\\\_of'
    """
    return text.translate(SPECIAL)


def _latex_entry(entry: Entry) -> str:
    """Two columns, so that means stand below each other."""
    mean, spread = escaped(entry.mean), escaped(entry.spread)
    mean = rf"\textbf{{{mean}}}" if entry.best else mean
    return rf"{mean} & {{\scriptsize\,$\pm$\,{spread}}}" if entry.spread else f"{mean} &"


def _latex_row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"


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
