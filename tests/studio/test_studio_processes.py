"""The processes of the studio, and the command that starts it."""

import os
import re
import signal
import socket
import subprocess
import sys
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import numpy as np
import pytest
import torch
from PIL import Image
from studio_helpers import (
    LONG,
    asked,
    failing,
    images_file,
    is_alive,
    killed,
    sent,
    stubborn,
    talking,
    until,
)

from promask.data.inspection import inspect
from promask.data.reading import Reading
from promask.errors import InputError
from promask.figures.inspection import inspection_figure
from promask.learning.hooks import Progress
from promask.studio import jobs as studio_module
from promask.studio import processes
from promask.studio.jobs import Studio
from promask.studio.processes import Environment, Reporter, Worker, encode_figure


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.3)
    started = []

    def call(task, task_input=None):
        started.append(Worker(task, task_input, Environment(tmp_path, tmp_path / "cache", 1)))
        return started[-1]

    yield call
    for worker in started:
        worker.close()


def test_a_process_tells_and_returns(start, tmp_path):
    worker = start(talking, {"a": 1})
    assert worker.next_message() == ("folder", str(tmp_path))
    assert worker.next_message() == ("done", {"a": 1})


def test_a_process_that_does_not_want_to_end_is_killed(start):
    worker = start(stubborn)
    word, pid = worker.next_message()
    assert word == "ready"
    assert is_alive(pid)
    worker.stop()
    assert not is_alive(pid)


def test_a_process_that_is_silent_for_too_long_is_ended(start):
    worker = start(stubborn)
    _, pid = worker.next_message()
    assert worker.next_message(0.2) == ("error", "It took longer than 0.2 seconds, and was stopped.")
    assert not is_alive(pid)


def test_a_process_that_ends_without_a_word(start):
    assert start(killed).next_message()[1].startswith("The process ended without a word (signal 9)")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (InputError("The scan is empty.\nIndeed."), "The scan is empty."),
        (MemoryError(), "MemoryError"),
        (RuntimeError("first line\nsecond line"), "RuntimeError: first line"),
    ],
)
def test_errors_are_one_sentence(start, error, sentence):
    assert start(failing, error).next_message() == ("error", sentence)


def test_data_that_are_never_described_are_given_up(monkeypatch, tmp_path):
    monkeypatch.setattr(studio_module, "DESCRIBE_SECONDS", 0.2)
    monkeypatch.setattr(studio_module, "describe", stubborn_in_silence)
    studio = Studio(threads=1)
    try:
        with pytest.raises(InputError, match=r"longer than 0\.2 seconds"):
            studio.describe_built_in("head")
    finally:
        studio.close()


def stubborn_in_silence(task_input, send):
    stubborn(task_input, lambda *_: None)


def test_pictures_of_the_probabilities_do_not_come_too_often():
    said = []
    reporter = Reporter(lambda word, content: said.append(content))
    for step in range(1, 1001):
        probabilities = torch.tensor([0.0, 1.0, 0.0])
        reporter.on_step(
            Progress(0, 1, step, 1000, float(step), budget=1.0, temperature=1.0, probabilities=probabilities)
        )
    assert 2 <= len(said) < 100
    assert [loss for content in said for loss in content["losses"]] == [float(step) for step in range(1, 1001)]
    assert said[-1]["done"] == 1000, "always the last"
    assert said[-1]["units"] == {"shape": [3], "bytes": "AP8A"}, "as they are: centred"


def test_the_picture_of_the_data_is_that_of_inspect_in_fewer_bytes():
    found = inspect("head", Reading(coils=4))
    whole = BytesIO()
    inspection_figure(found).savefig(whole, format="png", dpi=processes.DOTS_PER_INCH)
    content = b64decode(encode_figure(inspection_figure(found)).partition(",")[2])
    found, wanted = (np.asarray(Image.open(file).convert("RGB"), float) for file in (BytesIO(content), whole))
    assert found.shape == wanted.shape
    assert abs(found - wanted).mean() < 0.5, "of 255"
    assert len(content) < 0.7 * whole.tell()


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "t"), (signal.SIGTERM, "t" * 100)], ids=["forked", "spawned"]
)
def test_the_command_ends_with_everything_that_it_started(number, name):
    """With a long name of the temporary folder there can be no server to fork from."""
    with TemporaryDirectory(prefix="studio") as folder:
        check_the_end(Path(folder, name), number)


def check_the_end(temporary, number):
    temporary.mkdir()
    places = {"TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "promask", "studio", "--limit", "5"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | places
    )
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"The studio is open at (http://127\.0\.0\.1:\d+)/\?token=(\S+)\n", line)
        assert found, (line, process.communicate())
        base, token = found.groups()
        with httpx.Client(base_url=base, headers={"X-Promask-Token": token}, timeout=60) as client:
            upload = sent(client, images_file(temporary / "scans.npz"))
            job = asked(client, upload=upload, **LONG)["id"]
            until(lambda: client.get(f"/api/jobs/{job}").json().get("done"))
            others = processes_of(temporary)
            assert len(others) >= 2, "the studio and the job at least"
            with client.stream("GET", f"/api/jobs/{job}/events") as events:
                next(events.iter_lines())
                process.send_signal(number)
                assert process.wait(20) == 0
        until(lambda: not any(map(is_alive, others)))
        assert [path.name for path in temporary.iterdir() if path.name.startswith("promask")] == []
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


def processes_of(temporary):
    """The processes whose environment names a folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            found += [int(place.name)] if f"TMPDIR={temporary}\0" in (place / "environ").read_text() else []
        except OSError:
            continue
    return found


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_missing_packages_are_one_sentence(commands, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    assert "pip install 'promask[studio]'" in commands("studio", status=2)


def test_a_port_that_cannot_be_used_is_one_sentence(commands):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        message = commands("studio", "--port", taken.getsockname()[1], status=2)
    assert "cannot be used" in message
    assert "leave out --port" in commands("studio", "--port", 99999, status=2)
