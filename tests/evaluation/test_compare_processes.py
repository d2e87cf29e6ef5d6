"""A comparison in parallel processes: the same results, and nothing lost or left behind when it ends early."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import smooth_images
from promask.data.arrays import from_images
from promask.errors import InputError
from promask.evaluation import workers
from promask.report.comparison import compare

QUICK = ["random", "energy", "promask"]


def test_processes_give_the_same_and_share_the_cores(images, tmp_path, quick_processes):
    """Two processes, each with half of the cores; the same masks as in this one."""
    one = compare(images, [4], QUICK, out=tmp_path / "one", seeds=2)
    two = compare(images, [4], QUICK, out=tmp_path / "two", seeds=2, jobs=2)
    for first, second in zip(one.scores, two.scores, strict=True):
        assert first.achieved == second.achieved
        np.testing.assert_allclose(first.quality["psnr"], second.quality["psnr"], atol=0.02)
    records = [json.loads(path.read_text()) for path in (tmp_path / "two" / "cells").rglob("*.json")]
    assert len(records) == 5
    assert {record["threads"] for record in records} == {max(1, workers.cores() // 2)}


def test_images_in_memory_go_to_processes(tmp_path, undrawn, quick_processes):
    data = from_images(smooth_images(6, size=(16, 12), dtype=torch.complex64))
    one = compare(data, [4], ["random", "energy"], out=tmp_path / "one", seeds=2)
    two = compare(data, [4], ["random", "energy"], out=tmp_path / "two", seeds=2, jobs=2)
    for first, second in zip(one.scores, two.scores, strict=True):
        np.testing.assert_allclose(first.quality["psnr"], second.quality["psnr"], rtol=1e-5)


def test_a_process_that_dies_is_told(images, tmp_path, monkeypatch, quick_processes):
    monkeypatch.setattr(workers.ProcessPoolExecutor, "submit", lambda pool, *_: _submit(pool, os.abort))
    with pytest.raises(MemoryError, match="try fewer `jobs`"):
        compare(images, [4], ["random"], out=tmp_path / "out", seeds=2, jobs=2)


_submit = workers.ProcessPoolExecutor.submit


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")
@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_killed_in_the_middle(images, commands, tmp_path, kill):
    """No process stays behind, what was finished is whole and used, and one process completes the table."""
    out = tmp_path / "out"
    words = ["compare", images, "--accel", "2", "8", "--methods", "random", "promask"]
    words += ["--out", str(out), "--seeds", "3"]
    process = subprocess.Popen(
        [sys.executable, "-m", "promask", *words, "--jobs", "2"],
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background may not hear it
    )
    deadline = time.monotonic() + 120
    while len(list(out.glob("cells/*/*.json"))) < 3 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    children = _children(process.pid)
    assert len(children) >= 2
    process.send_signal(kill)
    status = process.wait(timeout=60)
    assert status == (130 if kill == signal.SIGINT else -signal.SIGKILL)
    deadline = time.monotonic() + 30
    while any(_is_running(child) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    finished = {path: path.stat().st_mtime_ns for path in out.glob("cells/*/*.json")}
    complete = [path for path in finished if json.loads(path.read_text())["quality"]]
    if kill == signal.SIGKILL:  # from files that are whole, it goes on as after the other signal
        return
    commands(*words, "--jobs", "1", "--json")
    assert all(path.stat().st_mtime_ns == finished[path] for path in complete)
    assert len(list(out.glob("cells/*/*.json"))) == 2 * (3 + 3)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")
def test_a_process_that_is_killed_is_replaced(images, tmp_path):
    """In the middle, by SIGKILL: the command says so and completes the table, every cell once."""
    out = tmp_path / "out"
    words = ["compare", images, "--accel", "2", "8", "--methods", "random", "promask"]
    words += ["--out", str(out), "--jobs", "2", "--seeds", "3"]
    process = subprocess.Popen(
        [sys.executable, "-m", "promask", *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    deadline = time.monotonic() + 120
    while len(list(out.glob("cells/*/*.json"))) < 3 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    workers_found = [
        child for child in _children(process.pid) if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    os.kill(workers_found[0], signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "A process ended without a word: its work is done again." in said
    assert "Traceback" not in said
    records = [json.loads(path.read_text()) for path in out.glob("cells/*/*.json")]
    assert len(records) == 2 * (3 + 3)
    assert all(record["quality"] for record in records)
    assert (out / "table.md").is_file()


def _children(pid):
    return [
        int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if _fields(stat)[1:2] == [str(pid)]
    ]


def _is_running(pid):
    return _fields(Path(f"/proc/{pid}/stat"))[:1] not in ([], ["Z"])


def _fields(stat):
    """The state of a process, its parent, and so on; nothing if it has ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def test_data_that_cannot_be_sent(tmp_path):
    data = from_images(smooth_images(4, size=(16, 12)))
    object.__setattr__(data, "transform", lambda image: image)
    with pytest.raises(InputError, match="cannot be sent to other processes: use one job"):
        compare(data, [4], ["random"], out=tmp_path / "out", seeds=2, jobs=2)


def test_a_script_without_a_guard_is_told(tmp_path):
    """Every process would run the script again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy, promask\n"
        "images = numpy.random.default_rng(0).random((4, 16, 16), dtype='float32')\n"
        f"promask.compare(images, 4, 'random', out={str(tmp_path / 'out')!r}, seeds=2, jobs=2)\n"
    )
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    assert "call compare below `if __name__ == '__main__':`" in result.stderr.splitlines()[-1]
