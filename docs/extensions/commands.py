"""The commands and their options, as the command line itself knows them when the site is built."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer
from sphinx.application import Sphinx

PAGE = "reference/command_line"
BRACES = str.maketrans("", "", "{}")
MARKUP = re.compile(r"([\\*_|<\[])")


def add_commands(app: Sphinx, page: str, source: list[str]) -> None:
    """Append a section for each command to the page on the command line."""
    if page == PAGE:
        from promask.cli.main import app as promask
        from promask.cli.main import lay_out_help

        command = lay_out_help(typer.main.get_command(promask))
        context = command.make_context("promask", [], resilient_parsing=True)
        source[0] += "\n" + "\n".join(described(command, context))


def described(command: Any, context: Any) -> Iterator[str]:
    """Usage, what it does and what it takes, in Markdown; then the same of its sub-commands."""
    yield f"## {context.command_path}\n"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage.translate(BRACES)}\n```\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield _paragraph(paragraph)
    panels: dict[str, list[str]] = {}
    for parameter in command.get_params(context):
        row = _row(parameter, context)
        panels.setdefault(getattr(parameter, "rich_help_panel", None) or "", []).extend(row)
    for panel, rows in panels.items():
        yield "\n".join([f"| {panel or 'Arguments and options'} | |", "|---|---|", *rows, ""])
    for name, child in getattr(command, "commands", {}).items():
        yield from described(child, child.make_context(name, [], parent=context, resilient_parsing=True))


def _paragraph(text: str) -> str:
    """Prose, or examples as a block of code; of the words before them, those that say more than that."""
    from promask.cli.main import find_examples

    lines = find_examples(text)
    if not lines:
        return f"{plain(' '.join(text.split()))}\n"
    heading = text.partition(lines[0].split("  ")[0])[0].strip()
    shown = "" if heading.startswith("Example") else f"{plain(heading)}\n\n"
    return "\n".join([f"{shown}```sh", *lines, "```", ""])


def _row(parameter: Any, context: Any) -> Iterator[str]:
    record = parameter.get_help_record(context)
    if record is not None:  # it is not hidden
        name = record[0] if parameter.param_type_name == "option" else parameter.metavar or parameter.name
        text = re.sub(r"\[default: \((.*)\)\]", r"[default: \1]", record[1])
        yield f"| `{name.replace('|', chr(92) + '|')}` | {plain(text)} |"


def plain(text: str) -> str:
    r"""Markdown for a text in which nothing is mark-up but `code`, also in the cell of a table.

    >>> plain("a [default: x|y]")
    'a \\[default: x\\|y]'
    """
    return MARKUP.sub(r"\\\1", text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Before the page is parsed."""
    app.connect("source-read", add_commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
