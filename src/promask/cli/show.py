"""What commands show of their results: tables, sentences, and where everything lies."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from promask.cli.terminal import output, print_json
from promask.errors import count
from promask.evaluation.measures import METRICS

if TYPE_CHECKING:
    from promask.evaluation.cells import Comparison
    from promask.evaluation.stability import Stability
    from promask.learning.run import Run

COLUMNS = (
    ("acceleration", "acceleration", ".4g", ".2g"),
    *((name, metric.heading, metric.style, metric.style) for name, metric in METRICS.items()),
)
"""The columns of a table of masks: name, heading, and how values and their spread are written."""
OVERLAP = (("dice", "Dice", ".4f", ".4f"), ("iou", "IoU", ".4f", ".4f"))
PIXEL_STD = ("pixel_std", "pixel ±", ".2%", "")


def show_run(run: "Run", out: Path, as_json: bool) -> None:
    """What was learned, how good it is beside other masks, and where it lies."""
    from promask.report import wording

    record, distribution = run.record, run.distribution
    assert record.evaluation is not None and record.compared is not None  # noqa: PT018
    evaluation, compared = record.evaluation, record.compared
    if as_json:
        summary = {
            "run": str(out),
            "acceleration": run.acceleration,
            "units": distribution.pattern.units,
            "budget": distribution.budget,
            "seconds": record.seconds,
            "stopped": run.history.stopped,
            "plain": record.reference,
            "evaluation": evaluation.to_json(),
            "compared": compared.to_json(),
        }
        print_json(summary)
        return
    noun = "volume" if run.config.volumes else "image"
    if compared.images < evaluation.images:  # the others were measured on some of them
        output.print(metrics_table({"promask": evaluation.to_json()}), "")
    masks = {name: quality.to_json() for name, quality in compared.masks.items()}
    output.print(metrics_table(masks, columns_of(masks["promask"])))
    if evaluation.classes is not None:
        output.print("", overlap_table("promask", evaluation.to_json()), sep="\n")
    output.print(wording.how_compared(run, compared.images, compared.draws))
    data = record.data
    size = " x ".join(map(str, data.shape[1:] if data.shape[0] == 1 else data.shape))
    subjects = f" of {count(data.groups, 'subject')}" if data.groups > 1 else ""
    output.print(
        f"Learned from {count(data.images, noun)}{subjects}, {size}, in {record.seconds:.1f} s, "
        f"{distribution.budget} of {distribution.pattern.units} units; "
        f"measured on {count(evaluation.images, noun)}, {wording.seen(run)}, {evaluation.recon}."
    )
    if run.history.stopped_after is not None:
        output.print(
            f"Stopped after {run.history.stopped_after} of {run.config.steps} steps: the mask no longer changed."
        )
    if record.reference:
        output.print(wording.instead(run))
    if run.config.finetune and run.network is None:
        output.print("The network that was trained on is not better on the validation part: the given one stays.")
    output.print(f"The run is in {out}: open {out / 'report.html'}")


def show_stability(result: "Stability", data: str, written: Sequence[Path]) -> None:
    """The mode beside random masks, what it means, and where it was written."""
    from promask.evaluation.conventions import CONVENTIONS
    from promask.evaluation.stability import sentences, table_rows

    output.print(metrics_table(table_rows(result), (*COLUMNS, PIXEL_STD)))
    images = count(result.mode.images, "sample")
    output.print(
        f"{images} of {data} ({result.mode.part}), {result.mode.recon}; {result.draws} random masks of either "
        f"kind. {CONVENTIONS[result.mode.convention].sentence}"
    )
    for sentence in sentences(result):
        output.print(sentence)
    output.print(f"Written: {', '.join(map(str, written))}")


def show_comparison(comparison: "Comparison", out: Path, as_json: bool) -> None:
    """The tables, how they were measured, and where everything lies."""
    from promask.evaluation.tables import differences, notes, records

    if as_json:
        summary = {
            "folder": str(out),
            "measured_on": comparison.measured_on,
            "rows": records(comparison),
            "differences": differences(comparison),
            "notes": list(notes(comparison)),
        }
        print_json(summary)
        return
    output.print(*comparison_tables(comparison), sep="\n")
    output.print(f"Tables, masks and figures are in {out}:")
    pictures = ("quality", "reconstructions", *(["contours"] if comparison.full else []))
    for name in ("table.md", "table.tex", "table.csv", "differences.csv"):
        output.print(f"  {out / name}")
    for name in pictures:
        output.print(f"  {out / 'figures' / f'{name}.png'}")


def comparison_tables(comparison: "Comparison") -> "Iterator[Table | str]":
    """A table per acceleration, the best in bold, and what promask has over the best other."""
    from promask.evaluation import tables as entries
    from promask.evaluation.bootstrap import advantages
    from promask.evaluation.tables import about_differences, notes

    metrics = comparison.measure.metrics
    for group, of_group in comparison.measure.groups():
        headings = ["achieved", *(metric.heading for metric in of_group.values()), "seconds", "masks"]
        for acceleration in comparison.accelerations:
            table = _table(entries.heading(acceleration, group), *headings)
            for row, of_row in entries.rows_with_full(comparison, acceleration, of_group):
                cells = [Text(str(entry), style="bold" if entry.best else "") for entry in of_row.values()]
                table.add_row(row.method, entries.achieved(row), *cells, entries.seconds(row), entries.masks(row))
            yield from (fitted(table), "")
    yield " ".join(notes(comparison))
    gained = advantages(comparison)
    for method in dict.fromkeys(each.method for each in gained):
        table = _table(f"{method} minus", "best other", "metric", "difference")
        for each in (each for each in gained if each.method == method):
            style = {True: "green", False: "red", None: ""}[each.better]
            about = (entries.factor(each.acceleration), each.other, metrics[each.metric].title)
            table.add_row(*about, Text(entries.difference(each, metrics), style=style))
        yield from ("", fitted(table))
    if gained:
        yield from ("", about_differences(comparison), "")


def columns_of(row: Mapping[str, Any]) -> Sequence[tuple[str, str, str, str]]:
    """The columns of a table of masks, with those of a network where there is one."""
    return (*COLUMNS, *(column for column in OVERLAP if column[0] in row))


def _table(first: str, *others: str) -> Table:
    table = Table(first, box=None, pad_edge=False)
    for heading in others:
        table.add_column(heading, justify="right")
    return table


def fitted(table: Table) -> Table:
    """As wide as it must be; on a terminal that is narrower, each row is a list of its own."""
    table.width = output.measure(table, options=output.options.update(width=1000)).maximum
    if not output.is_terminal or table.width <= output.width or len(table.columns) < 2:
        return table
    first, *others = table.columns
    tall = Table(str(first.header), "", box=None, pad_edge=False)
    for row, *cells in zip(first.cells, *(column.cells for column in others), strict=True):
        tall.add_row(row, "")
        for column, cell in zip(others, cells, strict=True):
            tall.add_row(Text("  ").append_text(Text(str(column.header))), cell)
    return tall


def quality_tables(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[Table]:
    """The image quality of each mask, and what a network finds, where one was asked."""
    yield metrics_table(rows)
    for name, row in rows.items():
        if "classes" in row:
            yield overlap_table(name, row)


def overlap_table(name: str, summary: Mapping[str, Any]) -> Table:
    """Dice and IoU of each class, and the mean over them, beside those of the fully sampled images."""
    table = _table(name, "Dice", "fully sampled", "kept", "IoU", "fully sampled", "kept")
    rows = dict(summary["classes"])
    if len(rows) > 1:
        rows["mean"] = summary
    for of, values in rows.items():
        cells = []
        for metric in ("dice", "iou"):
            found, full = values[metric], values[f"{metric}_full"]
            cells += ["-" if value is None else f"{value:.4f}" for value in (found, full)]
            cells.append(f"{found / full:.1%}" if full else "-")
        table.add_row(of, *cells)
    return fitted(table)


def metrics_table(
    rows: Mapping[str, Mapping[str, Any]], columns: Sequence[tuple[str, str, str, str]] = COLUMNS
) -> Table:
    """A row for each mask; a metric may come with its spread, under the name of the metric and `_spread`."""
    table = Table("mask", box=None, pad_edge=False)
    for _, heading, *_ in columns:
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        cells = []
        for key, _, style, of_spread in columns:
            spread = f" ± {row[f'{key}_spread']:{of_spread}}" if row.get(f"{key}_spread") is not None else ""
            cells.append("-" if row[key] is None else f"{row[key]:{style}}{spread}")
        table.add_row(name, *cells)
    return fitted(table)
