"""Comparisons for a reconstruction: what methods learn for, what is told, and whose folder it is."""

from dataclasses import replace

import numpy as np
import pytest

from promask.data.reading import Reading
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.errors import InputError
from promask.evaluation.evaluate import evaluate
from promask.evaluation.methods import DEFAULT_IF_ITERATIVE, parse_methods, usual_methods
from promask.learners.exchange import Exchange
from promask.learning.api import learn
from promask.recon import make_reconstruction
from promask.recon.cg_sense import CgSense
from promask.recon.zero_filled import RootSumOfSquares
from promask.report.comparison import compare

METHODS = ["energy", "promask:zero-filled", "promask"]
SCAN = {"recon": "cg-sense", "coils": 4, "learned_seeds": 1}


@pytest.fixture
def unwritten(monkeypatch):
    """Tables and figures, which take longer than small masks."""
    monkeypatch.setattr("promask.report.comparison._write", lambda *arguments: None)


def test_masks_and_numbers_are_those_of_the_reconstruction(images, tmp_path, problems, monkeypatch):
    """Learned for it, or for another that is named, and measured with it; then nothing is computed again."""
    few_steps = {**Exchange.about.defaults, "steps": 8}
    monkeypatch.setattr(Exchange, "about", replace(Exchange.about, defaults=few_steps))
    out = tmp_path / "out"
    comparison = compare(images, [4], METHODS, out=out, **SCAN)
    assert [scores.method for scores in comparison.scores] == METHODS
    assert [scores.for_task for scores in comparison.scores] == [True, False, True]
    assert [problem.recon.name for _, problem in problems] == ["cg-sense", "zero-filled", "cg-sense"]
    assert comparison.measured_on == "2 held-out images of 1 subject, 4 x 24 x 20, reconstructed by cg-sense"
    assert "reconstructed by cg-sense" in (out / "table.md").read_text()

    learning, held_out = (choose_part(load(images, Reading(coils=4)), part, part)[0] for part in ("train", "test"))
    for scores, recon in zip(comparison.scores, (None, "zero-filled", "cg-sense"), strict=True):
        mask = np.load(out / "masks" / "x4" / f"{scores.method.replace(':', '-')}-0.npy")
        if recon is not None:
            assert (mask == learn(learning, 4, recon=recon).mask.numpy()).all()
        expected = evaluate(mask, held_out, recon="cg-sense")
        for metric in ("psnr", "ssim", "nmse"):
            assert scores.quality[metric][0].tolist() == getattr(expected, metric)
        assert scores.quality["psnr"][0].tolist() != evaluate(mask, held_out).psnr

    monkeypatch.setattr("promask.report.comparison._write", lambda *arguments: None)
    again = compare(images, [4], METHODS, out=out, **SCAN | {"recon": CgSense()})  # the same by another name
    assert len(problems) == 3
    for one, other in zip(comparison.scores, again.scores, strict=True):
        assert (one.quality["psnr"] == other.quality["psnr"]).all()


def test_another_reconstruction_needs_another_folder(images, tmp_path, unwritten):
    out = tmp_path / "out"
    compare(images, [4], ["energy"], out=out, **SCAN)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for settings, sentence in (
        ({"recon": "zero-filled"}, r"with another reconstruction: choose another folder"),
        ({"recon": "sense"}, r"with another reconstruction: choose another folder"),
        ({"iterations": 3}, "with another reconstruction: choose another folder"),
        ({"regularisation": 0.1}, "another reconstruction"),
        ({"coils": 5}, "a comparison of other data"),
        ({"noise": 0.1}, "a comparison of other data"),
    ):
        with pytest.raises(InputError, match=sentence):
            compare(images, [4], ["energy"], out=out, **SCAN | settings)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_settings_of_the_reconstruction_count(images, tmp_path, unwritten):
    one, other = (
        compare(images, [4], ["energy"], out=tmp_path / str(count), **SCAN, iterations=count).scores[0]
        for count in (1, 12)
    )
    assert (one.quality["psnr"] + 0.2 < other.quality["psnr"]).all()


@pytest.mark.parametrize("recon", ["rss", "sense"])
def test_direct_reconstructions_of_coils(images, tmp_path, unwritten, recon):
    comparison = compare(images, [4], ["energy", "promask:1d"], out=tmp_path / "out", **SCAN | {"recon": recon})
    assert comparison.measured_on.endswith(f", reconstructed by {recon}")
    assert [scores.method for scores in comparison.scores] == ["energy", "promask:1d"]


@pytest.mark.filterwarnings("ignore:Left out")  # BART need not be installed
def test_names_of_variants():
    texts = ["promask:cg-sense", "promask:1d:zero-filled", "promask:zero-filled:1d", "igs:rss:l1", "promask:2d"]
    recon = make_reconstruction("cg-sense")
    labels = [method.label for method in parse_methods(texts, None, recon=recon)]
    assert labels == ["promask", "promask:1d:zero-filled", "igs:l1:rss"]
    usual = [method.label for method in usual_methods(None, 2, recon=recon)]
    assert set(usual) <= set(DEFAULT_IF_ITERATIVE)
    assert {"promask", "promask:zero-filled", "promask:1d", "energy"} <= set(usual)
    assert not {"igs", "greedy", "loupe"} & set(usual)
    direct = [
        method.label for method in parse_methods(["igs", "promask:complex-mse"], None, recon=RootSumOfSquares())
    ]
    assert direct == ["igs", "promask:complex-mse"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"methods": ["promask:magic"]},
            "Unknown variant 'magic' of promask: choose from 1d, 2d, .*radial, .*equal, mse, .*cg-sense",
        ),
        ({"methods": ["promask:network"]}, "Unknown variant 'network' of promask"),
        ({"methods": ["energy:cg-sense"]}, "Unknown variant 'cg-sense' of energy: choose from 1d, 2d, 3d."),
        (
            {"methods": ["promask:sense:rss"]},
            "promask:sense:rss asks for two things at once: choose one of sense, rss",
        ),
        ({"recon": "magic"}, "Unknown reconstruction 'magic': choose one of zero-filled, rss"),
        ({"recon": "network"}, "must be given in Python"),
        ({"recon": "zero-filled", "iterations": 4}, "The reconstruction zero-filled has no iterations"),
        ({"recon": "cg-sense", "iterations": 0}, "iterations must be a whole number from 1"),
        ({"recon": "cg-sense", "regularisation": -1.0}, "regularisation must be a number of at least 0"),
    ],
)
def test_what_is_not_known_leaves_nothing_behind(images, tmp_path, settings, sentence):
    usual = {"accelerations": [4], "methods": ["energy"], "out": tmp_path / "out", "coils": 4}
    with pytest.raises(InputError, match=sentence):
        compare(images, **usual | settings)
    assert not (tmp_path / "out").exists()
