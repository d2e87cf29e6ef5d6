"""Raw data on the command line: looked at, named, learned from; and what bad input gets."""

import json
from pathlib import Path

import numpy as np
import pytest
from file_writers import transform, write_cfl

from promask.cli.main import main

random = np.random.default_rng(0)
KSPACE = transform(random.normal(size=(6, 4, 24, 20)) + 2)
"""(slice, coil, ky, kx)."""
NAMED = ("--axes", "slice coil ky kx")


@pytest.fixture
def promask(commands, undrawn, few_references):
    np.save("raw.npy", KSPACE)
    np.savez("frames.npz", image=random.random((6, 3, 24, 20)).astype(np.float32), trigger_times=np.arange(3))
    return commands


def test_inspect_asks_and_answers(promask, tmp_path):
    text = promask("inspect", "raw.npy")
    assert "array  complex64  [6, 4, 24, 20]" in text
    assert 'promask inspect raw.npy --axes "slice coil ky kx"  # 6 slices, 4 coils, in k-space' in text
    asked = json.loads(promask("inspect", "raw.npy", "--json"))
    assert asked["description"] is None
    assert asked["choices"][0] == {
        "argument": "axes",
        "value": "slice coil ky kx",
        "words": "6 slices, 4 coils, in k-space",
    }
    text = promask("inspect", "raw.npy", *NAMED, "--out", "raw.png")
    assert "kspace         6 slices, 4 coils, phase encoding ky (24), readout kx (20)" in text
    assert "promask learn raw.npy --axes 'slice coil ky kx' --recon cg-sense --accel 4 --out runs/raw" in text
    assert (tmp_path / "raw.png").exists()
    told = json.loads(promask("inspect", "raw.npy", *NAMED, "--json"))
    assert told["description"]["readout"] == "kx"
    assert told["next"] == [
        "promask learn raw.npy --axes 'slice coil ky kx' --recon cg-sense --accel 4 --out runs/raw"
    ]


def test_inspect_of_what_cannot_be_used(promask, capsys, tmp_path):
    np.save("raw.npy", KSPACE * (np.arange(20) % 2))
    with pytest.raises(SystemExit) as stop:
        main(["inspect", "raw.npy", *NAMED])
    captured = capsys.readouterr()
    assert stop.value.code == 2
    assert "arrays  array  complex" in captured.out
    assert captured.err.count("\n") == 1
    assert "is undersampled" in captured.err
    assert "neither a file nor a built-in data set" in promask("inspect", "nothing.npy", status=2)


def test_what_was_understood_is_said_once(promask, capsys):
    with pytest.raises(SystemExit):
        main(["learn", "raw.npy", *NAMED, "--recon", "cg-sense", "--accel", "2", "--steps", "2", "--out", "run"])
    lines = [line for line in capsys.readouterr().err.splitlines() if "kspace: " in line]
    assert lines == [
        "promask: kspace: 6 slices, 4 coils, phase encoding ky (24), readout kx (20), "
        "coil sensitivities by ESPIRiT"
    ]


def test_the_readout_is_left_alone(promask, tmp_path):
    learn = ("learn", "raw.npy", *NAMED, "--accel", 4, "--steps", 2)
    promask(*learn, "--out", "lines")
    mask = np.load("lines/mask.npy")
    assert (mask == mask[:, :1]).all(), "lines along the readout, the last axis"
    assert mask[:, 0].sum() == 6
    sentence = promask(*learn, "--pattern", "2d", "--out", "samples", status=2)
    assert "would undersample kx, the readout" in sentence
    assert "--allow-readout" in sentence
    assert "choose the pattern 1d" in sentence
    assert not (tmp_path / "samples").exists()
    assert "would undersample kx" in promask(*learn, "--axis", "kx", "--out", "samples", status=2)
    assert "no direction 'kz'" in promask(*learn, "--axis", "kz", "--out", "samples", status=2)
    promask(*learn, "--pattern", "2d", "--allow-readout", "--out", "samples")
    promask(*learn, "--readout", "ky", "--out", "other")
    mask = np.load("other/mask.npy")
    assert (mask == mask[:1]).all()
    promask("export", "lines", "--out", "lines.csv")
    assert (
        "# axes: axis 0: ky (phase encoding, undersampled), axis 1: kx (readout)" in Path("lines.csv").read_text()
    )
    assert json.loads((tmp_path / "lines/run.json").read_text())["pattern"]["directions"] == ["ky", "kx"]


def test_a_run_remembers_its_axes(promask, tmp_path):
    promask("learn", "raw.npy", *NAMED, "--accel", 4, "--steps", 2, "--out", "run")
    assert json.loads(promask("evaluate", "run", "raw.npy", "--json"))["data"]["read"]["coils"] == 4
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["config"]["axes"] == "slice coil ky kx"
    assert record["about"]["data"]["read"]["readout"] == "kx"
    promask("report", "run")


def test_baselines_and_comparisons_leave_it_alone_too(promask):
    promask("baseline", "energy", "raw.npy", *NAMED, "--accel", 4, "--out", "energy.npy")
    mask = np.load("energy.npy")
    assert (mask == mask[:, :1]).all()
    assert "would undersample kx" in promask(
        "baseline", "radial", "raw.npy", *NAMED, "--accel", 4, "--out", "radial.npy", status=2
    )
    words = ("compare", "raw.npy", *NAMED, "--accel", 4, "--jobs", 1, "--seeds", 1, "--json")
    rows = json.loads(promask(*words, "--methods", "energy", "promask", "mine=energy.npy", "--out", "a"))["rows"]
    assert [row["method"] for row in rows] == ["energy:1d", "promask:1d", "mine"]
    assert "radial at x4: The pattern 2d would undersample kx" in promask(
        *words, "--methods", "radial", "--out", "b", status=2
    )


def test_frames(promask, tmp_path):
    """The frames of a slice are one series; with --each-frame, each is an image of its own."""
    assert "3 frames" in promask("inspect", "frames.npz")
    words = ("--accel", 4, "--steps", 2, "--json")
    told = json.loads(promask("learn", "frames.npz", *words, "--out", "series"))
    assert (told["data"]["images"], told["data"]["read"]["frames"]) == (6, 3)
    assert np.load("series/mask.npy").shape[0] == 3
    told = json.loads(promask("learn", "frames.npz", "--each-frame", *words, "--out", "run"))
    assert (told["data"]["images"], told["data"]["read"]["frames"]) == (18, 3)
    assert np.load("run/mask.npy").ndim == 2
    assert json.loads(promask("evaluate", "run", "frames.npz", "--json"))["images"] == 18


@pytest.mark.parametrize("recon", ["rss", "sense", "cg-sense"])
def test_one_channel_has_no_coils_to_combine(promask, recon):
    sentence = promask("learn", "head", "--accel", 4, "--size", 32, "--recon", recon, "--out", "run", status=2)
    assert f"head has one channel, but {recon} combines several coils" in sentence
    assert "simulate coils with --coils 8" in sentence
    np.savez("pair.npz", image=random.random((3, 2, 24, 20)), channels=["T1", "T2"])
    np.save("mask.npy", np.arange(20) % 2 == 0)
    sentence = promask("evaluate", "mask.npy", "pair.npz", "--recon", recon, status=2)
    assert "pair.npz has 2 contrasts and no coils" in sentence


def test_bart_masks_fit_slices_without_a_readout(promask):
    write_cfl(Path("k.cfl"), KSPACE[:1].transpose(0, 2, 3, 1))
    write_cfl(Path("mask.cfl"), np.arange(20) % 2 + np.zeros((1, 24, 1)))
    told = json.loads(promask("evaluate", "mask.cfl", "k.cfl", "--holds", "kspace", "--json"))
    assert told["acceleration"] == 2
    assert told["data"]["read"]["axes"] == ["ky", "kz"]
    assert json.loads(promask("evaluate", "mask", "k", "--holds", "kspace", "--json")) == {
        **told,
        "data": {**told["data"], "source": "k"},
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--axes", "slice ky kx"), "--axes is 'slice ky kx', 3 names, but raw.npy has 4 axes"),
        (("--axes", "slice coil ky ky"), "--axes names ky twice"),
        (("--axes", "slice coil up kx"), "--axes has the unknown name 'up'"),
        ((*NAMED, "--readout", "kz"), "--readout is kz, but the axes of raw.npy are ky, kx"),
        ((*NAMED, "--readout", "up"), "--readout must be kx or ky or kz or none"),
        ((*NAMED, "--volumes"), "two directions, but --volumes asks for three"),
        ((), 'choose --axes "slice coil ky kx" (6 slices, 4 coils)'),
    ],
)
def test_bad_axes(promask, tmp_path, words, sentence):
    assert sentence in promask("learn", "raw.npy", *words, "--accel", 4, "--out", "run", status=2)
    assert not (tmp_path / "run").exists()
