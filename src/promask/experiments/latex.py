"""A comparison as LaTeX, in the form of Table 1 of the paper, whatever is measured."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from promask.experiments.entries import Entry, achieved, factor, rows_with_full
from promask.experiments.scores import Comparison
from promask.experiments.tables import BOLD, notes
from promask.headings import Metric

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
