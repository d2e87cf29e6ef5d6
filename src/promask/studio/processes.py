"""Processes of the studio: started at once, ended for certain, and told apart when they fail."""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from promask.errors import InputError

PRELOADED = [
    "promask.report.pipeline",
    "promask.studio.learning",
    "promask.studio.learning",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "nibabel",
    "jinja2",
    "sigpy.mri",
]
"""What a process need not import when it starts, where the system can fork; what is missing is skipped."""
PATIENCE = 2.0
"""Seconds that a process has to end when it is asked to; then it is killed."""

Message = tuple[str, Any]
"""What a process says: a word, and what belongs to it. The last word is `done` or `error`."""
Say = Callable[[str, Any], None]
Work = Callable[[Any, Say], Any]
"""What a process does: it takes an order, tells how it goes, and returns its result."""


@cache
def prepare() -> ForkServerContext | SpawnContext:
    """How processes are started: forked from one that begins now to import what they need, where that can be."""
    if "forkserver" in multiprocessing.get_all_start_methods():
        from multiprocessing import forkserver

        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        with suppress(OSError):  # where the name of the temporary folder is too long for a socket, such as
            forkserver.ensure_running()
            return context
    return multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Surroundings:
    """Where a process works: names of files in messages and in reports are relative to its folder."""

    folder: Path
    cache: Path
    """The cache of samples that are ready; what was uploaded must not stay in that of the user."""
    threads: int
    """As many as on the command line, so that the results are the same, bit for bit."""


class Worker:
    """A process at work; `messages` gives what it says until it ends."""

    def __init__(self, work: Work, order: Any, surroundings: Surroundings) -> None:
        context = prepare()
        self._receiving, sending = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(
            target=_begin, args=(work, order, surroundings, sending), daemon=True
        )
        self.process.start()
        sending.close()

    def next_message(self, seconds: float | None = None) -> Message:
        """Wait for what it says next; if it ended without a word, or has been silent for too long, an error."""
        try:
            if not self._receiving.poll(seconds):
                self.end()
                return "error", f"It took longer than {seconds:g} seconds, and was stopped."
            return self._receiving.recv()
        except (EOFError, OSError):
            self.process.join(PATIENCE)
            return "error", f"The process ended without a word ({self._how()}): did the memory run out?"

    def _how(self) -> str:
        code = self.process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"

    def end(self) -> None:
        """Make it end, gently at first; it is gone when this returns."""
        with suppress(ValueError):
            self.process.terminate()
            self.process.join(PATIENCE)
            if self.process.is_alive():
                self.process.kill()
                self.process.join()

    def close(self) -> None:
        """Give back what belongs to it."""
        self.end()
        self._receiving.close()


def _begin(work: Work, order: Any, surroundings: Surroundings, sending: Connection) -> None:
    """The life of a process: its result, or one sentence that says why there is none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the studio that ends it
    threading.Thread(target=_follow_parent, daemon=True).start()
    lock = threading.Lock()

    def say(word: str, content: Any) -> None:
        with lock:
            sending.send((word, content))

    try:
        import torch

        torch.set_num_threads(surroundings.threads)
        warnings.simplefilter("ignore")  # who wants to tell of them says so
        os.chdir(surroundings.folder)
        os.environ["PROMASK_CACHE"] = str(surroundings.cache)
        say("done", work(order, say))
    except Exception as error:
        say("error", sentence_of(error))
    finally:
        sending.close()


def sentence_of(error: BaseException) -> str:
    """What the page says of an error.

    >>> sentence_of(ZeroDivisionError("division by zero"))
    'ZeroDivisionError: division by zero'
    """
    first = str(error).partition("\n")[0]
    if isinstance(error, InputError):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
