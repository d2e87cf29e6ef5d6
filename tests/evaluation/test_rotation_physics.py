"""Point-spread functions, gaps, densities and noise of spokes, against sums written out and known numbers."""

import math

import numpy as np
import pytest
import torch
from scipy.special import j1

from helpers import coil_maps, seeded, smooth_images
from promask.evaluation.noise import measure_noise
from promask.evaluation.physics import mask_physics
from promask.evaluation.rotations import angular_density, angular_energy, gaps, nyquist_radius, rotation_spread
from promask.operators.trajectory import Trajectory
from promask.operators.trajectory_transform import TrajectoryTransform
from promask.recon.gridding import Gridding
from promask.sampling.angles import AngularDensity
from promask.sampling.pattern import Pattern
from promask.types import Geometry, Sample

SPOKES = Pattern.on((32, 32), Geometry(), "radial")
FRAMES = Pattern.on((4, 16, 16), Geometry().series("frame", 4), "kt-radial")
STACK = Pattern.on((5, 16, 16), Geometry(), "stack-of-stars")


def acquired(*places):
    units = torch.zeros(SPOKES.unit_shape, dtype=torch.bool)
    units[list(places)] = True
    return units


def by_hand(units, pattern, y, x):
    """|sum of area exp(2 pi i k r)| with the peak of 1; each spoke has half the angles to its neighbours."""
    trajectory = pattern.trajectory
    place = units.nonzero().flatten().tolist()
    after = [*place[1:], place[0] + trajectory.candidates]
    before = [place[-1] - trajectory.candidates, *place[:-1]]
    shares = np.array([(late - early) / 2 for early, late in zip(before, after, strict=True)])
    weights = shares[:, None] * trajectory.areas.numpy()
    ky, kx = trajectory.points[place].numpy().transpose(2, 0, 1)
    return abs((weights * np.exp(2j * np.pi * (ky * y + kx * x))).sum()) / weights.sum()


@pytest.mark.parametrize("kind", ["radial", "spiral"])
def test_the_point_spread_function_is_the_weighted_sum_of_all_samples(kind):
    pattern = Pattern.on((16, 16), Geometry(), kind)
    units = torch.zeros(pattern.unit_shape, dtype=torch.bool)
    units[[0, 9, 14, 31, 50, 71, 90]] = True
    (found,) = rotation_spread(units, pattern).abs().numpy()
    assert found.shape == (32, 32)
    assert found[16, 16] == pytest.approx(1)
    for y, x in ((16, 16), (0, 0), (12, 21), (31, 5), (17, 16)):
        assert found[y, x] == pytest.approx(by_hand(units, pattern, y - 16, x - 16), abs=1e-5)


def jinc_width():
    """The full width at half maximum of 2 J1(pi r) / (pi r), by bisection."""
    low, high = 0.5, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 2 * j1(np.pi * middle) / (np.pi * middle) > 0.5 else (low, middle)
    return 2 * low


def test_many_spokes_are_a_disc():
    mask = SPOKES.expand(torch.ones(SPOKES.unit_shape, dtype=torch.bool))
    found = mask_physics(mask, SPOKES, voxel=(1.0, 2.0)).point_spread
    assert jinc_width() == pytest.approx(1.41, abs=2e-3)
    assert found.directions == ("ky", "kx")
    assert found.width == pytest.approx((jinc_width(),) * 2, rel=2e-3)
    assert found.width_mm == pytest.approx((found.width[0], 2 * found.width[1]))
    assert found.widening == pytest.approx((1, 1))
    assert found.main_lobe == pytest.approx((1.22, 1.22), abs=0.02)  # the first zero of J1
    ring = 2 * abs(j1(np.pi * math.sqrt(2))) / (np.pi * math.sqrt(2))
    assert found.side_lobe == pytest.approx(ring, rel=0.05)


def test_fewer_spokes_leave_more_outside_of_the_main_lobe():
    masks = [SPOKES.expand(AngularDensity().place(SPOKES, count)) for count in (6, 12, 24, 48)]
    outside = [mask_physics(mask, SPOKES).point_spread.energy_outside for mask in masks]
    assert outside == sorted(outside, reverse=True)
    assert outside[0] > 0.9
    assert outside[-1] < 0.4


def test_gaps_and_radii_are_those_of_the_angles():
    found = mask_physics(SPOKES.expand(acquired(0, 8, 24, 48)), SPOKES).density
    angles = found.angles
    assert (found.samples, found.acceleration) == (4, SPOKES.full / 4)
    assert (angles.noun, angles.candidates, angles.complete) == ("spokes", 96, 51)
    assert (angles.smallest_gap, angles.largest_gap) == (15, 90)  # steps of 1.875 degrees: 8, 16, 24 and 48
    assert angles.nyquist_radius == pytest.approx(2 / (32 * math.pi / 2))
    reached = {15: 2 / (32 * math.pi / 12), 30: 2 / (32 * math.pi / 6), 45: 2 / (32 * math.pi / 4)}
    for radius, share in zip(found.radius, found.share, strict=True):
        expected = sum(angle for angle, reach in reached.items() if reach >= radius)
        expected += 90 * (angles.nyquist_radius >= radius)
        assert share == pytest.approx(expected / 180)
    assert sorted(gaps(acquired(0, 8, 24, 48)[None]).tolist()) == [8, 16, 24, 48]


def test_a_complete_scan_reaches_the_edge():
    for kind, complete in (("radial", 51), ("spiral", 32)):
        trajectory = Trajectory.of(kind, (32, 32))
        degrees = torch.tensor(math.degrees(trajectory.period) / complete)
        assert float(nyquist_radius(degrees, trajectory)) == pytest.approx(1, abs=0.02)
        assert float(nyquist_radius(2 * degrees, trajectory)) < 0.51


def test_the_density_is_that_of_which_spokes_were_made():
    truth = AngularDensity(waves=(0.6, 0.0, 0.0, 0.3))
    pattern = Pattern.on((128, 128), Geometry(), "radial")
    rows = truth.place(pattern, 64)[None]
    places = torch.linspace(0, 0.9, 10, dtype=torch.float64)
    everywhere = truth.density(torch.linspace(0, 0.999, 1000, dtype=torch.float64))
    expected = truth.density(places) / everywhere.mean()
    torch.testing.assert_close(angular_density(rows, places), expected, atol=0.12, rtol=0)
    even = angular_density(AngularDensity().place(pattern, 64)[None], places)
    torch.testing.assert_close(even, torch.ones_like(even), atol=0.02, rtol=0)


def test_of_frames_all_together_are_told_as_well():
    units = AngularDensity(turn=0.5).place(FRAMES, 16)
    found = mask_physics(FRAMES.expand(units), FRAMES)
    assert found.density.per_frame == (4, 4, 4, 4)
    assert found.density.angles.largest_gap == 45
    still = rotation_spread(units, FRAMES)[2].abs()  # f = 0
    frame = rotation_spread(units[0], Pattern.on((16, 16), Geometry(), "radial"))[0]
    other = rotation_spread(units[1], Pattern.on((16, 16), Geometry(), "radial"))[0]
    torch.testing.assert_close(still, ((frame + other) / 2).abs(), atol=1e-5, rtol=0)
    assert found.point_spread.average_side_lobe <= found.point_spread.side_lobe


def test_a_stack_has_a_width_along_z_as_well():
    units = AngularDensity(falloff=1.0).place(STACK, 30)
    found = mask_physics(STACK.expand(units), STACK, voxel=(3.0, 1.0, 1.0))
    assert found.point_spread.directions == ("kz", "ky", "kx")
    assert found.density.angles.per_partition == tuple(units.sum(0).tolist())
    assert found.point_spread.width_mm[0] == pytest.approx(3 * found.point_spread.width[0])
    numbers = found.summary()
    assert numbers["density"]["angles"]["noun"] == "spokes"
    assert numbers["point_spread"]["directions"] == ["kz", "ky", "kx"]


def test_energy_lies_across_the_edges_of_images():
    """Rows that differ from each other: all of k-space off the axis ky is empty."""
    image = torch.randn(32, 1, generator=seeded()).expand(32, 32)[None].to(torch.complex64)
    kspace = TrajectoryTransform(SPOKES.trajectory).sample(image[None])[0]
    found = angular_energy([Sample(image, None, "", "rows", kspace=kspace)] * 2, SPOKES)
    assert float(found.mean()) == pytest.approx(1)
    assert int(found.argmax()) == 48, "90 degrees, along ky"
    assert float(found[44:53].sum()) > 0.5 * float(found.sum())


def test_noise_is_that_of_the_matrix_of_gridding():
    """Gridding is linear: the noise of a pixel is the norm of its row; of twice the samples, each has more."""
    pattern = Pattern.on((8, 8), Geometry(), "radial")
    trajectory, maps = pattern.trajectory, coil_maps(2, (8, 8))[0].to(torch.complex64)
    image = maps * (1 + smooth_images(1, size=(8, 8))[0].to(torch.complex64))
    kspace = TrajectoryTransform(trajectory).sample(image[None])[0]
    sample = Sample(image, None, "", "one", maps=maps, kspace=kspace)
    units = AngularDensity().place(pattern, 6)
    mask = pattern.expand(units)
    found = measure_noise(sample, mask, Gridding(), 1.0, replicas=400, trajectory=trajectory)
    chosen = mask.nonzero()
    impulses = torch.zeros(2 * len(chosen), 2, *mask.shape, dtype=torch.complex64)
    for number, (angle, place) in enumerate(chosen.tolist()):
        for coil in (0, 1):
            impulses[2 * number + coil, coil, angle, place] = 1
    rows = Gridding().from_spectra(impulses, mask.float(), maps[None], trajectory)
    expected = math.sqrt(2) * rows.abs().square().sum((0, 1)).sqrt()
    inside = ~found.amplification.isnan()
    assert inside.any()
    torch.testing.assert_close(found.amplification[inside], expected[inside], rtol=0.2, atol=0)
    ratio = (found.amplification[inside] / expected[inside]).mean()
    assert float(ratio) == pytest.approx(1, abs=0.02)
    assert found.acceleration == pytest.approx(8 / 6), "8 lines of a Cartesian scan, and 6 spokes"
