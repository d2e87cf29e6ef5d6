"""The command line among other programs: in pipes, on terminals of any width, and when it is interrupted."""

import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from promask.cli.show import metrics_table
from promask.cli.terminal import print_json

PROMASK = [sys.executable, "-m", "promask"]
LEARN = [*PROMASK, "learn", "images.npy", "--accel", "4", "--steps", "20", "--members", "2", "--patience", "0"]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def on_terminal(command, width=100):
    """What a command writes to a terminal, and its exit status."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color")
        os.environ.pop("COLUMNS", None)
        os.execvp(command[0], command)
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    written = b""
    try:
        while part := os.read(terminal, 65536):
            written += part
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    return written.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_terminal_shows_progress_and_then_a_table(images):
    written, status = on_terminal([*LEARN, "--out", "a"], width=60)
    assert status == 0
    lines = [line.strip() for line in ESCAPE.sub("", written).replace("\r", "\n").splitlines()]
    assert any(line.startswith("Starting ") for line in lines)
    learning = [line for line in lines if line.startswith("Learning ")]
    assert re.fullmatch(r"Learning [12]/2 \S+ \d+/40 loss [\d.e-]+ acquire 48( \d+:\d\d left)?", learning[-1])
    assert any(line.startswith("Writing ") for line in lines)
    assert "\x1b[?25h" in written, "the cursor is back"
    rest = ESCAPE.sub("", written.rpartition("\x1b[2K")[2])
    assert rest.startswith("mask "), "what moved is gone"
    assert rest.rstrip().endswith("open a/report.html")


def test_in_a_pipe_there_is_only_the_result(images):
    np.save("mask.npy", np.eye(16, 12, dtype=bool))
    command = [*PROMASK, "evaluate", "mask.npy", "images.npy", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    understood = "promask: images: 4 slices, y (16), x (12), k-space emulated from magnitude images\n"
    assert (done.returncode, done.stderr) == (0, understood)
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout)["acceleration"] == 16


def test_json_has_no_colours_even_where_they_are_asked_for(monkeypatch):
    console = Console(
        file=StringIO(), width=20, force_terminal=True, soft_wrap=True, highlight=False, markup=False
    )
    monkeypatch.setattr("promask.cli.terminal.output", console)
    print_json({"name": "a" * 40, "psnr": 31.5})
    assert json.loads(console.file.getvalue()) == {"name": "a" * 40, "psnr": 31.5}


def test_help_in_a_pipe_has_no_escape_codes():
    done = subprocess.run([*PROMASK, "learn", "--help"], capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["--show-completion", "bash"], ["lern"]])
def test_a_reader_that_is_gone_ends_it_quietly(words):
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen([*PROMASK, *words], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    error = process.communicate()[1]
    if words == ["lern"]:
        assert process.returncode == 2, "nothing was written there"
    else:
        assert error == ""
        assert process.returncode == 128 + signal.SIGPIPE, "as of a program that the signal ended"


def test_completion_for_a_reader_that_is_gone():
    reading, writing = os.pipe()
    os.close(reading)
    environment = {
        **os.environ,
        "_PROMASK_COMPLETE": "complete_bash",
        "COMP_WORDS": "promask\n",
        "COMP_CWORD": "1",
    }
    process = subprocess.Popen(PROMASK, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment)
    os.close(writing)
    assert process.communicate()[1] == ""
    assert process.returncode == 128 + signal.SIGPIPE


def test_an_interruption_is_one_sentence(images, tmp_path):
    command = [*LEARN, "--steps", "1000000", "--out", "a", "--config", "told.json"]
    os.mkfifo(tmp_path / "told.json")  # it is waited for, so that learning has begun
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background may not hear it
    )
    (tmp_path / "told.json").write_text("{}")
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    shown, error = process.communicate(timeout=60)
    kept = ": what was learned is kept in a, and the same command with --resume goes on"
    sentence = f"promask: Interrupted{kept if (tmp_path / 'a').exists() else ''}.\n"
    assert (shown, process.returncode) == ("", 130)
    others = ("promask: images: ", "promask: starting", "promask: learning")  # progress, on a slow machine
    assert [line for line in error.splitlines(True) if not line.startswith(others)] == [sentence]


def test_json_is_valid_whatever_the_numbers(capsys):
    print_json({"psnr": float("inf"), "of": [float("nan"), 1.5, {"a": (2, None)}], "name": "a [b] :heart:"})
    shown = capsys.readouterr().out
    expected = {"psnr": None, "of": [None, 1.5, {"a": [2, None]}], "name": "a [b] :heart:"}
    assert shown.count("\n") == 1
    assert json.loads(shown, parse_constant=pytest.fail) == expected


def test_every_command_with_json_prints_one_object(commands, images):
    learned = commands("learn", "images.npy", "--accel", 4, "--steps", 2, "--out", "r:heart:", "--json")
    evaluated = commands("evaluate", "r:heart:", "images.npy", "--json")
    stable = commands("stability", "r:heart:", "images.npy", "--draws", 2, "--json")
    compared = commands("compare", "images.npy", "--accel", 4, "--methods", "energy", "--out", "c", "--json")
    for text, key in ((learned, "budget"), (evaluated, "psnr"), (stable, "draws"), (compared, "rows")):
        assert text.count("\n") == 1
        assert key in json.loads(text)
    assert json.loads(learned)["run"] == "r:heart:", "names are as they are"


def test_a_run_records_the_command_that_made_it(commands, images):
    words = ["learn", "images.npy", "--accel", "4", "--size", "8", "8", "--loss", "0.5*mse + 0.5*l1"]
    words += ["--steps", "2", "--out", "it's my run"]
    commands(*words)
    command = json.loads(Path("it's my run/run.json").read_text())["about"]["command"]
    assert command.startswith("promask learn images.npy --accel 4 --size 8 8 --loss '")
    in_bash = subprocess.run(["bash", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True).stdout
    assert in_bash.splitlines() == ["promask", *words], "quoted for a shell"


ROWS = {name: dict.fromkeys(("acceleration", "psnr", "ssim", "nmse"), 8.25) for name in ("learned", "energy")}
ROWS["energy"] |= {"psnr_spread": 0.5, "ssim_spread": 0.5, "nmse_spread": 0.5}


@pytest.mark.parametrize(("width", "terminal", "rows"), [(100, True, 3), (40, True, 11), (40, False, 3)])
def test_tables_fit_the_terminal(monkeypatch, width, terminal, rows):
    console = Console(file=StringIO(), width=width, force_terminal=terminal, soft_wrap=True, color_system=None)
    monkeypatch.setattr("promask.cli.show.output", console)
    console.print(metrics_table(ROWS))
    lines = ESCAPE.sub("", console.file.getvalue()).splitlines()
    assert len(lines) == rows
    assert any("8.25 ± 0.50" in line for line in lines), "no cell is broken"
    if terminal:
        assert max(map(len, lines)) <= width
