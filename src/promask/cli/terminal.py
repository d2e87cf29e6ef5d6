"""Progress on a terminal: which stage a command is in, how far it is, and the time left.

The terminal: consoles, what is said while a command works, and JSON.
"""

import json
import math
import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from promask.errors import InputWarning, count

if TYPE_CHECKING:
    from promask.learning.hooks import Progress
    from promask.segmentation.fit import Epoch


@dataclass(frozen=True)
class Callbacks:
    """What the library calls while it works."""

    on_step: "Callable[[Progress], None]"
    on_file: Callable[[int, int], None]
    on_cell: Callable[[int, int, str], None]
    on_image: Callable[[int, int], None]
    on_epoch: "Callable[[Epoch], None]"
    on_batch: Callable[[int, int], None]


@contextmanager
def bars(console: Console, shown: bool = True) -> Iterator[Callbacks]:
    """A line for each stage while it lasts, and one that moves between them; nothing in a pipe."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        Counted(),
        TextColumn("{task.fields[note]}"),
        TimeLeft(),
    )
    with Bar(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:

        def add(name: str, visible: bool = False) -> TaskID:
            return bar.add_task(name, total=None, note="", ends=None, visible=visible)

        between = add("Starting", visible=True)
        files, cells, steps = add("Reading files"), add("Comparing"), add("Learning")
        images, batches = add("Measuring"), add("Training")
        clock = StepClock()

        def show(task: TaskID, done: int, total: int, *over: TaskID, name: str = "Working", **shown: Any) -> None:
            """Move one bar on and hide those of stages that are over; at its end, the line between has a name."""
            for each in over:
                bar.update(each, visible=False)
            begins = not bar.tasks[task].visible and done < total
            bar.update(task, completed=done, total=total, visible=done < total, **shown)
            idle = not any(each.visible for each in bar.tasks if each.id != between)
            bar.update(between, visible=idle, description=name)
            if begins:
                bar.refresh()  # however short it is

        def on_file(done: int, total: int) -> None:
            show(files, done, total)

        def on_step(progress: "Progress") -> None:
            several = f" {progress.member + 1}/{progress.members}" if progress.members > 1 else ""
            show(
                steps,
                progress.member * progress.steps + progress.step,
                progress.steps * progress.members,
                name="Deciding",
                description=f"Learning{several}",
                note=f"loss {progress.loss:.2g} budget {progress.budget:.0f}",
                ends=clock.ends(progress.member, progress.members, progress.step, progress.steps),
            )

        def on_cell(done: int, total: int, name: str) -> None:
            show(cells, done, total, name="Writing", note=name)

        def on_image(done: int, total: int) -> None:
            show(images, done, total, steps, name="Writing")

        def on_epoch(epoch: "Epoch") -> None:
            note = f"epoch {epoch.epoch} of {epoch.epochs}  loss {epoch.loss:.3g}  Dice {epoch.dice:.3f}"
            bar.update(batches, note=note)

        def on_batch(done: int, total: int) -> None:
            show(batches, done, total)

        yield Callbacks(on_step, on_file, on_cell, on_image, on_epoch, on_batch)


@dataclass
class StepClock:
    """When learning will end: members that stopped early tell how long the others will take.

    >>> clock = StepClock(now=iter([0.0, 40.0, 41.0]).__next__)
    >>> clock.ends(0, 2, 1, 100)  # nothing is known after one step
    >>> clock.ends(0, 2, 41, 100)  # a second for each step, and 159 of them at most
    199.0
    >>> clock.ends(1, 2, 1, 100)  # the first stopped after 41, and so may this one
    81.0
    """

    now: Callable[[], float] = time.monotonic
    began: float | None = None
    taken: dict[int, int] = field(default_factory=dict)
    """The steps of each member."""

    def ends(self, member: int, members: int, step: int, steps: int) -> float | None:
        """The time at which the last member will be done, by the clock that `now` reads."""
        now = self.now()
        self.taken[member] = step
        if self.began is None:
            self.began = now
            return None
        finished = [taken for each, taken in self.taken.items() if each < member]
        usual = sum(finished) / len(finished) if finished else steps
        each_takes = (now - self.began) / (sum(self.taken.values()) - 1)
        return now + each_takes * (max(usual - step, 0) + (members - member - 1) * usual)


class Counted(ProgressColumn):
    """How many of how many, where that is known."""

    def render(self, task: Task) -> Text:
        """The column of one line."""
        return Text(
            "" if task.total is None else f"{task.completed:.0f}/{task.total:.0f}",
            style="progress.download",
            no_wrap=True,
        )


class TimeLeft(ProgressColumn):
    """The time left, which goes on to fall between two steps; nothing where it is not known or over."""

    def render(self, task: Task) -> Text:
        """The column of one line."""
        ends = task.fields["ends"]
        left = task.time_remaining if ends is None else ends - time.monotonic()
        if task.total is None or left is None or left < 0:
            return Text("")
        minutes, seconds = divmod(round(left), 60)
        hours, minutes = divmod(minutes, 60)
        shown = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
        return Text(f"{shown} left", style="progress.remaining", no_wrap=True)


# Names of files may hold square brackets, which would be taken for markup, or :heart:, for a picture of one.
output = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
messages = Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)

OnCell = Callable[[int, int, str], None]
"""Told how many cells of a comparison are done, how many there are, and which was the last."""


@contextmanager
def progress_bar() -> "Iterator[Callbacks]":
    """Bars on the terminal for whatever takes time, and nothing in a pipe."""

    with bars(messages, shown=speaks()) as callbacks:
        yield callbacks


def speaks() -> bool:
    """Whether this process talks to the user: of those that torchrun starts, the first."""
    return os.environ.get("RANK", "0") == "0"


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
        if key not in shown and speaks():
            messages.print(f"promask: {message}")
        shown.append(key)

    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = show
        yield


_typed: list[str] = []


def keep_typed(words: Sequence[str]) -> None:
    """Keep the words of the command line, for `as_typed`."""
    _typed[:] = words


def as_typed() -> str:
    """The command line, as it can be given to a shell again."""
    return shlex.join(["promask", *_typed])


_last_words: list[str] = []


def leave_word(text: str) -> None:
    """Keep what is to be said when the command has been interrupted, for `interrupted`."""
    _last_words[:] = [text]


def interrupted() -> None:
    """Say that the command was interrupted, and what it has left to say."""
    if speaks():
        messages.print(f"promask: Interrupted{': ' if _last_words else '.'}{''.join(_last_words)}")
    _last_words.clear()


def print_json(content: dict[str, Any]) -> None:
    """One object on one line; numbers that JSON does not have are null."""
    output.print(json.dumps(_with_null(content), allow_nan=False))


def _with_null(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _with_null(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_with_null(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def write(text: str) -> None:
    """Text for another program, such as a shell, as it is."""
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes there
        sys.exit(1)
