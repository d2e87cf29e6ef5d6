"""One fit on several processes: torchrun starts the real command, on this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

SETTINGS = ("--accel", "4", "--steps", "150", "--patience", "0")
COMMAND = ("-m", "promask")
OFTEN_KEPT = (str(Path(__file__).parents[1] / "helpers" / "often_kept.py"),)


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Slices that each process holds, and a reference of one process."""
    folder = tmp_path_factory.mktemp("scans")
    images = np.random.default_rng(0).random((20, 20, 18), dtype=np.float32).cumsum(1).cumsum(2)
    np.savez(folder / "scans.npz", image=images / images.max(), subject=np.arange(20) // 2)
    return folder / "scans.npz"


@pytest.fixture(scope="module")
def alone(scans):
    """What a single process finds."""
    out = scans.parent / "alone"
    finish(start([sys.executable, *COMMAND], scans, *SETTINGS, "--out", out))
    return content(out)


def start(launcher, *arguments):
    return subprocess.Popen(
        [*launcher, "learn", *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def torchrun(*options, command=COMMAND):
    torch_run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return [*torch_run, *options, *command]


def finish(process, status=0):
    out, err = process.communicate()
    assert process.returncode == status, err
    return out, err


def content(folder):
    record = json.loads((folder / "run.json").read_text())
    return np.load(folder / "probabilities.npy"), np.load(folder / "mask.npy"), record


def rank_of(process):
    """The rank of a process by its environment, None if it has none; those that end meanwhile have none."""
    try:
        environment = Path("/proc", process, "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((int(each[5:]) for each in environment if each.startswith(b"RANK=")), None)


def child_of_rank(launcher, rank):
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    return next(int(child) for child in children if rank_of(child) == rank)


def test_members_are_split(scans, alone, tmp_path):
    """The first of two members is what one process finds, which has no other."""
    out, _ = finish(start(torchrun(), scans, *SETTINGS, "--members", 2, "--out", tmp_path / "run"))
    assert out.count("The run is in") == 1, "one of them speaks"
    _, _, record = content(tmp_path / "run")
    assert record["about"]["processes"] == 2
    first, second = record["history"]["member_loss"]
    np.testing.assert_allclose(first, alone[2]["history"]["loss"], rtol=1e-5)
    assert first != second


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Processes are found in /proc.")
def test_images_are_split_and_a_process_that_dies_is_started_again(scans, alone, tmp_path):
    """Two processes find what one finds, before and after one of them was killed."""
    launcher = start(
        torchrun("--max-restarts", "2", command=OFTEN_KEPT), scans, *SETTINGS, "--out", tmp_path / "run"
    )
    checkpoint = tmp_path / "run" / "checkpoint.safetensors"
    while not checkpoint.exists():
        assert launcher.poll() is None, launcher.communicate()[1]
        time.sleep(0.01)
    os.kill(child_of_rank(launcher, 1), signal.SIGKILL)
    out, _ = finish(launcher)
    assert out.count("The run is in") == 1, "one of them speaks"
    probabilities, mask, record = content(tmp_path / "run")
    assert record["about"]["processes"] == 2
    np.testing.assert_allclose(probabilities, alone[0], atol=1e-5)
    assert (mask == alone[1]).all()
    np.testing.assert_allclose(record["history"]["loss"], alone[2]["history"]["loss"], rtol=1e-5)
    assert len(record["history"]["loss"]) == 150
    assert record["about"]["evaluation"] == alone[2]["about"]["evaluation"]
    assert record["about"]["checkpoints"]["resumed"] == [0]
    assert not list((tmp_path / "run").glob("checkpoint*"))


def test_a_mistake_is_said_once(scans, tmp_path):
    _, err = finish(start(torchrun(), scans, "--accel", "0.5", "--out", tmp_path / "run"), status=1)
    assert err.count("promask: --accel must be a number of at least 1") == 1
