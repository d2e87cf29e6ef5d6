"""How help is laid out: commands in panels, prose that fits the terminal, examples as they are.

What is wrong with a command line, as one sentence that tells the way out.

The command line: parse, and call the library. Everything heavy is imported when it is needed.
"""

import atexit
import difflib
import inspect
import itertools
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from promask.cli.compare import baseline, compare
from promask.cli.completion import VARIABLE, answer, install, script, shell_in_use
from promask.cli.evaluate import evaluate, stability
from promask.cli.figure import app as figure
from promask.cli.files import cache, export, report, studio
from promask.cli.learn import learn
from promask.cli.options import shell_option, with_options_repeated, with_shell
from promask.cli.segment import app as segment
from promask.cli.show import show_run
from promask.cli.terminal import (
    interrupted,
    keep_typed,
    messages,
    output,
    progress_bar,
    speaks,
    warnings_as_sentences,
    write,
)
from promask.errors import InputError, LostProcessError

PANELS: Mapping[str, Sequence[str]] = {
    "Learn": ("learn", "segment"),
    "Measure and compare": ("evaluate", "stability", "baseline", "compare"),
    "Files": ("export", "cache"),
    "Look": ("demo", "report", "figure", "studio"),
}
"""The commands, under headings, in the order in which they are shown; others come at the end."""
OTHERS = "More"
HELP = ["-h", "--help"]
LINE = 76
"""Signs that an example may have, to stay on its line."""
NARROW = 72
"""Columns, below which help has no boxes: in them, the names of options would be cut."""


def laid_out(command: Any, width: int = 80) -> Any:
    """The same command with its commands in panels, and every help text as a terminal of this width shows it."""
    panels = {name: panel for panel, names in PANELS.items() for name in names}
    known = {name: command.commands[name] for name in panels if name in command.commands}
    command.commands = {**known, **command.commands}
    for name, each in command.commands.items():
        each.rich_help_panel = panels.get(name, OTHERS)
    _lay_out(command, plain=width < NARROW)
    return command


def _lay_out(command: Any, plain: bool) -> None:
    text = folded(command.help or "")
    within = getattr(command, "commands", {}).values()
    if within and not examples(text):
        some = [
            line for each in within for line in examples(inspect.cleandoc(each.help or ""))[:1] if len(line) < LINE
        ]
        text = "\n  ".join([f"{text}\n\nExamples:", *some[:3]])
    if plain:
        command.rich_markup_mode = None
        text = text.replace("\n\nExample", "\n\n\b\nExample").replace("\n\nStart", "\n\n\b\nStart")
    command.help = text
    # The parser would call it a bool, in a column of its own.
    command.get_help_option(typer.Context(command, help_option_names=HELP)).metavar = ""
    for each in within:
        _lay_out(each, plain)


def folded(text: str) -> str:
    """A help text whose prose has no line ends, so that it fits any terminal, and whose examples keep theirs.

    >>> print(folded("Do it.\\n\\nOr do\\nnot.\\n\\nExamples:\\n  promask demo\\n  promask cache"))
    Do it.
    <BLANKLINE>
    Or do not.
    <BLANKLINE>
    Examples:
      promask demo
      promask cache
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(each if examples(each) else " ".join(each.split("\n")) for each in paragraphs)


def examples(text: str) -> list[str]:
    """The command lines in a help text; one that ends in a backslash goes on in the next line.

    >>> examples("Do it.\\n\\nExample: promask demo  # quick\\n  promask cache \\\\\\n    --clear")
    ['promask demo  # quick', 'promask cache --clear']
    """
    joined = re.sub(r"\\\n\s*", "", text)
    return re.findall(r"^(?:Examples?:)?[ \b]*(promask .*?) *$", joined, flags=re.MULTILINE)


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


app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": HELP}
)
app.add_typer(segment, name="segment")
app.add_typer(figure, name="figure")
INTERRUPTED, READER_GONE, TERMINATED = 130, 141, 143
"""As shells have it: 128 and the number of the signal."""


for command in (learn, evaluate, stability, baseline, compare, report, studio, export, cache):
    app.command()(command)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="RUN", help="The folder for the result.")] = Path("runs/demo"),
) -> None:
    """Learn a x8 mask on the built-in brain and compare it with other masks on held-out slices.

    Examples:
      promask demo
      promask demo --out runs/first
    """
    with progress_bar() as bar, warnings_as_sentences():
        from promask.report.pipeline import learn_and_report

        command = shlex.join(["promask", "learn", "brain", "--accel", "8", "--out", str(out)])
        run = learn_and_report(
            "brain", out, "default", bar.on_step, bar.on_file, bar.on_image, command=command, acceleration=8
        )
    show_run(run, out, as_json=False)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", metavar="", help="Print the version.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Show tracebacks; anywhere in the line.")
    ] = False,
    install_completion: Annotated[
        str | None, shell_option("Complete words in a shell: bash, zsh, fish, or the one in use.")
    ] = None,
    show_completion: Annotated[str | None, shell_option("Print what --install-completion installs.")] = None,
) -> None:
    """Learn where to sample k-space.

    Start here:
      promask demo                                    # a minute; needs no data
      promask learn brain --accel 8 --out runs/brain  # see runs/brain/report.html
    """
    if version:
        from promask import __version__

        output.print(__version__)
    elif install_completion:
        output.print(f"Installed in {install(install_completion)}; it works from the next start of the shell.")
    elif show_completion:
        output.print(script(show_completion), end="")
    else:
        return
    raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors that a user can mend are one sentence and exit status 2."""
    # Threads that wait for each other in a busy loop take the cores from one another when two runs share a
    # machine: 2 runs on 2 cores were seen to take 20 times as long as one. With a short wait a run alone takes
    # longer, half as much again at worst, but two take little more than twice as long as one.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    typed = sys.argv[1:] if arguments is None else arguments
    keep_typed(typed)
    words = with_shell(with_options_repeated(typed or ["--help"]), shell_in_use)
    debug = "--debug" in words
    parser = laid_out(typer.main.get_command(app), output.width)
    status: int | str | None
    try:
        if VARIABLE in os.environ:
            write(answer(parser, os.environ))
            sys.exit(0)
        words = [word for word in words if word != "--debug"]
        with ending_in_order():
            status = parser(words, prog_name="promask", standalone_mode=False) or 0
    except (InputError, TyperException) as error:
        text = sentence(error, words) if isinstance(error, TyperException) else str(error)
        status = _fail(text, 2, debug)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemExit as stop:
        status = READER_GONE if isinstance(stop.__context__, BrokenPipeError) else stop.code
    except LostProcessError as error:
        status = _fail(str(error), 1, debug) if speaks() else 1
    except (OSError, ArithmeticError, MemoryError, RuntimeError) as error:
        status = _fail(str(error).partition("\n")[0] or type(error).__name__, 1, debug)
    if status in (INTERRUPTED, TERMINATED):
        interrupted()
    if status == TERMINATED:
        _leave(TERMINATED)
    sys.exit(status)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Hear a polite request to end, as schedulers send it when time is up, as the interrupt key is heard."""

    def end(*_: object) -> None:
        sys.exit(TERMINATED)

    in_main = threading.current_thread() is threading.main_thread()  # only there can it be said
    before = signal.signal(signal.SIGTERM, end) if in_main else None
    try:
        yield
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, before)


def _leave(status: int) -> None:
    """End at once: what was interrupted in the middle of anything may not survive that Python is taken down."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _fail(text: str, status: int, debug: bool) -> int:
    if debug:
        raise
    messages.print(f"promask: {text}", style="bold red" if messages.is_terminal else None)
    return status
