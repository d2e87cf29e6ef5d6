"""What the command line shows: tables, a progress bar, sentences and JSON."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from promask.errors import InputWarning

if TYPE_CHECKING:
    from promask.learning.loop import Progress
    from promask.learning.run import Run

# Names of files may hold square brackets, which would be taken for markup.
output = Console(soft_wrap=True, highlight=False, markup=False)
messages = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


@dataclass(frozen=True)
class Callbacks:
    """What the library calls while it works."""

    on_step: "Callable[[Progress], None]"
    on_file: Callable[[int, int], None]


@contextmanager
def progress_bar() -> "Iterator[Callbacks]":
    """Bars on the terminal for files that are made ready and for steps, and nothing in a pipe."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bar:
        files = bar.add_task("Reading files", total=None, note="", visible=False)
        steps = bar.add_task("Learning", total=None, note="", visible=False)

        def on_file(done: int, total: int) -> None:
            bar.update(files, completed=done, total=total, visible=done < total)

        def on_step(progress: "Progress") -> None:
            total = progress.steps * progress.members
            done = progress.member * progress.steps + progress.step
            note = f"loss {progress.loss:.3g}  budget {progress.budget:.0f}"
            bar.update(steps, completed=done, total=total, note=note, visible=True)

        yield Callbacks(on_step, on_file)


@contextmanager
def warnings_as_sentences() -> "Iterator[None]":
    """Show what the library warns of as sentences on standard error, each of them once."""
    shown: list[object] = []

    def show(message: object, category: object, *_: object, **__: object) -> None:
        # What is said of the data is said of every file; other warnings come again with other numbers.
        key = str(message) if category is InputWarning else category
        if key not in shown:
            messages.print(f"promask: {message}")
        shown.append(key)

    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
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
    data = about["data"]
    size = " x ".join(map(str, data["shape"][1:] if data["shape"][0] == 1 else data["shape"]))
    subjects = f" of {count(data['groups'], 'subject')}" if data["groups"] > 1 else ""
    output.print(
        f"Learned from {count(data['images'], noun)}{subjects}, {size}, in {about['seconds']:.1f} s, "
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
    output.print(json.dumps(content))
