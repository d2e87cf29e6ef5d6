"""The properties that every pattern, loss, baseline, data set and reconstruction must have.

Whoever adds one adds a line to its table; the tests run these checks over the tables.
"""

from dataclasses import replace

import torch

from helpers import coil_maps, seeded, smooth_images
from promask.baselines import BASELINES, baseline_mask
from promask.operators.fourier import fft_order, space_axes, spectrum, to_kspace
from promask.recon.base import Reconstruction, reconstruct_spectra
from promask.recon.network import Network
from promask.recon.partial_fourier import PartialFourier
from promask.sampling.pattern import Pattern
from promask.types import LossFunction, SampleSet


def check_pattern(pattern: Pattern):
    units = torch.rand((2, 3, *pattern.unit_shape), generator=seeded())
    expanded = pattern.expand(units)
    assert expanded.shape == (2, 3, *pattern.shape)
    assert torch.equal(pattern.restrict(expanded), units)
    padding = pattern.padding()
    assert padding.shape == pattern.unit_shape
    assert pattern.units == int((~padding).sum())
    # The adjoint of expanding sums over the axes that are not free: <E u, x> = <u, E* x>.
    units = units.double().requires_grad_()
    other = torch.rand((2, 3, *pattern.shape), generator=seeded(1), dtype=torch.float64)
    inner = (pattern.expand(units) * other).sum()
    (adjoint,) = torch.autograd.grad(inner, units)
    assert torch.isclose(inner, (units * adjoint).sum())
    assert pattern.distance().shape == pattern.unit_shape
    centre = tuple(n // 2 for n in pattern.unit_shape)
    assert pattern.distance()[centre] == 0
    if pattern.varies:
        assert (pattern.distance()[(slice(None), *centre[1:])] == 0).all(), "the centre of every frame"
    assert pattern.budget(1) == pattern.units
    assert pattern.budget(pattern.units) == 1


def check_loss(loss: LossFunction):
    """A loss is zero at the target, positive elsewhere, a mean over the batch, and has the gradient it claims."""
    targets = smooth_images(3, 2, (9, 8), phase=False)
    assert loss(targets, targets).abs() < 1e-12
    images = targets + 0.1 * torch.rand(targets.shape, generator=seeded(), dtype=torch.float64)
    each = torch.stack([loss(images[i : i + 1], targets[i : i + 1]) for i in range(3)])
    assert (each > 0).all()
    assert torch.isclose(loss(images, targets), each.mean())
    torch.autograd.gradcheck(lambda x: loss(x, targets), images.requires_grad_())


def check_baseline(
    name: str,
    pattern: Pattern,
    data: SampleSet,
    acceleration: float,
    centre: int | None = None,
    again: bool = True,
):
    """The budget, the padding, the central block and the seed are honoured; in every frame, if there are any.

    `again`: whether the mask is made a second time, and must be the same.
    """
    mask = baseline_mask(name, data, pattern, acceleration, seed=0, centre=centre)
    assert mask.dtype == torch.bool
    assert mask.shape == pattern.shape
    units = pattern.restrict(mask)
    assert units.any()
    if BASELINES[name].exact:
        assert int(units.sum()) == pattern.budget(acceleration)
    assert not units[pattern.never()].any()
    assert units[pattern.centre(centre or 0)].all()
    if pattern.varies and pattern.limits.equal_per == 0:
        together = units.flatten(1).sum(1).reshape(-1, pattern.limits.equal_group).sum(1)
        assert set((together * len(together)).tolist()) == {pattern.budget(acceleration)}
    if again:
        assert torch.equal(mask, baseline_mask(name, data, pattern, acceleration, seed=0, centre=centre))


def check_reconstruction(recon: Reconstruction, space, coils=None, aims=True, frames=None):
    """The image, its derivative and its type are what the contract says; without coils, there are two contrasts.

    `aims`: whether a full mask gives the reference. Of a series there are so many `frames`.
    """
    axes, indexes = space_axes(len(space)), int(frames is not None)
    maps = None if coils is None else coil_maps(coils, space)
    if frames is not None:
        maps, space = None if maps is None else maps.unsqueeze(2), (frames, *space)
    phase = not isinstance(recon, PartialFourier)  # which asks for a smooth one
    truth = smooth_images(2, 2 if coils is None else 1, space, phase=phase).to(torch.complex128)
    images = truth if maps is None else maps * truth
    kspace = to_kspace(images, axes)
    everything = torch.ones(1, 1, *space, dtype=torch.float64)
    reference = recon.reference(images, maps)
    full = recon(kspace, everything, maps)
    assert full.shape == reference.shape
    if aims:
        assert torch.dist(full, reference) < 0.02 * torch.linalg.vector_norm(reference)

    generator = seeded(7)
    mask = 0.2 + 0.6 * torch.rand(2, 1, *space, generator=generator, dtype=torch.float64)
    # Items of a batch have nothing to do with each other, and one mask may serve all.
    both = recon(kspace, mask, maps)
    assert torch.allclose(both[1:], recon(kspace[1:], mask[1:], maps), atol=1e-9)
    assert torch.allclose(recon(kspace, mask[:1], maps), recon(kspace, mask[0, 0], maps), atol=1e-12)
    # The loop calls it in FFT order, and gets the same images at the same place.
    in_loop = reconstruct_spectra(recon, spectrum(images, axes), fft_order(mask, len(axes)), maps, indexes)
    assert torch.allclose(both, in_loop, atol=1e-9)
    # Lines may be a broadcast view.
    lines = mask[..., :1, :].expand(mask.shape)
    assert torch.allclose(recon(kspace, lines, maps), recon(kspace, lines.contiguous(), maps), atol=1e-6)

    # The derivative, along a random direction, against finite differences.
    weights = torch.randn(both.shape, generator=generator, dtype=torch.complex128)

    def loss(values):
        result = recon(kspace, values, maps)
        return (result * weights).real.square().sum()

    direction = torch.randn(mask.shape, generator=generator, dtype=torch.float64)
    if isinstance(recon, PartialFourier):  # the phase is taken as given: the block that it comes from stays
        recon = replace(recon, calibration=3)
        for axis in axes:
            direction.narrow(axis, space[axis] // 2 - 1, 3).zero_()
    variable = mask.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(variable), variable)
    step = 1e-5
    with torch.no_grad():
        change = float(loss(mask + step * direction) - loss(mask - step * direction)) / (2 * step)
    assert abs(change - float((gradient * direction).sum())) < 1e-3 * abs(change)

    # Single precision stays single precision, on whatever device.
    if isinstance(recon, Network):
        return  # which has a type and a device of its own
    single = recon(kspace.to(torch.complex64), mask.float(), None if maps is None else maps.to(torch.complex64))
    assert single.dtype == full.to(torch.complex64 if full.is_complex() else torch.float32).dtype
    assert torch.dist(single.to(both.dtype), recon(kspace, mask, maps)) < 1e-3 * torch.linalg.vector_norm(both)
    elsewhere = recon(kspace.to("meta"), mask.to("meta"), None if maps is None else maps.to("meta"))
    assert elsewhere.device.type == "meta"
    assert elsewhere.shape == both.shape
