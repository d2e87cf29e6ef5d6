"""Masks of a user's own and of earlier runs, as rows of a comparison."""

import csv
import json

import numpy as np
import pytest
from masks import CARTESIAN, run_on

from promask.errors import InputError, InputWarning
from promask.evaluation.evaluate import evaluate
from promask.evaluation.methods import GivenMask, parse_methods
from promask.export import FORMATS, write_mask
from promask.export.mask_file import ExportedMask
from promask.report.comparison import compare
from promask.sampling.pattern import Pattern

LINES = np.arange(20) % 4 == 0
"""An acceleration of 4, for images of 24 x 20."""


@pytest.fixture
def here(images, tmp_path, monkeypatch):
    """The current folder, with the images and a mask in it."""
    monkeypatch.chdir(tmp_path)
    np.save("mask.npy", LINES)


def mask_files(out):
    return sorted(path.name for path in (out / "masks" / "x4").iterdir())


def test_measured_as_evaluate_does(here, images, tmp_path):
    """A file and a run, each with the acceleration that is nearest to its own, and with its own."""
    run = run_on(Pattern((24, 20), (0, 1)), acceleration=7.5)
    run.save(tmp_path / "runs" / "old")
    methods = ["energy", "mine=mask.npy", "old run=runs/old"]
    comparison = compare(images, [4, 8], methods, out="out")
    assert [(row.method, row.acceleration) for row in comparison.scores] == [
        ("energy", 4.0),
        ("mine", 4.0),
        ("energy", 8.0),
        ("old run", 8.0),
    ]
    _, mine, _, old = comparison.scores
    assert (mine.free, mine.achieved, old.free, old.achieved) == (1, [4.0], 2, [480 / 64])
    for row, mask in ((mine, LINES), (old, run.mask)):
        wanted = evaluate(mask, images)
        assert all(row.quality[metric][0].tolist() == getattr(wanted, metric) for metric in row.quality)
    lines = (tmp_path / "out" / "table.csv").read_text().splitlines()
    rows = {(row["method"], row["acceleration"]): row for row in csv.DictReader(lines)}
    assert rows["mine", "4.0"]["seconds"] == ""
    assert rows["old run", "8.0"]["achieved"] == "7.5"
    assert "| old run | 7.5 |" in (tmp_path / "out" / "table.md").read_text()


@pytest.mark.parametrize("name", CARTESIAN)
def test_every_format(here, images, name):
    mask = ExportedMask.of_mask(np.broadcast_to(LINES, (24, 20)))
    file = write_mask(mask, "own" + FORMATS[name].suffix)
    (given,) = parse_methods([f"mine={file}"], None)
    assert given == GivenMask.parse(f"mine={file}")
    assert (given.free, given.values.tolist()) == (1, mask.mask.tolist())


def test_a_mask_that_changed_is_measured_anew(here, images, tmp_path, problems):
    """And one that did not is not."""
    out = tmp_path / "out"
    first = compare(images, 4, ["mine=mask.npy", "random"], out=out, seeds=1)
    before = mask_files(out)
    times = [path.stat().st_mtime_ns for path in sorted(out.rglob("cells/*/*"))]
    compare(images, 4, ["mine=mask.npy", "random"], out=out, seeds=1)
    assert mask_files(out) == before
    assert [path.stat().st_mtime_ns for path in sorted(out.rglob("cells/*/*"))] == times
    np.save("mask.npy", np.roll(LINES, 2))
    second = compare(images, 4, ["mine=mask.npy", "random"], out=out, seeds=1)
    assert len(mask_files(out)) == len(before) + 1
    assert second.scores[0].quality["psnr"][0].tolist() == evaluate(np.roll(LINES, 2), images).psnr
    assert second.scores[0].mean("psnr") != first.scores[0].mean("psnr")
    assert len(problems) == 1


def test_far_from_every_acceleration(here, images, tmp_path):
    with pytest.warns(
        InputWarning, match=r"^mine has an acceleration of 4: it is listed with x6, the nearest that"
    ):
        comparison = compare(images, [2, 6], ["mine=mask.npy", "energy"], out="out")
    assert [row.acceleration for row in comparison.scores if row.method == "mine"] == [
        6.0
    ]  # 4 is nearer to 6 than 2
    compare(images, 4.3, ["mine=mask.npy"], out="near")


def test_names_are_told_as_they_are(here, images, tmp_path):
    compare(images, 4, ["my_mask (50+ lines)=mask.npy", "energy"], out="out")
    folder = tmp_path / "out"
    assert r"| my\_mask (50+ lines) | 4 |" in (folder / "table.md").read_text()
    assert r"my\_mask (50+ lines) & 4 &" in (folder / "table.tex").read_text()
    assert "my_mask (50+ lines)" in (folder / "table.csv").read_text()
    assert any(name.startswith("my_mask__50+_lines_-") for name in mask_files(folder))


@pytest.mark.parametrize(
    ("methods", "sentence"),
    [
        (["=mask.npy"], r"^'' cannot be the name of a mask: choose a letter, and up to 59"),
        (["mine="], r"^'mine=' is not NAME=FILE or NAME=RUN, such as mine=mask\.npy\.$"),
        (["energy=mask.npy"], r"^'energy' is taken, and cannot be the name of your mask: choose another"),
        (["promask=mask.npy"], "'promask' is taken"),
        (["fully sampled=mask.npy"], "'fully sampled' is taken"),
        (["promask:1d=mask.npy"], "'promask:1d' cannot be the name of a mask"),
        (["8=mask.npy"], "'8' cannot be the name of a mask"),
        (["_mine=mask.npy"], "'_mine' cannot be the name of a mask"),
        (["$a$=mask.npy"], "cannot be the name of a mask"),
        (["../mine=mask.npy"], "cannot be the name of a mask"),
        (["mine=mask.npy", "mine=other.npy"], r"^Two masks are called 'mine': give them different names\.$"),
        (["mine=nowhere.npy"], "^nowhere.npy is neither a run folder nor a mask file"),
        (["mine=images.npz"], "^images.npz is not a mask file: promask reads run folders and .npy"),
        (
            ["mine=wide.npy"],
            r"^mine: The mask has shape \[21\], but the k-space of the data has shape \[24, 20\]: let",
        ),
        (
            ["mine=large.npy"],
            r"^mine: The mask has shape \[30, 20\], but .*: promask\.export\.resized carries it there",
        ),
    ],
)
def test_refused_before_any_work(here, images, tmp_path, methods, sentence):
    np.save("other.npy", ~LINES)
    np.save("wide.npy", np.arange(21) % 4 == 0)
    np.save("large.npy", np.ones((30, 20), bool))
    with pytest.raises(InputError, match=sentence):
        compare(images, 4, ["random", *methods], out="out")
    assert not (tmp_path / "out").exists()


def test_masks_are_read_before_the_data(here):
    with pytest.raises(InputError, match=r"^nowhere\.npy"):
        compare("no-data.npz", 4, ["mine=nowhere.npy"], out="out")


def test_masks_of_volumes_make_the_samples_volumes(here):
    """And those with an axis of length 1 do not."""
    images = np.random.default_rng(0).random((3, 6, 24, 20)).astype(np.float32)
    np.savez("volumes.npz", image=images)
    np.savez("slices.npz", image=images[0])
    np.save("volume.npy", np.broadcast_to(LINES, (6, 24, 20)))
    np.save("slice.npy", np.broadcast_to(LINES, (1, 24, 20)))
    volumes = compare("volumes.npz", 4, ["mine=volume.npy", "flat=slice.npy"], out="volumes")
    assert volumes.measured_on.endswith(", 6 x 24 x 20")
    row, flat = volumes.scores
    assert (row.quality["psnr"] == flat.quality["psnr"]).all()
    assert compare("slices.npz", 4, ["mine=slice.npy"], out="slices").measured_on.endswith(", 24 x 20")


def test_processes_get_the_mask_itself(here, images, quick_processes):
    """Whatever has become of the file."""
    methods = ["mine=mask.npy", "all lines=all.npy", "energy"]
    np.save("all.npy", np.ones(20, bool))
    one = compare(images, [1, 4], methods, out="one")
    two = compare(images, [1, 4], methods, out="two", jobs=2)
    for first, second in zip(one.scores, two.scores, strict=True):
        assert first.method == second.method
        np.testing.assert_allclose(first.quality["nmse"], second.quality["nmse"], atol=1e-6)


def test_command_line(here, commands):
    words = ("compare", "images.npz", "--accel", 4, "8", "--jobs", 1, "--out", "out", "--methods")
    rows = json.loads(commands(*words, "energy", "mine=mask.npy", "--json"))["rows"]
    assert [(row["method"], row["acceleration"], row["achieved"]) for row in rows] == [
        ("energy", 4.0, 4.0),
        ("mine", 4.0, 4.0),
        ("energy", 8.0, 8.0),
    ]
    lines = commands(*words, "energy", "mine=mask.npy").splitlines()
    (row,) = (line for line in lines if line.startswith("mine"))
    assert row.split()[-2:] == ["-", "1"], "no seconds are known, and one mask"
    assert commands(*words, "mine=", status=2).startswith("promask: 'mine=' is not NAME=FILE")
