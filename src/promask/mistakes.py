"""What is wrong with a command line, as one sentence that tells the way out."""

import difflib
import itertools
import re
from collections.abc import Sequence
from typing import Any

NUMBERS = {"integer": "a whole number", "number": "a number"}
"""What the parser calls a number, and what we do."""


def sentence(error: Any, words: Sequence[str]) -> str:
    """What the parser complains of, with the value that was received, the nearest name, and where to read on."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    text = " ".join(error.format_message().split())
    if hasattr(error, "possibilities") and context is not None:
        text = f"No such option: {error.option_name}{_nearest(error.option_name, _options(context))}"
    elif parameter is not None and (kind := re.search("should be a valid (integer|number)", text)):
        received = _received(parameter.opts, words)
        text = f"{text[: text.rindex(': ')]}: {received} is not {NUMBERS[kind[1]]}"
    text = text if text.endswith(("?", ".")) else f"{text}."
    return text if context is None else f"{text} See {context.command_path} --help."


def _options(context: Any) -> list[str]:
    return [name for parameter in context.command.get_params(context) for name in parameter.opts]


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, [name for name in known if name.startswith("--")], n=1)
    return f". Did you mean {near[0]}?" if near else "."


def _received(names: Sequence[str], words: Sequence[str]) -> str:
    """The last value of an option, in quotes, or something that fits instead of it.

    >>> _received(["--steps"], ["learn", "--steps", "few"]), _received(["--steps"], ["learn", "--steps=few"])
    ("'few'", "'few'")
    """
    given = [value for word, value in itertools.pairwise(words) if word in names]
    given += [word.partition("=")[2] for word in words if word.partition("=")[0] in names and "=" in word]
    return repr(given[-1]) if given else "what was given"
