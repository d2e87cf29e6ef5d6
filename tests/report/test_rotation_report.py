"""The report of spokes: what it draws, what it says, and what it compares."""

import json
import math
import re
import shlex

import numpy as np
import pytest
import torch
from reports import content_of, smooth_images

from promask import Run, learn
from promask.data.reading import Reading
from promask.data.sources import load
from promask.evaluation.rotations import angular_energy
from promask.report import wording
from promask.report.measurements import OF_ROTATIONS, measure_run
from promask.report.page import report_page, write_report
from promask.report.rotations import pictures
from promask.sampling.angles import AngularDensity
from promask.sampling.pattern import Pattern
from promask.types import Geometry


@pytest.fixture(scope="module")
def spokes():
    """A run, its data, and what was measured of it."""
    images = smooth_images(size=(20, 20)).images.abs().squeeze(1).numpy()
    data = load(images, Reading(trajectory="radial", coils=2))
    run = learn(data, pattern="radial", spokes=6, steps=3, recon="cg-sense", iterations=3)
    measurements = measure_run(run, data)
    return measurements.add_to(run), data, measurements


def test_the_page_draws_the_acquired_spokes(spokes):
    run, _, measurements = spokes
    page = report_page(run, measurements)
    (path,) = re.findall(r'<path class="acquired"[^>]* d="([^"]*)"', page)
    ends = np.array([[float(n) for n in re.split("[ L]", each)] for each in path.split("M")[1:]])
    angles = np.degrees(np.arctan2(ends[:, 3] - ends[:, 1], ends[:, 2] - ends[:, 0])) % 180
    chosen = run.distribution.pattern.restrict(run.mask).nonzero().flatten()
    np.testing.assert_allclose(angles, 180 * chosen / 96, atol=0.05)
    (ring,) = re.findall(r'<path class="candidates"[^>]* d="([^"]*)"', page)
    assert ring.count("M") == 2 * 96
    assert "<canvas" not in page
    content = content_of(page)
    assert content["mask"] is None
    assert content["trajectory"] is None
    assert set(content["masks"]) == {"promask", *OF_ROTATIONS}
    assert all(each.startswith("data:image/png") for each in content["masks"].values())


def test_the_page_speaks_of_spokes(spokes):
    run, _, measurements = spokes
    page = report_page(run, measurements)
    assert "<h1>6 spokes (x5.333) for " in page
    assert "6 of 96 spokes (a complete scan has 32)" in page
    assert "at each of the 96 angles to choose from, 1.88 degrees apart" in page
    assert "96 angles at equal steps, 40 samples each; a complete scan has 32" in page
    for word in ("White is acquired", "Point at a place", " lines", "undersampled directions"):
        assert word not in page.partition("<script")[0], word
    card = next(wording.cards(run, measurements))
    assert (card["name"], card["value"]) == ("spokes", "6")
    table = wording.physics_table(measurements.physics, measurements.noise)
    assert table["headings"][:2] == ["mask", "spokes"]
    assert [row["name"] for row in table["rows"]] == ["promask", *OF_ROTATIONS]
    assert all(row["cells"][0] == "6" for row in table["rows"])
    assert all(len(row["cells"]) == len(table["headings"]) - 1 for row in table["rows"])


def test_uniform_spokes_that_were_kept_are_told(spokes):
    run = spokes[0].with_record(reference="uniform")
    sentence = (
        "Kept uniform spokes: no density of angles was certainly better (0.1 dB and two standard errors) over "
    )
    assert next(wording.notes(run, None)).startswith(sentence)
    assert sentence in repr(run)


def test_what_is_measured_is_kept(spokes, tmp_path):
    run, data, measurements = spokes
    run.save(tmp_path / "run")
    write_report(run, tmp_path / "run", measurements)
    record = json.loads((tmp_path / "run" / "run.json").read_text())["about"]["evaluation"]
    assert record["density"]["angles"]["complete"] == 32
    assert record["point_spread"]["directions"] == ["ky", "kx"]
    assert record["noise"]["acceleration"] == pytest.approx(20 / 6)
    again = Run.load(tmp_path / "run")
    assert again.record.evaluation.density == run.record.evaluation.density
    expected = angular_energy([data[index] for index in range(len(data))], run.distribution.pattern)
    torch.testing.assert_close(measurements.energy, expected)


def test_the_lines_of_python_tell_the_angles(spokes, tmp_path, monkeypatch):
    run = spokes[0]
    run.save(tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    known = {}
    exec(wording.python(run), known)
    chosen = run.distribution.pattern.restrict(run.mask).nonzero().flatten()
    np.testing.assert_allclose(known["degrees"], 180 * chosen / 96)


def test_the_commands_for_other_programs_are_accepted(spokes, tmp_path, monkeypatch, commands):
    run = spokes[0]
    run.save(tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    for line in wording.exports(run).splitlines():
        program, *words = shlex.split(line, comments=True)
        assert program == "promask"
        commands(*words)
    assert {path.suffix for path in tmp_path.iterdir() if path.is_file()} >= {".csv", ".npy", ".cfl", ".mrd"}


def test_frames_and_partitions_are_rows():
    for pattern, rows, name in (
        (Pattern.on((4, 16, 16), Geometry().series("frame", 4), "kt-radial"), 4, "frames"),
        (Pattern.on((3, 16, 16), Geometry(), "stack-of-stars"), 3, "kz"),
    ):
        units = AngularDensity(turn=0.5).place(pattern, 4 * rows)
        _, of_rows = pictures(units, pattern)
        assert of_rows["caption"].endswith(f"{name} downwards")
        (marks,) = re.findall(r'class="acquired" d="([^"]*)"', of_rows["svg"])
        places = [[float(n) for n in re.split("[ v]", each)] for each in marks.split("M")[1:]]
        assert len(places) == int(units.sum())
        by_row = units if pattern.varies else units.T
        row, place = by_row.nonzero().T.tolist()
        height = 24
        assert [math.floor(y / height) for _, y, _ in places] == row
        np.testing.assert_allclose([x for x, _, _ in places], (np.array(place) + 0.5) * 5, atol=0.06)
