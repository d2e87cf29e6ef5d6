"""What is provoked here for real: too little memory, a full disk, a disk that must not be written to, and NaN."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import smooth_images
from promask.data.arrays import from_images
from promask.errors import InputError
from promask.learning.api import learn
from promask.learning.checkpoint import checkpoint_file, unpacked
from promask.learning.run import Run

HERE = Path(__file__).parents[1] / "helpers"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


EXACTLY = {f"MALLOC_{name}_": "65536" for name in ("MMAP_THRESHOLD", "TRIM_THRESHOLD")} | {"MALLOC_TOP_PAD_": "0"}
"""Memory that is no longer needed is given back at once."""


def printed(*command, cwd=None, **environment):
    environment = {**ENVIRONMENT, **environment}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Memory


@pytest.mark.skipif(sys.platform != "linux", reason="Memory is limited as Linux does it.")
def test_where_memory_runs_out_batches_are_halved():
    found = printed(sys.executable, HERE / "short_of_memory.py", **EXACTLY)
    assert found["halved"] == [[[3, 4]]], "of 8 that fit into the cache; there was enough before"
    assert found["said"] == ["Memory ran out at step 3: from now on 4 images at a time."]
    assert found["usually"] == [[]]
    assert found["difference"] < 1e-5, "what is learned does not depend on it"


@pytest.mark.skipif(sys.platform != "linux", reason="Memory is limited as Linux does it.")
def test_a_single_image_that_does_not_fit_is_one_sentence():
    sentence = printed(sys.executable, HERE / "short_of_memory.py", "single", **EXACTLY)["error"]
    assert sentence.startswith("Memory ran out at step 3, even with a single image at a time")


# The disk


def can_mount():
    return (
        subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0
        if os.name == "posix"
        else False
    )


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """What became of each command on a small disk."""
    if sys.platform != "linux" or os.geteuid() != 0 or not can_mount():
        pytest.skip("A disk that is full takes the right to mount one.")
    folder = tmp_path_factory.mktemp("disk")
    images = np.random.default_rng(0).random((8, 32, 32), dtype=np.float32).cumsum(1).cumsum(2)
    np.savez(folder / "scans.npz", image=images / images.max(), subject=np.arange(8))
    (folder / "small").mkdir()
    arguments = (folder / "small", folder / "scans.npz")
    return printed("unshare", "--mount", sys.executable, HERE / "faulty_disk.py", *arguments, cwd=folder)


def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_written(disk):
    assert disk["full"]["status"] in (1, 2)
    last = disk["full"]["said"].strip().splitlines()[-1]
    assert last.startswith("promask: Cannot write")
    assert "No space left on device" in disk["full"]["said"]
    assert "Traceback" not in disk["full"]["said"]
    assert disk["full"]["kept"] == []


def test_a_checkpoint_that_fits_outlives_the_run_that_does_not(disk):
    found = disk["room for a checkpoint"]
    assert found["status"] == 1
    assert (
        found["said"]
        .strip()
        .splitlines()[-1]
        .endswith("make room, and --resume goes on from the last checkpoint.")
    )
    assert "run/checkpoint.safetensors" in found["kept"]
    assert all("checkpoint" in name for name in found["kept"])


def test_with_room_it_goes_on_to_the_same_bits(disk):
    assert disk["room"]["status"] == 0
    assert {"run/mask.npy", "run/report.html"} <= set(disk["room"]["kept"])
    assert not any("checkpoint" in name for name in disk["room"]["kept"])
    assert disk["elsewhere"]["status"] == 0
    assert disk["same"]


def test_a_place_that_must_not_be_written_to_is_refused_before_any_work(disk):
    found = disk["read-only"]
    assert found["status"] == 2
    (sentence,) = found["said"].strip().splitlines()
    assert sentence.startswith("promask: Cannot write to ")


# NaN


def test_nan_names_the_images_and_keeps_the_last_good_state(tmp_path):
    """A loss that is no number for one image, from its third step on."""
    images = smooth_images(count=9, size=(12, 10))[:, 0].abs().float()
    wrong, calls = images[5].abs().max(), []

    def loss(made, targets):
        calls.append(None)
        errors = (made - targets).square().mean((1, 2, 3))
        is_wrong = targets.amax((1, 2, 3)) == wrong
        return torch.where(is_wrong & (len(calls) > 2), torch.nan, errors).mean()

    settings = {"loss": loss, "steps": 30, "batch_size": 9, "patience": 0, "checkpoint": tmp_path}
    with pytest.raises(FloatingPointError) as error:
        learn(from_images(images, name="scans.npz"), 4, **settings)
    sentence = str(error.value)
    assert sentence.startswith("The loss became nan at step 3 in the batch of scans.npz, slice 5: ")
    kept = unpacked(checkpoint_file(tmp_path, 0).read_bytes())["member"]
    assert kept["history"]["values"].shape == (3, 2), "two steps"
    assert kept["history"]["values"].isfinite().all()
    assert kept["theta"].isfinite().all()


def test_many_images_without_a_number_are_counted(tmp_path):
    images = smooth_images(count=9, size=(12, 10))[:, 0].abs().float()
    with pytest.raises(FloatingPointError) as error:
        learn(from_images(images, name="scans.npz"), 4, loss=lambda made, _: made.mean() * torch.nan, batch_size=9)
    assert str(error.value).count("scans.npz, slice") == 3
    assert " and 6 more: are the values" in str(error.value)


# Runs that are there already


@pytest.fixture
def scans(tmp_path, undrawn, few_references):
    images = np.random.default_rng(0).random((8, 16, 16), dtype=np.float32).cumsum(1).cumsum(2)
    np.savez(tmp_path / "scans.npz", image=images / images.max(), subject=np.arange(8))
    return "scans.npz"


def test_resuming_a_finished_run_changes_nothing(commands, scans, tmp_path):
    run = ("learn", scans, "--accel", 4, "--steps", 5, "--out", "run")
    said = commands(*run)
    before = {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "run").rglob("*"))}
    assert commands(*run, "--resume") == said
    assert {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "run").rglob("*"))} == before
    sentence = commands("learn", scans, "--accel", 4, "--steps", 6, "--out", "run", "--resume", status=2)
    assert "run is a finished run with steps 5 and not 6: choose another folder, or replace it with" in sentence
    assert "--overwrite instead of --resume" in sentence


def test_a_finished_run_is_replaced_only_on_request(commands, scans, tmp_path):
    run = ("learn", scans, "--accel", 4, "--steps", 5, "--out", "run")
    commands(*run)
    before = {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "run").rglob("*"))}
    sentence = "promask: run holds a finished run: choose another folder, or replace it with --overwrite.\n"
    assert commands(*run, "--seed", 1, status=2) == sentence
    unread = ("learn", "nowhere.npz", "--accel", 4, "--out", "run")
    assert commands(*unread, status=2) == sentence, "before data are read"
    assert {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "run").rglob("*"))} == before
    commands(*run, "--seed", 1, "--overwrite")
    assert Run.load("run").config.seed == 1


def test_processes_that_torchrun_starts_again_may_find_a_finished_run(commands, scans, monkeypatch):
    run = ("learn", scans, "--accel", 4, "--steps", 5, "--out", "run")
    said = commands(*run)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert commands(*run) == said


def test_a_run_without_its_report_gets_it(commands, scans, tmp_path):
    run = ("learn", scans, "--accel", 4, "--steps", 5, "--out", "run")
    commands(*run)
    mask, report = (tmp_path / "run" / name for name in ("mask.npy", "report.html"))
    written, content = mask.stat().st_mtime_ns, mask.read_bytes()
    report.unlink()
    commands(*run, "--resume")
    assert report.stat().st_size > 10_000
    assert mask.read_bytes() == content
    assert mask.stat().st_mtime_ns != written, "with what was measured"


def test_an_unfinished_run_is_given_up_with_a_word(commands, scans, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    checkpoint_file(tmp_path / "run", 0).write_bytes(b"x")
    import promask.cli.main

    with pytest.raises(SystemExit) as stop:
        promask.cli.main.main(["learn", scans, "--accel", "4", "--steps", "5", "--out", "run"])
    assert stop.value.code == 0
    assert "run held an unfinished run, which is given up: --resume would have gone on" in capsys.readouterr().err
    assert not list((tmp_path / "run").glob("checkpoint*"))


def test_a_wrong_device_does_not_cost_an_unfinished_run(commands, scans, tmp_path):
    (tmp_path / "run").mkdir()
    checkpoint_file(tmp_path / "run", 0).write_bytes(b"x")
    commands("learn", scans, "--accel", 4, "--device", "abacus", "--out", "run", status=2)
    assert checkpoint_file(tmp_path / "run", 0).read_bytes() == b"x"


def test_what_is_not_a_run_is_not_resumed(commands, scans, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert "is not a run" in commands("learn", scans, "--accel", 4, "--out", "run", "--resume", status=2)
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_an_empty_loss_is_an_error_of_the_input():
    with pytest.raises(InputError):
        learn(torch.zeros(0, 8, 8), 4)
