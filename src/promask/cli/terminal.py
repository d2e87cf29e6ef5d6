"""The terminal: consoles, warnings, JSON, and how a command is interrupted."""

import json
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from promask.errors import InputWarning

# Names of files may hold square brackets, which would be taken for markup, or :heart:, for a picture of one.
output = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
messages = Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)
INTERRUPTED, READER_GONE, TERMINATED = 130, 141, 143
"""Exit statuses as shells have them: 128 and the number of the signal."""


def is_main_process() -> bool:
    """Whether this process may print: of those that torchrun starts, only the first."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def warnings_as_sentences(translate: Callable[[str], str] = str) -> Iterator[None]:
    """Print warnings as sentences on standard error, each of them once.

    Args:
        translate: Turns the library's text into that of the command line.
    """
    shown: list[object] = []

    def show(message: object, category: object, *_: object, **__: object) -> None:
        # A warning about the data comes for every file; other warnings come again with other numbers.
        key = str(message) if category is InputWarning else category
        if key not in shown and is_main_process():
            messages.print(f"promask: {translate(str(message))}")
        shown.append(key)

    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = show
        yield


class InterruptedCommand(SystemExit):
    """An interruption, with what the user should know of the work that is left."""

    def __init__(self, cause: KeyboardInterrupt | SystemExit, kept: str) -> None:
        super().__init__(cause.code if isinstance(cause, SystemExit) else INTERRUPTED)
        self.kept = kept


@contextmanager
def exit_on_termination() -> Iterator[None]:
    """Treat SIGTERM, which schedulers send when time is up, as Ctrl-C is treated."""

    def stop(*_: object) -> None:
        sys.exit(TERMINATED)

    in_main_thread = threading.current_thread() is threading.main_thread()  # signals are handled only there
    before = signal.signal(signal.SIGTERM, stop) if in_main_thread else None
    try:
        yield
    finally:
        if in_main_thread:
            signal.signal(signal.SIGTERM, before)


def print_json(content: dict[str, Any]) -> None:
    """Print one object on one line; numbers that JSON does not have are null."""
    output.print(json.dumps(_with_null(content), allow_nan=False))


def _with_null(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _with_null(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_with_null(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
