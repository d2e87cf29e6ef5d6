"""Worker processes of the studio, and what they do: describe data, and learn.

They are started quickly and stopped for certain; a failure is told in one sentence.
"""

import base64
import io
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import chdir, suppress
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from promask.data.inspection import Inspection, inspect
from promask.data.reading import Reading
from promask.data.sources import short_source
from promask.errors import InputError, InputWarning, one_line
from promask.export import ExportedMask, read_mask
from promask.figures.inspection import inspection_figure
from promask.figures.rotations import rotation_curves
from promask.learning.hooks import Progress
from promask.recon import KtSense, ZeroFilled
from promask.report.pipeline import learn_and_report
from promask.sampling.pattern import Pattern
from promask.studio.request import LONGEST_ARRAY, geometry_of, shape_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWING = ["matplotlib.backends.backend_agg", "matplotlib.figure"]
PRELOADED = ["promask.studio.processes", *_DRAWING, "nibabel", "jinja2", "sigpy.mri"]
"""What a process need not import when it starts, where the system can fork; what is missing is skipped."""
STOP_SECONDS = 2.0
"""How long a process may take to stop when it is asked to; then it is killed."""

Message = tuple[str, Any]
"""What a process sends: a kind, and what belongs to it. The last kind is `done` or `error`."""
Send = Callable[[str, Any], None]
Task = Callable[[Any, Send], Any]
"""What a process does: it takes its input, sends messages on the way, and returns its result."""


@cache
def start_method() -> ForkServerContext | SpawnContext:
    """How processes are started: where possible, forked from a server that now begins to import what they need."""
    if "forkserver" in multiprocessing.get_all_start_methods():
        from multiprocessing import forkserver

        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        with suppress(OSError):  # such as a name of the temporary folder that is too long for a socket
            forkserver.ensure_running()
            return context
    return multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Environment:
    """Where a process works: names of files in messages and in reports are relative to its folder."""

    folder: Path
    cache: Path
    """The cache of prepared samples; uploads must not stay in that of the user."""
    threads: int
    """As many as on the command line, so that the results are the same, bit for bit."""


class Worker:
    """A process that runs a task."""

    def __init__(self, task: Task, task_input: Any, environment: Environment) -> None:
        context = start_method()
        self._receiver, sender = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(
            target=_run, args=(task, task_input, environment, sender), daemon=True
        )
        self.process.start()
        sender.close()

    def next_message(self, seconds: float | None = None) -> Message:
        """Wait for the next message; it is an error if the process ended, or sent none for so many seconds."""
        try:
            if not self._receiver.poll(seconds):
                self.stop()
                return "error", f"It took longer than {seconds:g} seconds, and was stopped."
            return self._receiver.recv()
        except (EOFError, OSError):
            self.process.join(STOP_SECONDS)
            code = self.process.exitcode
            how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
            return "error", f"The process ended without a word ({how}): did the memory run out?"

    def stop(self) -> None:
        """Stop the process, with force if it does not stop by itself; it is gone when this returns."""
        with suppress(ValueError):
            self.process.terminate()
            self.process.join(STOP_SECONDS)
            if self.process.is_alive():
                self.process.kill()
                self.process.join()

    def close(self) -> None:
        """Stop the process and free what belongs to it."""
        self.stop()
        self._receiver.close()


def _run(task: Task, task_input: Any, environment: Environment, sender: Connection) -> None:
    """Run a task in this process, and send its result, or one sentence that says why there is none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the studio stops it
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    lock = threading.Lock()

    def send(kind: str, content: Any) -> None:
        with lock:
            sender.send((kind, content))

    try:
        import torch

        torch.set_num_threads(environment.threads)
        warnings.simplefilter("ignore")  # tasks choose which they send
        os.chdir(environment.folder)
        os.environ["PROMASK_CACHE"] = str(environment.cache)
        send("done", task(task_input, send))
    except Exception as error:
        send("error", describe_error(error))
    finally:
        sender.close()


def describe_error(error: BaseException) -> str:
    """What the page says of an error; it shows no backquotes, in which the library names arguments.

    >>> describe_error(ZeroDivisionError("division by zero"))
    'ZeroDivisionError: division by zero'
    """
    first = str(error).partition("\n")[0].replace("`", "")
    if isinstance(error, InputError):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


DOTS_PER_INCH = 110
LONGEST_TEXT = 300
"""Letters of each thing that is told of data: names in files may be of any length."""
SERIES_RECON = KtSense.name
"""The reconstruction that suits frames: zero-filling gains nothing from other lines in other frames."""
PICTURE_INTERVAL = 0.1
"""Seconds between two pictures of the probabilities."""


def describe(source: tuple[str, Reading], send: Send) -> dict[str, Any]:
    """What `promask inspect` finds in data, a DATA string and how it is read, and its picture.

    Where the data can be read in several ways, there are a `question` and `choices` in place of a description.
    """
    data, reading = source
    found = inspect(data, reading)
    if found.problem is not None:
        raise InputError(found.problem)
    choices = [
        {"argument": argument, "value": value, "words": one_line(words, LONGEST_TEXT)}
        for argument, value, words in found.choices
        if len(value) <= LONGEST_ARRAY and value.isprintable()  # others do not fit a command either
    ]
    if found.question is not None and not choices:
        raise InputError(found.question)
    told = {
        "question": found.question and found.question.replace("`", ""),
        "choices": choices,
        "facts": [[one_line(text, LONGEST_TEXT) for text in fact] for fact in found.facts()],
    }
    return told | _describe_samples(found, data, reading)


def _describe_samples(found: Inspection, data: str, reading: Reading) -> dict[str, Any]:
    """What is known if it is certain how data are read."""
    about = found.description
    if about is None or found.sample is None:
        return {}
    known = {
        "sentence": one_line(about.sentence(), LONGEST_TEXT),
        "images": about.samples,
        "subjects": about.subjects,
        "name": short_source(data),
        "frames": about.frames,
        "series": about.frames > 1 and not reading.each_frame,
        "channels": len(found.sample.image),
        "shape": list(about.shape),
        "extent": [list(ends) for ends in about.acquired],
        "directions": list(about.axes),
        "readout": about.readout,
        "held_out": found.held_out,
        "picture": encode_figure(inspection_figure(found)),
    }
    suggested = Pattern.on(shape_of(known), geometry_of(known))
    return known | {"pattern": suggested.name, "recon": SERIES_RECON if known["series"] else ZeroFilled.name}


def describe_mask(path: Path, send: Send) -> dict[str, Any]:
    """Read a mask: its shape, and its acceleration."""
    mask = read_upload(path)
    return {"shape": list(mask.mask.shape), "acceleration": mask.achieved}


def read_upload(path: Path) -> ExportedMask:
    """Read the file of a mask from its folder, so that messages do not tell where it lies."""
    with chdir(path.parent):
        return read_mask(path.name)


def encode_figure(figure: "Figure") -> str:
    """A figure as a PNG in a data: address; with 256 colours it has half the bytes, and looks the same."""
    from PIL import Image

    drawn, reduced = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DOTS_PER_INCH)
    with Image.open(drawn) as picture:
        few = picture.convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE)
        few.save(reduced, format="png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(reduced.getvalue()).decode()}"


def describe_pattern(pattern: Pattern | None) -> dict[str, Any]:
    """What the page needs to draw the units of a pattern, and whether frames have units of their own.

    Of spokes and interleaves, that is the one at the angle 0, (y, x), and after what angle they come again.
    Nothing while the pattern is not known.
    """
    if pattern is None:
        return dict.fromkeys(("shape", "free", "directions", "varies", "rotated", "period"))
    along = pattern.trajectory
    rotations: dict[str, Any] = {"rotated": None, "period": None}
    if along is not None:
        rotations = {"rotated": rotation_curves(along)[0].tolist(), "period": along.period}
    lists: dict[str, Any] = {name: list(getattr(pattern, name)) for name in ("shape", "free", "directions")}
    return {**lists, "varies": pattern.varies, **rotations}


def encode_probabilities(probabilities: torch.Tensor) -> dict[str, Any]:
    """Centred probabilities as bytes in text: 0 for never, 255 for always.

    >>> encode_probabilities(torch.tensor([0.0, 0.5, 1.0]))
    {'shape': [3], 'bytes': 'AID/'}
    """
    whole = (probabilities * 255).round().to(torch.uint8).contiguous()
    return {"shape": list(whole.shape), "bytes": base64.b64encode(whole.numpy().tobytes()).decode()}


@dataclass(frozen=True)
class LearnInput:
    """What to learn: DATA as on the command line, the folder for the run, and settings of `Config`."""

    data: str
    out: Path
    command: str
    settings: Mapping[str, Any]
    beside: Mapping[str, Path] = field(default_factory=dict)
    """Files of masks to compare with, by their names in the report."""


class Reporter:
    """Sends how learning goes: every loss, and now and then a picture of the probabilities."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.started: float | None = None
        self.last = 0.0
        self.losses: list[float] = []
        self.done = 0

    def on_step(self, progress: Progress) -> None:
        """A step of learning is over."""
        now = time.perf_counter()
        self.started = now if self.started is None else self.started
        self.losses.append(progress.loss)
        self.done = progress.member * progress.steps + progress.step
        if now - self.last < PICTURE_INTERVAL and progress.step < progress.steps:
            return
        self.last = now
        content = {
            "done": self.done,
            "total": progress.members * progress.steps,
            "budget": progress.budget,
            "seconds": now - self.started,
            "losses": self.losses,
            "units": encode_probabilities(progress.probabilities.detach().cpu()),
        }
        self.losses = []
        self.send("step", content)


def learn(task_input: LearnInput, send: Send) -> dict[str, Any]:
    """Learn, measure, and write the run folder and its report; returns what the page says of the result."""
    reporter = Reporter(send)

    def counter(kind: str) -> Callable[[int, int], None]:
        return lambda done, total: send(kind, {"done": done, "total": total})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = lambda message, *_, **__: send("warning", str(message).replace("`", ""))
        run = learn_and_report(
            *(task_input.data, task_input.out, "default", reporter.on_step, counter("files"), counter("masks")),
            command=task_input.command,
            beside={name: read_upload(path) for name, path in task_input.beside.items()},
            **task_input.settings,
        )
    last = {"done": reporter.done, "losses": reporter.losses, "units": encode_probabilities(run.probabilities)}
    send("step", {**last, **describe_pattern(run.distribution.pattern)})
    data, evaluation, pattern = run.record.data, run.record.evaluation, run.distribution.pattern
    assert evaluation is not None
    measured = ("psnr", "psnr_moving", "ssim", "nmse", "images", "recon")
    return {
        "acceleration": run.acceleration,
        "units": pattern.units,
        "series": bool(pattern.indexed),
        "budget": run.distribution.budget,
        "seconds": run.record.seconds,
        "plain": run.record.reference,
        "stopped": run.history.stopped_after,
        "steps": run.config.steps,
        "images": data.images,
        "held_out": evaluation.part != data.part,
        "evaluation": {name: getattr(evaluation, name) for name in measured},
    }
