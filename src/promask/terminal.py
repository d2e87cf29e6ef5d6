"""The terminal: consoles, progress bars, warnings as sentences, and JSON."""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from promask.errors import InputWarning

if TYPE_CHECKING:
    from promask.learning.loop import Progress
    from promask.training.fit import Epoch

# Names of files may hold square brackets, which would be taken for markup.
output = Console(soft_wrap=True, highlight=False, markup=False)
messages = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)

OnCell = Callable[[int, int, str], None]
"""Told how many cells of a comparison are done, how many there are, and which was the last."""


@dataclass(frozen=True)
class Callbacks:
    """What the library calls while it works."""

    on_step: "Callable[[Progress], None]"
    on_file: Callable[[int, int], None]
    on_cell: "OnCell"
    on_image: Callable[[int, int], None]
    on_epoch: "Callable[[Epoch], None]"
    on_batch: Callable[[int, int], None]


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
        cells = bar.add_task("Comparing", total=None, note="", visible=False)
        images = bar.add_task("Reconstructing", total=None, note="", visible=False)
        steps = bar.add_task("Learning", total=None, note="", visible=False)
        batches = bar.add_task("Training", total=None, note="", visible=False)

        def on_file(done: int, total: int) -> None:
            bar.update(files, completed=done, total=total, visible=done < total)

        def on_step(progress: "Progress") -> None:
            total = progress.steps * progress.members
            done = progress.member * progress.steps + progress.step
            note = f"loss {progress.loss:.3g}  budget {progress.budget:.0f}"
            bar.update(steps, completed=done, total=total, note=note, visible=True)

        def on_cell(done: int, total: int, name: str) -> None:
            bar.update(cells, completed=done, total=total, note=name, visible=True)

        def on_image(done: int, total: int) -> None:
            bar.update(images, completed=done, total=total, visible=True)

        def on_epoch(epoch: "Epoch") -> None:
            note = f"epoch {epoch.epoch} of {epoch.epochs}  loss {epoch.loss:.3g}  Dice {epoch.dice:.3f}"
            bar.update(batches, note=note)

        def on_batch(done: int, total: int) -> None:
            bar.update(batches, completed=done, total=total, visible=True)

        yield Callbacks(on_step, on_file, on_cell, on_image, on_epoch, on_batch)


@contextmanager
def cells_told() -> "Iterator[Callable[[OnCell], OnCell]]":
    """Say how many masks of a comparison were there before, and how many there are when it is interrupted."""
    last = (0, 0)

    def told(on_cell: OnCell) -> OnCell:
        def tell(done: int, total: int, name: str) -> None:
            nonlocal last
            if not name and done:
                messages.print(f"promask: {done} of {count(total, 'mask')} were there already.")
            last = (done, total)
            on_cell(done, total, name)

        return tell

    try:
        yield told
    except KeyboardInterrupt:
        done, total = last
        messages.print(
            f"promask: {done} of {count(total, 'mask')} are finished; the same command goes on from there."
        )
        raise


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


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "image"), count(3, "image")
    ('1 image', '3 images')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def print_json(content: dict[str, Any]) -> None:
    """One object on one line."""
    output.print(json.dumps(content))
