"""Comparisons of patterns over time: the methods, the masks, and the one reconstruction that all rows share."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from moving import AXES, moving_file, moving_images

from promask.data.reading import Reading
from promask.data.sources import read_part
from promask.errors import InputError
from promask.evaluation.evaluate import evaluate
from promask.evaluation.methods import DEFAULT_OF_FRAMES, Method, fit_mask, parse_methods, usual_methods
from promask.learners.swap import Swap
from promask.recon import KtSense
from promask.report.comparison import OpenConditions, compare

KT = {"recon": "kt-sense", "iterations": 3, "axes": AXES, "seeds": 1}


@pytest.fixture
def series(tmp_path, undrawn):
    """Ten series of five subjects, in a file; figures are not drawn."""
    return moving_file(tmp_path / "series.npz")


@pytest.fixture
def few_steps(monkeypatch):
    """Enough for the race of the starts and two steps of swaps."""
    few = {**Swap.about.defaults, "steps": 5, "batch_size": 16}
    monkeypatch.setattr(Swap, "about", replace(Swap.about, defaults=few))


def parts(series, recon=None):
    whole = read_part(series, Reading(axes=AXES), "train", recon=recon)
    return whole.samples, read_part(whole.whole, part="test", recon=recon).samples


def test_all_rows_share_one_fitted_reconstruction(series, tmp_path, problems, few_steps):
    """Its prior comes from the learning part; it tunes, learns and measures."""
    static = ["static-variable-density", "static-energy"]
    methods = ["promask", "kt-lattice", "kt-golden", "variable-density", *static]
    comparison = compare(series, [2, 4], methods, out=tmp_path / "out", pattern="kt", **KT)
    labels = ["promask:kt", "kt-lattice", "kt-golden", "variable-density:kt", *static]
    assert comparison.methods == labels
    assert {scores.free for scores in comparison.scores} == {1}
    assert len({id(problem.recon) for _, problem in problems}) == 1

    learning, held_out = parts(series)
    images = torch.stack([learning[index].image for index in range(len(learning))])
    wanted = KtSense(iterations=3).fitted(image[None] for image in images)
    assert torch.allclose(problems[0][1].recon.prior, wanted.prior)
    on = "2 held-out series of 1 subject, 6 frames of 24 x 16, reconstructed by kt-sense"
    assert comparison.measured_on == on
    for scores in comparison.scores:
        place = tmp_path / "out" / "masks" / f"x{scores.acceleration:g}"
        mask = np.load(place / f"{scores.method.replace(':', '-')}-0.npy")
        assert mask.shape == (6, 24, 16)
        assert (mask == mask[:, :, :1]).all()
        assert mask[:, :, 0].sum(1).tolist() == [24 // scores.acceleration] * 6
        if scores.method.startswith("static"):
            assert (mask == mask[:1]).all()
        assert scores.quality["psnr"][0] == pytest.approx(evaluate(mask, held_out, recon=wanted).psnr, rel=1e-5)


def test_other_processes_get_the_fitted_reconstruction(series):
    opened = OpenConditions(series, Reading(axes=AXES), None, None, "paper", recon=KtSense(iterations=3))
    here = opened()
    sent = pickle.loads(pickle.dumps(replace(opened, recon=here.recon)))
    there = sent()
    assert there.recon is sent.recon
    assert torch.equal(there.recon.prior, here.recon.prior)


def test_another_prior_needs_another_folder(series, tmp_path):
    out = tmp_path / "out"
    compare(series, 4, "static-energy", out=out, **KT)
    before = json.loads((out / "compare.json").read_text())
    assert "prior" not in before["reconstruction"]["settings"]
    compare(series, 4, "static-energy", out=out, **KT)  # the same goes on
    prior = torch.rand(6, 24, 16)
    with pytest.raises(InputError, match="holds a comparison with another reconstruction"):
        compare(series, 4, "static-energy", out=out, axes=AXES, recon=KtSense(iterations=3, prior=prior))


def test_a_named_reconstruction_is_fitted_once(series, tmp_path, problems, few_steps):
    methods = ["kt-lattice:kt-sense", "promask:kt-sense", "static-energy"]
    comparison = compare(series, 4, methods, out=tmp_path / "out", recon="view-sharing", axes=AXES, seeds=1)
    assert comparison.methods == ["kt-lattice:kt-sense", "promask:kt:kt-sense", "static-energy"]
    first, second, other = (problem.recon for _, problem in problems)
    assert first is second
    assert first.prior is not None
    assert other.name == "view-sharing"


def test_given_masks_of_frames(series, tmp_path):
    """(frame, ky, kx), (frame, ky) and (frame, ky, 1) are the same; (ky, kx) is that of all frames."""
    lines = torch.rand(6, 24, generator=torch.Generator().manual_seed(0)).argsort(1) < 6
    masks = {
        "whole": lines[:, :, None].expand(6, 24, 16),
        "lines": lines,
        "thin": lines[:, :, None],
        "static": lines[0][:, None].expand(24, 16),
    }
    for name, mask in masks.items():
        np.save(tmp_path / f"{name}.npy", mask.contiguous().numpy())
    given = [f"{name}={tmp_path / name}.npy" for name in masks]
    rows = compare(series, 4, [*given, "kt-lattice"], out=tmp_path / "out", **KT).scores
    assert [row.free for row in rows] == [1] * 5
    psnr = {row.method: row.quality["psnr"][0].tolist() for row in rows}
    assert psnr["whole"] == psnr["lines"] == psnr["thin"] != psnr["static"]
    learning, _ = parts(series)
    assert torch.equal(fit_mask("static", masks["static"], learning), masks["static"].expand(6, 24, 16))
    with pytest.raises(InputError, match=r"mine: The mask has shape \[5, 24\], but the k-space of the data has"):
        fit_mask("mine", lines[:5], learning)


def test_period_and_equal_numbers(series, tmp_path, few_steps):
    settings = {**KT, "pattern": "kt", "period": 3}
    methods = ["promask", "kt-golden", "variable-density"]
    compare(series, 4, methods, out=tmp_path / "periodic", **settings)
    for name in ("promask-kt", "kt-golden", "variable-density-kt"):
        mask = np.load(tmp_path / "periodic" / "masks" / "x4" / f"{name}-0.npy")
        assert (mask[:3] == mask[3:]).all()
        assert mask[:, :, 0].sum(1).tolist() == [6] * 6
    compare(series, 5, ["kt-lattice", "promask"], out=tmp_path / "total", pattern="kt", equal_per="none", **KT)
    for name in ("kt-lattice", "promask-kt"):
        assert np.load(tmp_path / "total" / "masks" / "x5" / f"{name}-0.npy")[:, :, 0].sum() == 6 * 24 // 5


def test_usual_methods_of_series():
    recon = KtSense()
    labels = [method.label for method in usual_methods(None, 3, recon=recon, indexed="frame")]
    assert labels == [*DEFAULT_OF_FRAMES[:2], "variable-density:kt", "kt-lattice", "kt-golden", "promask:kt"]
    pairs = usual_methods(None, 4, recon=recon, readout=True, indexed="frame")
    assert {method.pattern for method in pairs} == {"kt-2d"}
    assert len(pairs) == len(DEFAULT_OF_FRAMES)
    shared = usual_methods(None, 3, recon=recon, readout=True, indexed="frame", pattern="1d")
    assert {method.pattern for method in shared} == {"1d"}
    assert {method.name for method in shared} >= {"variable-density", "energy", "equispaced", "promask"}
    assert not {method.name for method in usual_methods(None, 2)} & {"kt-lattice", "static-energy"}


def test_patterns_of_methods():
    assert Method.parse("promask:kt").label == "promask:kt"
    assert Method.parse("kt-lattice:kt").label == "kt-lattice"
    assert Method.parse("kt-golden:kt-2d").free == 2
    on_series = (3, False, "frame", None)
    assert Method.parse("equispaced").on(*on_series).pattern == "1d", "the same lines in all frames"
    assert Method.parse("energy").on(*on_series).pattern == "kt"
    assert Method.parse("energy:1d").on(*on_series).pattern == "1d"
    assert Method.parse("energy").on(3, False, "frame", "1d").pattern == "1d"
    for text, sentence in (
        ("equispaced:kt", "There is no equispaced:kt: choose equispaced:1d."),
        ("kt-lattice:1d", "There is no kt-lattice:1d: choose kt-lattice:kt or kt-lattice:kt-2d."),
    ):
        with pytest.raises(InputError, match=sentence):
            parse_methods([text], None)


def test_a_pattern_for_all_methods_that_can_have_it(series, tmp_path):
    rows = compare(
        series, 4, ["energy", "equispaced", "static-energy"], out=tmp_path / "out", pattern="kt", axes=AXES
    )
    assert rows.methods == ["energy:kt", "equispaced", "static-energy"]
    with pytest.raises(InputError, match="None of the methods can have the pattern kt-2d"):
        compare(series, 4, ["equispaced"], out=tmp_path / "other", pattern="kt-2d", axes=AXES)
    with pytest.raises(InputError, match="Unknown pattern 'kt-3d': choose one of 1d, 2d, 3d, kt, kt-2d"):
        compare(series, 4, ["energy"], out=tmp_path / "other", pattern="kt-3d", axes=AXES)


def test_volumes_over_time(tmp_path, undrawn):
    """Lines of ky and kz in each frame, along a readout."""
    volumes = moving_images(4, frames=3, size=(8, 10)).unsqueeze(2) * torch.ones(4, 1).reshape(1, 1, 4, 1, 1)
    np.save(tmp_path / "volumes.npy", volumes.numpy())
    reading = {"axes": "subject frame z y x", "volumes": True, "readout": "kx"}
    methods = ["kt-lattice", "kt-golden", "static-energy", "variable-density"]
    out = tmp_path / "out"
    rows = compare(str(tmp_path / "volumes.npy"), 4, methods, out=out, recon="kt-sense", seeds=1, **reading)
    assert rows.methods == ["kt-lattice:kt-2d", "kt-golden:kt-2d", "static-energy:kt-2d", "variable-density:kt-2d"]
    for path in sorted((out / "masks" / "x4").iterdir()):
        mask = np.load(path)
        assert mask.shape == (3, 4, 8, 10)
        assert (mask == mask[..., :1]).all()
        assert mask[..., 0].sum((1, 2)).tolist() == [8] * 3
