import importlib.util

import numpy as np
import pytest
import sigpy.mri
import torch
from scipy.spatial import cKDTree
from scipy.stats import chisquare
from skimage.draw import line
from skimage.measure import label
from suites import check_baseline

from helpers import smooth_images
from promask.baselines import BASELINES, baseline_mask
from promask.baselines.drawn import log_share
from promask.baselines.fixed import spokes
from promask.data.arrays import from_images
from promask.errors import InputError
from promask.sampling.pattern import Pattern

DATA = from_images(smooth_images(1))
DRAWN = ("equispaced", "equispaced-paper", "gaussian", "gaussian-paper", "poisson", "radial", "random", "centre")
PATTERNS = {
    "odd": Pattern((33, 21), (0, 1)),
    "tiny": Pattern((5, 4), (0, 1)),
    "long": Pattern((1, 50), (0, 1)),
    "padded": Pattern((24, 31), (0, 1), extent=((5, 24), (0, 17))),
    "pairs": Pattern((6, 12, 15), (1, 2)),
    "volume": Pattern((6, 5, 8), (0, 1, 2)),
    "lines": Pattern((4, 37), (1,), extent=((0, 4), (3, 33))),
}


def masks_of(name, pattern, acceleration, seeds, **options):
    return torch.stack(
        [baseline_mask(name, DATA, pattern, acceleration, seed, **options) for seed in range(seeds)]
    )


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", DRAWN)
def test_properties(name, pattern):
    pattern = PATTERNS[pattern]
    if len(pattern.free) in BASELINES[name].free:
        for acceleration in (1, 1.3, 2, 7.3, min(32, pattern.units), pattern.units):
            check_baseline(name, pattern, DATA, acceleration)
            if pattern.budget(acceleration) >= 9:
                check_baseline(name, pattern, DATA, acceleration, centre=2)


@pytest.mark.parametrize("name", [name for name in DRAWN if BASELINES[name].exact])
def test_a_centre_beyond_the_budget(name):
    pattern = Pattern((20, 20), tuple(range(2))[-BASELINES[name].free[-1] :])
    with pytest.raises(InputError, match="choose a narrower centre"):
        baseline_mask(name, DATA, pattern, 10, centre=18)


@pytest.mark.parametrize("name", DRAWN)
def test_accelerations_below_one(name):
    with pytest.raises(InputError, match="acceleration` must be from 1"):
        baseline_mask(name, DATA, Pattern((6, 8), (0, 1)[-BASELINES[name].free[-1] :]), 0.9)


def test_the_command_line_names_every_baseline():
    from promask.cli.compare import BASELINES_HELP

    named = set(BASELINES_HELP.replace(",", " ").replace(";", " ").rstrip(".").split())
    assert set(BASELINES) <= named


def test_random_is_uniform():
    """How often each of 20 units is drawn, in 1500 draws of 5; and each of 16 beside a block of 2 x 2."""
    pattern = Pattern((5, 4), (0, 1))
    times = masks_of("random", pattern, 4, 1500).sum(0)
    # Draws without replacement vary by (1 - 5 / 20) of what independent ones do.
    assert chisquare(times.flatten()).statistic / (1 - 5 / 20) < 43.8  # p = 0.001, 19 degrees of freedom
    block = pattern.centre(2)
    times = masks_of("random", pattern, 2, 500, centre=2).sum(0)
    assert (times[block] == 500).all()
    assert times[~block].double() == pytest.approx(500 * 6 / 16, rel=0.2)


@pytest.mark.parametrize("shape", [(16, 16), (9, 9), (12, 30), (7, 6, 8)])
def test_centre_is_a_block_at_every_step(shape):
    """Brute force: of all boxes with the sides of k-space, the largest one within the budget is contained."""
    pattern = Pattern(shape, tuple(range(len(shape))))
    for budget in (1, 5, 16, 25, pattern.units // 2, pattern.units):
        mask = baseline_mask("centre", DATA, pattern, pattern.units / budget)
        boxes = []
        for scale in sorted({width / n for n in shape for width in range(n + 1)}):
            box = torch.zeros(shape, dtype=torch.bool)
            widths = [int(scale * n + 1e-9) for n in shape]
            starts = [n // 2 - width // 2 for n, width in zip(shape, widths, strict=True)]
            box[tuple(slice(a, a + width) for a, width in zip(starts, widths, strict=True))] = True
            boxes.append(box)
        inner = [box for box in boxes if box.sum() <= budget][-1]
        outer = next(box for box in boxes if box.sum() >= budget)
        assert (mask | ~inner).all()
        assert (outer | ~mask).all()


def test_centre_of_lines():
    mask = baseline_mask("centre", DATA, Pattern((2, 9), (1,)), 9 / 4)
    assert mask[0].nonzero().flatten().tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("count", [1, 2, 7, 40])
@pytest.mark.parametrize("n", [41, 65])
def test_spokes_are_straight_and_connected(n, count):
    """Beside Bresenham's lines between the ends: no location farther than one step, and about as many."""
    mask = spokes((n, n), count, turn=0.3).numpy()
    half, drawn = n // 2, np.zeros((n, n), bool)
    for angle in 0.3 + np.pi * np.arange(count) / count:
        direction = np.array([np.cos(angle), np.sin(angle)])
        end = np.round(half * direction / np.abs(direction).max()).astype(int)
        drawn[line(*(half - end), *(half + end))] = True
    assert label(mask, connectivity=2).max() == 1
    for one, other in ((mask, drawn), (drawn, mask)):
        distance, _ = cKDTree(np.argwhere(one)).query(np.argwhere(other))
        assert distance.max() <= 1
    assert mask.sum() == pytest.approx(drawn.sum(), rel=0.03)


@pytest.mark.parametrize("acceleration", [2, 4, 16, 32])
def test_radial_spokes_are_as_few_as_possible(acceleration):
    """Around the centre lies a ring of 2 N crossings, and N - 1 spokes do not reach the budget."""
    pattern = Pattern((256, 256), (0, 1))
    turn = np.pi * float(torch.rand((), generator=torch.Generator().manual_seed(3), dtype=torch.float64))
    mask = baseline_mask("radial", DATA, pattern, acceleration, seed=3)
    sizes = [int(spokes((256, 256), count, turn).sum()) for count in range(1, 300)]
    count = next(n for n in range(1, 300) if (mask <= spokes((256, 256), n, turn)).all())
    assert sizes[count - 1] >= pattern.budget(acceleration) > sizes[count - 2]
    if acceleration >= 16:
        angles = 2 * np.pi * np.arange(20000) / 20000
        ring = mask[tuple(np.round(128 + 120 * f(angles)).astype(int) for f in (np.sin, np.cos))].numpy()
        assert (ring & ~np.roll(ring, 1)).sum() == pytest.approx(2 * count, abs=2)


def test_radial_is_cut_at_the_outer_ends():
    pattern = Pattern((64, 64), (0, 1))
    turn = np.pi * float(torch.rand((), generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    mask = baseline_mask("radial", DATA, pattern, 8)
    whole = next(s for s in (spokes((64, 64), n, turn) for n in range(1, 99)) if (mask <= s).all())
    removed = whole & ~mask
    assert removed.any()
    assert pattern.distance()[removed].min() >= pattern.distance()[mask].max()


def nearest(samples):
    """The distance of each sample to the next one."""
    return cKDTree(samples).query(samples, k=2)[0][:, 1]


def outside(mask, low, high):
    samples = np.argwhere(mask.numpy())
    radius = np.linalg.norm((samples - 64) / 64, axis=1)
    return samples[(radius > low) & (radius < high)]


@pytest.mark.parametrize("acceleration", [4, 8, 16])
def test_poisson_keeps_its_distance(acceleration):
    """Samples spread out: more towards the edge, much more than by chance, and as in the masks of sigpy itself."""
    pattern, tolerance = Pattern((128, 128), (0, 1)), 0.05 * acceleration
    ours = masks_of("poisson", pattern, acceleration, 4)
    assert ours[:, 64 - 2 : 64 + 3, 64 - 2 : 64 + 3].all()
    published = [sigpy.mri.poisson((128, 128), acceleration, (1, 1), seed=n, tol=tolerance) for n in range(4)]
    theirs = torch.from_numpy(np.stack(published)).abs() > 0
    by_chance = masks_of("random", pattern, acceleration, 4)

    def distances(masks, low, high):
        return np.concatenate([nearest(outside(mask, low, high)) for mask in masks])

    inner, outer = (distances(ours, *ring) for ring in ((0.15, 0.4), (0.7, 1)))
    assert outer.mean() > 1.25 * inner.mean()
    assert (outer <= 1).mean() < 0.6 * (distances(by_chance, 0.7, 1) <= 1).mean()
    assert acceleration == 4 or outer.min() > 1
    for ring, found in (((0.15, 0.4), inner), ((0.7, 1), outer)):
        expected = distances(theirs, *ring)
        assert found.mean() == pytest.approx(expected.mean(), rel=0.08)
        assert len(found) == pytest.approx(len(expected), rel=0.1)


def test_poisson_is_filled_up_where_discs_cannot_be():
    """At x1.2 the corners are needed, and at x4 they are not."""
    pattern = Pattern((64, 64), (0, 1))
    corners = pattern.distance() >= 1
    assert baseline_mask("poisson", DATA, pattern, 1.2)[corners].any()
    assert not baseline_mask("poisson", DATA, pattern, 4)[corners].any()


def test_poisson_without_sigpy(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"need sigpy: pip install 'promask\[poisson\]'"):
        baseline_mask("poisson", DATA, Pattern((8, 8), (0, 1)), 4)


@pytest.mark.parametrize(("nominal", "achieved"), [(8, 6.2), (16, 10), (32, 14)])
def test_equispaced_of_the_paper(nominal, achieved):
    """The centre comes on top: what the published masks really achieve, at every offset."""
    pattern = Pattern((2, 256), (1,))
    masks = masks_of("equispaced-paper", pattern, nominal, 20 * nominal)[:, 0]
    assert 256 / masks.sum(1).double().mean() == pytest.approx(achieved, rel=0.04)
    assert masks[:, 123:133].all()
    expected = set()
    for offset in range(nominal):
        lines = np.zeros(256, bool)
        lines[offset::nominal] = lines[123:133] = True
        expected.add(tuple(lines.tolist()))
    assert {tuple(mask.tolist()) for mask in masks} == expected


def test_equispaced_of_the_paper_in_fractions():
    mask = baseline_mask("equispaced-paper", DATA, Pattern((2, 300), (1,)), 2.5, centre=0)[0]
    assert mask.sum() == 120
    assert set(mask.nonzero().flatten().diff().tolist()) == {2, 3}
    with_centre = baseline_mask("equispaced-paper", DATA, Pattern((2, 300), (1,)), 2.5, centre=40)[0]
    assert torch.equal(with_centre, mask | Pattern((2, 300), (1,)).centre(40))


def published_indices(n, count, random):
    """A number that is cut to an index, and counts from the end if it is negative."""
    indices = random.normal(n // 2, 35 / 256 * n, count).astype(int)
    return indices[(indices >= -n) & (indices < n)] % n


@pytest.mark.parametrize("n", [8, 32])
def test_shares_of_the_indices_of_the_paper(n):
    found = np.bincount(published_indices(n, 4_000_000, np.random.default_rng(0)), minlength=n)
    share = log_share(n).exp().numpy()
    assert chisquare(found, share / share.sum() * found.sum()).pvalue > 0.001


def test_gaussian_of_the_paper():
    """Locations are as frequent as in masks that are filled by drawing indices until the budget is met."""
    pattern, random, count = Pattern((16, 16), (0, 1)), np.random.default_rng(0), 500
    ours = masks_of("gaussian-paper", pattern, 4, count).double().mean(0).numpy()
    theirs = np.zeros((16, 16))
    for _ in range(count):
        rows, columns = published_indices(16, 2000, random), published_indices(16, 2000, random)
        drawn = dict.fromkeys(zip(rows.tolist(), columns.tolist(), strict=False))
        for place in list(drawn)[:64]:
            theirs[place] += 1 / count
    spread = np.sqrt(np.maximum(theirs * (1 - theirs), 0.01) * 2 / count)
    assert (np.abs(ours - theirs) / spread).max() < 4.5
    assert ours.sum() == pytest.approx(64)


def test_gaussian_of_the_paper_misses_the_centre():
    """256 x 256 at x32: in most draws, and never if the centre is asked for."""
    pattern = Pattern((256, 256), (0, 1))
    masks = masks_of("gaussian-paper", pattern, 32, 60)
    assert 0.55 < (~masks[:, 128, 128]).double().mean() < 0.9
    assert masks_of("gaussian-paper", pattern, 32, 10, centre=1)[:, 128, 128].all()
