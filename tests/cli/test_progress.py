"""Progress on a terminal and in a log, by a clock that the tests turn."""

import re
import threading
import time
from io import StringIO
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from promask.cli.progress import LOG_INTERVAL, ProgressDisplay, StepTimer
from promask.learning.hooks import Progress

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def step_of(step, steps=100, member=0, members=1):
    return Progress(member, members, step, steps, 0.25, 10.0, 1.0, torch.ones(4))


def test_the_time_left_knows_of_members_that_stopped_early():
    timer = StepTimer()
    for step in range(1, 21):
        end = timer.estimate_end(step - 1.0, 0, 3, step, 100)
    assert end == 19 + 80 + 200, "a second for each step that may come"
    assert timer.estimate_end(20.0, 1, 3, 1, 100) == 20 + 19 + 20, "others may stop as early"


def shown(console, start):
    """What the terminal shows last, as soon as it begins so: another thread writes it, when it gets to run."""
    for _ in range(500):
        line = ESCAPE.sub("", console.file.getvalue()).rpartition("\r")[2]
        if line.startswith(start):
            break
        time.sleep(0.02)
    return line


def test_the_bar_says_when_learning_is_over():
    console = Console(file=StringIO(), width=80, force_terminal=True, color_system=None)
    with ProgressDisplay(console) as display:
        display.on_file(1, 2)
        display.on_step(step_of(1))
        display.on_step(step_of(60))
        display.on_file(2, 2)
        display.on_measurement(1, 3)
        during = shown(console, "Measuring")
        display.on_measurement(3, 3)
        after = shown(console, "Writing")
    assert during.startswith("Measuring")
    assert "1/3" in during
    assert after.startswith("Writing")


@pytest.fixture
def log():
    """A display that writes to a log, its clock, and the lines that were written since the last look."""
    clock = SimpleNamespace(now=1000.0)
    console = Console(file=StringIO(), width=40, soft_wrap=True, highlight=False)
    display = ProgressDisplay(console, now=lambda: clock.now)

    def lines():
        text = console.file.getvalue()
        console.file.seek(0)
        console.file.truncate()
        return text.splitlines()

    with display:
        yield display, clock, lines
    assert lines() == [], "nothing at the end"


def test_short_work_leaves_nothing_in_a_log(log):
    display, _, lines = log
    for step in range(1, 101):
        display.on_step(step_of(step))
    assert lines() == []
    assert LOG_INTERVAL == 10


def test_a_line_says_how_long_it_takes(log):
    display, clock, lines = log
    clock.now += 12
    display.write_line()
    for step in range(1, 101):
        display.on_step(step_of(step))
        if step in (1, 31, 91, 100):
            clock.now += 0.4
            display.write_line()
            clock.now -= 0.4
        clock.now += 1
    clock.now += 40
    display.write_line()
    assert lines() == [
        "promask: starting, for 0:12",
        "promask: learning, step 1 of 100, loss 0.25 acquire 10, for 0:00",
        "promask: learning, step 31 of 100, loss 0.25 acquire 10, 1:09 left",
        "promask: learning, step 91 of 100, loss 0.25 acquire 10, 0:09 left",
        "promask: selecting, for 0:00",
        "promask: selecting, for 0:41",
    ]


def test_a_step_that_takes_longer_than_expected_does_not_stop_the_log(log):
    display, clock, lines = log
    for step in (1, 2):
        display.on_step(step_of(step, steps=3))
        clock.now += 1
    clock.now += 50
    display.write_line()
    assert lines() == ["promask: learning, step 2 of 3, loss 0.25 acquire 10, for 0:52"]


def test_lines_come_while_nothing_happens_and_end_with_the_work(monkeypatch):
    monkeypatch.setattr("promask.cli.progress.LOG_INTERVAL", 0.01)
    console, before = Console(file=StringIO(), width=80), threading.active_count()
    with ProgressDisplay(console) as display:
        display.on_file(1, 3)
        time.sleep(0.2)
    written = console.file.getvalue()
    assert written.count("promask: reading files, file 1 of 3, for 0:00\n") >= 3
    assert threading.active_count() == before, "none is left behind"
    time.sleep(0.05)
    assert console.file.getvalue() == written


def test_a_command_does_not_wait_for_the_next_line():
    began = time.perf_counter()
    with ProgressDisplay(Console(file=StringIO())):
        pass
    assert time.perf_counter() - began < 1


def test_every_stage_is_logged(log):
    display, _, lines = log
    expected = [
        (lambda: display.on_file(3, 10), "promask: reading files, file 3 of 10"),
        (lambda: display.on_step(step_of(7, member=1, members=3)), "promask: learning 2/3, step 107 of 300, loss"),
        (lambda: display.on_cell(2, 40, "igs:2d x8"), "promask: comparing, mask 2 of 40, igs:2d x8"),
        (lambda: display.on_measurement(2, 5), "promask: measuring, 2 of 5"),
        (lambda: display.on_batch(5, 50), "promask: training, batch 5 of 50, epoch 1 of 10  loss 0.5  Dice 0.900"),
    ]
    display.on_epoch(SimpleNamespace(epoch=1, epochs=10, loss=0.5, dice=0.9))
    for call, line in expected:
        call()
        assert lines() == [], "lines come by the clock"
        display.write_line()
        (found,) = lines()
        assert found.startswith(line)


def test_other_processes_of_torchrun_write_nothing(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("promask.cli.progress.LOG_INTERVAL", 0.001)
    console = Console(file=StringIO())
    with ProgressDisplay(console) as display:
        display.on_file(1, 2)
        time.sleep(0.05)
    assert console.file.getvalue() == ""


def test_a_log_gets_its_lines_on_standard_error_and_json_stays_clean(commands, images, monkeypatch, capsys):
    from promask.cli.main import main

    def on_step(display, progress):
        ProgressDisplay.on_step(display, progress)
        time.sleep(0.1)

    monkeypatch.setattr("promask.cli.progress.LOG_INTERVAL", 0.01)
    monkeypatch.setattr(
        "promask.cli.learn.ProgressDisplay", type("Slow", (ProgressDisplay,), {"on_step": on_step})
    )

    with pytest.raises(SystemExit):
        main(["learn", "images.npy", "--accel", "4", "--steps", "3", "--out", "a", "--json"])
    captured = capsys.readouterr()
    assert captured.out.startswith("{")
    assert captured.out.count("\n") == 1
    assert "promask: learning, step 2 of 3, loss" in captured.err
