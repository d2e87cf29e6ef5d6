"""Samples at given places: areas and images as for candidates at the same places."""

import math

import pytest
import torch

from helpers import coil_maps, seeded, smooth_images
from promask.operators.measured_trajectory import MeasuredTrajectory
from promask.operators.trajectory import Trajectory
from promask.operators.trajectory_transform import TrajectoryTransform
from promask.recon.gridding import gap_weights, grid

SPACE = (20, 18)


def test_uneven_spokes_are_gridded_as_candidates_are():
    candidates = Trajectory.of("radial", SPACE, 24)
    chosen = torch.tensor([0, 1, 4, 9, 10, 17, 23])
    mask = torch.zeros(24, dtype=torch.float64)
    mask[chosen] = 1
    scan = MeasuredTrajectory.along(candidates.points[chosen], SPACE)
    expected = gap_weights(mask)[chosen, None] * candidates.areas
    assert torch.allclose(scan.areas.reshape(7, -1), expected)
    maps = coil_maps(3, SPACE)
    images = maps * smooth_images(1, 1, SPACE, phase=True).to(torch.complex128)
    kspace = TrajectoryTransform(candidates).sample(images)
    one = grid(kspace, mask[:, None].expand(24, candidates.samples), maps, candidates)
    everything = torch.ones(1, scan.samples, dtype=torch.float64)
    other = grid(kspace[:, :, chosen].flatten(-2).unsqueeze(2), everything, maps, scan)
    assert torch.allclose(one, other, atol=1e-10)


def test_order_and_direction_of_spokes_do_not_matter():
    angles = torch.tensor([0.3, 2.9, 1.1, 0.35], dtype=torch.float64)
    radius = (torch.arange(32, dtype=torch.float64) - 15.5) / 32
    shots = torch.stack([angles.sin()[:, None] * radius, angles.cos()[:, None] * radius], 2)
    areas = MeasuredTrajectory.along(shots, SPACE).areas.reshape(4, -1)
    order = [2, 0, 3, 1]
    turned = MeasuredTrajectory.along(shots[order].flip(1), SPACE).areas.reshape(4, -1)
    assert torch.allclose(turned.flip(1), areas[order])
    gaps = areas[:, 0] / areas[:, 0].sum() * math.pi
    by_hand = [(0.35 - (2.9 - math.pi)) / 2, (0.3 + math.pi - 1.1) / 2, (2.9 - 0.35) / 2, (1.1 - 0.3) / 2]
    assert gaps.tolist() == pytest.approx(by_hand)


def test_spokes_from_the_centre_outwards():
    angles = torch.arange(8, dtype=torch.float64) * math.pi / 4
    radius = torch.arange(17, dtype=torch.float64) / 34
    shots = torch.stack([angles.sin()[:, None] * radius, angles.cos()[:, None] * radius], 2)
    scan = MeasuredTrajectory.along(shots, SPACE)
    assert scan.kind == "radial"
    disc = math.pi * (16.5 / 34) ** 2 * math.prod(SPACE)
    assert float(scan.areas.sum()) == pytest.approx(disc, rel=0.01)


def test_areas_of_other_trajectories():
    """Those of a spiral, and of the Cartesian grid, where all are 1."""
    spiral = Trajectory.of("spiral", (32, 32), 16)
    scan = MeasuredTrajectory.along(spiral.points, (32, 32))
    assert scan.kind == "spiral"
    inner = torch.linalg.vector_norm(spiral.interleaf, dim=1) < 0.45
    middle = scan.areas.reshape(16, -1)[:, inner][:, 2:]
    assert torch.allclose(middle, spiral.areas[inner][2:].expand_as(middle), rtol=0.25)
    y, x = torch.meshgrid(*((torch.arange(8) - 4) / 8 for _ in range(2)), indexing="ij")
    lines = MeasuredTrajectory.along(torch.stack([y, x], 2).double(), (8, 8))
    assert torch.allclose(lines.areas, torch.ones(64, dtype=torch.float64))


def test_samples_at_one_place_share_its_area():
    points = torch.rand(1, 50, 2, generator=seeded(0), dtype=torch.float64) - 0.5
    one = MeasuredTrajectory.along(points, SPACE)
    two = MeasuredTrajectory.along(points.repeat(2, 1, 1), SPACE)
    assert torch.allclose(two.areas, one.areas.repeat(2) / 2)
    line = torch.stack([torch.full((9,), 0.3), torch.linspace(-0.4, 0.4, 9)], 1).double()
    assert MeasuredTrajectory.along(line[None], SPACE).areas.isfinite().all()
