"""A comparison as LaTeX, in the form of Table 1 of the paper."""

from collections.abc import Iterable
from itertools import pairwise

from promask.experiments.entries import Entry, achieved, factor, quality_entries
from promask.experiments.scores import Comparison
from promask.experiments.tables import BOLD, notes
from promask.headings import METRICS

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
    """Table 1 of the paper: a row per method, a group of columns per acceleration."""
    accelerations = comparison.accelerations
    width = 1 + 2 * len(METRICS)
    arrows = {1: r"$\uparrow$", -1: r"$\downarrow$"}
    names = [rf"\textit{{{about.heading.split()[0]}}} {arrows[about.sign]}" for about in METRICS.values()]
    headings = [r"$\alpha$", *(rf"\multicolumn{{2}}{{c}}{{{name}}}" for name in names)]
    groups = [rf"\multicolumn{{{width}}}{{c}}{{\textbf{{\texttt{{{factor(a)}}}}}}}" for a in accelerations]
    ends = [1 + width * place for place in range(1 + len(accelerations))]
    rules = [rf"\cmidrule(lr){{{before + 1}-{last}}}" for before, last in pairwise(ends)]
    found: dict[str, dict[float, list[str]]] = {method: {} for method in comparison.methods}
    for acceleration in accelerations:
        rows = comparison.at(acceleration)
        for row, entries in zip(rows, quality_entries(rows), strict=True):
            found[row.method][acceleration] = [achieved(row), *map(_latex_entry, entries.values())]
    empty = ["", *["&"] * len(METRICS)]
    body = [
        [escaped(method), *(cell for acceleration in accelerations for cell in cells.get(acceleration, empty))]
        for method, cells in found.items()
    ]
    note = escaped(" ".join([*notes(comparison), BOLD]))
    return "\n".join(
        [
            r"% \usepackage{booktabs} for the rules, \usepackage{graphicx} for \resizebox",
            r"\begin{table}",
            r"\centering",
            r"\resizebox{\ifdim\width>\textwidth \textwidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{('r' + 'r@{}l' * len(METRICS)) * len(accelerations)}}}",
            r"\toprule",
            _latex_row(["", *groups]),
            " ".join(rules),
            _latex_row(["", *headings * len(accelerations)]),
            r"\midrule",
            *map(_latex_row, body),
            r"\bottomrule",
            r"\end{tabular}}",
            rf"\caption{{Quality of reconstruction. $\alpha$ is the achieved acceleration. {note}}}",
            r"\label{tab:comparison}",
            r"\end{table}",
            "",
        ]
    )


def escaped(text: str) -> str:
    """Text in which nothing is special to LaTeX.

    >>> escaped("50%_of")
    '50\\\\%\\\\_of'
    """
    return text.translate(SPECIAL)


def _latex_entry(entry: Entry) -> str:
    """Two columns, so that means stand below each other."""
    mean = rf"\textbf{{{entry.mean}}}" if entry.best else entry.mean
    return rf"{mean} & {{\scriptsize\,$\pm$\,{entry.spread}}}" if entry.spread else f"{mean} &"


def _latex_row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"
