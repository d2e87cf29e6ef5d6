"""Worker processes of the studio, and what they do: describe data, and learn.

They are started quickly and stopped for certain; a failure is told in one sentence.
"""

import base64
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
from typing import Any

import torch

from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.errors import InputError, InputWarning
from promask.export import ExportedMask, read_mask
from promask.figures.layout import plane, white
from promask.learning.hooks import Progress
from promask.report.page import image_picture, shrink
from promask.report.pipeline import learn_and_report
from promask.types import Image

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


LARGEST_PICTURE = 512
"""Larger pictures are reduced to as many pixels as a square of this width."""
PICTURE_INTERVAL = 0.1
"""Seconds between two pictures of the probabilities."""


def describe(data: str, send: Send) -> dict[str, Any]:
    """Open the data, a DATA string, as `learn` will; only the image in the middle is read in full."""
    whole = load(data)
    learned, part = choose_part(whole, None, default="train")
    channels, *space = whole.shape
    groups = set(whole.groups)
    return {
        "images": len(whole),
        "subjects": len(groups) if len(groups) > 1 else None,
        "channels": channels,
        "shape": space,
        "extent": [list(ends) for ends in whole.geometry.extent],
        "held_out": len(whole) - len(learned) if part != "all" else 0,
        "picture": encode_image(whole[len(whole) // 2].image),
    }


def describe_mask(path: Path, send: Send) -> dict[str, Any]:
    """Read a mask: its shape, and its acceleration."""
    mask = read_upload(path)
    return {"shape": list(mask.mask.shape), "acceleration": mask.achieved}


def read_upload(path: Path) -> ExportedMask:
    """Read the file of a mask from its folder, so that messages do not tell where it lies."""
    with chdir(path.parent):
        return read_mask(path.name)


def encode_image(image: Image) -> str:
    """An image as a grey PNG in a data: address, its channels combined; of a volume, the plane in the middle."""
    magnitude = plane(torch.linalg.vector_norm(image, dim=0).float())
    return image_picture(shrink(magnitude, LARGEST_PICTURE**2), white(magnitude))


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
    send("step", {**last, "shape": list(run.distribution.pattern.shape)})
    data, evaluation = run.record.data, run.record.evaluation
    assert evaluation is not None
    return {
        "acceleration": run.acceleration,
        "units": run.distribution.pattern.units,
        "budget": run.distribution.budget,
        "seconds": run.record.seconds,
        "plain": run.record.reference,
        "stopped": run.history.stopped_after,
        "steps": run.config.steps,
        "images": data.images,
        "held_out": evaluation.part != data.part,
        "evaluation": {name: getattr(evaluation, name) for name in ("psnr", "ssim", "nmse", "images", "recon")},
    }
