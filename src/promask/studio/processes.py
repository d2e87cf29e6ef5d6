"""Worker processes of the studio: started quickly, stopped for certain; a failure is told in one sentence."""

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

_DRAWING = ["matplotlib.backends.backend_agg", "matplotlib.figure"]
PRELOADED = ["promask.studio.tasks", *_DRAWING, "nibabel", "jinja2", "sigpy.mri"]
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
