from importlib import import_module

import pytest
import torch
from suites import check_baseline

from helpers import assert_global_random_state_is_untouched, smooth_images
from promask.baselines import BASELINES, baseline_mask
from promask.data.arrays import from_images
from promask.errors import InputError
from promask.operators.fourier import to_kspace
from promask.sampling.pattern import Pattern

DATA = from_images(smooth_images(4, channels=2, size=(32, 40), dtype=torch.complex64))
POINTS, LINES, ROWS = Pattern((32, 40), (0, 1)), Pattern((32, 40), (1,)), Pattern((32, 40), (0,))
PADDED = Pattern((32, 40), (1,), extent=((0, 32), (3, 38)))
AVAILABLE = [name for name, baseline in BASELINES.items() if not baseline.missing]


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """What is tested here does not depend on how long a baseline learns."""
    monkeypatch.setattr(import_module("promask.baselines.loupe"), "STEPS", 5)


@pytest.mark.parametrize("acceleration", [1, 2, 4, 7.3, 32])
@pytest.mark.parametrize("pattern", [POINTS, LINES, ROWS, PADDED], ids=["2d", "1d", "1d rows", "padded"])
@pytest.mark.parametrize("name", AVAILABLE)
def test_properties(name, pattern, acceleration):
    if len(pattern.free) not in BASELINES[name].free:
        with pytest.raises(InputError, match=r"masks are made of .*: choose the pattern \dd"):
            baseline_mask(name, DATA, pattern, acceleration)
    else:
        check_baseline(name, pattern, DATA, acceleration)


@pytest.mark.parametrize("name", AVAILABLE)
def test_a_central_block(name):
    pattern = POINTS if 2 in BASELINES[name].free else LINES
    for centre in (0, 1, 4, 7):
        check_baseline(name, pattern, DATA, 4, centre)


@pytest.mark.parametrize("name", [name for name in AVAILABLE if BASELINES[name].draws])
def test_seeds(name):
    pattern = POINTS if 2 in BASELINES[name].free else LINES
    masks = [baseline_mask(name, DATA, pattern, 4, seed) for seed in (0, 1, 2, 2**63 - 1)]
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) > 1


@pytest.mark.parametrize("name", AVAILABLE)
def test_global_random_state(name):
    pattern = POINTS if 2 in BASELINES[name].free else LINES
    assert_global_random_state_is_untouched(lambda: baseline_mask(name, DATA, pattern, 4))


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
