"""Where the samples of spokes and spirals lie, by hand."""

import math
import subprocess
import sys

import pytest
import torch

from promask.errors import InputError
from promask.operators.trajectory import Trajectory


def test_spokes_by_hand():
    spokes = Trajectory.of("radial", (8, 8), candidates=4)
    assert spokes.samples == 16
    assert spokes.full == 4, "a complete scan cannot have more than there are"
    along = (torch.arange(16, dtype=torch.float64) - 8) / 16
    zero = torch.zeros_like(along)
    expected = [(zero, along), (along / 2**0.5,) * 2, (along, zero), (along / 2**0.5, -along / 2**0.5)]
    assert torch.allclose(spokes.points, torch.stack([torch.stack(each, 1) for each in expected]))


@pytest.mark.parametrize(("size", "complete", "candidates"), [(96, 151, 192), (192, 302, 384), (256, 403, 480)])
def test_a_complete_scan_is_that_of_nyquist(size, complete, candidates):
    spokes = Trajectory.of("radial", (size, size // 2))
    assert (spokes.full, spokes.candidates, spokes.oversampling) == (complete, candidates, 2)
    # At the end of the spokes, neighbours are at most a pixel of k-space apart.
    assert math.pi / spokes.full * 0.5 <= 1 / size < math.pi / (spokes.full - 2) * 0.5


def test_spirals_reach_the_edge_and_turn_at_the_nyquist_distance():
    spiral = Trajectory.of("spiral", (64, 64), candidates=96)
    radius = torch.linalg.vector_norm(spiral.interleaf, dim=1)
    assert radius[0] == 0
    assert float(radius[-1]) == pytest.approx(0.5)
    turns = torch.atan2(spiral.interleaf[:, 0], spiral.interleaf[:, 1]).diff().remainder(2 * math.pi).sum() / (
        2 * math.pi
    )
    assert float(0.5 / turns) / spiral.full == pytest.approx(1 / 64, rel=0.02), "between the turns of neighbours"
    steps = torch.linalg.vector_norm(spiral.interleaf.diff(dim=0), dim=1)
    assert float(steps.max() / steps.min()) < 1.02
    assert float(steps.mean()) == pytest.approx(1 / 128, rel=0.02)
    half = spiral.points[48]
    assert torch.allclose(half, -spiral.interleaf, atol=1e-12), "interleaves come again after a full turn"


@pytest.mark.parametrize("kind", ["radial", "spiral"])
def test_areas_are_those_of_the_disc(kind):
    trajectory = Trajectory.of(kind, (48, 40), candidates=20)
    total = float(trajectory.areas.sum()) * trajectory.candidates / (48 * 40)
    assert total == pytest.approx(math.pi / 4, rel=2e-3)
    # What lies within a circle is the area of that circle.
    inside = torch.linalg.vector_norm(trajectory.interleaf, dim=1) < 0.25
    assert float(trajectory.areas[inside].sum()) * 20 / (48 * 40) == pytest.approx(math.pi / 16, rel=0.05)


def test_what_cannot_be():
    with pytest.raises(InputError, match="Unknown trajectory 'cones': choose one of radial, spiral"):
        Trajectory("cones", 8, 8, (8, 8))
    with pytest.raises(InputError, match="needs at least 1 candidate"):
        Trajectory("radial", 0, 8, (8, 8))


def test_nobody_imports_finufft_without_need():
    code = "import sys, promask, promask.recon, promask.learning.api; assert 'finufft' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
