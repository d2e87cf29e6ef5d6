"""Reconstructions on the command line: a run knows its own, and bad settings get one sentence."""

import json

import numpy as np
import pytest

from helpers import smooth_images
from promask import Run, evaluate
from promask.data.builtin.cardiac import cardiac

HEARTS = cardiac(subjects=5, slices=2, size=24)
ACCELERATED = ("--accel", "4", "--steps", "3")
COILS = ("--recon", "cg-sense", "--coils", "4")


@pytest.fixture
def promask(commands, undrawn, few_references, monkeypatch):
    # Without the mask that is learned for zero-filled images and looked at in the end.
    monkeypatch.setattr(
        "promask.learning.selection._mask_for_images",
        lambda problem, samples, config: problem.pattern.innermost(problem.budget),
    )
    np.savez("hearts.npz", image=HEARTS.image, subject=HEARTS.subject)
    np.save("two.npy", smooth_images(4, 2, (16, 12), phase=False).float().numpy())
    return commands


@pytest.fixture
def unreported(monkeypatch):
    """No report and no figures, which take longer than a few steps."""
    monkeypatch.setattr("promask.report.pipeline.write_report", lambda run, folder, evidence: None)


def summary_of(promask, *arguments):
    return json.loads(promask("evaluate", *arguments, "--json"))


def test_a_run_is_measured_with_its_own_reconstruction(promask):
    text = promask("learn", "hearts.npz", *COILS, "--iterations", 6, *ACCELERATED, "--out", "runs/a")
    assert "runs/a" in text
    run = Run.load("runs/a")
    known = run.config
    assert (known.recon, known.iterations, known.coils, known.learner) == ("cg-sense", 6, 4, "exchange")
    assert int(run.mask.sum()) == 144

    def by_python(**settings):
        return evaluate(run.mask, "hearts.npz", noise_replicas=16, **settings).summary()

    own = summary_of(promask, "runs/a", "hearts.npz")
    assert own == run.record.evaluation.to_json() == by_python(recon="cg-sense", iterations=6, coils=4)
    assert (own["recon"], own["part"], own["images"]) == ("cg-sense", "test", 2)
    # Another reconstruction has settings of its own.
    other = summary_of(promask, "runs/a", "hearts.npz", "--recon", "zero-filled")
    assert other == by_python(recon="zero-filled", coils=4)
    assert other["psnr"] < own["psnr"]
    again = summary_of(promask, "runs/a", "hearts.npz", "--recon", "cg-sense")
    assert again == by_python(recon="cg-sense", coils=4)
    # A setting alone changes that of the run, and so does what is said of the scan.
    fewer = summary_of(promask, "runs/a", "hearts.npz", "--iterations", 2)
    assert fewer == by_python(recon="cg-sense", iterations=2, coils=4)
    coils = summary_of(promask, "runs/a", "hearts.npz", "--coils", 6, "--noise", 0.02)
    assert coils == by_python(recon="cg-sense", iterations=6, coils=6, noise=0.02)
    assert len({each["psnr"] for each in (own, other, again, fewer, coils)}) == 5
    assert "cg-sense" in promask("evaluate", "runs/a", "hearts.npz")
    # A mask alone knows nothing of this.
    assert summary_of(promask, "runs/a/mask.npy", "hearts.npz") == by_python()


def test_a_run_repeats_from_its_record(promask, unreported, tmp_path):
    promask("learn", "hearts.npz", *COILS, "--regularisation", 0.02, *ACCELERATED, "--out", "runs/a")
    promask("learn", "hearts.npz", "--config", "runs/a/run.json", "--out", "runs/b")
    first, again = (json.loads((tmp_path / "runs" / name / "run.json").read_text()) for name in "ab")
    assert first["config"] == again["config"]
    assert first["config"]["regularisation"] == 0.02
    assert (np.load("runs/a/probabilities.npy") == np.load("runs/b/probabilities.npy")).all()
    assert first["about"]["evaluation"] == again["about"]["evaluation"]


def test_the_centre_of_lines_for_calibration(promask, unreported):
    np.save("wide.npy", smooth_images(3, size=(12, 64), phase=False)[:, 0].float().numpy())
    words = ("--pattern", "1d", "--centre", 24, "--accel", 2, "--steps", 3)
    promask("learn", "wide.npy", *COILS, *words, "--out", "runs/a")
    mask = np.load("runs/a/mask.npy")
    assert mask[:, 32 - 12 : 32 + 12].all()
    assert mask.sum() == 12 * 32
    assert (mask == mask[:1]).all()
    sentence = "A --centre of width 24 has 24 samples or lines, but only 16 are acquired"
    assert sentence in promask("learn", "wide.npy", *COILS, *words[:4], "--accel", 4, "--out", "runs/b", status=2)


def test_compare_and_stability(promask, unreported):
    words = ("--accel", 4, "--methods", "centre", "energy:1d", "--learned-seeds", 1, "--jobs", 1)
    shown = json.loads(promask("compare", "hearts.npz", *COILS, *words, "--out", "compared", "--json"))
    assert [row["method"] for row in shown["rows"]] == ["centre", "energy:1d"]
    assert shown["measured_on"].endswith("reconstructed by cg-sense")
    message = promask("compare", "hearts.npz", "--coils", 4, *words, "--out", "compared", status=2)
    assert "compared holds a comparison with another reconstruction" in message
    promask("learn", "hearts.npz", *COILS, *ACCELERATED, "--out", "runs/a")
    stable = json.loads(promask("stability", "runs/a", "hearts.npz", "--draws", 2, "--json"))
    own = summary_of(promask, "runs/a", "hearts.npz")
    assert stable["mode"]["recon"] == "cg-sense"
    assert stable["mode"]["psnr"] == pytest.approx(own["psnr"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("hearts.npz", "--recon", "magic"),
            "Unknown reconstruction 'magic': choose one of zero-filled, rss, sense",
        ),
        (("hearts.npz", "--recon", "network"), "must be given in Python: recon=promask.recon.Network(module)."),
        (("hearts.npz", "--iterations", "5"), "The reconstruction zero-filled has no iterations: leave it out."),
        (
            ("hearts.npz", "--recon", "zero-filled", "--iterations", "5"),
            "The reconstruction zero-filled has no iterations: leave it out.",
        ),
        (
            ("hearts.npz", "--recon", "rss", "--regularisation", "1"),
            "The reconstruction rss has no regularisation",
        ),
        (("hearts.npz", "--recon", "cg-sense", "--iterations", "0"), "iterations must be a whole number from 1"),
        (
            ("hearts.npz", "--recon", "cg-sense", "--regularisation", "-1"),
            "regularisation must be a number of at least 0",
        ),
        (("hearts.npz", "--recon", "cg-sense", "--iterations", "few"), "Invalid value for '--iterations'"),
        (
            ("two.npy", "--axes", "slice contrast y x", "--recon", "cg-sense", "--coils", "4"),
            "two.npy has 2 channels, but coils can only be simulated around images of one channel",
        ),
    ],
)
def test_bad_settings(promask, tmp_path, arguments, message):
    np.save("mask.npy", np.ones((24, 24), dtype=bool))
    before = sorted(tmp_path.rglob("*"))
    assert message in promask("learn", *arguments, *ACCELERATED, "--out", "out", status=2)
    assert message in promask("evaluate", "mask.npy", *arguments, status=2)
    words = ("--methods", "energy", "--accel", "4", "--jobs", "1")
    assert message in promask("compare", *arguments, *words, "--out", "out", status=2)
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written"


def test_help_names_them(promask):
    for command in ("learn", "compare"):
        words = promask(command, "--help").split()
        for name in ("--recon", "--iterations", "--regularisation", "--coils", "cg-sense,"):
            assert name in words
    assert "--recon" in promask("evaluate", "--help")
