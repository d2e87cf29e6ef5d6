"""Sampling densities, gaps and calibration regions against NumPy and counting by hand."""

import itertools
import math

import numpy as np
import pytest
import torch

from helpers import seeded
from promask.evaluation.density import calibration_region, sampling_density
from promask.sampling.pattern import Pattern


def random_mask(shape, seed=0, centre=(4, 6)):
    pattern = Pattern(tuple(shape), tuple(range(len(shape))))
    mask = torch.rand(tuple(shape), generator=seeded(seed)) < 0.4
    starts = [n // 2 - width // 2 for n, width in zip(shape, centre, strict=False)]
    mask[tuple(slice(start, start + width) for start, width in zip(starts, centre, strict=False))] = True
    return mask, pattern


def test_the_share_of_each_distance():
    mask, pattern = random_mask((24, 30))
    found = sampling_density(mask, pattern)
    for radius, share in zip(found.radius, found.share, strict=True):
        inside = acquired = 0
        end = math.inf if radius == found.radius[-1] else radius + 0.025 - 1e-9
        for y, x in itertools.product(range(24), range(30)):
            if radius - 0.025 - 1e-9 <= math.hypot((y - 12) / 12, (x - 15) / 15) < end:
                inside += 1
                acquired += bool(mask[y, x])
        assert math.isnan(share) if not inside else share == pytest.approx(acquired / inside)
    assert found.radius[:2] == pytest.approx((0.025, 0.075))


def test_counts_and_accelerations():
    mask, pattern = random_mask((24, 30), seed=2)
    found = sampling_density(mask, pattern)
    bits = mask.numpy()
    assert found.samples == bits.sum()
    assert found.acceleration == pytest.approx(24 * 30 / bits.sum())
    assert [list(each) for each in found.per_direction] == [bits.sum(1).tolist(), bits.sum(0).tolist()]
    y, x = np.mgrid[-12:12, -15:15]
    ellipse = (y / 12) ** 2 + (x / 15) ** 2 <= 1
    assert found.outside_ellipse == (bits & ~ellipse).sum()
    assert found.acceleration_in_ellipse == pytest.approx(ellipse.sum() / (bits & ellipse).sum())


def test_the_largest_gap_along_each_direction():
    mask = torch.zeros(9, 8, dtype=torch.bool)
    mask[[0, 5, 7, 4, 4], [2, 2, 2, 3, 6]] = True
    found = sampling_density(mask, Pattern((9, 8), (0, 1)))
    assert found.largest_gap == (5, 3)
    assert sampling_density(torch.arange(8) == 4, Pattern((4, 8), (1,))).largest_gap == (0,)


@pytest.mark.parametrize("seed", range(6))
def test_the_calibration_region_is_the_largest_block(seed):
    mask = torch.rand(9, 12, generator=seeded(seed)) < 0.9
    mask[3:6, 4:8] = True
    best = 0
    for height, width in itertools.product(range(1, 10), range(1, 13)):
        top, left = 4 - height // 2, 6 - width // 2
        if mask[top : top + height, left : left + width].all():
            best = max(best, height * width)
    assert math.prod(calibration_region(mask)) == best >= 12
    height, width = calibration_region(mask)
    assert mask[4 - height // 2 :, 6 - width // 2 :][:height, :width].all()


def test_the_calibration_region_that_was_asked_for_is_found():
    for pattern in (Pattern((20, 17), (0, 1)), Pattern((20, 17), (1,)), Pattern((6, 8, 9), (0, 1, 2))):
        assert calibration_region(pattern.centre(5)) == (5,) * len(pattern.free)
        assert calibration_region(torch.zeros(pattern.unit_shape, dtype=torch.bool)) == (0,) * len(pattern.free)


def test_padding_could_not_be_acquired():
    pattern = Pattern((8, 20), (1,), extent=((0, 8), (4, 20)))
    found = sampling_density(~pattern.padding(), pattern)
    assert found.acceleration == 1
    assert found.acceleration_in_ellipse == 1
    assert {share for share in found.share if not math.isnan(share)} == {1.0}


def test_the_summary_is_plain():
    mask, pattern = random_mask((24, 30))
    summary = sampling_density(mask, pattern).summary()
    assert summary["per_direction"]["axis 1"] == mask.sum(0).tolist()
    assert not any(isinstance(each, float) and math.isnan(each) for each in summary["share"])
