"""What --help shows: examples that the command line takes, on lines of their own, and commands in panels."""

import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.exceptions import TyperException

from promask.cli.main import HELP, LONGEST_EXAMPLE, OTHERS, app, find_examples, lay_out_help
from promask.cli.options import repeat_options

README = Path(__file__).parents[2] / "README.md"
SEVERAL = [("learn",), ("compare",), ("evaluate",), ("export",), ("segment", "train")]


@functools.cache
def parser():
    return lay_out_help(typer.main.get_command(app))


def tree(command, *path):
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from tree(each, *path, name)


COMMANDS = dict(tree(parser()))
EXAMPLES = [line for command in COMMANDS.values() for line in find_examples(command.help)]


def parsed(line):
    """The context of the innermost command; nothing is run."""
    program, *words = shlex.split(line, comments=True)
    assert program == "promask"
    context = parser().make_context(program, repeat_options(words), help_option_names=HELP)
    while rest := [*context._protected_args, *context.args]:
        name, command, rest = context.command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    return context


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_examples_of_itself(path):
    found = find_examples(COMMANDS[path].help)
    assert len(found) >= (3 if path in SEVERAL else 1)
    of_itself = [line for line in found if shlex.split(line)[1 : 1 + len(path)] == list(path)]
    assert of_itself


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_are_taken_by_the_command_line(line):
    context = parsed(line)
    for parameter in context.command.params:
        for value in _as_list(context.params.get(parameter.name)):
            offered = [item.value for item in parameter.shell_complete(context, "")]
            if offered and parameter.name not in ("data", "masks", "methods", "init"):
                assert value in offered, parameter.name


def _as_list(value):
    return value if isinstance(value, list) else [] if value is None else [value]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("promask learn brain --acceleration 8 --out runs/brain", "No such option: --acceleration"),
        ("promask learn brain --accel 8", "Missing option '--out'"),
        ("promask lern brain", "No such command 'lern'"),
    ],
)
def test_a_bad_example_would_be_found(line, complaint):
    with pytest.raises(TyperException) as error:
        parsed(line)
    assert complaint in error.value.format_message()


def test_the_lines_of_the_readme_are_taken():
    text = "\n".join(re.findall(r"^```sh\n(.*?)^```", README.read_text(), flags=re.MULTILINE | re.DOTALL))
    lines = find_examples(text)
    assert len(lines) > 10
    for line in lines:
        parsed(line)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("path", [(), ("learn",), ("compare",), ("segment",), ("segment", "train")], ids=" ".join)
def test_examples_stay_on_their_lines(commands, monkeypatch, path, width):
    from promask.cli.terminal import output

    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(output, "_width", width)
    shown = [line.strip() for line in commands(*path, "--help").splitlines()]
    for line in COMMANDS[path].help.splitlines():
        if line.strip().startswith("promask "):
            assert line.strip() in shown
            assert len(line) <= LONGEST_EXAMPLE + 3
    text = "\n".join(shown)
    assert "…" not in text, "nothing is cut"
    assert "<bool>" not in text


def test_the_first_help_says_where_to_start(commands):
    text = commands()
    assert text == commands("--help")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines[1:3] == ["Learn where to sample k-space.", "Start here:"]
    assert lines[3].startswith("promask demo ")
    assert lines[4].startswith("promask learn brain ")
    panels = re.findall(r"╭─ ([\w ]+) ─", text)
    assert panels == ["Options", "Learn", "Measure and compare", "Files", "Look"]
    assert OTHERS not in panels, "every command has its panel"


def test_help_and_completion_do_not_wait_for_heavy_imports():
    code = (
        "import os, sys, promask.cli.main\n"
        "try: promask.cli.main.main([*sys.argv[1:]])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'scipy', 'matplotlib', 'monai', 'fastapi'} & sys.modules.keys()\n"
        "print(heavy, file=sys.stderr)"
    )
    asked = {"_PROMASK_COMPLETE": "complete_bash", "COMP_WORDS": "promask\nlearn\n", "COMP_CWORD": "2"}
    for words, environment, found in ((["learn", "--help"], {}, "--accel"), ([], asked, "brain")):
        shown = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, env=environment
        )
        assert found in shown.stdout
        assert shown.stderr.strip() == "set()"
