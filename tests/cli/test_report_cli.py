"""promask report, and the report that promask learn leaves."""

import html
import json

import numpy as np
import pytest
from comparisons import heart_file, heart_network
from reports import content_of, smooth_images

from promask import Run, learn


@pytest.fixture
def scans(tmp_path):
    data = smooth_images()
    path = tmp_path / "scans.npz"
    np.savez(path, image=data.images[:, 0].numpy(), subject=np.array(data.subjects))
    return path


def test_learn_leaves_a_report_that_can_be_made_again(commands, scans, tmp_path):
    commands("learn", scans, "--accel", 4, "--steps", 3, "--out", "run")
    page = (tmp_path / "run" / "report.html").read_text()
    content = content_of(page)
    assert len(content["examples"]) == 2
    assert "promask learn" in page
    (tmp_path / "run" / "report.html").unlink()
    said = commands("report", "run")
    assert said.startswith("run/report.html: ")
    assert (tmp_path / "run" / "report.html").read_text() == page


def test_what_other_masks_reach_is_in_the_record(commands, undrawn, scans, tmp_path):
    said = json.loads(commands("learn", scans, "--accel", 4, "--steps", 3, "--out", "run", "--json"))
    record = json.loads((tmp_path / "run" / "run.json").read_text())["about"]
    assert record["compared"]["masks"]["promask"]["psnr"] == pytest.approx(record["evaluation"]["psnr"])
    assert {"energy", "centre", "equispaced"} <= set(record["compared"]["masks"])
    assert said["compared"] == record["compared"]


def test_masks_beside(commands, undrawn, scans, tmp_path):
    commands("learn", scans, "--accel", 4, "--steps", 2, "--out", "run")
    page = tmp_path / "run" / "report.html"
    np.save("mask.npy", np.arange(20) % 4 == 0)
    commands("report", "--beside", "mine=mask.npy", "my-old=run", "run")
    rows = [row["cells"] for row in content_of(page.read_text())["compared"]["rows"]]
    assert [cells[0]["text"] for cells in rows][-2:] == ["mine", "my-old"]
    wanted = json.loads(commands("evaluate", "mask.npy", scans, "--json"))
    assert rows[-2][2]["value"] == pytest.approx(wanted["psnr"], rel=1e-5)
    written = page.stat().st_mtime_ns
    np.save("mask.npy", np.arange(21) % 4 == 0)
    for words, sentence in (
        (["mine=mask.npy"], "mine: The mask has shape [21], but the k-space of the data has shape [24, 20]"),
        (["mine"], "'mine' is not NAME=FILE or NAME=RUN, such as mine=mask.npy."),
        (["mine=run", "mine=mask.npy"], "Two masks are called 'mine'"),
    ):
        assert sentence in commands("report", "run", "--beside", *words, status=2)
    scans.unlink()
    assert "choose others with --data" in commands("report", "run", "--beside", "mine=run", status=2)
    assert page.stat().st_mtime_ns == written


def test_a_mask_that_could_be_better_is_said_to_be(commands, undrawn, scans, tmp_path):
    run = ("learn", scans, "--accel", 4, "--steps", 3, "--out", "run")
    said = json.loads(commands(*run, "--json"))
    quality = {name: row["psnr"] for name, row in said["compared"]["masks"].items()}
    best = max(quality, key=quality.get)
    assert best != "promask"
    difference = quality[best] - quality["promask"]
    assert said["behind"] == {"mask": best, "metric": "psnr", "difference": pytest.approx(difference)}
    assert said["more_steps"] == 9
    text, page = commands(*run, "--resume"), html.unescape((tmp_path / "run" / "report.html").read_text())
    for told in (
        f"The learned mask is {difference:.2f} dB behind {best} in PSNR on these images: more steps (--steps), or",
        "Learning used all 3 steps before the mask settled: --steps 9 may improve it.",
    ):
        assert told in text
        assert told in page


def test_a_run_of_python_gets_its_images_when_they_are_named(commands, undrawn, scans, tmp_path):
    learn(smooth_images().images, 4, steps=2).save(tmp_path / "run")
    commands("report", "run")
    page = tmp_path / "run" / "report.html"
    assert content_of(page.read_text())["examples"] == []
    commands("report", "run", "--data", scans)
    assert len(content_of(page.read_text())["examples"]) > 0


def test_a_run_without_its_data_still_has_a_report(commands, undrawn, scans, tmp_path, capsys):
    commands("learn", scans, "--accel", 4, "--steps", 2, "--out", "run")
    scans.rename(tmp_path / "moved.npz")
    from promask.cli.main import main

    with pytest.raises(SystemExit) as stop:
        main(["report", "run"])
    assert stop.value.code == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no images" in said
    assert "--data" in said
    assert Run.load(tmp_path / "run").record.evaluation


def test_mistakes_are_one_sentence(commands, undrawn, scans, tmp_path):
    assert "not a run" in commands("report", tmp_path, status=2)
    learn(smooth_images().images, 4, steps=2).save(tmp_path / "run")
    assert "missing.npz" in commands("report", "run", "--data", "missing.npz", status=2)
    np.savez(tmp_path / "other.npz", image=np.random.default_rng(0).random((3, 30, 30)))
    assert "--size" in commands("report", "run", "--data", "other.npz", status=2)


def test_a_report_that_fails_does_not_lose_the_mask(commands, undrawn, scans, tmp_path, monkeypatch):
    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("promask.report.pipeline.write_report", full)
    said = commands("learn", scans, "--accel", 4, "--steps", 2, "--out", "run", status=1)
    assert said == (
        "promask: The mask is in run, but not its report: No space left on device. "
        "promask report run tries again.\n"
    )
    assert np.load(tmp_path / "run" / "mask.npy").sum() == 120
    monkeypatch.undo()
    commands("report", tmp_path / "run")
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_network_and_images_without_labels(commands, undrawn, tmp_path, capsys):
    heart_network(steps=5).save("unet.safetensors")
    heart_file(tmp_path / "hearts.npz")
    commands("learn", "hearts.npz", "--network", "unet.safetensors", "--accel", 4, "--steps", 1, "--out", "run")
    page = tmp_path / "run" / "report.html"
    assert "What the network finds" in page.read_text()
    assert "Dice against" in page.read_text()
    with np.load("hearts.npz") as hearts:
        np.savez("bare.npz", image=hearts["image"])
    from promask.cli.main import main

    with pytest.raises(SystemExit) as stop:
        main(["report", "run", "--data", "bare.npz"])
    assert stop.value.code == 0
    assert "without the network" in capsys.readouterr().err
    assert "Dice against" not in page.read_text()
    assert "PSNR against" in page.read_text()


def test_labels_that_are_in_no_image(commands, undrawn, tmp_path):
    heart_network(steps=5).save("unet.safetensors")
    heart_file(tmp_path / "hearts.npz")
    with np.load("hearts.npz") as hearts:
        content = dict(hearts)
    run = ("--network", "unet.safetensors", "--accel", 4, "--steps", 1)
    commands("learn", "hearts.npz", *run, "--out", "run")
    content["label"] = np.zeros_like(content["label"])
    np.savez("empty.npz", **content)
    commands("report", "run", "--data", "empty.npz")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Dice against" not in page
    assert "PSNR against" in page
