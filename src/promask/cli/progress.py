"""Progress of long work: bars on a terminal, and in a log a line every ten seconds."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.text import Text

from promask.cli.terminal import is_main_process, messages

if TYPE_CHECKING:
    from promask.learning.hooks import Progress
    from promask.segmentation.fit import Epoch

LOG_INTERVAL = 10.0
"""Seconds between two lines in a log, and before the first."""


class ProgressDisplay(Bars):
    """Shows the stage that a command is in, how far it is, and the time left.

    Its methods are the callbacks of the library: each is told how much is done, of how much.
    """

    def __init__(
        self, console: Console = messages, shown: bool | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        shown = is_main_process() if shown is None else shown
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}", style="progress.download"),
            TextColumn("{task.fields[note]}"),
            TimeLeftColumn(),
        )
        draws = shown and console.is_terminal
        super().__init__(*columns, console=console, transient=True, get_time=now, disable=not draws)
        self._writes_log, self._ended = shown and not draws, threading.Event()
        self._log = threading.Thread(target=self._write_log, daemon=True)
        self._timer = StepTimer()
        self._between = self._add("Starting", "", visible=True)
        """Shown between two stages."""
        self._files, self._steps = self._add("Reading files", "file"), self._add("Learning", "step")
        self._cells, self._measurements = self._add("Comparing", "mask"), self._add("Measuring", "")
        self._batches = self._add("Training", "batch")
        self._current, self._since = self._between, now()
        """The stage that runs, and since when."""

    def start(self) -> None:
        """Begin to draw, or to write a log."""
        super().start()
        if self._writes_log:
            self._log.start()

    def stop(self) -> None:
        """End it; nothing is written afterwards."""
        self._ended.set()
        if self._log.is_alive():
            self._log.join()
        super().stop()

    def write_line(self) -> None:
        """Write to the log which stage runs, how far it is, and the time left, or how long it has run."""
        task, seconds = self.tasks[self._current], self.get_time() - self._since
        place = "" if task.total is None else f"{task.fields['noun']} {task.completed:.0f} of {task.total:.0f}"
        time_left = format_time_left(task) or f"for {format_time(seconds)}"
        parts = (task.description.lower(), place.strip(), task.fields["note"], time_left)
        self.console.print(f"promask: {', '.join(filter(None, parts))}")

    def _write_log(self) -> None:
        while not self._ended.wait(LOG_INTERVAL):
            self.write_line()

    def on_file(self, done: int, total: int) -> None:
        """Files were read."""
        self._show(self._files, done, total)

    def on_step(self, progress: "Progress") -> None:
        """A step of learning is over."""
        member, members, step, steps = progress.member, progress.members, progress.step, progress.steps
        self._show(
            self._steps,
            member * steps + step,
            steps * members,
            then="Selecting",
            description="Learning" + (f" {member + 1}/{members}" if members > 1 else ""),
            note=f"loss {progress.loss:.2g} acquire {progress.budget:.0f}",
            ends=self._timer.estimate_end(self.get_time(), member, members, step, steps),
        )

    def on_measurement(self, done: int, total: int) -> None:
        """Masks, or images with them, were measured."""
        self.update(self._steps, visible=False)  # learning may have stopped early
        self._show(self._measurements, done, total, then="Writing")

    def on_cell(self, done: int, total: int, name: str) -> None:
        """Masks of a comparison are finished; `name` is the last one."""
        self._show(self._cells, done, total, then="Writing", note=name)

    def on_epoch(self, epoch: "Epoch") -> None:
        """An epoch of training is over."""
        note = f"epoch {epoch.epoch} of {epoch.epochs}  loss {epoch.loss:.3g}  Dice {epoch.dice:.3f}"
        self.update(self._batches, note=note)

    def on_batch(self, done: int, total: int) -> None:
        """Batches were trained on."""
        self._show(self._batches, done, total)

    def _add(self, name: str, noun: str, visible: bool = False) -> TaskID:
        return self.add_task(name, total=None, visible=visible, count="", note="", ends=None, noun=noun)

    def _show(self, stage: TaskID, done: int, total: int, then: str = "Working", **fields: Any) -> None:
        """Move the bar of a stage; when it is full it goes, and the line between stages says what comes `then`."""
        starts = not self.tasks[stage].visible and done < total
        count = f"{done}/{total}"
        self.update(stage, completed=done, total=total, visible=done < total, count=count, **fields)
        running = [task.id for task in self.tasks if task.visible and task.id != self._between]
        self.update(self._between, visible=not running, description=then)
        current = stage if stage in running else next(iter(running), self._between)
        if current != self._current:
            self._current, self._since = current, self.get_time()
        if starts:
            self.refresh()  # however short it is


@dataclass
class StepTimer:
    """Estimates when learning ends: if members stopped early, it expects the same of the others.

    >>> timer = StepTimer()
    >>> timer.estimate_end(0.0, 0, 2, 1, 100)  # nothing is known after one step
    >>> timer.estimate_end(40.0, 0, 2, 41, 100)  # a second for each of the 159 steps that are left
    199.0
    >>> timer.estimate_end(41.0, 1, 2, 1, 100)  # the first member stopped after 41 steps
    81.0
    """

    started: float | None = None
    taken: dict[int, int] = field(default_factory=dict)
    """The steps of each member."""

    def estimate_end(self, now: float, member: int, members: int, step: int, steps: int) -> float | None:
        """The time at which the last member will have finished."""
        self.taken[member] = step
        if self.started is None:
            self.started = now
            return None
        finished = [taken for each, taken in self.taken.items() if each < member]
        expected = sum(finished) / len(finished) if finished else steps
        seconds_per_step = (now - self.started) / (sum(self.taken.values()) - 1)
        return now + seconds_per_step * (max(expected - step, 0) + (members - member - 1) * expected)


class TimeLeftColumn(ProgressColumn):
    """The time left, which keeps falling between two steps."""

    def render(self, task: Task) -> Text:
        """The column of one line."""
        return Text(format_time_left(task), style="progress.remaining", no_wrap=True)


def format_time_left(task: Task) -> str:
    """The time left as `0:12 left`; nothing where it is not known or over."""
    ends = task.fields["ends"]
    left = task.time_remaining if ends is None else ends - task.get_time()
    if task.total is None or left is None or left < 0:
        return ""
    return f"{format_time(left)} left"


def format_time(seconds: float) -> str:
    """A time as a clock shows it.

    >>> format_time(72.4), format_time(3601)
    ('1:12', '1:00:01')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
