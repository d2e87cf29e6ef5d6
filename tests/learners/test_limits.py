"""Every learner and baseline ends with a mask of the exact number that keeps each of the limits."""

import json
import sys

import numpy as np
import pytest
import torch

import promask
from helpers import smooth_images
from promask.baselines import baseline_mask
from promask.cli.main import main
from promask.data.arrays import from_images
from promask.learners import LEARNERS, describe
from promask.learners.base import CARTESIAN
from promask.sampling.limits import LimitSettings
from promask.sampling.pattern import Pattern

LIMITS = {
    "shutter and partial Fourier": {"shutter": "ellipse", "partial_fourier": {0: "6/8"}, "acs_shape": "ellipse"},
    "gap": {"largest_gap": {0: 4}},
    "equal numbers and gap": {"largest_gap": {0: 5}, "equal_per": 1},
}
BASELINES = ("random", "centre", "energy", "gaussian", "radial", "igs", "greedy")


def images():
    return smooth_images(4, size=(16, 12)).abs()[:, 0].float()


def keeps(mask, limits, acceleration=3):
    """Whether a mask has the number of samples and the limits, along axes 0 and 1 of 16 x 12."""
    assert not mask[0, 0] or "shutter" not in limits
    assert not mask[:4].any() or "partial_fourier" not in limits
    for gap in limits.get("largest_gap", {}).values():
        assert all(column.unfold(0, gap, 1).any(1).all() for column in mask.T)
    if "equal_per" in limits:
        assert len(set(mask.sum(0).tolist())) == 1
    wanted = 16 * 12 // acceleration
    return int(mask.sum()) == (wanted - wanted % 12 if "equal_per" in limits else wanted)


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("learner", [name for name in LEARNERS if CARTESIAN in describe(name).patterns])
@pytest.mark.filterwarnings("ignore:At the scale")
def test_learners(learner, limits):
    settings = {"steps": 3, "batch_size": 4, "centre": 2, **limits}
    run = promask.learn(images(), acceleration=3, learner=learner, **settings)
    assert keeps(run.mask, limits)
    assert keeps(run.sample(1, 0, exact=True)[0], limits)
    assert run.mask[7:9, 5:7].all()


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("name", BASELINES)
def test_baselines(name, limits):
    pattern = LimitSettings(**limits).on(Pattern((16, 12), (0, 1)))
    data = from_images(images())
    assert keeps(baseline_mask(name, data, pattern, 3, centre=2), limits)


def test_a_run_keeps_its_limits_on_disk_and_states_both_accelerations(tmp_path):
    limits = LIMITS["shutter and partial Fourier"]
    run = promask.learn(images(), acceleration=4, steps=3, centre=2, **limits)
    loaded = promask.Run.load(run.save(tmp_path / "run"))
    assert loaded.distribution.pattern == run.distribution.pattern
    assert loaded.config == run.config
    inside = int((~run.distribution.pattern.never()).sum())
    assert loaded.acceleration_within == pytest.approx(inside / 48)
    assert f"x4 of the full grid, x{inside / 48:.4g} within the acquired part" in str(loaded)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["acceleration_within"] == loaded.acceleration_within
    assert record["config"]["partial_fourier"] == {"0": 0.75}


def test_the_command_line(tmp_path, capsys, undrawn, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("images.npz", image=images().numpy())
    limits = ["--shutter", "ellipse", "--acs", "2", "--acs-shape", "ellipse", "--largest-gap", "0=6"]
    monkeypatch.setattr(sys, "argv", ["promask"])

    def run(*words):
        with pytest.raises(SystemExit) as end:
            main(list(words))
        return end.value.code

    assert run("baseline", "random", "images.npz", "--accel", "4", *limits, "--out", "mask.npy") == 0
    mask = torch.from_numpy(np.load("mask.npy"))
    assert int(mask.sum()) == 48
    assert not mask[0, 0]
    assert run("learn", "images.npz", "--accel", "4", "--steps", "3", *limits, "--out", "run") == 0
    assert "within the ellipse" in capsys.readouterr().out
    assert run("evaluate", "run", "images.npz", "--json") == 0
    assert json.loads(capsys.readouterr().out)["acceleration_within"] < 4
    refused = ("--largest-gap", "0=2", "--out", "other")
    assert run("learn", "images.npz", "--accel", "8", *refused) == 2
    assert "--largest-gap ky=2 needs at least 96" in " ".join(capsys.readouterr().err.split())
