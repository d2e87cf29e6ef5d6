"""Spokes in the studio: asked for by their number, learned, drawn and refused."""

import json
import shlex

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from studio_helpers import asked, events_of, images_file, run_of, sent

from promask.sampling.pattern import Pattern
from promask.studio.processes import describe_pattern, encode_probabilities
from promask.types import Geometry

WISH = {"spokes": 4, "pattern": "radial", "recon": "gridding", "steps": 2}


@pytest.fixture
def upload(client, tmp_path):
    """Six images of three subjects, 24 x 24, which were looked at."""
    found = sent(client, images_file(tmp_path / "scans.npz"))
    assert client.get(f"/api/uploads/{found}").json()["shape"] == [24, 24]
    return found


def test_spokes_are_counted(client, upload):
    checked = client.post("/api/check", json={"upload": upload, **WISH}).json()
    assert checked["budget"] == {"acquired": 4, "units": 96, "complete": 38}
    words = shlex.split(checked["command"])
    assert words[:5] == ["promask", "learn", "scans.npz", "--spokes", "4"]
    assert words[-1] == "runs/scans-4-spokes"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"acceleration": 4}, "Give either the acceleration or the number of spokes."),
        ({"spokes": None}, "Give either the acceleration or the number of spokes."),
        ({"spokes": 50}, "50 spokes are more than a complete scan has: 38 for images of 24 x 24."),
        ({"pattern": "2d"}, "spokes is for spokes and spirals"),
        ({"recon": "sense"}, "sense reconstructs Cartesian k-space, but the pattern is radial"),
        ({"centre": 4}, "centre is for Cartesian patterns"),
    ],
)
def test_what_does_not_go_with_spokes_is_refused(client, upload, change, sentence):
    answer = client.post("/api/check", json={"upload": upload, **WISH, **change})
    assert answer.status_code == 400
    assert sentence.removesuffix(".") in answer.json()["error"]


def test_spokes_are_learned_as_on_the_command_line(client, commands, undrawn, upload, tmp_path):
    job = asked(client, upload=upload, **WISH)
    last = events_of(client, job["id"])[-1]
    assert last["state"] == "done"
    assert (last["shape"], last["varies"], last["period"]) == ([96, 48], False, pytest.approx(np.pi))
    assert last["units"]["shape"] == [96]
    images_file(tmp_path / "scans.npz")
    words = shlex.split(job["command"])
    commands(*words[1:])
    there = run_of(client, job["id"])
    assert there["mask.npy"] == (tmp_path / words[-1] / "mask.npy").read_bytes()
    assert json.loads(there["run.json"])["config"]["spokes"] == 4


def test_spokes_are_drawn(tab, server):
    tab.goto(server.url)
    pattern = Pattern.on((24, 24), Geometry(), "radial")
    units = torch.zeros(96)
    units[24] = 1  # 45 degrees, from kx to ky
    tab.evaluate("told => drawUnits(...told)", [encode_probabilities(units), describe_pattern(pattern)])
    assert tab.evaluate("[canvas.width, canvas.height]") == [257, 257]
    colour = "(x, y) => [...document.getElementById('canvas').getContext('2d').getImageData(x, y, 1, 1).data]"
    yellow = [253, 231, 36, 255]
    assert tab.evaluate(f"({colour})(128, 128)") == yellow
    assert tab.evaluate(f"({colour})(188, 188)") == yellow, "downwards to the right"
    assert tab.evaluate(f"({colour})(188, 68)") != yellow
    frames = Pattern.on((5, 24, 24), Geometry().series("frame", 5), "kt-radial")
    told = [encode_probabilities(torch.ones(5, 96)), describe_pattern(frames)]
    tab.evaluate("told => drawUnits(...told)", told)
    assert tab.evaluate("[canvas.width, canvas.height]") == [96, 5]


def test_the_page_asks_for_a_number_of_spokes(tab, server):
    tab.goto(server.url)
    expect(tab.locator("#budget")).to_contain_text("locations are acquired.", timeout=30_000)
    tab.check("input[value='radial']")
    expect(tab.locator("#acceleration")).to_be_hidden()
    expect(tab.locator("#recon")).to_have_value("gridding")
    tab.fill("#spokes", "20")
    expect(tab.locator("#budget")).to_contain_text(
        "20 of 384 spokes are acquired; a complete scan has", timeout=30_000
    )
    expect(tab.locator("#command")).to_contain_text("--spokes 20 --pattern radial")
    tab.check("input[value='2d']")
    expect(tab.locator("#acceleration")).to_be_visible()
    expect(tab.locator("#recon")).to_have_value("zero-filled")
