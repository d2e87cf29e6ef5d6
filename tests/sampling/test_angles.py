"""Sets of spokes: exact numbers, equal distances, densities."""

import math

import pytest
import torch

from helpers import seeded
from promask.errors import InputError
from promask.sampling.angles import GOLDEN, AngularDensity, place_rows, row_counts, steps_of
from promask.sampling.limits import LimitSettings
from promask.sampling.pattern import Pattern
from promask.types import Geometry

SPOKES = Pattern.on((32, 32), Geometry(), "radial")
FRAMES = LimitSettings().on(Pattern.on((6, 32, 32), Geometry().series("frame", 6), "kt-radial"))
STACK = Pattern.on((5, 32, 32), Geometry(), "stack-of-stars")


@pytest.mark.parametrize("budget", [1, 7, 8, 24, 51])
@pytest.mark.parametrize("numbers", [(0, 0, 0, 0, 0.3), (0.8, -0.5, 0.3, 0.2, 0.1), (2.5, 2.5, 2.5, 2.5, 0)])
def test_the_number_is_exact(budget, numbers):
    density = AngularDensity(numbers[:4], numbers[4], turn=0.4, falloff=1.5)
    assert int(density.place(SPOKES, budget).sum()) == budget
    of_frames = density.place(FRAMES, 6 * budget)
    assert of_frames.sum(1).tolist() == [budget] * 6
    assert int(density.place(STACK, 3 * budget).sum()) == 3 * budget


@pytest.mark.parametrize("budget", [8, 12, 16, 32])
def test_uniform_spokes_have_equal_distances(budget):
    places = AngularDensity(offset=0.2).place(SPOKES, budget).nonzero().flatten()
    assert set(places.diff().tolist()) == {96 // budget}
    assert int(places[0]) == round(0.2 * 96 / budget)


def test_spokes_follow_the_density():
    density = AngularDensity((0.9, 0.0, 0.0, -0.5))
    many = Pattern.on((32, 32), Geometry(), "radial")
    places = density.place(many, 40).nonzero().flatten().double() / 96
    edges = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    sums = density.density(edges).cumsum(0)
    shares = (sums / sums[-1])[(places * 100_000).long()]
    # The share of the density up to each spoke grows evenly, but for the grid of candidates.
    assert float((shares - torch.arange(40) / 40).abs().max()) < 0.02


def test_fewer_spokes_far_from_the_middle_of_a_stack():
    assert row_counts(STACK, 50) == [10] * 5
    counts = row_counts(STACK, 50, falloff=1.0)
    assert counts[2] == max(counts)
    assert counts == sorted(counts[:3]) + sorted(counts[3:], reverse=True)
    assert sum(counts) == 50
    assert max(row_counts(STACK, 400, falloff=9.0)) == 96, "no more than there are"


def test_golden_steps_by_the_formula():
    found = steps_of(SPOKES, 5, GOLDEN).nonzero().flatten().tolist()
    degrees = [place * 111.246117975 % 180 for place in range(5)]
    assert found == sorted(round(angle / 180 * 96) % 96 for angle in degrees)
    rows = steps_of(FRAMES, 12, GOLDEN)
    together = [round(place * GOLDEN % 1 * 96) % 96 for place in range(12)]
    assert [sorted(together[2 * frame : 2 * frame + 2]) for frame in range(6)] == [
        row.nonzero().flatten().tolist() for row in rows
    ]


def test_places_that_are_taken():
    found = place_rows(SPOKES, [[0.0, 0.001, 0.999, 0.5]])
    assert found.nonzero().flatten().tolist() in ([0, 1, 48, 95],)


def test_patterns_along_trajectories():
    units = torch.rand(SPOKES.unit_shape, generator=seeded())
    assert (SPOKES.name, FRAMES.name, STACK.name) == ("radial", "kt-radial", "stack-of-stars")
    assert (SPOKES.units, SPOKES.full, STACK.full) == (96, math.ceil(16 * math.pi), 5 * 51)
    assert SPOKES.expand(units).shape == (96, 64)
    assert torch.equal(SPOKES.restrict(SPOKES.expand(units)), units)
    assert SPOKES.budget(51 / 16) == 16
    assert FRAMES.budget(51 / 4) == 24
    assert (SPOKES.image_shape, FRAMES.image_shape, STACK.image_shape) == ((32, 32), (6, 32, 32), (5, 32, 32))
    assert SPOKES.slicing_axis is FRAMES.slicing_axis is STACK.slicing_axis is None
    always = torch.zeros(FRAMES.unit_shape, dtype=torch.bool)
    theta = FRAMES.project(torch.rand(FRAMES.unit_shape, generator=seeded(1)), 24, always)
    assert torch.allclose(theta.sum(1), torch.full((6,), 4.0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shutter": "ellipse"}, "for Cartesian patterns|two undersampled directions"),
        ({"partial_fourier": {"angle": 0.75}}, "no direction|for Cartesian patterns"),
        ({"period": 3}, "frames that have their own pattern"),
    ],
)
def test_limits_are_for_cartesian_patterns(settings, message):
    with pytest.raises(InputError, match=message):
        LimitSettings(**settings).on(SPOKES)
    with pytest.raises(InputError, match="all spokes have the centre in them"):
        SPOKES.block(4, 16)
    with pytest.raises(InputError, match="from 1 to 51, the number of spokes of a complete scan"):
        SPOKES.budget(60)
