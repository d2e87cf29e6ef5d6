"""Series of frames in the studio: what is suggested, learned, shown and refused."""

import base64
import json
import shlex

import numpy as np
import pytest
import torch
from moving import AXES, moving_file, moving_images
from playwright.sync_api import expect
from reports import content_of
from studio_helpers import asked, events_of, kspace_file, run_of, sent

from promask.recon import RECONSTRUCTIONS, names_temporal
from promask.studio.processes import describe_pattern, encode_probabilities

LEARNED = {"acceleration": 4, "axes": AXES, "pattern": "kt", "recon": "kt-sense", "coils": 2, "steps": 4}


@pytest.fixture
def cine(tmp_path):
    """A file of six series of three subjects: six frames of 24 x 16."""
    moving_file(tmp_path / "cine.npz", series=6)
    return tmp_path / "cine.npz"


@pytest.fixture
def upload(client, cine):
    """Its upload, which was looked at."""
    sent_file = sent(client, cine)
    assert client.get(f"/api/uploads/{sent_file}", params={"axes": AXES}).json()["series"] is True
    return sent_file


def test_frames_are_suggested_to_be_learned_together(client, tmp_path):
    upload = sent(client, kspace_file(tmp_path / "cine.npy"))
    wish = {"upload": upload, "acceleration": 4, "axes": "frame ky kx"}
    found = client.get(f"/api/uploads/{upload}", params={"axes": "frame ky kx"}).json()
    assert [found[name] for name in ("frames", "series", "pattern", "recon")] == [6, True, "kt", "kt-sense"]
    assert found["shape"] == [24, 20]
    checked = client.post("/api/check", json=wish).json()
    assert checked["budget"] == {"acquired": 36, "units": 144, "frames": 6}
    assert checked["command"] == "promask learn cine.npy --axes 'frame ky kx' --accel 4 --out runs/cine-x4"


def test_each_frame_may_be_an_image_of_its_own(client, tmp_path):
    upload = sent(client, kspace_file(tmp_path / "cine.npy"))
    settings = {"axes": "frame ky kx", "each_frame": True}
    found = client.get(f"/api/uploads/{upload}", params=settings).json()
    assert [found[name] for name in ("frames", "series", "pattern", "recon")] == [6, False, "1d", "zero-filled"]
    checked = client.post("/api/check", json={"upload": upload, "acceleration": 4, **settings}).json()
    assert checked["budget"] == {"acquired": 6, "units": 24}
    assert "--axes 'frame ky kx' --each-frame --accel 4" in checked["command"]


def test_built_in_series_are_known_in_both_ways(client):
    for each_frame, pattern in ((False, "kt"), (True, "2d")):
        found = client.get("/api/data/cine", params={"each_frame": each_frame}).json()
        assert (found["frames"], found["series"], found["pattern"]) == (20, not each_frame, pattern)
    wish = {"data": "cine", "acceleration": 8}
    series = client.post("/api/check", json=wish).json()["budget"]
    assert series == {"acquired": 240, "units": 1920, "frames": 20}
    single = client.post("/api/check", json={**wish, "each_frame": True}).json()
    assert single["budget"] == {"acquired": 96 * 96 // 8, "units": 96 * 96}
    assert single["command"] == "promask learn cine --each-frame --accel 8 --out runs/cine-x8"


@pytest.mark.parametrize(
    ("wish", "budget", "words"),
    [
        ({"period": 3}, {"acquired": 18, "units": 72, "frames": 3}, "--period 3"),
        (
            {"equal_per": "none", "acceleration": 5},
            {"acquired": 28, "units": 144, "frames": 6},
            "--equal-per none",
        ),
        (
            {"equal_per": "frame=3", "acceleration": 5},
            {"acquired": 28, "units": 144, "frames": 6},
            "--equal-per frame=3",
        ),
        ({"axis": "kx"}, {"acquired": 24, "units": 96, "frames": 6}, "--axis kx"),
        ({"pattern": "kt-2d"}, {"acquired": 576, "units": 2304, "frames": 6}, "--pattern kt-2d"),
        ({"pattern": "1d", "recon": "kt-cs"}, {"acquired": 6, "units": 24}, "--pattern 1d --recon kt-cs"),
        ({"noise": 0.01, "loss": "mse"}, {"acquired": 36, "units": 144, "frames": 6}, "--noise 0.01"),
    ],
)
def test_limits_of_series(client, upload, wish, budget, words):
    checked = client.post("/api/check", json={"upload": upload, **LEARNED, **wish}).json()
    assert checked["budget"] == budget
    assert words in checked["command"]


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"period": 4}, "period must divide the number of frames, but is 4 for 6 frames"),
        ({"equal_per": "frame=4"}, "equal_per frame=4 needs a number that divides the 6 frames"),
        ({"equal_per": "always"}, "There is no direction 'always'"),
        (
            {"pattern": "1d", "period": 3},
            "period is for frames that have their own pattern: choose the pattern kt",
        ),
        ({"axis": 0}, "would undersample the axis of frames"),
        ({"noise": -1}, "noise must be"),
        ({"acceleration": 30}, "at least 6 samples"),
        ({"pattern": "kt-2d", "readout": "kx"}, "would undersample kx, the readout"),
        ({"each_frame": True, "recon": "cs"}, "The pattern kt is for frames, but the data have none"),
        ({"each_frame": True, "pattern": "2d"}, "kt-sense reconstructs series of frames, but cine.npz has none"),
        (
            {"each_frame": True, "pattern": "2d", "recon": "cs", "loss": "motion"},
            "The loss motion is for series of frames, but cine.npz has none",
        ),
    ],
)
def test_what_is_impossible_is_one_sentence(client, upload, wish, words):
    wish = {"upload": upload, **LEARNED, **wish}
    reading = {name: wish[name] for name in ("axes", "each_frame", "readout") if name in wish}
    client.get(f"/api/uploads/{upload}", params=reading)
    for call in ("check", "jobs"):
        answer = client.post(f"/api/{call}", json=wish)
        assert answer.status_code == 400
        sentence = answer.json()["error"]
        assert words in sentence
        assert not {"\n", "`"} & set(sentence)


@pytest.mark.parametrize("recon", [name for name in RECONSTRUCTIONS if names_temporal(name)])
def test_every_temporal_reconstruction_can_be_chosen(client, upload, recon):
    command = client.post("/api/check", json={"upload": upload, **LEARNED, "recon": recon}).json()["command"]
    assert shlex.split(command)[7:11] == ["--pattern", "kt", "--recon", recon]


def test_series_are_learned_as_on_the_command_line(client, cine, upload, commands, tmp_path):
    """With a mask of one's own beside it; the report has the film and the frozen heart."""
    own = np.zeros((6, 24), bool)
    own[:, 12] = own[np.arange(6), np.arange(6)] = True
    np.save(tmp_path / "own.npy", own)
    mask = sent(client, tmp_path / "own.npy")
    assert client.get(f"/api/uploads/{mask}/mask").json()["shape"] == [6, 24]
    job = asked(client, upload=upload, mask=mask, **LEARNED, noise=0.01, period=3)
    assert (job["free"], job["shape"], job["varies"]) == ([0, 1], [6, 24, 16], True), "known beforehand"
    last = events_of(client, job["id"])[-1]
    assert last["state"] == "done", last["error"]
    assert last["units"]["shape"] == [3, 24]
    shown = np.frombuffer(base64.b64decode(last["units"]["bytes"]), np.uint8).reshape(3, 24)
    assert (shown.sum(1) == 6 * 255).all(), "equal numbers in every frame"
    assert (last["summary"]["series"], last["summary"]["held_out"]) == (True, True)
    assert last["summary"]["evaluation"]["psnr_moving"] is not None
    there = run_of(client, job["id"])
    learn, report = job["command"].split(" && ")
    assert learn == (
        "promask learn cine.npz --axes 'slice frame y x' --accel 4 --pattern kt --recon kt-sense --steps 4 "
        "--period 3 --coils 2 --noise 0.01 --out runs/cine-x4"
    )
    assert report == "promask report runs/cine-x4 --beside yours=own.npy"
    commands(*shlex.split(learn)[1:])
    for name in ("mask.npy", "probabilities.npy", "prior.npy"):
        assert there[name] == (tmp_path / "runs/cine-x4" / name).read_bytes(), name
    assert json.loads(there["run.json"])["config"]["loss"] == "motion", "the usual one"
    page = content_of(client.get(f"/api/jobs/{job['id']}/report.html").text)
    assert page["film"]["frames"] == 6
    names = [row["cells"][0]["text"] for row in page["compared"]["rows"]]
    assert {"frozen heart", "kt-lattice", "kt-golden", "yours"} <= set(names)


def test_volumes_with_frames_have_locations_of_each_frame(client, tmp_path):
    volumes = np.stack([moving_images(4, 4, (12, 10)).numpy()] * 8, 2)
    np.savez(tmp_path / "flow.npz", image=volumes)
    upload, axes = sent(client, tmp_path / "flow.npz"), "slice frame x y z"
    found = client.get(f"/api/uploads/{upload}", params={"axes": axes, "readout": "kx"}).json()
    assert [found[name] for name in ("shape", "pattern", "recon")] == [[8, 12, 10], "kt-2d", "kt-sense"]
    wish = {"upload": upload, "axes": axes, "readout": "kx", "acceleration": 4, "recon": "temporal-average"}
    job = asked(client, **wish, pattern="kt-2d", steps=2)
    assert (job["free"], job["shape"], job["directions"]) == (
        [0, 2, 3],
        [4, 8, 12, 10],
        ["frame", "kx", "ky", "kz"],
    )
    last = events_of(client, job["id"])[-1]
    assert (last["state"], last["error"]) == ("done", None)
    assert last["units"]["shape"] == [4, 12, 10]


def test_the_page_learns_series(tab, server, cine):
    """From the file to the report: what is suggested, the lines of each frame, locations, and back to images."""
    tab.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    tab.goto(server.url)
    tab.set_input_files("#files", cine)
    expect(tab.locator("#choices button").first).to_be_visible()
    tab.click("#reading summary")
    tab.fill("#axes", AXES)
    tab.keyboard.press("Enter")
    expect(tab.locator("#about-data")).to_contain_text("6 frames")
    expect(tab.locator("input[value='kt']")).to_be_checked()
    expect(tab.locator("input[value='motion']")).to_be_checked()
    tab.fill("#acceleration", "4")
    expect(tab.locator("#budget")).to_have_text("6 of 24 lines of every frame are acquired.")
    tab.click("#more summary")
    expect(tab.locator("#recon")).to_have_value("kt-sense")
    tab.select_option("#recon", "view-sharing")
    tab.select_option("#period", "3")
    tab.fill("#noise", "0.01")
    tab.fill("#steps", "2")
    expect(tab.locator("#axis")).to_have_text("ky: lines run across" + "kx: lines run down")
    expect(tab.locator("#command")).to_have_text(
        "promask learn cine.npz --axes 'slice frame y x' --accel 4 --recon view-sharing --steps 2 --period 3 "
        "--noise 0.01 --out runs/cine-x4"
    )
    tab.click("#learn")
    expect(tab.locator("#state")).to_contain_text("dB in what moves")
    expect(tab.frame_locator("#report").locator("h2", has_text="In motion")).to_be_visible()
    tab.click("#tab-mask")
    assert tab.evaluate("[canvas.width, canvas.height]") == [24, 3]
    expect(tab.locator("#down")).to_have_text("frame")
    expect(tab.locator("#across")).to_have_text("ky")
    box = tab.locator("#canvas").bounding_box()
    tab.hover("#canvas", position={"x": box["width"] * 12.5 / 24, "y": box["height"] * 1.5 / 3})
    expect(tab.locator("#hover")).to_contain_text("ky 0, frame 2: probability")
    draw_locations(tab)
    tab.check("#each_frame")
    expect(tab.locator("#command")).to_contain_text("--each-frame --accel 4 --steps 2")
    expect(tab.locator("input[value='kt']")).to_be_hidden()
    expect(tab.locator("#recon")).to_have_value("zero-filled")
    expect(tab.locator("input[value='mse']")).to_be_checked()
    expect(tab.locator("#period")).to_be_hidden()


def draw_locations(tab):
    """The locations of six frames are pictures beside each other."""
    from promask.sampling.pattern import Pattern

    pattern = Pattern((6, 5, 4, 3), free=(0, 2, 3), indexed="frame", directions=("frame", "kx", "ky", "kz"))
    units = torch.zeros(6, 4, 3)
    units[4, 2, 1] = 1
    tab.evaluate("told => drawUnits(...told)", [encode_probabilities(units), describe_pattern(pattern)])
    assert tab.evaluate("[canvas.width, canvas.height]") == [3 * 4 - 1, 2 * 5 - 1]
    colour = "(x, y) => [...document.getElementById('canvas').getContext('2d').getImageData(x, y, 1, 1).data]"
    assert tab.evaluate(f"({colour})(4 + 1, 5 + 2)") == [253, 231, 36, 255], "frame 5, in its middle"
    assert tab.evaluate(f"({colour})(3, 0)") == [128, 128, 128, 255], "between frames"
    box = tab.locator("#canvas").bounding_box()
    tab.hover("#canvas", position={"x": box["width"] * 5.5 / 11, "y": box["height"] * 7.5 / 9})
    expect(tab.locator("#hover")).to_have_text("kz 0, ky 0, frame 5: probability 1.00")
