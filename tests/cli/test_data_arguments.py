"""DATA on the command line: several files and globs, --select, and runs that lie among the data."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from reports import smooth_images

from promask.cli.main import main
from promask.cli.options import repeat_options

FEW = ("--accel", 4, "--steps", 2)


@pytest.fixture
def promask(commands, undrawn, few_references):
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
    of_folder = json.loads(promask("evaluate", "folder", "scans", "--json"))
    assert on_all | {"data": {**on_all["data"], "source": "scans"}} == of_folder
    by_glob = json.loads(promask("evaluate", "several", "scans/*.npy", "--json"))
    assert by_glob | {"data": {**by_glob["data"], "source": "scans"}} == of_folder
    assert "2 samples of scans/a_T1w.npy and 2 more (test)" in promask("evaluate", "several", *data)
    on_two = ("scans/a_T1w.npy", "scans/b_T1w.npy")
    promask("stability", "several", *on_two, "--draws", 2, "--out", "out")
    assert json.loads(Path("out/stability.json").read_text())["data"] == " ".join(on_two)
    promask("report", "several", "--data", *on_two)
    assert "The mask is measured on a_T1w.npy and 1 more" in Path("several/report.html").read_text()
    promask("figure", "film", "several", "--data", *on_two, "--out", "film")
    promask("baseline", "energy", *on_two, "scans/c*", "--accel", 4, "--out", "energy.npy")
    promask("compare", *data, "--accel", 4, "--methods", "energy", "--out", "compared")


def test_a_run_among_its_data(promask, capsys):
    """The second run reads neither the first nor what it has left itself."""
    assert "Learned from 8 images of 4 subjects" in promask("learn", "scans", *FEW, "--out", "scans/one")
    with pytest.raises(SystemExit):
        main(["learn", "scans", "--accel", "4", "--steps", "2", "--out", "scans/two"])
    captured = capsys.readouterr()
    left_out, understood = captured.err.splitlines()
    assert left_out == "promask: Left out: scans/one is a run of promask and not data."
    assert understood.startswith("promask: images: 10 slices of 5 subjects")
    assert "Learned from 8 images of 4 subjects" in captured.out
    assert torch.equal(*(torch.from_numpy(np.load(f"scans/{run}/mask.npy")) for run in ("one", "two")))
    refused = promask("learn", "scans/one", *FEW, "--out", "three", status=2)
    assert "scans/one is a run of promask and holds no data" in refused


def test_select(promask):
    np.save("scans/a_T2w.npy", np.ones((2, 7, 9)))
    assert "a_T2w.npy has samples of shape" in promask("learn", "scans", *FEW, "--out", "run", status=2)
    promask("learn", "scans", "--select", "T1w", "[!a]*", *FEW, "--out", "run")
    record = json.loads(Path("run/run.json").read_text())
    assert record["config"]["select"] == ["T1w", "[!a]*"]
    assert record["about"]["data"]["groups"] == 3  # and one is held out
    promask("evaluate", "run", "scans")
    nothing = promask("learn", "scans", *FEW, "--select", "bold", "--out", "x", status=2)
    assert "--select bold fits none of the 6 files of scans: one of them is a_T1w.npy." in nothing
    for name in ("T1w", "T2w"):
        Path(f"scans/a_{name}.npy").rename(f"scans/sub-1_{name}.npy")
    assert "scans mixes T1w (1 file) and T2w (1): choose one with --select, such as '*_T1w.npy'." in promask(
        "learn", "scans", *FEW, "--out", "x", status=2
    )


def test_words_with_commas_stay_whole():
    line = ["report", "run", "--data", "a,b.npy", "c.npy", "--select", "x,y*", "T1w", "--part", "all"]
    assert repeat_options(line) == [
        *("report", "run", "--data", "a,b.npy", "--data", "c.npy"),
        *("--select", "x,y*", "--select", "T1w", "--part", "all"),
    ]
