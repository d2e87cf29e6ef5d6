"""What the loss would become if a unit were added to a mask, or removed: to second order, for all units at once.

A quadratic model stands for the reconstruction: A = E^H m E + F^H P F, where the penalty P of temporal
frequencies is that of a linear reconstruction, or fits another one around its own image. A sample that is added
moves the image by A^-1 e (1 + h)^-1 r, with its columns e of E^H, one for each coil, the residuals r of all coils,
and their leverages, the matrix h = e^H A^-1 e; one that is removed by -A^-1 e (1 - h)^-1 r. The slope of the loss
along this, and its curvature times the squared length of the move, is the score. Leverages, and the lengths
e^H A^-2 e, are means over images, from random probes.

A reconstruction whose slopes at zeros and ones are the differences that a sample makes needs no model: the slope
of the loss and, from random directions, the squared length of each difference come by back-propagation.
"""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from promask.errors import InputError
from promask.operators.encoding import Encoding, encode
from promask.operators.temporal import TemporalEncoding, to_frames, to_frequencies
from promask.problem.batches import MicroBatch
from promask.problem.problem import Problem
from promask.recon.base import at_batch, reconstruct_batch
from promask.recon.cg_sense import Solver
from promask.types import Batch, ComplexImages, KspaceMask, Spectra, UnitMask, Units

DROPPED = 0.15
"""The share of units that each image does without, if the reconstruction is not linear: a unit that was acquired
leaves no residual then, and what it is worth can only be seen where it is missing."""
MEMORY = 0.93
"""What is remembered of scores from step to step."""
ITERATIONS = 16
"""Steps of conjugate gradients in the quadratic model."""
LEAST = 0.3
"""What 1 - h is at least."""
PENALTY = 0.07
"""Of the quadratic model of a reconstruction that tells none."""
PROBED = 2
"""Of so many pieces of a batch, one is probed for leverages."""


@dataclass(frozen=True)
class QuadraticModel:
    """The operator A of some images, and its inverse."""

    encoding: Encoding
    mask: KspaceMask
    penalty: Tensor
    """In a shape that temporal frequencies can be multiplied with."""
    temporal: bool

    def solve(self, images: ComplexImages) -> ComplexImages:
        """A^-1 of images, nearly."""
        if not self.temporal:
            return Solver(self.encoding, float(self.penalty), ITERATIONS)(images, self.mask)
        root = self.penalty.rsqrt()
        weighted = TemporalEncoding(self.encoding.maps, self.encoding.transform, root)
        found = Solver(weighted, 1.0, ITERATIONS)(to_frequencies(images).mul_(root), self.mask)
        return weighted.frames(found)

    def probe(self, samples: Spectra, images: ComplexImages) -> ComplexImages:
        """Random images whose covariance is A, from white noise in k-space and in the images."""
        penalised = self.penalty.sqrt() * images
        return self.encoding.adjoint(samples, self.mask) + (to_frames(penalised) if self.temporal else penalised)


class UnitScores:
    """Gathers scores of all units from the images of a step.

    Args:
        problem: What is asked.
        members: The units of the mask, (*units), in FFT order.
        noise: Random numbers, on the device of the images.
    """

    def __init__(self, problem: Problem, members: UnitMask, noise: torch.Generator) -> None:
        self.problem, self.members, self.noise = problem, members, noise
        self.exact = bool(getattr(problem.recon, "exact_slopes", False))
        """Whether slopes at zeros and ones are differences."""
        self.linear = self.exact or bool(getattr(problem.recon, "linear", False))
        """Whether a unit can be judged that was acquired."""
        self.pieces = 0
        like, coils = problem.images.like, problem.images.data.shape[0]
        shape = (coils, coils, *members.shape)
        self.slopes, self.energies, self.leverages, self.lengths = (
            like.new_zeros(shape, dtype=like.dtype.to_complex()) for _ in range(4)
        )
        """Of each unit, matrices between coils: sums over images and its locations."""
        self.counted, self.probed = (like.new_zeros(members.shape) for _ in range(2))
        """How often a unit was looked at, and how often its leverage was."""
        self.images = like.new_zeros(())
        """How many there were, where slopes are differences."""
        self.differences = like.new_zeros(2, *members.shape)
        """Sums over images of what differences change the loss by, to first order and to second."""

    def observe(self, piece: MicroBatch, weights: Float[Tensor, " batch"] | None = None) -> None:
        """Add the images of a piece; those of other processes are skipped, with their random numbers.

        Args:
            piece: The images.
            weights: How much the loss of each of them counts; None: all alike.
        """
        units = self.members.expand(piece.count, *self.members.shape)
        if not self.linear:
            chance = torch.rand(units.shape, generator=self.noise, device=units.device)
            units = units & (chance > DROPPED)
        shape = (3, piece.count, *self.problem.images.data.shape, 2)
        white = torch.view_as_complex(torch.randn(shape, generator=self.noise, device=units.device) / 2**0.5)
        self.pieces += 1
        if piece.batch is not None:
            masks = units[piece.rows].to(self.problem.images.like)
            weights = torch.ones(len(masks)) if weights is None else weights
            observe = self._observe_differences if self.exact else self._observe_model
            observe(masks, piece.batch, white[:, piece.rows], weights.to(masks))

    def _observe_differences(self, units: Tensor, batch: Batch, white: Tensor, weights: Tensor) -> None:
        with torch.enable_grad():
            units = units.requires_grad_()
            made = reconstruct_batch(self.problem.recon, batch, self.problem.pattern.expand(units).unsqueeze(1))
        noise = white[2, :, : made.shape[1]]
        slope, curvature = self._derivatives(made.detach(), batch, noise)
        (first,) = torch.autograd.grad(made, units, slope, retain_graph=True)
        (random,) = torch.autograd.grad(made, units, noise.to(made.dtype))
        weights = weights.reshape(-1, *[1] * (units.ndim - 1))
        self.images += len(made)
        self.differences += torch.stack([weights * first, weights * curvature * 2 * random.square()]).sum(1)

    def _observe_model(self, units: Tensor, batch: Batch, white: Tensor, weights: Tensor) -> None:
        problem = self.problem
        mask = problem.pattern.expand(units).unsqueeze(1)
        with torch.no_grad():
            made = reconstruct_batch(problem.recon, batch, mask)
        channels = 1 if batch.maps is not None else batch.spectra.shape[1]
        if not made.is_complex() or made.shape[1] != channels:
            raise InputError(
                f"The learner swap needs a reconstruction that gives complex images, and {problem.recon.name} "
                f"does not: choose another learner."
            )
        slope, curvature = self._derivatives(made, batch, white[2, :, :channels])
        with torch.no_grad():
            about = (batch.geometry.trajectory, batch.geometry.indexes)
            kspace, mask, encoding = encode(batch.spectra, mask, batch.maps, *about)
            model = self._model(made, batch, encoding, mask)
            residual = kspace - model.encoding(made)
            looked_at = torch.ones_like(mask) if self.linear else (mask == 0).to(mask)
            looked_at = looked_at.expand(len(made), 1, *kspace.shape[2:])
            times = self.problem.pattern.total(looked_at.sum((0, 1)))
            self.counted += times
            weighted = residual * looked_at * weights.reshape(-1, *[1] * (looked_at.ndim - 1))
            self.slopes += self._products(weighted, model.encoding(model.solve(slope)))
            self.energies += curvature * self._products(weighted, residual)
            if self.pieces % PROBED == 1:
                probes = model.probe(white[0], white[1, :, :channels]), white[2, :, :channels]
                for total, probe in zip((self.leverages, self.lengths), probes, strict=True):
                    found = model.encoding(model.solve(probe)) * looked_at
                    total += self._products(found, found)
                self.probed += times

    def _products(self, left: Spectra, right: Spectra) -> Complex[Tensor, "coil coil *units"]:
        """left right^H between the coils, summed over images and the locations of each unit."""
        return self.problem.pattern.total(torch.einsum("bc...,bd...->cd...", left, right.conj()))

    def _derivatives(self, made: ComplexImages, batch: Batch, white: Tensor) -> tuple[ComplexImages, float]:
        """The gradient of the losses with respect to the images, and their mean curvature in random directions."""
        loss, geometry = self.problem.loss, batch.geometry
        images = made.detach().requires_grad_()
        with torch.enable_grad():
            total = loss(geometry.crop(images), batch) * len(made)
            (slope,) = torch.autograd.grad(total, images)
        error = (geometry.crop(made).abs() - batch.targets.abs()).square().mean().sqrt()
        moved = white * error.clamp_min(torch.finfo(error.dtype).tiny)
        with torch.no_grad():
            change = loss(geometry.crop(made + moved), batch) * len(made) - total.detach()
        change = change - (slope.conj() * moved).real.sum()
        return slope, float((change / moved.abs().square().sum()).clamp_min(0))

    def _model(self, made: ComplexImages, batch: Batch, encoding: Encoding, mask: KspaceMask) -> QuadraticModel:
        tells = getattr(at_batch(self.problem.recon, batch), "penalty", None)
        penalty = torch.as_tensor(PENALTY if tells is None else tells(made)).to(made.real)
        return QuadraticModel(encoding, mask, penalty, bool(batch.geometry.indexes))

    def gather(self, remembered: Tensor) -> tuple[Units, Units, Tensor]:
        """The scores of all units, over all processes.

        Args:
            remembered: What this gave last in the step before, (3, *units): sums of both scores, and of how much
                they count.

        Returns:
            The change of the mean loss if a unit were added, and if it were removed, infinite where nothing is
            known; and what to remember.
        """
        matrices = map(torch.view_as_real, (self.slopes, self.energies, self.leverages, self.lengths))
        self.problem.group.sum(*matrices, self.counted, self.probed, self.images, self.differences)
        if self.exact:
            first, second = self.differences / self.images
            sums = MEMORY * remembered + torch.stack([first + second, second - first, torch.ones_like(first)])
            return sums[0] / sums[2], sums[1] / sums[2], sums
        images = self.counted / self.problem.pattern.total(torch.ones(self.problem.pattern.shape).to(self.counted))
        near = (lambda values: values) if self.linear else _with_neighbours
        probed = near(self.probed).clamp_min(1e-3)
        leverage, length = (near(each) / probed for each in (self.leverages, self.lengths))
        added = self._changes(leverage, length)
        if not self.linear:
            sums = MEMORY * remembered + torch.stack([added, -added, self.counted])
            added, removed = sums[:2] / sums[2].clamp_min(1e-3)
            known = sums[2] > 1.5
            return torch.where(known, added, torch.inf), torch.where(known, removed, torch.inf), sums
        removed = self._changes(self._smooth(leverage), self._smooth(length), removed=True)
        sums = MEMORY * remembered + torch.stack([added / images, removed / images, torch.ones_like(added)])
        return sums[0] / sums[2], sums[1] / sums[2], sums

    def _changes(self, leverage: Tensor, length: Tensor, removed: bool = False) -> Units:
        """The sum over images of the changes of their losses, if a unit is added or removed."""
        slopes, energies, leverage, length = (
            each.movedim((0, 1), (-2, -1)) for each in (self.slopes, self.energies, leverage, length)
        )
        values, vectors = torch.linalg.eigh(leverage)
        gains = -1 / (1 - values).clamp_min(LEAST) if removed else 1 / (1 + values.clamp_min(0))
        moved = (vectors * gains.unsqueeze(-2)) @ vectors.mH
        return ((moved.mT * slopes).sum((-2, -1)) + ((moved @ length @ moved).mT * energies).sum((-2, -1))).real

    def _smooth(self, values: Complex[Tensor, "coil coil *units"]) -> Complex[Tensor, "coil coil *units"]:
        """Half of what it is, and half its mean over units of the mask near by, in all frames: where leverages are
        close to 1, errors in them are multiplied."""
        members, pattern = self.members.to(values.real), self.problem.pattern
        total, count = values * members, members
        if pattern.varies:
            axis = -1 - pattern.encoded
            total, count = (each.sum(axis, keepdim=True) for each in (total, count))
        for axis, shift in itertools.product(
            range(-pattern.encoded, 0), (3, 1)
        ):  # two sums of three: up to 4 lines
            total, count = (each + each.roll(shift, axis) + each.roll(-shift, axis) for each in (total, count))
        return (values + total / count.clamp_min(1)) / 2


def _with_neighbours(values: Tensor) -> Tensor:
    """Sums over 3 x 3 neighbours along the last two axes: leverages are smooth, and probes are few."""
    for axis in (-2, -1):
        values = values + values.roll(1, axis) + values.roll(-1, axis)
    return values
