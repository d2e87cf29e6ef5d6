"""A run that is killed, at whatever moment, goes on and ends with the bits of one that was not."""

import json
import random
import signal
import time

import numpy as np
import pytest
from killed_process import Commands

from promask.learning.checkpoint import before, checkpoint_file, unpacked

KILLS = 12


@pytest.fixture
def commands(tmp_path):
    started = Commands(tmp_path)
    yield started
    started.close()


@pytest.fixture
def scans(tmp_path):
    images = np.random.default_rng(0).random((8, 16, 16), dtype=np.float32).cumsum(1).cumsum(2)
    np.savez(tmp_path / "scans.npz", image=images / images.max(), subject=np.arange(8) // 2)
    return tmp_path / "scans.npz"


def content(folder):
    """What must be the same, bit for bit: all arrays, and the history."""
    arrays = {path.name: path.read_bytes() for path in sorted(folder.glob("*.npy"))}
    return arrays, json.loads((folder / "run.json").read_text())["history"]


def check_left_behind(folder):
    """Whatever has its name is whole: arrays, the record, and a checkpoint of each member that has one."""
    for path in folder.glob("*.npy"):
        np.load(path)
    if (folder / "run.json").exists():
        json.loads((folder / "run.json").read_text())
    for member in (0, 1):
        newest = checkpoint_file(folder, member)
        for path in (newest, before(newest)):
            if path.exists():
                unpacked(path.read_bytes())


def test_killed_at_random_moments(commands, scans, tmp_path):
    def learn(folder, *options):
        settings = ("--accel", 4, "--steps", 100, "--members", 2, "--patience", 0)
        return ("learn", scans, *settings, "--out", folder, *options)

    commands.run(*learn(tmp_path / "first"), forked=False)
    began = time.perf_counter()
    assert commands.run(*learn(tmp_path / "whole")) == 0
    takes = time.perf_counter() - began
    wanted = content(tmp_path / "whole")
    chance = random.Random(0)
    kills, runs, went_on = 0, 0, 0
    while kills < KILLS:
        folder, completed = tmp_path / f"killed-{runs}", False
        while not completed:
            went_on += checkpoint_file(folder, 0).exists()
            how = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
            after = chance.uniform(0, takes) if kills < KILLS else None
            status = commands.run(*learn(folder, "--resume"), after=after, how=how)
            completed = status == 0
            assert status in (0, -how, 128 + how), commands.errors.read_text()
            kills += not completed
            check_left_behind(folder)
        assert content(folder) == wanted
        assert (folder / "report.html").stat().st_size > 10_000
        assert not [path.name for path in folder.iterdir() if path.name.startswith((".", "checkpoint"))]
        runs += 1
    assert went_on > KILLS // 10, "many of them from a checkpoint"
