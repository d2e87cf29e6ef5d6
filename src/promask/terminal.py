"""What the command line shows: tables, a progress bar, sentences and JSON."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from promask.learning.loop import Progress
    from promask.learning.run import Run

output = Console(soft_wrap=True, highlight=False)
messages = Console(stderr=True, soft_wrap=True, highlight=False)


@contextmanager
def progress_bar() -> "Iterator[Callable[[Progress], None]]":
    """A bar on the terminal, and nothing in a pipe; yields what `learn` calls after every step."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3g}  budget {task.fields[budget]:.0f}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bar:
        task = bar.add_task("Learning", total=None, loss=0.0, budget=0.0)

        def on_step(progress: "Progress") -> None:
            total = progress.steps * progress.members
            done = progress.member * progress.steps + progress.step
            bar.update(task, completed=done, total=total, loss=progress.loss, budget=progress.budget)

        yield on_step


@contextmanager
def warnings_as_sentences() -> "Iterator[None]":
    """Show what the library warns of as one sentence on standard error, once."""
    shown: list[object] = []

    def show(message: object, category: object, *_: object, **__: object) -> None:
        if category not in shown:
            messages.print(f"promask: {message}", markup=False)
        shown.append(category)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def show_run(run: "Run", out: Path, as_json: bool) -> None:
    """What was learned, how good it is, and where it lies."""
    about, distribution, evaluation = run.about, run.distribution, run.about["evaluation"]
    if as_json:
        summary = {
            "run": str(out),
            "acceleration": run.acceleration,
            "units": distribution.pattern.units,
            "budget": distribution.budget,
            "seconds": about["seconds"],
            "stopped": run.history["stopped"],
            "evaluation": evaluation,
        }
        print_json(summary)
        return
    noun = "volume" if run.config.volumes else "image"
    held_out = "held out" if evaluation["part"] != about["data"]["part"] else "the same that it was learned from"
    output.print(metrics_table({"learned": evaluation}))
    output.print(
        f"Learned from {count(about['data']['images'], noun)} in {about['seconds']:.1f} s, "
        f"{distribution.budget} of {distribution.pattern.units} units; "
        f"measured on {count(evaluation['images'], noun)}, {held_out}."
    )
    stopped = [step for step in run.history["stopped"] if step is not None]
    if stopped:
        output.print(f"Stopped after {max(stopped)} of {run.config.steps} steps: the mask no longer changed.")
    output.print(f"The run is in {out}: open {out / 'report.html'}")


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "image"), count(3, "image")
    ('1 image', '3 images')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def metrics_table(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each mask; a metric may come with its spread, under the name of the metric and `_spread`."""
    table = Table("mask", box=None, pad_edge=False)
    for heading in ("acceleration", "PSNR (dB)", "SSIM", "NMSE"):
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        cells = []
        for key, style in (("acceleration", ".4g"), ("psnr", ".2f"), ("ssim", ".4f"), ("nmse", ".5f")):
            spread = f" ± {row[f'{key}_spread']:{style}}" if f"{key}_spread" in row else ""
            cells.append("-" if row[key] is None else f"{row[key]:{style}}{spread}")
        table.add_row(name, *cells)
    return table


def print_json(content: dict[str, Any]) -> None:
    """One object on one line."""
    output.print(json.dumps(content), markup=False)
