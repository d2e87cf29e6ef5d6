"""Reconstructions along trajectories: against explicit sums, dense algebra and finite differences."""

import math

import pytest
import torch

from helpers import coil_maps, seeded, smooth_images
from promask.errors import InputError
from promask.operators.encoding import encode
from promask.operators.trajectory import Trajectory
from promask.operators.trajectory_transform import TrajectoryTransform
from promask.recon import RECONSTRUCTIONS, CgSense, CompressedSensing, Gridding, make_reconstruction
from promask.recon.base import is_temporal, reconstruct_spectra
from promask.recon.gridding import gap_weights, grid

SPACE = (10, 9)
COILS = 3
ABLE = [name for name in RECONSTRUCTIONS if getattr(make_reconstruction(name), "trajectories", False)]


def explicit(trajectory: Trajectory) -> torch.Tensor:
    """The matrix of the transform, (candidate, sample, pixel), as the definition has it."""
    y, x = (torch.arange(n, dtype=torch.float64) - n // 2 for n in trajectory.matrix)
    turns = trajectory.points[..., :1, None] * y[:, None] + trajectory.points[..., 1:, None] * x
    waves = torch.polar(torch.ones_like(turns), -2 * torch.pi * turns)
    return waves.flatten(2) / math.sqrt(len(y) * len(x))


def measured(trajectory: Trajectory, images: torch.Tensor) -> torch.Tensor:
    return torch.einsum("csp,bkp->bkcs", explicit(trajectory), images.flatten(2))


def shape_of(space: tuple[int, ...], trajectory: Trajectory, indexes: int) -> tuple[int, ...]:
    return (*space[:indexes], trajectory.candidates, *space[indexes:-2], trajectory.samples)


def scan(kind: str = "radial", stack: int = 0, frames: int = 0, candidates: int = 8):
    """Samples of all candidates, sensitivities, and random weights of spokes, (2, 1, *kspace)."""
    trajectory = Trajectory.of(kind, SPACE, candidates)
    space = (*([frames] if frames else []), *([stack] if stack else []), *SPACE)
    maps = coil_maps(COILS, space[bool(frames) :])
    maps = maps.unsqueeze(2) if frames else maps
    images = maps * smooth_images(2, 1, space, phase=True).to(torch.complex128)
    kspace = TrajectoryTransform(trajectory, bool(stack)).sample(images)
    shape = shape_of(space, trajectory, bool(frames))
    mask = 0.2 + 0.6 * torch.rand(2, 1, *shape[:-1], 1, generator=seeded(7), dtype=torch.float64)
    return trajectory, kspace, maps, mask.expand(2, 1, *shape)


def reconstructed(name, trajectory, kspace, mask, maps, frames=0):
    recon = make_reconstruction(name) if isinstance(name, str) else name
    return reconstruct_spectra(recon, kspace, mask, maps, int(frames > 0), trajectory)


@pytest.mark.parametrize("kind", ["radial", "spiral"])
def test_samples_are_those_of_the_explicit_sum(kind):
    trajectory, kspace, maps, _ = scan(kind=kind)
    images = maps * smooth_images(2, 1, SPACE, phase=True).to(torch.complex128)
    assert torch.allclose(kspace, measured(trajectory, images), atol=1e-9)


@pytest.mark.parametrize("kind", ["radial", "spiral"])
def test_cg_sense_solves_the_equations_of_dense_algebra(kind):
    trajectory, kspace, maps, mask = scan(kind=kind)
    mask = (torch.rand(mask.shape[-2], generator=seeded(3)) < 0.6).double()[:, None].expand(mask.shape[-2:])
    regularisation = 0.02
    made = reconstructed(CgSense(regularisation, 200), trajectory, kspace, mask, maps)
    matrix = explicit(trajectory)
    weights = trajectory.weights * mask / mask.mean()
    for item in range(2):
        rows = torch.cat([(matrix * each.flatten()).flatten(0, 1) for each in maps[0]])
        heavy = weights.flatten().repeat(COILS)
        normal = rows.mH @ (heavy[:, None] * rows) + regularisation * torch.eye(rows.shape[1])
        right = rows.mH @ (heavy * kspace[item].flatten())
        assert torch.allclose(made[item].flatten(), torch.linalg.solve(normal, right), atol=1e-6)


@pytest.mark.parametrize("stack", [0, 4])
@pytest.mark.parametrize("frames", [0, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_the_normal_operator_is_that_of_the_transform(stack, frames, shared):
    if stack and frames:
        pytest.skip("stacks of series are not offered")
    trajectory, kspace, maps, mask = scan(stack=stack, frames=frames)
    mask = mask[:1] if shared else mask
    data, weights, encoding = encode(kspace, mask, maps, trajectory, int(frames > 0))
    space = (*([frames] if frames else []), *([stack] if stack else []), *SPACE)
    image = torch.randn((2, 1, *space), generator=seeded(5), dtype=torch.complex128)
    expected = encoding.adjoint(encoding(image), weights)
    assert torch.allclose(encoding.normal(image, weights), expected, atol=1e-9)
    misfit = encoding.adjoint(encoding(image) - data, weights)
    assert torch.allclose(encoding.misfit(image, data, weights), misfit, atol=1e-9)
    inner = torch.vdot((encoding(image) * weights).flatten(), data.flatten())
    assert torch.isclose(inner, torch.vdot(image.flatten(), encoding.adjoint(data, weights).flatten()))
    norms = encoding.transform.largest_eigenvalue(weights)
    found = [torch.linalg.vector_norm(encoding.normal(image, weights)) / torch.linalg.vector_norm(image)]
    assert float(norms.max()) >= 0.99 * float(max(found))


@pytest.mark.parametrize("name", ABLE)
@pytest.mark.parametrize("stack", [0, 4])
def test_derivatives_are_finite_differences(name, stack, monkeypatch):
    frames = 4 if is_temporal(make_reconstruction(name)) else 0
    if stack and frames:
        pytest.skip("stacks of series are not offered")
    # The power iteration has not come to its end, and its derivative is tested by itself.
    monkeypatch.setattr(TrajectoryTransform, "largest_eigenvalue", lambda self, mask: torch.tensor(4.0).double())
    trajectory, kspace, maps, mask = scan(stack=stack, frames=frames)
    units = mask[..., :1].clone()
    linear = getattr(make_reconstruction(name), "linear", False)  # whose derivative is that of the solution
    recon = make_reconstruction(name, *((300, 0.01) if linear else ()))
    weights = torch.randn(2, 1, 1, dtype=torch.complex128, generator=seeded(1))

    def loss(values):
        made = reconstructed(recon, trajectory, kspace, values.expand(mask.shape), maps, frames)
        return (made.flatten(2) * weights).real.square().sum()

    variable = units.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(variable), variable)
    direction = torch.randn(units.shape, generator=seeded(9), dtype=torch.float64)
    direction -= direction.mean()
    step = 1e-5
    change = float(loss(units + step * direction) - loss(units - step * direction)) / (2 * step)
    assert float((gradient * direction).sum()) == pytest.approx(change, rel=2e-3)


def test_the_largest_eigenvalue_and_its_derivative():
    trajectory, _, _, mask = scan()
    matrix, weights = explicit(trajectory), trajectory.weights
    transform = TrajectoryTransform(trajectory)
    units = mask[:1, ..., :1].clone().requires_grad_()

    def dense(of_units):
        heavy = (of_units * weights).flatten()
        rows = matrix.flatten(0, 1)
        return torch.linalg.eigvalsh(rows.mH @ (heavy[:, None] * rows))[-1]

    found = transform.largest_eigenvalue(units)
    assert float(found.detach()) == pytest.approx(float(dense(units[0, 0]).detach()), rel=0.03)
    (gradient,) = torch.autograd.grad(found.sum(), units)
    (exact,) = torch.autograd.grad(dense(units[0, 0]), units)
    assert torch.dist(gradient, exact) < 0.25 * torch.linalg.vector_norm(exact)


@pytest.mark.parametrize("name", ABLE)
def test_items_and_single_precision(name):
    frames = 4 if is_temporal(make_reconstruction(name)) else 0
    trajectory, kspace, maps, mask = scan(frames=frames)
    linear = getattr(make_reconstruction(name), "linear", False)
    recon = make_reconstruction(name, *((20, 0.03) if linear else ()))  # single precision needs some
    both = reconstructed(recon, trajectory, kspace, mask, maps, frames)
    alone = reconstructed(recon, trajectory, kspace[1:], mask[1:], maps, frames)
    assert torch.allclose(both[1:], alone, atol=1e-8)
    single = kspace.to(torch.complex64), mask.float(), maps.to(torch.complex64)
    made = reconstructed(recon, trajectory, *single, frames)
    assert made.dtype == torch.complex64
    assert torch.dist(made.to(both.dtype), both) < 2e-3 * torch.linalg.vector_norm(both)


def test_a_complete_scan_gives_the_image_within_its_disc():
    trajectory = Trajectory.of("radial", (32, 32), 96)
    y, x = (torch.arange(32) - 16.0 for _ in range(2))
    image = torch.exp(-((y[:, None] - 3) ** 2 + (x + 2) ** 2) / 30).to(torch.complex128)[None, None]
    kspace = measured(trajectory, image)
    everything = torch.ones(trajectory.points.shape[:2], dtype=torch.float64)
    for recon in (Gridding(), CgSense(1e-4, 20), CompressedSensing(regularisation=1e-4, iterations=60)):
        made = reconstructed(recon, trajectory, kspace, everything, None)
        assert torch.dist(made, image) < 0.01 * torch.linalg.vector_norm(image), recon


def test_slopes_of_gridding_are_the_differences_that_spokes_make():
    trajectory, kspace, maps, _ = scan(candidates=7)
    units = torch.tensor([1.0, 0, 1, 1, 0, 0, 0], dtype=torch.float64)
    direction = torch.randn(2, 1, *SPACE, generator=seeded(2), dtype=torch.complex128)

    def value(of_units):
        images = grid(kspace, of_units[:, None].expand(7, trajectory.samples), maps, trajectory)
        return (images * direction).real.sum()

    variable = units.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(value(variable), variable)
    for place in range(7):
        changed = units.clone()
        changed[place] = 1 - units[place]
        difference = (value(changed) - value(units)) * (1 if units[place] == 0 else -1)
        assert torch.isclose(slopes[place], difference), place


def test_gap_weights_by_hand():
    units = torch.tensor([[1.0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    expected = torch.tensor([[1.5, 2, 0, 0, 2.5, 0], [0, 0, 6, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    assert torch.equal(gap_weights(units), expected)


def test_other_reconstructions_are_refused():
    trajectory, kspace, maps, mask = scan()
    with pytest.raises(InputError, match="Cartesian"):
        reconstructed("sense", trajectory, kspace, mask, maps)
