"""Contrasts on the command line: from end to end, and one sentence for what cannot be."""

import json

import numpy as np
import pytest

PER = ("--per", "contrast")
QUICK = ("--accel", "4", "--steps", "3", "--out", "out")
MASK = ("--accel", "4", "--out", "mask.npy")


@pytest.fixture
def here(tmp_path, undrawn, monkeypatch):
    """The current folder, with two contrasts of four patients, echoes, and slices of one contrast."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    fine, smooth = (
        np.abs(np.fft.ifft2(np.fft.fft2(rng.standard_normal((4, 24, 20))) * fall))
        for fall in (1, np.exp(-np.hypot(np.fft.fftfreq(24)[:, None], np.fft.fftfreq(20)) * 12))
    )
    image = np.stack([fine, smooth], 1).astype(np.float32)
    names = {"channels": ["T2", "FLAIR"], "subject": list("abcd")}
    np.savez("brains.npz", image=image, **names)
    np.savez("labelled.npz", image=image, label=rng.integers(0, 2, (4, 24, 20)), **names)
    np.save("slices.npy", image[:, 0])
    return tmp_path


def test_from_data_to_a_file_for_bart(commands, here):
    told = json.loads(commands("learn", "brains.npz", *PER, "--cost", "FLAIR=2.5", *QUICK, "--json"))
    record = json.loads((here / "out" / "run.json").read_text())
    assert record["config"]["cost"] == {"FLAIR": 2.5}
    assert record["pattern"]["contrasts"] == ["T2", "FLAIR"]
    lines = np.load(here / "out" / "mask.npy").any(2).sum(1)
    assert lines @ [2, 5] <= record["budget"] == 24 * 7 // 4
    assert np.isclose(told["acceleration"], 24 * 7 / (lines @ [2, 5]))
    assert len(told["evaluation"]["psnr_of_contrasts"]) == 2
    page = (here / "out" / "report.html").read_text()
    assert f"T2 {lines[0]}, FLAIR {lines[1]} of 24 lines each" in page
    assert "temporal" not in page.partition("<script")[0]
    measured = json.loads(commands("evaluate", "out", "brains.npz", "--json"))
    assert measured["acceleration"] == told["acceleration"]
    commands("export", "out", "--to", "bart", "--out", "mask")
    assert (here / "mask.hdr").read_text().split("\n")[1].split()[5] == "2", "BART's dimension of echoes"
    commands("export", "out", "--out", "mask.csv")
    assert (here / "mask.csv").read_text().splitlines()[-1].startswith("1,"), "the order of the last contrast"


def test_inspect_suggests_a_pattern_for_each(commands, here):
    told = commands("inspect", "brains.npz")
    assert "2 contrasts (T2, FLAIR)" in told
    assert "promask learn brains.npz --per contrast --accel 4 --out runs/brains-contrasts" in told


BAD = {
    "no contrasts": (
        ("learn", "slices.npy", *PER, *QUICK),
        "has no contrasts that could have patterns of their own",
    ),
    "costs of shared patterns": (
        ("learn", "brains.npz", "--cost", "FLAIR=2", *QUICK),
        "--cost is for contrasts that have their own pattern: set --per contrast.",
    ),
    "an unknown contrast": (
        ("learn", "brains.npz", *PER, "--cost", "PD=2", *QUICK),
        "There is no contrast 'PD' for --cost: they are T2, FLAIR, or have numbers, 0 to 1.",
    ),
    "no cost": (
        ("learn", "brains.npz", *PER, "--cost", "FLAIR", *QUICK),
        "--cost must be a number for each, such as FLAIR=2.5",
    ),
    "frames": (
        ("learn", "brains.npz", "--axes", "slice frame y x", *PER, *QUICK),
        "has frames as well as contrasts",
    ),
    "a reconstruction of frames": (
        ("learn", "brains.npz", *PER, "--recon", "kt-sense", *QUICK),
        "kt-sense reconstructs series of frames",
    ),
    "more ACS lines than scan time": (
        ("learn", "brains.npz", *PER, "--cost", "FLAIR=2", "--acs", "10", *QUICK),
        "A --centre of width 10 in each contrast takes more scan time than x4 leaves",
    ),
    "a baseline of frames": (
        ("baseline", "kt-golden", "brains.npz", *PER, *MASK),
        "kt-golden masks are for frames, not for contrasts",
    ),
    "a network": (
        ("segment", "train", "labelled.npz", *PER, "--out", "unet.safetensors"),
        "training a network needs single images: leave out --per.",
    ),
}


@pytest.mark.parametrize(("words", "sentence"), BAD.values(), ids=BAD)
def test_one_sentence(commands, here, words, sentence):
    assert sentence in commands(*words, status=2)
    assert not (here / "out").exists()
    assert not (here / "mask.npy").exists()
