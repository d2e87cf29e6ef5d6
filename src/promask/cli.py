"""The command line: parse, and call the library. Everything heavy is imported when it is needed."""

import atexit
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from promask.compare_cli import baseline, compare
from promask.completion import VARIABLE, answer
from promask.completion_scripts import install, script, shell_in_use
from promask.errors import InputError, LostProcessError
from promask.figure_cli import app as figure
from promask.files_cli import cache, export
from promask.helping import HELP, laid_out
from promask.learn_cli import learn
from promask.measure_cli import evaluate, stability
from promask.mistakes import sentence
from promask.options import shell_option, with_options_repeated, with_shell
from promask.report_cli import report
from promask.segment_cli import app as segment
from promask.showing import show_run
from promask.studio_cli import studio
from promask.terminal import (
    interrupted,
    keep_typed,
    messages,
    output,
    progress_bar,
    speaks,
    warnings_as_sentences,
    write,
)

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
        from promask.learn_and_report import learn_and_report

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
        from promask.version import __version__

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
