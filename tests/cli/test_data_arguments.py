"""DATA on the command line: several files and globs."""

import json
from pathlib import Path

import numpy as np
import pytest
from reports import smooth_images

from promask.cli.options import repeat_options

FEW = ("--accel", 4, "--steps", 2)


@pytest.fixture
def promask(commands, undrawn):
    """In a folder with scans/ of five patients."""
    Path("scans").mkdir()
    images = smooth_images().images[:5, 0].numpy()
    for patient, image in zip("abcde", images, strict=True):
        np.save(f"scans/{patient}_T1w.npy", np.stack([image, image[::-1]]))
    return commands


def source_of(run):
    return json.loads(Path(run, "run.json").read_text())["about"]["data"]["source"]


def test_several_files_and_globs(promask):
    data = ("scans/a_T1w.npy", "scans/b_T1w.npy", "scans/[c-e]*.npy")
    assert "Learned from 8 images of 4 subjects" in promask("learn", *data, *FEW, "--out", "several")
    assert source_of("several") == "scans/a_T1w.npy scans/b_T1w.npy 'scans/[c-e]*.npy'"
    promask("learn", "scans", *FEW, "--out", "folder")
    assert (np.load("several/probabilities.npy") == np.load("folder/probabilities.npy")).all()
    assert "a_T1w.npy and 2 more" in Path("several/report.html").read_text()

    on_all = json.loads(promask("evaluate", "several", *data, "--json"))
    assert on_all == json.loads(promask("evaluate", "folder", "scans", "--json"))
    assert on_all == json.loads(promask("evaluate", "several", "scans/*.npy", "--json"))
    assert "2 samples of scans/a_T1w.npy and 2 more (test)" in promask("evaluate", "several", *data)
    on_two = ("scans/a_T1w.npy", "scans/b_T1w.npy")
    promask("stability", "several", *on_two, "--draws", 2, "--out", "out")
    assert json.loads(Path("out/stability.json").read_text())["data"] == " ".join(on_two)
    promask("report", "several", "--data", *on_two)
    assert "The mask is measured on a_T1w.npy and 1 more" in Path("several/report.html").read_text()
    promask("figure", "film", "several", "--data", *on_two, "--out", "film")
    promask("baseline", "energy", *on_two, "scans/c*", "--accel", 4, "--out", "energy.npy")
    promask("compare", *data, "--accel", 4, "--methods", "energy", "--out", "compared")


def test_words_with_commas_stay_whole():
    line = ["report", "run", "--data", "a,b.npy", "c.npy", "--part", "all"]
    assert repeat_options(line) == [
        *("report", "run", "--data", "a,b.npy", "--data", "c.npy"),
        *("--part", "all"),
    ]
