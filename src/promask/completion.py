"""What a shell is told when it asks for the ends of a word, and the words that it asks with.

A shell sets `_PROMASK_COMPLETE` to `complete_bash`, `complete_zsh` or `complete_fish`, `COMP_WORDS` to the words
that are typed, one on each line, and `COMP_CWORD` to the number of the word under the cursor.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from promask.options import options_of_several

VARIABLE = "_PROMASK_COMPLETE"
BREAKS = (":", "=")
"""Where bash ends a word, and hands the sign over as one of its own."""


@dataclass(frozen=True)
class Asked:
    """The complete words after the name of the program, the word that is not, and what of it the shell keeps."""

    words: Sequence[str]
    incomplete: str
    kept: str = ""

    @classmethod
    def by(cls, environment: Mapping[str, str]) -> "Asked":
        """What a shell asks."""
        typed = environment.get("COMP_WORDS", "").split("\n")
        number = int(environment.get("COMP_CWORD") or len(typed) - 1)
        typed = [*typed[:number], typed[number] if number < len(typed) else ""]
        words: list[str] = []
        kept = ""
        glued = False
        for word in typed[1:]:
            is_break = word in BREAKS and bool(words)
            if glued or is_break:
                kept = words[-1] + word if is_break else words[-1]
                words[-1] += word
            else:
                kept = ""
                words.append(word)
            glued = is_break
        *before, last = map(_unquoted, words or [""])
        return cls(before, last, _unquoted(kept))


def answer(command: Any, environment: Mapping[str, str]) -> str:
    """The lines for the shell: the words that may be meant, and for zsh and fish what they do after a tab."""
    shell = environment[VARIABLE].removeprefix("complete_")
    asked = Asked.by(environment)
    lines = []
    for value, about in offered(command, asked):
        if shell == "bash":
            lines.append(re.sub(r"([^\w@%+=:,./~-])", r"\\\1", value.removeprefix(asked.kept)))
        else:
            lines.append(f"{value}\t{about}" if about else value)
    return "".join(f"{line}\n" for line in lines)


def offered(command: Any, asked: Asked) -> Iterator[tuple[str, str]]:
    """The words that may be meant, each with what it does."""
    place = _Place(command)
    for word in asked.words:
        place.pass_by(word)
    word = asked.incomplete
    option, equals, begun = word.partition("=")
    if word.startswith("-") and equals:
        wanted = place.options().get(option)
        yield from ((f"{option}={value}", "") for value in _values(wanted, begun))
    elif place.wanting is not None:
        yield from ((value, "") for value in _values(place.wanting, word))
    elif word.startswith("-"):
        yield from place.unused(word)
    elif place.commands():
        for name, each in place.commands().items():
            if name.startswith(word) and not each.hidden:
                yield name, _first_sentence(each.help)
    else:
        values = [*_values(place.open, word)] or [*_values(place.argument(), word)]
        yield from ((value, "") for value in values)
        if not values and not word and place.argument() is None:
            yield from place.unused("")


class _Place:
    """Where in a line the cursor is: of which command, and what it wants next."""

    def __init__(self, command: Any) -> None:
        self.command = command
        self.path: list[str] = []
        self.used: set[str] = set()
        self.wanting: Any = None  # the option that must have a value
        self.open: Any = None  # the option that may have another one
        self.arguments = 0

    def commands(self) -> dict[str, Any]:
        return getattr(self.command, "commands", {})

    def options(self) -> dict[str, Any]:
        options = (each for each in self.command.params if each.param_type_name == "option" and not each.hidden)
        return {name: option for option in options for name in option.opts}

    def argument(self) -> Any:
        arguments = [each for each in self.command.params if each.param_type_name == "argument"]
        open_end = arguments[-1] if arguments and arguments[-1].nargs == -1 else None
        return arguments[self.arguments] if self.arguments < len(arguments) else open_end

    def unused(self, begun: str) -> Iterator[tuple[str, str]]:
        for name, option in self.options().items():
            if name.startswith(begun if begun != "-" else "--") and name not in self.used:
                yield name, _first_sentence(option.help)
        if "--help".startswith(begun):
            yield "--help", "Show how a command is used."

    def pass_by(self, word: str) -> None:
        several = options_of_several(self.path[0] if self.path else "")
        if self.wanting is not None:
            self.open = self.wanting if any(name in several for name in self.wanting.opts) else None
            self.wanting = None
        elif word.startswith("-"):
            name, equals, _ = word.partition("=")
            option = self.options().get(name)
            takes_value = option is not None and not option.is_flag
            self.wanting = option if takes_value and not equals else None
            self.open = option if takes_value and equals and name in several else None
            self.used |= {name} - several.keys()
        elif self.commands():
            self.command = self.commands().get(word, typer.core.TyperCommand(word))
            self.path.append(word)
        elif self.open is None or not any(several[name](word) for name in self.open.opts if name in several):
            self.open = None
            self.arguments += 1


def _values(parameter: Any, begun: str) -> list[str]:
    if parameter is None:
        return []
    found = parameter.shell_complete(typer.Context(typer.core.TyperCommand("promask")), begun)
    return [item.value for item in found if item.type == "plain"]


def _first_sentence(text: str | None) -> str:
    return re.split(r"(?<=[.:;])\s", " ".join((text or "").split()), maxsplit=1)[0].rstrip(":;")


def _unquoted(word: str) -> str:
    try:
        return "".join(shlex.split(word, comments=False))
    except ValueError:  # a quote that is still open
        return word.replace("\\", "").replace('"', "").replace("'", "")
