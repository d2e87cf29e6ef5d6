"""Tables, written as Markdown, LaTeX, CSV or on a terminal, and those of a comparison."""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, SupportsFloat

import numpy as np

from promask.errors import count
from promask.evaluation.bootstrap import FEWEST, LEVEL, RESAMPLES, Advantage, advantages, are_enough
from promask.evaluation.cells import Comparison, Scores, mean_of_known
from promask.evaluation.conventions import Metric

if TYPE_CHECKING:
    from rich.table import Table as RichTable

UNDEFINED = "-"
BOLD = "The best mean is bold."
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


@dataclass(frozen=True)
class TableCell:
    """What stands in a table: a text, and of a number also its value, its spread, and whether it is the best."""

    text: str
    value: Any = None
    spread: str = ""
    """The standard deviation over masks; empty for a single mask."""
    best: bool = False
    """Whether no other row is better."""
    style: str = ""
    """A colour on a terminal."""

    def __str__(self) -> str:
        return f"{self.text} ± {self.spread}" if self.spread else self.text


def number_cell(
    value: float | None, style: str, spread: float | None = None, spread_style: str | None = None
) -> TableCell:
    """A number, rounded; a dash if it is not defined.

    >>> str(number_cell(31.0, ".2f", 2.8284)), str(number_cell(None, ".2f"))
    ('31.00 ± 2.83', '-')
    """
    if value is None or math.isnan(value):
        return TableCell(UNDEFINED)
    return TableCell(f"{value:{style}}", value, "" if spread is None else f"{spread:{spread_style or style}}")


@dataclass(frozen=True)
class Table:
    """Headings and rows; the first columns are flush left, the others flush right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[TableCell | str]]
    left: int = 1

    def to_markdown(self) -> str:
        """Lines with bars; the best numbers are bold."""
        alignment = ["---"] * self.left + ["---:"] * (len(self.headings) - self.left)
        lines = [self.headings, alignment, *([_markdown(cell) for cell in row] for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def to_latex(self) -> list[str]:
        """The rows, without headings; numbers have two columns, so that means stand below each other."""
        return [_latex_row(map(_latex, row)) for row in self.rows]

    def to_csv(self) -> str:
        """The values in full precision; empty where there is none. Nothing at all without rows."""
        if not self.rows:
            return ""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.headings)
        writer.writerows(
            [cell.value if isinstance(cell, TableCell) else cell for cell in row] for row in self.rows
        )
        return text.getvalue()

    def to_rich(self) -> "RichTable":
        """For a terminal; the best numbers are bold."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=None, pad_edge=False)
        for place, heading in enumerate(self.headings):
            table.add_column(Text(heading), justify="left" if place == 0 else "right")
        for row in self.rows:
            cells = [TableCell(cell) if isinstance(cell, str) else cell for cell in row]
            table.add_row(*(Text(str(cell), style="bold" if cell.best else cell.style) for cell in cells))
        return table


def _markdown(cell: TableCell | str) -> str:
    if isinstance(cell, str):
        return re.sub(r"([\\`*_<|])", r"\\\1", cell)
    return str(replace(cell, text=f"**{cell.text}**") if cell.best else cell)


def _latex(cell: TableCell | str) -> str:
    if isinstance(cell, str):
        return escape_latex(cell)
    text, spread = escape_latex(cell.text), escape_latex(cell.spread)
    text = rf"\textbf{{{text}}}" if cell.best else text
    return rf"{text} & {{\scriptsize\,$\pm$\,{spread}}}" if spread else f"{text} &".lstrip()


def _latex_row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def escape_latex(text: str) -> str:
    """Text in which nothing is special to LaTeX.

    >>> escape_latex("50%_of")
    '50\\\\%\\\\_of'
    """
    return text.translate(SPECIAL)


def factor(acceleration: float) -> str:
    """An acceleration that was asked for.

    >>> factor(8.0)
    'x8'
    """
    return f"x{acceleration:.4g}"


def heading(acceleration: float, complete: int, rotations: str) -> str:
    """The same, with the number of spokes that it is, where there are spokes.

    >>> heading(8.0, 0, ""), heading(9.4375, 302, "spokes")
    ('x8', '32 spokes, x9.438')

    Args:
        acceleration: An acceleration that was asked for.
        complete: How many spokes a complete scan has; 0 if k-space is Cartesian.
        rotations: `spokes` or `interleaves`.

    Returns:
        What stands above tables and columns.
    """
    many = f"{math.floor(complete / acceleration + 1e-9)} {rotations}, " if rotations else ""
    return f"{many}{factor(acceleration)}"


def quality_cells(rows: Sequence[Scores], metrics: Mapping[str, Metric]) -> list[list[TableCell]]:
    """The cells of each row, one for each metric; the best is what no other row surpasses in the digits shown."""
    columns = []
    for name, metric in metrics.items():
        cells = [
            number_cell(mean, metric.style, row.spread(name) if row.masks > 1 and np.isfinite(mean) else None)
            for row, mean in ((row, row.mean(name)) for row in rows)
        ]
        known = [cell for cell in cells if cell.value is not None]
        best = max(known, key=lambda cell: metric.sign * cell.value).text if known else None
        columns.append([replace(cell, best=cell.value is not None and cell.text == best) for cell in cells])
    return [list(row) for row in zip(*columns, strict=True)]


def rows_with_full(
    comparison: Comparison, acceleration: float, metrics: Mapping[str, Metric]
) -> list[tuple[Scores, list[TableCell]]]:
    """The rows of one acceleration and their cells, below what is not compared, which is never best."""
    rows = comparison.at(acceleration)
    result = list(zip(rows, quality_cells(rows, metrics), strict=True))
    above = [(row, quality_cells([row], metrics)[0]) for row in comparison.above]
    return [*((row, [replace(cell, best=False) for cell in cells]) for row, cells in above), *result]


def method_tables(comparison: Comparison) -> Iterator[tuple[str, Table]]:
    """A table per acceleration and group of metrics, with its title."""
    for group, metrics in comparison.measure.groups():
        names = [metric.heading for metric in metrics.values()]
        headings = ["method", "achieved acceleration", *names, "seconds", "masks"]
        for acceleration in comparison.accelerations:
            rows: list[list[TableCell | str]] = [
                [row.method, _achieved(row), *cells, _seconds(row), _masks(row)]
                for row, cells in rows_with_full(comparison, acceleration, metrics)
            ]
            title = _heading(comparison, acceleration)
            title = f"{title}, {group}" if group else title
            yield title, Table(headings, rows)


def _heading(comparison: Comparison, acceleration: float) -> str:
    read = comparison.images.read
    return heading(acceleration, read.complete, read.rotations)


def _achieved(row: Scores) -> str:
    mean = float(np.mean(row.achieved))
    return UNDEFINED if math.isnan(mean) else f"{mean:.4g}"


def _seconds(row: Scores) -> str:
    mean = float(np.mean(row.seconds or math.nan))
    if math.isnan(mean):
        return UNDEFINED
    return f"{mean:.0f}" if mean >= 10 else f"{mean:.2f}"


def _masks(row: Scores) -> str:
    return str(row.masks) if row.seconds else UNDEFINED


def difference_table(comparison: Comparison) -> Table:
    """What promask has over the best other method: mean and interval, green or red if the interval tells; the
    subject, or image, that gains least, and how many gain."""
    metrics = comparison.measure.metrics
    rows: list[list[TableCell | str]] = []
    for each in advantages(comparison):
        style = {True: "green", False: "red", None: ""}[each.better]
        metric = metrics[each.metric]
        text = TableCell(_difference(each, metric), style=style)
        worst = f"{each.worst:+{metric.style}}, {each.gaining} of {len(each.each)}"
        rows.append([factor(each.acceleration), each.method, metric.title, each.other, text, worst])
    return Table(["acceleration", "row", "metric", "best other", "difference", "worst, gaining"], rows, left=4)


def _difference(advantage: Advantage, metric: Metric) -> str:
    style = f"+{metric.style}"
    if advantage.interval is None:
        return f"{advantage.mean:{style}}"
    low, high = advantage.interval
    return f"{advantage.mean:{style}} [{low:{style}}, {high:{style}}]"


def markdown(comparison: Comparison) -> str:
    """The table of each acceleration, how it was measured, and what promask has over the best other."""
    several = any(row.masks > 1 for row in comparison.scores)
    parts = []
    for title, table in method_tables(comparison):
        if not several:
            table = Table(table.headings[:-1], [row[:-1] for row in table.rows])
        parts += [f"### {title}", table.to_markdown()]
    parts.append(" ".join([*notes(comparison), BOLD, "Seconds are those that one mask took."]))
    gained = difference_table(comparison)
    if gained.rows:
        parts += ["### promask minus the best other", gained.to_markdown(), about_differences(comparison)]
    return "\n\n".join(parts) + "\n"


def latex(comparison: Comparison) -> str:
    """A row per method, a group of columns per acceleration; metrics of classes are further groups of rows."""
    accelerations = comparison.accelerations
    _, first = next(comparison.measure.groups())
    width = 1 + 2 * len(first)
    arrows = {1: r"$\uparrow$", -1: r"$\downarrow$"}
    names = [rf"\textit{{{metric.heading.partition(' (')[0]}}} {arrows[metric.sign]}" for metric in first.values()]
    headings = [r"$\alpha$", *(rf"\multicolumn{{2}}{{c}}{{{name}}}" for name in names)]
    above = [_heading(comparison, acceleration) for acceleration in accelerations]
    groups = [rf"\multicolumn{{{width}}}{{c}}{{\textbf{{\texttt{{{each}}}}}}}" for each in above]
    ends = [1 + width * place for place in range(1 + len(accelerations))]
    rules = [rf"\cmidrule(lr){{{before + 1}-{last}}}" for before, last in pairwise(ends)]
    body: list[str] = []
    for group, metrics in comparison.measure.groups():
        if group:
            title = rf"\multicolumn{{{ends[-1]}}}{{l}}{{\textit{{{escape_latex(group)}}}}}"
            body += [r"\midrule", _latex_row([title])]
        body += _wide_table(comparison, metrics).to_latex()
    note = escape_latex(" ".join([*notes(comparison), BOLD]))
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


def _wide_table(comparison: Comparison, metrics: Mapping[str, Metric]) -> Table:
    """A row per method with all accelerations; empty where a method was not asked for one."""
    first = [row.method for row in comparison.above]
    found: dict[str, dict[float, list[TableCell | str]]] = {name: {} for name in (*first, *comparison.methods)}
    for acceleration in comparison.accelerations:
        for row, cells in rows_with_full(comparison, acceleration, metrics):
            found[row.method][acceleration] = [_achieved(row), *cells]
    empty: list[TableCell | str] = ["", *[TableCell("")] * len(metrics)]
    rows = [
        [method, *(cell for x in comparison.accelerations for cell in cells.get(x, empty))]
        for method, cells in found.items()
    ]
    return Table([], rows)


def notes(comparison: Comparison) -> Iterator[str]:
    """How quality was measured, on what, and what the numbers are."""
    yield comparison.measure.sentence
    yield f"Measured on {comparison.data}: {comparison.measured_on}."
    if any(row.masks > 1 for row in comparison.scores):
        yield "± is the standard deviation over the masks of several seeds."
    for method in comparison.methods:  # where learning ended with a reference mask
        places: dict[str, list[str]] = {}
        for row in comparison.scores:
            for name in dict.fromkeys(filter(None, row.references)) if row.method == method else ():
                places.setdefault(name, []).append(factor(row.acceleration))
        for name, accelerations in places.items():
            yield f"{method} ended with the mask of {name} at {', '.join(accelerations)}."


def about_differences(comparison: Comparison) -> str:
    """What the table of differences holds."""
    noun, values, subjects = comparison.measure.of, len(comparison.subjects), len(set(comparison.subjects))
    several = noun if noun == "series" else f"{noun}s"
    drawn = f"{subjects} subjects" if are_enough(comparison.subjects) else f"{several} as if they were independent"
    interval = (
        f" In brackets: the {LEVEL:.0%} interval of the mean difference of these masks, paired by {noun}, from "
        f"{RESAMPLES} bootstrap resamples of the {drawn}."
        if values >= FEWEST
        else f" Too few for a confidence interval: {count(values, noun)}."
    )
    best = "The best other is the best of the methods with as many free axes or fewer."
    best = "The best other is the best of the other methods." if comparison.images.read.rotations else best
    own = "subject" if are_enough(comparison.subjects) else noun
    worst = f" Worst, gaining: the difference of the {own} that gains least, and how many gain."
    less = [metric.heading for metric in comparison.measure.own.values() if metric.sign < 0]
    return f"{best}{interval}{worst}{''.join(f' Lower {name} is better.' for name in less)}"


def records(comparison: Comparison) -> list[dict[str, Any]]:
    """The rows of all tables: means and standard deviations by name, None where there is none."""
    return [
        {
            "data": comparison.data,
            "convention": comparison.measure.name,
            "method": row.method,
            "acceleration": row.acceleration,
            "achieved": _finite(np.mean(row.achieved)),
            "masks": row.masks if row.seconds else 0,
            **{
                name: value
                for metric in comparison.measure.metrics
                for name, value in (
                    (metric, _finite(row.mean(metric))),
                    (f"{metric}_std", _finite(row.spread(metric)) if row.masks > 1 else None),
                )
            },
            "seconds": _finite(np.mean(row.seconds or math.nan)),
        }
        for row in (*comparison.above, *comparison.scores)
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
            "worst": each.worst,
            "gaining": each.gaining,
            "of": len(each.each),
        }
        for each in advantages(comparison)
    ]


def summary_csv(comparison: Comparison) -> str:
    """One line per method and acceleration, in full precision; empty where a metric is not defined."""
    return _of_records(records(comparison)).to_csv()


def differences_csv(comparison: Comparison) -> str:
    """One line per row of promask, acceleration and metric."""
    return _of_records(differences(comparison)).to_csv()


def masks_csv(comparison: Comparison) -> str:
    """One line per mask, numbered from 0."""
    lines = [
        {
            "data": comparison.data,
            "convention": comparison.measure.name,
            "method": row.method,
            "acceleration": row.acceleration,
            "mask": mask,
            "achieved": float(row.achieved[mask]),
            **{name: _finite(mean_of_known(row.quality[name][mask])) for name in comparison.measure.metrics},
            "seconds": _finite(row.seconds[mask]),
        }
        for row in comparison.scores
        for mask in range(row.masks)
    ]
    return _of_records(lines).to_csv()


def _of_records(lines: Sequence[Mapping[str, Any]]) -> Table:
    headings = list(lines[0]) if lines else []
    return Table(headings, [[TableCell("", value) for value in line.values()] for line in lines])


def _finite(value: SupportsFloat) -> float | None:
    return float(value) if math.isfinite(value) else None
