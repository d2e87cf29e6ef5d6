"""The report of a run on series of frames."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from reports import content_of

from promask import Run, learn
from promask.data.builtin.cine import cine
from promask.data.reading import Reading
from promask.data.sources import load
from promask.report import measurements, motion
from promask.report.measurements import measure_run
from promask.report.page import report_page
from promask.report.wording import cards

FRAMES, SIZE = 6, 32
READING = Reading(axes="slice frame y x", coils=2)


@pytest.fixture(scope="module")
def measured():
    made = cine(subjects=3, frames=FRAMES, size=SIZE)
    data = load(made.image, READING)
    run = learn(data, 4, pattern="kt", recon="view-sharing", learner="exchange", steps=1, part="all")
    measurements = measure_run(run, data)
    return measurements.add_to(run), measurements


@pytest.fixture(scope="module")
def page(measured):
    return report_page(*measured)


def test_the_report_speaks_of_series_and_frames(measured, page):
    run, _ = measured
    assert f"8 of 32 lines in each of {FRAMES} frames" in page
    assert "3 series" in page
    assert "volume" not in content_free(page)
    assert "fastmri" not in page.partition('id="use"')[2].partition("</section>")[0]
    assert f"8 of 32 lines in each of {FRAMES} frames of 32 x 32, learned from 3 series" in repr(run)
    assert "in what moves" in repr(run)


def test_a_gain_is_told_with_how_many_series_it_is_the_mean_of(measured, page):
    run, found = measured
    assert found.images == 3
    (gain,) = (card for card in cards(run, found) if "against" in card["name"])
    assert gain["note"].endswith("; mean of 3 series")
    (alone,) = (card for card in cards(run, replace(found, images=1)) if "against" in card["name"])
    assert alone["note"].endswith("; 1 series only")


def test_large_series_are_compared_on_several(monkeypatch):
    """A single heart says little of others: however large series are, up to four are looked at."""
    monkeypatch.setattr(measurements, "MOST_VALUES", 1)
    data = load(cine(subjects=9, frames=FRAMES, size=SIZE).image, READING)
    run = learn(data, 4, pattern="kt", recon="view-sharing", learner="exchange", steps=1, part="all")
    assert measure_run(run, data).images == 4


def test_a_run_that_was_loaded_is_beside_the_same_masks(tmp_path, monkeypatch):
    """Reference masks are tuned with priors that have not seen the patient, though only the prior was kept."""
    made = cine(subjects=8, frames=FRAMES, size=SIZE)
    np.savez(tmp_path / "cine.npz", image=made.image, subject=made.subject)
    data = load(tmp_path / "cine.npz", READING)
    run = learn(data, 4, pattern="kt", recon="kt-sense", learner="exchange", steps=1)
    run.save(tmp_path / "run")
    loaded, used, make = Run.load(tmp_path / "run"), [], measurements.make_mask
    assert loaded.reconstruction().unseen is None
    monkeypatch.setattr(measurements, "OF_FRAMES", ("static-energy",))
    monkeypatch.setattr(measurements, "make_mask", lambda about, cell: used.append(about) or make(about, cell))
    measure_run(loaded, data)
    assert torch.allclose(used[0].recon.unseen, run.reconstruction().unseen)


def content_free(page):
    return page.partition("<details>")[0].partition("</style>")[2]


def test_a_frozen_heart_is_in_the_table(measured, page):
    _, measurements = measured
    compared = content_of(page)["compared"]
    assert [column["title"] for column in compared["columns"]] == [
        "acceleration",
        "PSNR (dB)",
        "PSNR moving (dB)",
        "SSIM",
        "NMSE",
        "NMSE differences",
    ]
    first, second = compared["rows"][:2]
    assert [cell["text"] for cell in first["cells"]][:2] == ["frozen heart", "-"]
    assert first["cells"][-1]["value"] == pytest.approx(1)
    assert not any("best" in cell for cell in first["cells"])
    assert second["cells"][0]["text"] == "promask"
    assert first["cells"][2]["value"] == pytest.approx(
        measurements.compared["promask"]["frozen"]["psnr"], rel=1e-5
    )


def test_the_film_has_all_frames_of_three_panels(measured, page):
    _, measurements = measured
    film = content_of(page)["film"]
    assert film["frames"] == FRAMES
    assert [panel["name"] for panel in film["panels"]] == ["fully sampled", *motion.shown_masks(measurements)]
    assert len(film["panels"]) == 3
    strip = base64.b64decode(film["panels"][0]["strip"].partition(",")[2])
    with Image.open(io.BytesIO(strip)) as picture:
        levels = np.asarray(picture, float).reshape(FRAMES, SIZE, SIZE)
    target = motion.shown_series(measurements).target.numpy()
    wanted = (255 * target / np.quantile(target, 0.995)).clip(0, 255)
    assert np.abs(levels - wanted).mean() < 3
    assert {len(curve) for curve in film["over_time"].values()} == {FRAMES}


def test_the_map_of_the_mask_has_frames_downwards(measured, page):
    run, _ = measured
    shown = content_of(page)["mask"]
    assert shown["shape"] == [FRAMES, SIZE]
    assert shown["directions"] == ["frame", "ky"]
    assert shown["centre"] == [0, SIZE // 2]
    assert run.record.evaluation.frozen is not None


def test_the_film_can_be_moved(page, tmp_path, tab):
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    tab.goto(path.as_uri())
    tab.wait_for_selector("#reel-frame[data-ready]")
    assert tab.inner_text("#reel-number") == f"frame 1 of {FRAMES}"
    tab.fill("#reel-frame", "3")
    assert tab.inner_text("#reel-number") == f"frame 4 of {FRAMES}"
    tab.click("#reel-play")
    assert tab.inner_text("#reel-play") == "Pause"
    tab.wait_for_function("document.getElementById('reel-number').textContent.startsWith('frame 1 ')")
    tab.click("#reel-play")
    assert tab.inner_text("#reel-play") == "Play"
