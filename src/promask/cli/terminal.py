"""The terminal: consoles, JSON, and what is wrong with a command line, as one sentence."""

import difflib
import itertools
import json
import logging
import math
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
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


@contextmanager
def data_as_sentences() -> Iterator[None]:
    """Print on standard error, once, what the library understood of data."""
    shown: set[str] = set()

    def show(record: logging.LogRecord) -> None:
        sentence = record.getMessage()
        if sentence not in shown and is_main_process():
            messages.print(f"promask: {sentence}")
        shown.add(sentence)

    logger, handler = logging.getLogger("promask"), logging.Handler(logging.INFO)
    handler.emit = show  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


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


ALIASES: Mapping[str, str] = {
    "acceleration": "accelerations",
    "accelerations": "acceleration",
    "format": "to",
    "sensitivities": "maps",
    "run": "folder",
}
"""Arguments of the library that a command may know by another name."""
NUMBERS = {"integer": "a whole number", "number": "a number"}
"""What the parser calls a number, and what we do."""


def translate_arguments(text: str, command: Any) -> str:
    """Replace arguments of the library in backquotes by the options and arguments of a command.

    Args:
        text: A message of the library, such as "leave it out with `skip_bad`."
        command: The command that is running. Words in backquotes that are no argument of it stay as they are.

    Returns:
        The message for users of the command line, such as "leave it out with --skip-bad."
    """
    names = {
        parameter.name: parameter.opts[0]
        if parameter.param_type_name == "option"
        else (parameter.metavar or "").removesuffix("...")
        for parameter in command.params
    }

    def translate(found: re.Match[str]) -> str:
        return names.get(found[1]) or names.get(ALIASES.get(found[1], "")) or found[0]

    return re.sub(r"`(\w+)`", translate, text)


def find_command(command: Any, words: Sequence[str]) -> Any:
    """The command, below a group of commands, that a command line calls."""
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    return command


def describe_usage_error(error: Any, words: Sequence[str]) -> str:
    """What the parser complains of, with the value that it received, the nearest name, and where to read on."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    text = " ".join(error.format_message().split()).replace("Value error, ", "")
    if hasattr(error, "possibilities") and context is not None:
        options = [name for each in context.command.get_params(context) for name in each.opts if name[:2] == "--"]
        near = difflib.get_close_matches(error.option_name, options, n=1)
        text = f"No such option: {error.option_name}." + (f" Did you mean {near[0]}?" if near else "")
    elif parameter is not None and (kind := re.search("should be a valid (integer|number)", text)):
        received = _find_value(parameter.opts, words)
        text = f"{text[: text.rindex(': ')]}: {received} is not {NUMBERS[kind[1]]}"
    text = text if text.endswith(("?", ".")) else f"{text}."
    return text if context is None else f"{text} See {context.command_path} --help."


def _find_value(names: Sequence[str], words: Sequence[str]) -> str:
    """The last value of an option, in quotes, or something that fits instead of it.

    >>> _find_value(["--steps"], ["learn", "--steps", "few"]), _find_value(["--steps"], ["learn", "--steps=few"])
    ("'few'", "'few'")
    """
    values = [value for word, value in itertools.pairwise(words) if word in names]
    values += [word.partition("=")[2] for word in words if word.partition("=")[0] in names and "=" in word]
    return repr(values[-1]) if values else "what was given"
