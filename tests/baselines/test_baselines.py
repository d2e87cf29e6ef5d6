import math
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from moving import moving
from suites import check_baseline

from helpers import assert_global_random_state_is_untouched, seeded, smooth_images
from promask.baselines import BASELINES, OWN, baseline_mask, tuned
from promask.baselines.problem import BaselineProblem
from promask.baselines.searched import MaskLoss, spread_columns
from promask.data.arrays import from_images
from promask.errors import InputError
from promask.operators.fourier import to_image, to_kspace
from promask.recon import make_reconstruction
from promask.sampling import kt
from promask.sampling.limits import Limits
from promask.sampling.pattern import Pattern

DATA = from_images(smooth_images(4, channels=2, size=(32, 40), dtype=torch.complex64))
POINTS, LINES, ROWS = Pattern((32, 40), (0, 1)), Pattern((32, 40), (1,)), Pattern((32, 40), (0,))
PADDED = Pattern((32, 40), (1,), extent=((0, 32), (3, 38)))
AVAILABLE = [name for name, baseline in BASELINES.items() if not baseline.missing]
CARTESIAN = [name for name in AVAILABLE if not BASELINES[name].rotations]
SERIES = moving(3, 6, (24, 16))
FRAMES = {
    "lines": Pattern((6, 24, 16), (0, 1), indexed="frame", limits=Limits(equal_per=0)),
    "samples": Pattern((6, 24, 16), (0, 1, 2), indexed="frame", limits=Limits(equal_per=0)),
    "one total": Pattern((6, 24, 16), (0, 1), indexed="frame"),
    "groups": Pattern((6, 24, 16), (0, 1), indexed="frame", limits=Limits(equal_per=0, equal_group=3)),
    "periodic": Pattern((6, 24, 16), (0, 1), indexed="frame", period=2, limits=Limits(equal_per=0)),
    "padded": Pattern(
        (6, 24, 16), (0, 1), ((0, 6), (3, 22), (0, 16)), indexed="frame", limits=Limits(equal_per=0)
    ),
    "partial": Pattern(
        (6, 24, 16), (0, 2), indexed="frame", limits=Limits(equal_per=0, partial_fourier=((1, 0.75),))
    ),
    "within an ellipse": Pattern(
        (6, 24, 16), (0, 1, 2), indexed="frame", limits=Limits(equal_per=0, shutter="ellipse")
    ),
    "shared lines": Pattern((6, 24, 16), (1,), indexed="frame"),
    "shared samples": Pattern((6, 24, 16), (1, 2), indexed="frame"),
}


def usual(name):
    """A pattern that the baseline can have, and data for it."""
    if BASELINES[name].frames == OWN:
        return FRAMES["lines"], SERIES
    return (POINTS if 2 in BASELINES[name].free else LINES), DATA


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """What is tested here does not depend on how long a baseline learns."""
    monkeypatch.setattr(import_module("promask.baselines.loupe"), "STEPS", 5)


@pytest.mark.parametrize("acceleration", [1, 4, 7.3, 32])
@pytest.mark.parametrize("pattern", [POINTS, LINES, ROWS, PADDED], ids=["2d", "1d", "1d rows", "padded"])
@pytest.mark.parametrize("name", AVAILABLE)
def test_properties(name, pattern, acceleration):
    if not BASELINES[name].fits(pattern):
        with pytest.raises(InputError, match=r"masks are made of .*: choose the pattern (\dd|kt|radial)"):
            baseline_mask(name, DATA, pattern, acceleration)
    else:
        check_baseline(name, pattern, DATA, acceleration, again=acceleration == 7.3)


@pytest.mark.parametrize("pattern", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("name", AVAILABLE)
def test_properties_of_frames(name, pattern):
    if not BASELINES[name].fits(pattern):
        with pytest.raises(InputError, match=r"masks are made of .*: choose the pattern (\dd|kt|radial)"):
            baseline_mask(name, SERIES, pattern, 4)
        return
    check_baseline(name, pattern, SERIES, 1 if not pattern.limits.leave_out else 2, again=False)
    check_baseline(name, pattern, SERIES, 3.1)
    check_baseline(name, pattern, SERIES, 3, centre=2, again=False)


@pytest.mark.parametrize("name", ["random", "gaussian", "variable-density"])
def test_random_lines_are_drawn_anew_in_each_frame(name):
    by = make_reconstruction("kt-sense")
    units = FRAMES["lines"].restrict(baseline_mask(name, SERIES, FRAMES["lines"], 3, recon=by))
    assert units.sum(1).tolist() == [8] * 6
    assert len({tuple(frame.tolist()) for frame in units}) == 6


@pytest.mark.parametrize("pattern", ["lines", "samples", "periodic", "padded"])
@pytest.mark.parametrize("name", ["static-energy", "static-variable-density"])
def test_static_masks_are_those_of_the_shared_pattern(name, pattern):
    pattern = FRAMES[pattern]
    shared = replace(pattern, free=pattern.free[1:], limits=Limits(), period=0)
    mask = baseline_mask(name, SERIES, pattern, 4, seed=3)
    assert torch.equal(mask, baseline_mask(name.removeprefix("static-"), SERIES, shared, 4, seed=3))
    assert (mask == mask[:1]).all()


def test_a_static_mask_where_frames_cannot_have_equal_numbers():
    """144 lines of 6 frames at x3.5: 41, of which each frame has 6, and the first five one more."""
    pattern = Pattern((6, 24, 16), (0, 1), indexed="frame")
    units = pattern.restrict(baseline_mask("static-energy", SERIES, pattern, 3.5))
    counts = units.sum(1).tolist()
    assert sum(counts) == 144 * 2 // 7
    assert counts == [7] * 5 + [6]
    assert (units[0] | ~units[-1]).all()


def test_the_energy_of_frames_is_not_transformed_along_time():
    """By NumPy: of every frame, the lines of most energy over all series."""
    pattern = FRAMES["lines"]
    images = torch.stack([SERIES[index].image for index in range(3)]).numpy()
    spectra = np.fft.fftshift(np.fft.fft2(images), axes=(-2, -1))
    energy = (np.abs(spectra) ** 2).sum((0, 1, -1))
    units = pattern.restrict(baseline_mask("energy", SERIES, pattern, 4)).numpy()
    for frame in range(6):
        assert energy[frame][units[frame]].sum() == pytest.approx(np.sort(energy[frame])[-6:].sum())
    shared = baseline_mask("static-energy", SERIES, pattern, 4)[0, :, 0].numpy()
    assert energy.sum(0)[shared].sum() == pytest.approx(np.sort(energy.sum(0))[-6:].sum())


@pytest.mark.parametrize(("name", "candidates"), [("kt-lattice", kt.lattices), ("kt-golden", kt.goldens)])
def test_the_best_candidate_is_that_of_brute_force(name, candidates, monkeypatch):
    """With all columns for all candidates, the one of least error of whole series, all of which count alike."""
    monkeypatch.setattr(tuned, "COLUMN_ROUNDS", ((48, 1),))
    pattern, recon = FRAMES["lines"], make_reconstruction("kt-sense")
    mask = baseline_mask(name, SERIES, pattern, 4, recon=recon)

    def error(units):
        total = 0.0
        for index in range(3):
            image = SERIES[index].image[None].to(torch.complex64)
            made = recon(to_kspace(image, (-2, -1)), pattern.expand(units).float())
            total += math.log(float((made.abs() - image.abs()).square().mean()))
        return total

    best = min(candidates(pattern, pattern.budget(4)), key=error)
    assert error(pattern.restrict(mask)) == pytest.approx(error(best), rel=1e-4)


def test_a_race_ends_with_one_of_the_best():
    """Of 60 candidates whose loss is known, the first rounds may not lose the best by far."""
    pattern = Pattern((4, 12, 10), (0, 1), indexed="frame", limits=Limits(equal_per=0))
    problem = BaselineProblem(pattern, 3, moving(40, 4, (12, 10)))
    candidates = [pattern.largest(torch.rand(4, 12, generator=seeded(seed)), 16) for seed in range(60)]
    mask_loss = MaskLoss.of(problem, 16)
    assert len(mask_loss.samples) == 24 * 10  # all columns of the most series that are looked at
    assert set(mask_loss.series) == set(range(24))
    losses = sorted(mask_loss.value(units, 240) for units in candidates)
    assert mask_loss.value(tuned.best_of(problem, iter(candidates)), 240) <= losses[2]


def test_columns_are_spread_over_series_and_places():
    for series, width in ((16, 192), (16, 96), (5, 64), (3, 16)):
        columns = spread_columns(series, width, 96)
        assert len(set(columns)) == len(columns) <= series * width
        assert len(columns) >= min(96, series * width) * 0.9
        assert {column // width for column in columns} == set(range(series))
        # Of any eight at equal distances, each half of the width has some.
        few = [columns[index * len(columns) // 8] % width for index in range(8)]
        assert 2 <= sum(place < width / 2 for place in few) <= 6


def test_the_gradient_of_a_mask_of_frames():
    """Columns of all series, in FFT order, against whole series in the order of k-space."""
    pattern = FRAMES["lines"]
    mask_loss = MaskLoss.of(BaselineProblem(pattern, 3, SERIES), 16)
    units = pattern.largest(torch.rand(6, 24, generator=seeded(2)), 48)
    loss, gradient = mask_loss(units)
    weights = units.float().requires_grad_()
    images = torch.stack([SERIES[index].image for index in range(3)])
    images = images / images.flatten(1).amax(1).reshape(-1, 1, 1, 1, 1)  # series count alike, whatever their scale
    made = to_image(weights[:, :, None] * to_kspace(images, (-2, -1)), (-2, -1))
    of_each = (made.abs() - images).square().flatten(1).mean(1)
    (slopes,) = torch.autograd.grad(of_each.mean(), weights)
    of_each = of_each.detach()
    assert loss == pytest.approx(float(of_each.mean()), rel=1e-5)
    alike = of_each.log().mean().exp()  # whatever the errors of a series are
    assert float(of_each.mean() / alike) > 1.001
    assert mask_loss.value(units, 48) == pytest.approx(float(alike), rel=1e-5)
    assert torch.allclose(gradient, slopes, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("name", CARTESIAN)
def test_a_central_block(name):
    pattern, data = usual(name)
    for centre in (0, 1, 4, 7):
        check_baseline(name, pattern, data, 2.5, centre, again=False)


@pytest.mark.parametrize("name", [name for name in CARTESIAN if BASELINES[name].draws])
def test_seeds(name):
    pattern, data = usual(name)
    masks = [baseline_mask(name, data, pattern, 4, seed) for seed in (0, 1, 2, 2**63 - 1)]
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) > 1


@pytest.mark.parametrize("name", CARTESIAN)
def test_global_random_state(name):
    pattern, data = usual(name)
    assert_global_random_state_is_untouched(lambda: baseline_mask(name, data, pattern, 4))


def test_equispaced_lines():
    """256 lines at x8: 10 in the centre, 22 others, as evenly as whole lines allow, at an offset of the seed."""
    pattern = Pattern((2, 256), (1,))
    masks = [baseline_mask("equispaced", DATA, pattern, 8, seed)[0] for seed in range(5)]
    for mask in masks:
        assert mask[123:133].all()
        outside = torch.cat([mask[:123], mask[133:]]).nonzero().flatten()
        assert set(outside.diff().tolist()) <= {11, 12}
    assert len({tuple(mask.tolist()) for mask in masks}) > 1


@pytest.mark.parametrize("acceleration", [2, 4, 8])
def test_equispaced_lines_of_half_a_k_space(acceleration):
    """The centre reaches into the padding, and the budget is kept all the same."""
    check_baseline("equispaced", Pattern((2, 256), (1,), extent=((0, 2), (127, 256))), DATA, acceleration)


def test_gaussian_density():
    """Half of a Gaussian's samples lie within 1.18 standard deviations, if few are drawn."""
    pattern = Pattern((256, 256), (0, 1))
    masks = torch.stack([baseline_mask("gaussian", DATA, pattern, 1000, seed) for seed in range(30)])
    offsets = masks.nonzero()[:, 1:] - 128
    radius = offsets.double().square().sum(1).sqrt()
    assert float(radius.median()) == pytest.approx(1.1774 * 35, rel=0.06)
    assert offsets.double().mean(0).abs().max() < 4


@pytest.mark.parametrize("pattern", [POINTS, LINES, ROWS], ids=["2d", "1d", "1d rows"])
def test_energy_keeps_most_of_it(pattern):
    """No other mask of that size holds more energy: the best unit left out holds no more than the worst taken."""
    mask = baseline_mask("energy", DATA, pattern, 5)
    energy = to_kspace(DATA.images, (-2, -1)).abs().square().sum((0, 1))
    bound = [axis for axis in (0, 1) if axis not in pattern.free]
    of_units = energy.sum(bound) if bound else energy
    chosen = pattern.restrict(mask)
    assert of_units[chosen].min() >= of_units[~chosen].max()


def test_unknown_baseline():
    with pytest.raises(InputError, match="Unknown baseline 'best'"):
        baseline_mask("best", DATA, POINTS, 4)
