"""The terminal: consoles, what is said while a command works, and JSON."""

import json
import math
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

from promask.errors import InputWarning
from promask.headings import count

if TYPE_CHECKING:
    from promask.bars import Callbacks

# Names of files may hold square brackets, which would be taken for markup, or :heart:, for a picture of one.
output = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
messages = Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)

OnCell = Callable[[int, int, str], None]
"""Told how many cells of a comparison are done, how many there are, and which was the last."""


@contextmanager
def progress_bar() -> "Iterator[Callbacks]":
    """Bars on the terminal for whatever takes time, and nothing in a pipe."""
    from promask.bars import bars

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
