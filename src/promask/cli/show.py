"""What commands show of their results: tables, sentences, and where everything lies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table as RichTable
from rich.text import Text

from promask.cli.terminal import output, print_json
from promask.errors import count

if TYPE_CHECKING:
    from promask.evaluation.cells import Comparison
    from promask.evaluation.density import SamplingDensity
    from promask.evaluation.result import Evaluation
    from promask.evaluation.rotations import AngularSampling
    from promask.evaluation.stability import Stability
    from promask.evaluation.tables import Table, TableCell
    from promask.learning.run import Run

COLUMNS = (
    ("acceleration", "acceleration", ".4g", ".2g"),
    ("psnr", "PSNR (dB)", ".2f", ".2f"),
    ("ssim", "SSIM", ".4f", ".4f"),
    ("nmse", "NMSE", ".5f", ".5f"),
)
"""The columns of a table of masks: name, heading, and how values and their spread are written."""
SERIES_COLUMNS = (
    *COLUMNS[:2],
    ("psnr_moving", "PSNR moving (dB)", ".2f", ".2f"),
    *COLUMNS[2:],
    ("nmse_differences", "NMSE differences", ".4f", ".4f"),
)
"""The same for series of frames."""
CONTRAST_COLUMNS = (*COLUMNS[:2], ("psnr_worst", "worst PSNR (dB)", ".2f", ".2f"), *COLUMNS[2:])
"""The same for series of contrasts."""
ECHO_COLUMNS = (*CONTRAST_COLUMNS, ("t2_error", "T2 error (ms)", ".3f", ".3f"))
"""The same where contrasts are echoes whose times are known."""
OVERLAP = (("dice", "Dice", ".4f", ".4f"), ("iou", "IoU", ".4f", ".4f"))
PIXEL_STD = ("pixel_std", "pixel ±", ".2%", "")


def show_run(run: "Run", out: Path, as_json: bool) -> None:
    """What was learned, how good it is beside other masks, and where it lies."""
    from promask.report import wording

    record, distribution = run.record, run.distribution
    assert record.evaluation is not None and record.compared is not None  # noqa: PT018
    evaluation, compared, behind = record.evaluation, record.compared, wording.behind(run)
    if as_json:
        summary = {
            "run": str(out),
            "data": record.data.summary(),
            "acceleration": run.acceleration,
            "acceleration_within": run.acceleration_within,
            "units": distribution.pattern.units,
            "budget": distribution.budget,
            "seconds": record.seconds,
            "stopped": run.history.stopped,
            "more_steps": wording.more_steps(run),
            "plain": record.reference,
            "evaluation": evaluation.to_json(),
            "compared": compared.to_json(),
            "behind": None if behind is None else asdict(behind),
        }
        print_json(summary)
        return
    if compared.images < evaluation.images:  # the others were measured on some of them
        whole = {**frozen_row(evaluation.to_json()), "promask": evaluation.to_json()}
        output.print(metrics_table(whole, columns_of(whole)), "")
    masks = {name: quality.to_json() for name, quality in compared.masks.items()}
    overlap = tuple(column for column in OVERLAP if column[0] in masks["promask"])
    masks = {**frozen_row(masks["promask"]), **masks}
    output.print(metrics_table(masks, (*columns_of(masks), *overlap)))
    if evaluation.classes is not None:
        output.print("", overlap_table("promask", evaluation.to_json()), sep="\n")
    output.print(wording.how_compared(run, compared.images, compared.draws))
    for sentence in wording.how_learned(run):
        output.print(sentence)
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
            "data": comparison.images.summary(),
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


def comparison_tables(comparison: "Comparison") -> "Iterator[RichTable | str]":
    """A table per acceleration, the best in bold, and what promask has over the best other."""
    from promask.evaluation.tables import Table, about_differences, difference_table, method_tables, notes

    for title, table in method_tables(comparison):
        yield from (fitted(Table([title, "achieved", *table.headings[2:]], table.rows)), "")
    yield " ".join(notes(comparison))
    gained = difference_table(comparison)
    for method in dict.fromkeys(str(row[1]) for row in gained.rows):
        rows = [(x, other, metric, *cells) for x, name, metric, other, *cells in gained.rows if name == method]
        yield from ("", fitted(Table([f"{method} minus", "best other", "metric", *gained.headings[4:]], rows)))
    if gained.rows:
        yield from ("", about_differences(comparison), "")


def fitted(table: "Table") -> RichTable:
    """As wide as it must be; on a terminal that is narrower, each row is a list of its own."""
    wide = table.to_rich()
    wide.width = output.measure(wide, options=output.options.update(width=1000)).maximum
    if not output.is_terminal or wide.width <= output.width or len(wide.columns) < 2:
        return wide
    first, *others = wide.columns
    tall = RichTable(str(first.header), "", box=None, pad_edge=False)
    for row, *cells in zip(first.cells, *(column.cells for column in others), strict=True):
        tall.add_row(row, "")
        for column, cell in zip(others, cells, strict=True):
            tall.add_row(Text("  ").append_text(Text(str(column.header))), cell)
    return tall


def physics_sentences(result: "Evaluation") -> Iterator[str]:
    """What physicists ask of a mask: resolution, side lobes, density, and noise where it was measured."""
    if result.physics is None:
        return
    spread, density = result.physics.point_spread, result.physics.density
    unit, widths = ("pixels", spread.width) if spread.width_mm is None else ("mm", spread.width_mm)
    along = ", ".join(f"{name} {width:.3g}" for name, width in zip(spread.directions, widths, strict=True))
    still = spread.average_side_lobe
    lobes = "" if still is None else f" in x-f space and {still:.1%} of all frames together"
    yield (
        f"Point spread: width {along} {unit}, side lobe {spread.side_lobe:.1%} of the peak{lobes}, "
        f"{spread.energy_outside:.0%} of the energy outside of the main lobe."
    )
    if density.angles is not None:
        yield _angles_sentence(density, density.angles)
    else:
        yield _sampling_sentence(density, len(spread.directions))
    if result.noise is not None:
        yield _noise_sentence(result.noise.summary())


def _angles_sentence(density: "SamplingDensity", angles: "AngularSampling") -> str:
    frames = f", {spans(density.per_frame)} in each {density.indexed}" if density.per_frame else ""
    partitions = f", {spans(angles.per_partition)} in each partition" if angles.per_partition else ""
    gaps = f"of {angles.largest_gap:.3g} degrees"
    if angles.smallest_gap < angles.largest_gap:
        gaps = f"from {angles.smallest_gap:.3g} to {angles.largest_gap:.3g} degrees"
    many = f"{density.samples} {angles.noun}{frames}{partitions}"
    return (
        f"Sampling: {many}, x{density.acceleration:.4g}, gaps {gaps}, "
        f"Nyquist up to {angles.nyquist_radius:.0%} of the radius of k-space."
    )


def _sampling_sentence(density: "SamplingDensity", directions: int) -> str:
    block, gaps = (" x ".join(map(str, each)) for each in (density.calibration, density.largest_gap))
    within = f", x{density.acceleration_in_ellipse:.4g} within the ellipse" if directions > 1 else ""
    frames = f", {spans(density.per_frame)} in each {density.indexed}" if density.per_frame else ""
    return (
        f"Sampling: x{density.acceleration:.4g}{within}{frames}, sampled completely {block}, largest gap {gaps}."
    )


def _noise_sentence(noise: Mapping[str, Any]) -> str:
    amplified, g = noise["amplification"], noise["g_factor"]
    return (
        f"Noise amplification: mean {amplified['mean']:.3g}, 95 % below {amplified['percentile_95']:.3g}, "
        f"g-factor {g['mean']:.3g} and {g['percentile_95']:.3g} ({noise['replicas']} replicas of "
        f"{noise['where']}, {noise['recon']})."
    )


def spans(numbers: Sequence[int]) -> str:
    """The smallest and the largest of some numbers, or the one that they all are."""
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def quality_tables(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[RichTable]:
    """The image quality of each mask, and that of its segmentations, where there is a network."""
    yield metrics_table(rows, columns_of(rows))
    for name, row in rows.items():
        if "classes" in row:
            yield overlap_table(name, row)


def frozen_row(summary: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The fully sampled temporal mean as a row above masks; nothing where there are no series."""
    from promask.evaluation.methods import FROZEN

    frozen = summary.get("frozen")
    return {} if frozen is None else {FROZEN: {"acceleration": None, **frozen}}


def columns_of(rows: Mapping[str, Mapping[str, Any]]) -> Sequence[tuple[str, str, str, str]]:
    """Those of images, or of series."""
    if any("psnr_over_time" in row for row in rows.values()):
        return SERIES_COLUMNS
    if any("psnr_of_contrasts" in row for row in rows.values()):
        return ECHO_COLUMNS if any("t2_error" in row for row in rows.values()) else CONTRAST_COLUMNS
    return COLUMNS


def overlap_table(name: str, summary: Mapping[str, Any]) -> RichTable:
    """Dice and IoU of each class, and the mean over them, beside those of the fully sampled images."""
    from promask.evaluation.tables import Table, number_cell

    rows = dict(summary["classes"])
    if len(rows) > 1:
        rows["mean"] = summary
    lines = []
    for of, values in rows.items():
        cells = []
        for metric in ("dice", "iou"):
            found, full = values[metric], values[f"{metric}_full"]
            cells += [number_cell(found, ".4f"), number_cell(full, ".4f")]
            cells.append(number_cell(found / full if full else None, ".1%"))
        lines.append([of, *cells])
    return fitted(Table([name, "Dice", "fully sampled", "kept", "IoU", "fully sampled", "kept"], lines))


def metrics_table(
    rows: Mapping[str, Mapping[str, Any]],
    columns: Sequence[tuple[str, str, str, str]] = COLUMNS,
    first: str = "mask",
) -> RichTable:
    """A row for each mask; a metric may come with its spread, under the name of the metric and `_spread`."""
    from promask.evaluation.tables import Table, number_cell

    lines: list[list[TableCell | str]] = [
        [
            name,
            *(
                number_cell(row.get(key), style, row.get(f"{key}_spread"), of_spread)
                for key, _, style, of_spread in columns
            ),
        ]
        for name, row in rows.items()
    ]
    return fitted(Table([first, *(heading for _, heading, *_ in columns)], lines))
