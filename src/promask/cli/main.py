"""The command line: parse, and call the library. Everything heavy is imported when it is needed."""

import atexit
import functools
import inspect
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.completion import get_completion_inspect_parameters, install_callback, show_callback
from typer.exceptions import TyperException

from promask.cli import terminal
from promask.cli.compare import baseline, compare
from promask.cli.evaluate import evaluate, stability
from promask.cli.figure import app as figure
from promask.cli.files import cache, export, report, studio
from promask.cli.inspect import inspect as inspect_data
from promask.cli.learn import learn
from promask.cli.options import Overwrite, flag, option, repeat_options
from promask.cli.progress import ProgressDisplay
from promask.cli.reconstruct import app as reconstruct
from promask.cli.segment import app as segment
from promask.cli.show import show_run
from promask.cli.terminal import (
    describe_usage_error,
    find_command,
    is_main_process,
    messages,
    output,
    translate_arguments,
)
from promask.errors import InputError, LostProcessError

SHELLS = ("bash", "zsh", "fish")
Shell = Literal["bash", "zsh", "fish"]

PANELS: Mapping[str, Sequence[str]] = {
    "Learn": ("inspect", "learn", "segment"),
    "Measure and compare": ("evaluate", "stability", "baseline", "compare"),
    "Files": ("export", "reconstruct", "cache"),
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


app = typer.Typer(
    add_completion=False,  # its options take no shell; ours do, and call the same functions
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP},
)
app.add_typer(segment, name="segment")
app.add_typer(figure, name="figure")
app.add_typer(reconstruct, name="reconstruct")
app.command("inspect")(inspect_data)
for command in (learn, evaluate, stability, baseline, compare, report, studio, export, cache):
    app.command()(command)


DEMO = Path("runs/demo")
"""The folder of the demo, which may always be replaced."""


@app.command()
def demo(
    out: Annotated[Path, option("RUN", "The folder for the result.")] = DEMO, overwrite: Overwrite = False
) -> None:
    """Learn an x8 mask on the built-in brain and compare it with other masks on held-out slices.

    Examples:
      promask demo
      promask demo --out runs/first
    """
    with ProgressDisplay() as display:
        from promask.report.pipeline import learn_and_report

        command = shlex.join(["promask", "learn", "brain", "--accel", "8", "--out", str(out)])
        callbacks = (display.on_step, display.on_file, display.on_measurement)
        replaced = overwrite or out == DEMO
        run = learn_and_report(
            "brain", out, "default", *callbacks, command=command, overwrite=replaced, acceleration=8
        )
    show_run(run, out, as_json=False)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, flag("--version", "Print the version.")] = False,
    debug: Annotated[bool, flag("--debug", "Show tracebacks; anywhere in the line.")] = False,
    install_completion: Annotated[
        Shell | None, option("SHELL", "Install completion for bash, zsh or fish; by default for this shell.")
    ] = None,
    show_completion: Annotated[Shell | None, option("SHELL", "Print what --install-completion installs.")] = None,
) -> None:
    """Learn where to sample k-space.

    Start here:
      promask demo                                    # a minute; needs no data
      promask learn brain --accel 8 --out runs/brain  # see runs/brain/report.html
    """
    if version:
        from promask import __version__

        output.print(__version__)
        raise typer.Exit
    context: Any = typer.Context(typer.core.TyperCommand("promask"), info_name="promask")
    if install_completion:
        install_callback(context, context, install_completion)
    if show_completion:
        show_callback(context, context, show_completion)


def make_parser(width: int) -> Any:
    """All commands, with help for a terminal of this width."""
    return lay_out_help(typer.main.get_command(app), width)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors that a user can mend are one sentence and exit status 2."""
    # Threads that wait for each other in a busy loop take the cores from one another when two runs share a
    # machine: 2 runs on 2 cores were seen to take 20 times as long as one. With a short wait a run alone takes
    # longer, half as much again at worst, but two take little more than twice as long as one.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    typed = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in typed
    words = name_shell(repeat_options([word for word in typed if word != "--debug"] or ["--help"]))
    get_completion_inspect_parameters()  # has Typer complete words for its shells
    parser = make_parser(output.width)
    translate = functools.partial(translate_arguments, command=find_command(parser, words))
    status: int | str | None
    kept = ""
    try:
        sentences = (terminal.warnings_as_sentences(translate), terminal.data_as_sentences())
        with terminal.exit_on_termination(), sentences[0], sentences[1]:
            status = parser(words, prog_name="promask", standalone_mode=False, obj=typed) or 0
    except TyperException as error:
        status = _fail(describe_usage_error(error, words), 2, debug)
    except InputError as error:
        status = _fail(translate(str(error)), 2, debug)
    except KeyboardInterrupt:
        status = terminal.INTERRUPTED
    except terminal.InterruptedCommand as stop:
        status, kept = stop.code, stop.kept
    except SystemExit as stop:
        status = terminal.READER_GONE if isinstance(stop.__context__, BrokenPipeError) else stop.code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes there
        status = terminal.READER_GONE
    except LostProcessError as error:
        status = _fail(translate(str(error)), 1, debug) if is_main_process() else 1
    except (OSError, ArithmeticError, MemoryError, RuntimeError) as error:
        status = _fail(translate(str(error).partition("\n")[0]) or type(error).__name__, 1, debug)
    if status in (terminal.INTERRUPTED, terminal.TERMINATED) and is_main_process():
        messages.print(f"promask: Interrupted{f': {kept}' if kept else ''}.")
    if status == terminal.TERMINATED:
        _exit_at_once(terminal.TERMINATED)
    sys.exit(status)


def name_shell(words: list[str]) -> list[str]:
    """`--show-completion` as `--show-completion bash`, if that is the shell in use and no other is named."""
    if len(words) > 1 or words[0] not in ("--show-completion", "--install-completion"):
        return words
    import shellingham  # type: ignore[import-untyped]

    try:
        found = str(shellingham.detect_shell()[0])
    except (shellingham.ShellDetectionFailure, OSError):
        found = ""
    return [*words, found if found in SHELLS else Path(os.environ.get("SHELL", "")).name]


def _exit_at_once(status: int) -> None:
    """Exit without taking Python down, which may crash what was interrupted halfway."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _fail(text: str, status: int, debug: bool) -> int:
    if debug:
        raise
    messages.print(f"promask: {text}", style="bold red" if messages.is_terminal else None)
    return status
