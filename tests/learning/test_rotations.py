"""Learning spokes and interleaves from data to a run folder and back; what cannot be, in one sentence."""

import json

import numpy as np
import pytest
import torch
from moving import moving_images
from second_device import NAME, second_device

import promask
from helpers import smooth_images
from promask.data.sources import load
from promask.evaluation.images import reconstruct
from promask.recon import CgSense

IMAGES = (2 + smooth_images(8, 1, (24, 20), phase=False).squeeze(1)).float()
SETTINGS = {"coils": 3, "phase": 1.0, "noise": 0.01, "candidates": 48}


@pytest.mark.parametrize("kind", ["radial", "spiral"])
def test_a_run_is_measured_and_comes_back(kind, tmp_path):
    run = promask.learn(IMAGES, pattern=kind, spokes=6, recon="cg-sense", steps=4, **SETTINGS)
    trajectory = run.distribution.pattern.trajectory
    assert (trajectory.kind, trajectory.candidates, trajectory.matrix) == (kind, 48, (24, 20))
    assert run.mask.shape == (48, trajectory.samples)
    assert int(run.distribution.pattern.restrict(run.mask).sum()) == 6
    assert run.acceleration == pytest.approx(trajectory.full / 6)
    assert run.config.acceleration == pytest.approx(run.acceleration)
    found = promask.evaluate(run, IMAGES)
    assert found.acceleration == pytest.approx(run.acceleration)
    loaded = promask.Run.load(run.save(tmp_path / "run"))
    assert loaded.distribution.pattern == run.distribution.pattern
    assert promask.evaluate(loaded, IMAGES).psnr == found.psnr
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert (settings["spokes"], settings["trajectory"], settings["candidates"]) == (6, kind, 48)
    complete = torch.ones(run.mask.shape, dtype=torch.bool)
    reading = {**SETTINGS, "trajectory": kind, "recon": "cg-sense"}
    assert promask.evaluate(complete, IMAGES, **reading).summary()["psnr"] > found.summary()["psnr"]


def test_samples_are_those_of_the_images_with_noise_of_their_own():
    clean, noisy = (
        load(IMAGES, promask.data.Reading(trajectory="radial", coils=2, noise=noise)) for noise in (0, 0.05)
    )
    assert clean[0].kspace.shape == (2, 96, 48)
    noise = torch.view_as_real(noisy[3].kspace - clean[3].kspace)
    level = 0.05 * float(torch.linalg.vector_norm(clean[3].image, dim=0).max()) * 2**0.5  # twofold oversampling
    assert float(noise.std()) == pytest.approx(level, rel=0.01)
    noise = torch.view_as_complex(noise)
    assert float((noise[:, 1:] * noise[:, :-1].conj()).mean().abs()) < 0.1 * level**2, "every spoke has its own"
    assert torch.equal(noisy[3].kspace, noisy[3].kspace)
    assert not torch.equal(noisy[3].kspace - clean[3].kspace, noisy[2].kspace - clean[2].kspace)


@pytest.mark.parametrize("pattern", ["radial", "kt-radial"])
@pytest.mark.parametrize("recon", ["cg-sense", "view-sharing"])
def test_frames(pattern, recon):
    series = moving_images(5, 4, (16, 16))
    settings = {"axes": "slice frame y x", "recon": recon, "coils": 2, "spokes": 5, "steps": 2, "batch_size": 4}
    run = promask.learn(series, pattern=pattern, **settings)
    units = run.distribution.pattern.restrict(run.mask)
    assert run.mask.shape == (4, 96, 32)
    assert units.shape == ((96,) if pattern == "radial" else (4, 96))
    assert set(units.reshape(-1, 96).sum(1).tolist()) == {5}
    assert promask.evaluate(run, series).temporal is not None


def test_a_stack_of_stars():
    volumes = (2 + smooth_images(4, 1, (4, 16, 16), phase=False).squeeze(1)).float()
    settings = {"volumes": True, "recon": "cg-sense", "coils": 2, "spokes": 6, "steps": 4}
    run = promask.learn(volumes, pattern="stack-of-stars", **settings)
    assert run.mask.shape == (96, 4, 32)
    assert int(run.distribution.pattern.restrict(run.mask).sum()) == 24
    data = load(volumes, run.config)
    # In Cartesian kz, a partition that is acquired completely is the plain transform of the volume along z.
    assert data[0].kspace.shape == (2, 96, 4, 32)
    complete = torch.ones(run.mask.shape, dtype=torch.bool)
    images, targets = reconstruct(complete, data, range(1), CgSense(1e-4, 40))
    assert torch.dist(images, targets) < 0.1 * torch.linalg.vector_norm(targets)


@pytest.mark.parametrize("learner", ["best-response", "exchange", "gumbel-adam"])
@pytest.mark.filterwarnings("ignore:At the scale")
def test_other_learners_choose_spokes(learner):
    run = promask.learn(IMAGES, pattern="radial", spokes=6, recon="cg-sense", learner=learner, steps=3, **SETTINGS)
    assert int(run.distribution.pattern.restrict(run.mask).sum()) == 6


def test_members_and_the_processes_of_nobody():
    run = promask.learn(IMAGES, pattern="radial", spokes=6, steps=3, members=2, candidates=48)
    assert int(run.distribution.pattern.restrict(run.mask).sum()) == 6


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"spokes": 60}, "60 spokes cannot be chosen from 48: ask for fewer `spokes`, or for more `candidates`."),
        (
            {"spokes": 60, "candidates": 96},
            "60 spokes are more than a complete scan has: 38 for images of 24 x 20.",
        ),
        ({"spokes": 0}, "`spokes` must be a whole number of at least 1"),
        ({"spokes": 6, "candidates": 0}, "`candidates` must be a whole number from 1 to 10000"),
        ({"spokes": 6, "pattern": "1d", "candidates": None}, "`spokes` is for spokes and spirals"),
        ({"acceleration": 4, "pattern": "1d"}, "`candidates` is for spokes and spirals"),
        ({"spokes": 6, "centre": 4}, "`centre` is for Cartesian patterns"),
        ({"spokes": 6, "axis": 0}, "`axis` is for Cartesian patterns"),
        ({"spokes": 6, "recon": "sense"}, "sense reconstructs Cartesian k-space, but the pattern is radial"),
        ({"spokes": 6, "recon": "partial-fourier"}, "choose gridding, cg-sense, cs or cs-tv"),
        ({"spokes": 6, "learner": "swap"}, "The learner swap cannot learn the pattern radial"),
        ({"spokes": 6, "pattern": "kt-radial"}, "is for frames, but the data have none"),
        ({"spokes": 6, "pattern": "2d", "trajectory": "spiral"}, "choose the pattern spiral, and not 2d"),
        ({}, "`acceleration` is missing"),
    ],
)
def test_what_cannot_be(settings, sentence):
    asked = {"pattern": "radial", "candidates": 48, "steps": 2, "coils": 3, **settings}
    with pytest.raises(promask.InputError) as error:
        promask.learn(IMAGES, **asked)
    assert any(each in str(error.value) for each in sentence.split("|"))
    assert "\n" not in str(error.value)


def test_comparisons_by_numbers_of_spokes(tmp_path):
    np.savez(tmp_path / "images.npz", image=IMAGES.numpy(), subject=[f"s{number}" for number in range(8)])
    methods = ["uniform", "uniform-best", "golden", "promask"]
    settings = {
        "pattern": "radial",
        "seeds": 2,
        "learned_seeds": 1,
        "coils": 2,
        "recon": "cg-sense",
        "candidates": 48,
    }
    found = promask.compare(
        str(tmp_path / "images.npz"), methods=methods, spokes=[4, 6], out=tmp_path / "out", **settings
    )
    assert {row.acceleration for row in found.scores} == {38 / 4, 38 / 6}
    assert {round(38 / achieved) for row in found.scores for achieved in row.achieved} == {4, 6}
    masks = [np.load(path) for path in sorted((tmp_path / "out" / "masks").rglob("*.npy"))]
    assert {int(mask[:, 0].sum()) for mask in masks} == {4, 6}
    assert (tmp_path / "out" / "table.md").is_file()
    with pytest.raises(promask.InputError, match="give one of them, and not both"):
        promask.compare(IMAGES, 4, spokes=4, out=tmp_path / "other", **settings)
    with pytest.raises(promask.InputError, match="compared for spokes or interleaves"):
        promask.compare(IMAGES, methods=["golden", "poisson"], spokes=4, out=tmp_path / "third", **settings)


def test_the_seed_decides():
    first, again, other = (
        promask.learn(IMAGES, pattern="radial", spokes=5, steps=6, seed=seed, candidates=48).mask
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert first.sum() == other.sum()


def test_elsewhere_it_is_the_same():
    asked = {"pattern": "radial", "spokes": 5, "recon": "cg-sense", "coils": 2, "candidates": 48, "steps": 3}
    here = promask.learn(IMAGES, **asked)
    with second_device():
        there = promask.learn(IMAGES, **asked, device=NAME)
        found = promask.evaluate(there, IMAGES, device=NAME)
    assert torch.equal(here.mask, there.mask)
    assert found.psnr == pytest.approx(promask.evaluate(here, IMAGES).psnr, abs=1e-3)
