"""The layout of help: commands in panels, prose that fits the terminal, examples that keep their lines."""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer

PANELS: Mapping[str, Sequence[str]] = {
    "Learn": ("learn", "segment"),
    "Measure and compare": ("evaluate", "stability", "baseline", "compare"),
    "Files": ("export", "cache"),
    "Look": ("demo", "report", "figure", "studio"),
}
"""The commands, under headings, in the order in which they are shown; others come at the end."""
OTHERS = "More"
HELP = ["-h", "--help"]
LONGEST_EXAMPLE = 76
"""Columns that an example may have, to stay on its line."""
NARROW = 72
"""Columns below which help has no boxes: they would cut the names of options."""


def lay_out_help(command: Any, width: int = 80) -> Any:
    """The same command with its commands in panels, and every help text as a terminal of this width shows it."""
    panels = {name: panel for panel, names in PANELS.items() for name in names}
    known = {name: command.commands[name] for name in panels if name in command.commands}
    command.commands = {**known, **command.commands}
    for name, each in command.commands.items():
        each.rich_help_panel = panels.get(name, OTHERS)
    _lay_out(command, plain=width < NARROW)
    return command


def _lay_out(command: Any, plain: bool) -> None:
    text = join_paragraphs(command.help or "")
    children = getattr(command, "commands", {}).values()
    if children and not find_examples(text):
        first = [line for each in children for line in find_examples(inspect.cleandoc(each.help or ""))[:1]]
        short = [line for line in first if len(line) < LONGEST_EXAMPLE]
        text = "\n  ".join([f"{text}\n\nExamples:", *short[:3]])
    if plain:
        command.rich_markup_mode = None
        text = text.replace("\n\nExample", "\n\n\b\nExample").replace("\n\nStart", "\n\n\b\nStart")
    command.help = text
    # The parser would call it a bool, in a column of its own.
    command.get_help_option(typer.Context(command, help_option_names=HELP)).metavar = ""
    for each in children:
        _lay_out(each, plain)


def join_paragraphs(text: str) -> str:
    """A help text whose prose has no line ends, so that it fits any terminal, and whose examples keep theirs.

    >>> print(join_paragraphs("Do it.\\n\\nOr do\\nnot.\\n\\nExamples:\\n  promask demo\\n  promask cache"))
    Do it.
    <BLANKLINE>
    Or do not.
    <BLANKLINE>
    Examples:
      promask demo
      promask cache
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(each if find_examples(each) else " ".join(each.split("\n")) for each in paragraphs)


def find_examples(text: str) -> list[str]:
    """The command lines in a help text; one that ends in a backslash goes on in the next line.

    >>> find_examples("Do it.\\n\\nExample: promask demo  # quick\\n  promask cache \\\\\\n    --clear")
    ['promask demo  # quick', 'promask cache --clear']
    """
    joined = re.sub(r"\\\n\s*", "", text)
    return re.findall(r"^(?:Examples?:)?[ \b]*(promask .*?) *$", joined, flags=re.MULTILINE)
