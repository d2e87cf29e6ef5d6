"""Point-spread functions against what is known of them, and against sums written out by hand."""

import math

import numpy as np
import pytest
import torch

from helpers import seeded
from promask.evaluation.point_spread import point_spread, spread_function
from promask.sampling.pattern import Pattern

PLANE = Pattern((64, 48), (0, 1))


def by_hand(mask, *place):
    """|sum over acquired k of exp(2 pi i k x / N)| / S, at any place in pixels."""
    axes = [np.arange(n) - n // 2 for n in mask.shape]
    turns = sum(
        (k * x / n).reshape([-1 if at == axis else 1 for at in range(mask.ndim)])
        for axis, (k, x, n) in enumerate(zip(axes, place, mask.shape, strict=True))
    )
    return abs((np.asarray(mask) * np.exp(2j * np.pi * turns)).sum()) / np.asarray(mask).sum()


def sinc_width():
    """The full width at half maximum of sin(pi x) / (pi x), by bisection."""
    low, high = 0.5, 0.7
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.sinc(middle) > 0.5 else (low, middle)
    return 2 * low


def test_a_complete_scan_is_a_dirichlet_kernel():
    found = point_spread(torch.ones(64, 48, dtype=torch.bool), PLANE, voxel=(1.0, 2.0))
    assert found.width == pytest.approx((sinc_width(),) * 2, rel=1e-3)
    assert sinc_width() == pytest.approx(1.207, abs=1e-3)
    assert found.width_mm == pytest.approx((found.width[0], 2 * found.width[1]))
    assert found.widening == (1, 1)
    assert found.main_lobe == pytest.approx((1, 1))
    assert found.side_lobe < 1e-9
    assert found.energy_outside < 1e-9


def test_a_central_block_widens_by_what_it_leaves_out():
    block = torch.zeros(64, 48, dtype=torch.bool)
    block[24:40, 18:30] = True
    found = point_spread(block, PLANE)
    assert found.width_mm is None
    assert found.widening == pytest.approx((4, 4), rel=0.005)
    assert found.main_lobe == pytest.approx((4, 4))
    # The first side lobe of a sinc, at 1.43 of its zero, is 0.217.
    assert found.side_lobe == pytest.approx(0.217, abs=0.01)


def test_a_lattice_has_equal_peaks():
    rows, columns = torch.arange(64), torch.arange(48)
    lattice = (rows % 2 == 0)[:, None] & (columns % 3 == 0)
    magnitudes = spread_function(lattice).abs()
    assert int((magnitudes > 1 - 1e-9).sum()) == 6
    assert int((magnitudes > 1e-9).sum()) == 6
    found = point_spread(lattice, PLANE)
    assert found.side_lobe == pytest.approx(1)
    assert found.energy_outside == pytest.approx(5 / 6)
    assert found.widening == pytest.approx((1, 1), rel=5e-3)


def test_random_masks_spread_evenly():
    mask = torch.rand(128, 128, generator=seeded()) < 0.2
    samples, share = int(mask.sum()), float(mask.double().mean())
    magnitudes = spread_function(mask).abs()
    magnitudes[64, 64] = 0
    typical = math.sqrt((1 - share) / samples)
    assert float(magnitudes.square().mean().sqrt()) == pytest.approx(typical, rel=0.01)
    found = point_spread(mask, Pattern((128, 128), (0, 1)))
    # The largest of many Rayleigh-distributed numbers.
    assert found.side_lobe == pytest.approx(typical * math.sqrt(math.log(128**2)), rel=0.2)
    assert found.energy_outside == pytest.approx(1 - share, abs=0.01)


def test_numbers_are_those_of_the_sums():
    mask = torch.rand(12, 9, generator=seeded(3)) < 0.3 + 0.6 * (Pattern((12, 9), (0, 1)).distance() < 0.2)
    found = point_spread(mask, Pattern((12, 9), (0, 1), directions=("ky", "kz")))
    assert found.directions == ("ky", "kz")
    for axis in (0, 1):
        half = [0.0, 0.0]
        half[axis] = found.width[axis] / 2
        assert by_hand(mask, *half) == pytest.approx(0.5, abs=0.002)
        end = [0.0, 0.0]
        end[axis] = found.main_lobe[axis]
        here = by_hand(mask, *end)
        for step in (-0.1, 0.1):
            assert by_hand(mask, *(each + step * (at == axis) for at, each in enumerate(end))) > here
    values = {(y, x): by_hand(mask, y, x) for y in range(-6, 6) for x in range(-4, 5)}
    outside = [
        value
        for place, value in values.items()
        if any(abs(each) >= end for each, end in zip(place, found.main_lobe, strict=True))
    ]
    assert found.side_lobe == pytest.approx(max(outside))
    total = sum(value**2 for value in values.values())
    assert found.energy_outside == pytest.approx(sum(value**2 for value in outside) / total)


def test_lines_have_one_direction():
    lines = torch.zeros(40, dtype=torch.bool)
    lines[[3, 11, 18, 19, 20, 21, 29, 36]] = True
    found = point_spread(lines, Pattern((8, 40), (1,), directions=("kx", "ky")), voxel=(5.0, 0.5))
    assert found.directions == ("ky",)
    assert found.width_mm == pytest.approx((found.width[0] / 2,))
    assert by_hand(lines, found.width[0] / 2) == pytest.approx(0.5, abs=0.002)


def test_padding_widens_a_complete_scan_and_is_not_held_against_masks():
    pattern = Pattern((8, 40), (1,), extent=((0, 8), (10, 30)))
    found = point_spread(~pattern.padding(), pattern)
    assert found.width[0] == pytest.approx(2 * 1.207, rel=0.01)
    assert found.widening == (1,)


def test_a_single_line_resolves_nothing():
    line = torch.arange(32) == 16
    found = point_spread(line, Pattern((8, 32), (1,)))
    assert found.width == (32,)
    assert (found.side_lobe, found.energy_outside) == (0, 0)
