"""The engine of a comparison: which cells there are, that none is computed twice, and what lies in the folder."""

import csv
import json

import numpy as np
import pytest
import torch

from helpers import smooth_images
from promask.baselines import baseline_mask
from promask.cli.main import main
from promask.data.arrays import from_images
from promask.data.sample_sets import ArraySet, choose_part
from promask.data.sources import load
from promask.errors import InputError, InputWarning
from promask.evaluation.cells import Conditions, all_cells
from promask.evaluation.evaluate import evaluate
from promask.evaluation.methods import parse_methods
from promask.learning.api import learn
from promask.report.comparison import compare
from promask.sampling.pattern import Pattern
from promask.types import Geometry

QUICK = ["random", "energy", "promask"]
pytestmark = pytest.mark.usefixtures("few_steps")


class StopHereError(Exception):
    pass


def distinct(problems):
    return {(label, problem.acceleration, problem.seed) for label, problem in problems}


def test_seeds_of_each_kind():
    methods = parse_methods(["random", "energy", "promask", "igs"], "mse")
    data = ArraySet(smooth_images(2, size=(24, 20)), "test")
    cells = all_cells(methods, [8, 4, 8], seeds=3, learned_seeds=2, conditions=Conditions(data, data))
    counts = {}
    for cell in cells:
        counts.setdefault((cell.method.label, cell.acceleration), []).append(cell.seed)
    assert counts == {
        (label, acceleration): list(range(count))
        for label, count in {"random": 3, "energy": 1, "promask": 2, "igs": 1}.items()
        for acceleration in (4.0, 8.0)
    }


def test_numbers_are_those_of_evaluate(images, tmp_path):
    """Masks are made from the learning part, measured on the other, and kept as files that `evaluate` takes."""
    out = tmp_path / "out"
    comparison = compare(images, [4, 6.5], QUICK, out=out, seeds=3, learned_seeds=2)
    whole = load(images)
    learning, held_out = (choose_part(whole, part, part)[0] for part in ("train", "test"))
    assert 0 < len(held_out) < len(whole)
    pattern = Pattern((24, 20), (0, 1))
    for scores in comparison.scores:
        for seed in range(len(scores.seconds)):
            if scores.method == "promask":
                mask = learn(learning, scores.acceleration, seed=seed).mask
            else:
                mask = baseline_mask(scores.method, learning, pattern, scores.acceleration, seed)
            stored = np.load(out / "masks" / f"x{scores.acceleration:g}" / f"{scores.method}-{seed}.npy")
            assert stored.dtype == bool
            assert (stored == mask.numpy()).all()
            expected = evaluate(mask, held_out)
            for metric in ("psnr", "ssim", "nmse"):
                assert scores.quality[metric][seed].tolist() == getattr(expected, metric)
            assert scores.achieved[seed] == pytest.approx(480 / pattern.budget(scores.acceleration))
    assert comparison.measured_on == f"{len(held_out)} held-out images of 1 subject, 24 x 20"
    assert {path.name for path in out.iterdir()} == {
        ".lock",
        "compare.json",
        "cells",
        "masks",
        "figures",
        "table.md",
        "table.tex",
        "table.csv",
        "masks.csv",
        "differences.csv",
    }


def test_interrupted_and_started_again(images, tmp_path, problems):
    """Nothing is computed twice, and the result is that of a comparison that was never interrupted."""
    settings = {"seeds": 3, "learned_seeds": 2}

    def stop(done, total, name):
        assert total == 12
        if done == 5:
            raise StopHereError

    with pytest.raises(StopHereError):
        compare(images, [4, 8], QUICK, out=tmp_path / "out", on_cell=stop, **settings)
    assert len(problems) == 5
    first = []
    resumed = compare(
        images, [4, 8], QUICK, out=tmp_path / "out", on_cell=lambda done, *_: first.append(done), **settings
    )
    assert first == list(range(5, 13))
    assert len(problems) == len(distinct(problems)) == 12
    whole = compare(images, [4, 8], QUICK, out=tmp_path / "other", **settings)
    for one, other in zip(resumed.scores, whole.scores, strict=True):
        assert one.method == other.method
        assert all((one.quality[metric] == other.quality[metric]).all() for metric in one.quality)


def test_more_methods_and_seeds_are_added(images, tmp_path, problems):
    compare(images, [4], ["random", "energy"], out=tmp_path / "out", seeds=2)
    compare(images, [4, 8], ["energy", "random", "centre"], out=tmp_path / "out", seeds=3)
    assert len(problems) == len(distinct(problems)) == 3 + 1 + 4 + 2
    rows = list(csv.DictReader((tmp_path / "out" / "masks.csv").read_text().splitlines()))
    assert len(rows) == 2 * (1 + 3 + 1)


def test_another_convention_measures_the_same_masks(images, tmp_path, problems):
    one = compare(images, [4], QUICK, out=tmp_path / "out", seeds=2)
    other = compare(images, [4], QUICK, out=tmp_path / "out", seeds=2, convention="fastmri")
    assert len(problems) == 2 + 1 + 2
    assert one.scores[0].quality["psnr"].shape == (2, 2)  # slices
    assert other.scores[0].quality["psnr"].shape == (2, 1)  # one volume
    assert "maximum" in (tmp_path / "out" / "table.md").read_text()
    again = compare(images, [4], QUICK, out=tmp_path / "out", seeds=2)
    assert len(problems) == 5
    assert (again.scores[0].quality["psnr"] == one.scores[0].quality["psnr"]).all()


@pytest.mark.parametrize("damage", ["record", "mask", "no mask"])
def test_damaged_cells_are_made_again(images, tmp_path, problems, damage):
    out = tmp_path / "out"
    before = compare(images, [4], ["random"], out=out, seeds=2)
    if damage == "record":
        (out / "cells" / "x4" / "random-1.json").write_text('{"quality": ')
    elif damage == "mask":
        (out / "masks" / "x4" / "random-1.npy").write_bytes(b"\x93NUMPY")
        (out / "cells" / "x4" / "random-1.json").unlink()
    else:
        (out / "masks" / "x4" / "random-1.npy").unlink()
    after = compare(images, [4], ["random"], out=out, seeds=2)
    assert distinct(problems[2:]) == {("random", 4.0, 1)}
    assert (after.scores[0].quality["psnr"] == before.scores[0].quality["psnr"]).all()


def test_other_conditions_need_another_folder(images, tmp_path):
    out = tmp_path / "out"
    compare(images, [4], ["energy"], out=out)
    with pytest.raises(InputError, match="another centre, None and not 2: choose another folder"):
        compare(images, [4], ["energy"], out=out, centre=2)
    with pytest.raises(InputError, match="a comparison of other data: choose another folder"):
        compare(from_images(smooth_images(10, size=(24, 20), seed=1)), [4], ["energy"], out=out)
    other = tmp_path / "notes"
    other.mkdir()
    (other / "diary.txt").write_text("today")
    with pytest.raises(InputError, match="exists and is not a comparison"):
        compare(images, [4], ["energy"], out=other)
    assert [path.name for path in other.iterdir()] == ["diary.txt"]
    (out / "compare.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        compare(images, [4], ["energy"], out=out)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"accelerations": []}, "No acceleration was given"),
        ({"accelerations": [0.5]}, "`acceleration` must be at least 1, but is 0.5"),
        (
            {"accelerations": [1000]},
            "energy at x1000: `acceleration` must be from 1 to [0-9]+, the number of samples or lines",
        ),
        ({"seeds": 0}, "at least 1 seed"),
        ({"learned_seeds": 0}, "at least 1 seed"),
        ({"jobs": 0}, "The number of jobs must be at least 1"),
        ({"centre": 12}, "A `centre` of width 12 has 144 samples or lines, but only 120 are acquired"),
        ({"methods": ["best"]}, "Unknown method 'best'"),
        ({"methods": ["energy:3d"]}, "has 1 images, but names 10 subjects"),
        ({"loss": "nice"}, "Unknown loss 'nice'"),
        ({"convention": "mine"}, "Unknown convention 'mine'"),
        ({"axis": [0]}, r"None of the methods undersamples 1 direction"),
        ({"centre": -1}, "The width of the centre must be at least 0, but is -1"),
        ({"methods": ["energy:1d"], "axis": [7]}, "energy:1d at x4: The axes"),
    ],
)
def test_bad_settings_leave_nothing_behind(images, tmp_path, settings, sentence):
    usual = {"accelerations": [4], "methods": ["energy"], "out": tmp_path / "out"}
    with pytest.raises(InputError, match=sentence):
        compare(images, **{**usual, **settings})
    assert not (tmp_path / "out").exists()


def test_centre_and_axis_reach_every_method(images, tmp_path):
    out = tmp_path / "out"
    compare(images, [3], ["random", "energy:1d", "promask:1d", "promask"], out=out, seeds=1, centre=4, axis=[0])
    for path in (out / "masks").rglob("*.npy"):
        mask = np.load(path)
        assert mask[10:14, 8:12].all()
        if "1d" in path.name:
            assert (mask == mask[:, :1]).all()  # rows: the first axis is free


def test_a_single_image_is_measured_on_itself(tmp_path):
    comparison = compare(from_images(smooth_images(1, size=(16, 12))), [4], ["energy"], out=tmp_path / "out")
    assert comparison.measured_on == "1 image, 16 x 12, the same that masks were learned from"


def test_command_line(images, tmp_path, capsys):
    words = ["compare", images, "--accel", "4,6.5", "--methods", "random", "energy", "--seeds", "2"]
    with pytest.raises(SystemExit) as end:
        main([*words, "--out", str(tmp_path / "out"), "--jobs", "1", "--json"])
    assert end.value.code == 0
    content = json.loads(capsys.readouterr().out)
    assert set(content) == {"folder", "data", "measured_on", "rows", "differences", "notes"}
    assert [(row["method"], row["acceleration"]) for row in content["rows"]] == [
        ("random", 4.0),
        ("energy", 4.0),
        ("random", 6.5),
        ("energy", 6.5),
    ]
    with pytest.raises(SystemExit) as end:
        main([*words, "--out", str(tmp_path / "out"), "--jobs", "1", "--convention", "fastmri"])
    assert end.value.code == 0
    text, messages = capsys.readouterr()
    assert "promask: 0 of 6" not in messages
    assert "x6.5" in text
    assert "maximum" in text
    assert str(tmp_path / "out" / "table.md") in text


def test_command_line_says_what_is_wrong(images, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["compare", images, "--accel", "4", "--methods", "best", "--out", str(tmp_path / "out")])
    assert end.value.code == 2
    assert "Unknown method 'best'" in capsys.readouterr().err


def test_volumes(tmp_path):
    """A method for volumes makes the samples volumes, and others take as many of their axes."""
    volumes = smooth_images(3, size=(8, 10, 9), phase=False)[:, 0].float().numpy()
    np.savez(tmp_path / "volumes.npz", image=volumes)
    methods = ["energy:3d", "promask:3d", "energy", "energy:1d"]
    comparison = compare(str(tmp_path / "volumes.npz"), [4], methods, out=tmp_path / "out", seeds=1)
    assert [row.free for row in comparison.scores] == [3, 3, 2, 1]
    for row in comparison.scores:
        mask = np.load(tmp_path / "out" / "masks" / "x4" / f"{row.method.replace(':', '-')}-0.npy")
        assert mask.shape == (8, 10, 9)
    figures = list((tmp_path / "out" / "figures").iterdir())
    assert {path.read_bytes()[:4] for path in figures} == {b"\x89PNG"}


def test_data_that_changed_are_noticed(tmp_path):
    """Whichever image it is."""
    images = smooth_images(40, size=(12, 10), phase=False)[:, 0].float().numpy()
    compare(images, [4], ["energy"], out=tmp_path / "out")
    images[7, 3, 3] += 0.1
    with pytest.raises(InputError, match="a comparison of other data"):
        compare(images, [4], ["energy"], out=tmp_path / "out")


def test_padding_that_changed_is_noticed(tmp_path):
    images = smooth_images(4, size=(12, 10))
    compare(ArraySet(images, "test"), [2], ["random"], out=tmp_path / "out", seeds=1)
    padded = ArraySet(images, "test", geometry=Geometry(extent=((0, 12), (3, 10))))
    with pytest.raises(InputError, match="a comparison of other data"):
        compare(padded, [2], ["random"], out=tmp_path / "out", seeds=1)


def test_accelerations_that_differ_little_have_cells_of_their_own(images, tmp_path):
    comparison = compare(images, [10.666666, 10.6666671], ["random"], out=tmp_path / "out", seeds=1)
    assert comparison.accelerations == [10.666666, 10.6666671]
    assert len(list((tmp_path / "out" / "cells").rglob("*.json"))) == 2


def test_two_at_once(images, tmp_path):
    """The second one is told, and the first one goes on."""
    out = tmp_path / "out"

    def again(done, total, name):
        with pytest.raises(InputError, match="Another comparison is at work in"):
            compare(images, [4], ["energy"], out=out)

    compare(images, [4], ["energy"], out=out, on_cell=again)
    compare(images, [4], ["energy"], out=out)


def test_among_the_data(tmp_path):
    """Its masks are not taken for data when the comparison goes on."""
    np.save(tmp_path / "a.npy", smooth_images(3, size=(12, 10), phase=False)[:, 0].float().numpy())
    first = compare(tmp_path, [4], ["energy"], out=tmp_path / "compared")
    with pytest.warns(InputWarning, match="compared is a comparison of promask and not data"):
        more = compare(tmp_path, [4], ["energy", "centre"], out=tmp_path / "compared")
    assert (more.at(4)[0].quality["psnr"] == first.at(4)[0].quality["psnr"]).all()


def test_a_plain_mask_is_said_to_be_one(tmp_path, monkeypatch):
    """Cells keep it, and the tables say so."""

    def loss(units, samples, pattern, *_):
        return 0.0 if torch.equal(units, pattern.innermost(int(units.sum()))) else 1.0

    monkeypatch.setattr("promask.learning.selection.mean_loss", loss)
    out = tmp_path / "out"
    images = from_images(smooth_images(4, size=(16, 12)))
    comparison = compare(images, [4, 8], ["centre", "promask:ssim"], out=out, seeds=2)
    centre, learned = comparison.at(8)
    assert centre.references == [None]
    assert learned.references == ["centre", "centre"]
    assert (learned.quality["psnr"] == centre.quality["psnr"]).all()
    for name in ("table.md", "table.tex"):
        assert "promask:ssim ended with the mask of centre at x4, x8." in (out / name).read_text()


def test_what_was_there_is_told(images, tmp_path, capsys):
    words = ["compare", images, "--accel", "4", "--seeds", "2", "--out", str(tmp_path / "out"), "--jobs", "1"]
    for methods, there in (
        (["random"], None),
        (["random", "energy"], "promask: 2 of 3 masks were there already."),
    ):
        with pytest.raises(SystemExit) as end:
            main([*words, "--methods", *methods])
        assert end.value.code == 0
        errors = capsys.readouterr().err
        assert "were there" not in errors if there is None else there in errors
