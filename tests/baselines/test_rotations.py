"""Spokes of the trade: exact numbers, all offsets, the steps of their papers."""

import math

import pytest
import torch
from moving import moving
from suites import check_baseline

from helpers import smooth_images
from promask.baselines import BASELINES, baseline_mask
from promask.data.arrays import from_images
from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputError
from promask.losses.image import ImageLoss
from promask.problem.batches import SpectraSet
from promask.problem.problem import mean_loss
from promask.problem.uniform import uniform_sets
from promask.recon import CgSense
from promask.sampling.angles import GOLDEN
from promask.sampling.limits import LimitSettings
from promask.sampling.pattern import Pattern

NAMES = [name for name, baseline in BASELINES.items() if baseline.rotations]
IMAGES = smooth_images(4, 1, (24, 24), phase=False).squeeze(1).float()
DATA = {kind: load(IMAGES, Reading(trajectory=kind, candidates=48, coils=3)) for kind in ("radial", "spiral")}
PATTERNS = {kind: Pattern.on(data.shape[1:], data.geometry) for kind, data in DATA.items()}


def frames():
    data = moving(2, 4, (16, 16), trajectory="radial")
    return data, LimitSettings().on(Pattern.on(data.shape[1:], data.geometry, "kt-radial"))


@pytest.mark.parametrize("name", [*NAMES, "random"])
@pytest.mark.parametrize("kind", PATTERNS)
def test_properties(name, kind):
    for acceleration in (1, 2.5, PATTERNS[kind].full):
        check_baseline(name, PATTERNS[kind], DATA[kind], acceleration, again=acceleration == 2.5)


@pytest.mark.parametrize("name", [*NAMES, "random"])
def test_all_frames_have_as_many(name):
    data, pattern = frames()
    check_baseline(name, pattern, data, pattern.full / (4 * 5))


def test_seeds_are_all_offsets():
    pattern, found = PATTERNS["radial"], set()
    for seed in range(6):
        mask = baseline_mask("uniform", DATA["radial"], pattern, pattern.full / 8, seed=seed)
        places = pattern.restrict(mask).nonzero().flatten()
        assert set(places.diff().tolist()) == {6}
        found.add(int(places[0]))
    assert found == set(range(6))


def test_the_best_offset_is_that_of_brute_force():
    pattern, recon = PATTERNS["radial"], CgSense()
    mask = baseline_mask("uniform-best", DATA["radial"], pattern, pattern.full / 8, recon=recon)
    samples = SpectraSet.for_loss(DATA["radial"], torch.device("cpu"), ImageLoss("mse"), recon)
    losses = [
        mean_loss(each.place(pattern, 8), samples, pattern, ImageLoss("mse")) for each in uniform_sets(pattern, 8)
    ]
    assert mean_loss(pattern.restrict(mask), samples, pattern, ImageLoss("mse")) == pytest.approx(min(losses))


@pytest.mark.parametrize(("name", "degrees"), [("golden", 111.246117975), ("tiny-golden", 23.628140)])
def test_angles_are_those_of_their_papers(name, degrees):
    fine = load(IMAGES, Reading(trajectory="radial", candidates=1800))
    pattern = Pattern.on(fine.shape[1:], fine.geometry)
    units = pattern.restrict(baseline_mask(name, fine, pattern, pattern.full / 9))
    angles = units.nonzero().flatten().double() / 10
    first = [
        float(angle)
        for angle in angles
        if all(
            float((angles - (angle + place * degrees) + 90).remainder(180).sub(90).abs().min()) < 0.2
            for place in range(9)
        )
    ]
    assert len(first) == 1, "one spoke is the first, and all others follow it"


def test_raga_visits_all_candidates_before_any_comes_again():
    pattern = PATTERNS["radial"]
    assert math.gcd(29, 48) == 1
    mask = baseline_mask("raga", DATA["radial"], pattern, pattern.full / 5, seed=3)
    places = pattern.restrict(mask).nonzero().flatten().tolist()
    starts = [first for first in range(48) if sorted((first + 29 * step) % 48 for step in range(5)) == places]
    assert len(starts) == 1
    assert abs(29 / 48 - GOLDEN) < 0.5 / 24


def test_they_are_for_spokes_alone():
    cartesian = from_images(IMAGES[:, None])
    with pytest.raises(
        InputError, match="golden masks are made of spokes or interleaves: choose the pattern radial"
    ):
        baseline_mask("golden", cartesian, Pattern((24, 24), (1,)), 4)
    with pytest.raises(InputError, match="poisson masks are made of locations"):
        baseline_mask("poisson", DATA["radial"], PATTERNS["radial"], 4)
