"""Error messages of the command line: what the parser complains of, and arguments of the library as options."""

import difflib
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

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
        parameter.name: parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar
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
