"""The learner for networks: a race between shapes of masks, the units that score best.

A network tells little about single units: one image contradicts the next, and what a unit is worth depends on the
others. It tells more about the shape of the whole. A shape is the logarithm of the energy plus a weighted sum of a
few smooth maps: one half of k-space against the other, directions, ellipses, distance from the centre, and how
much the energy is smoothed over its neighbourhood, which fills holes.

All shapes are judged by the network on the same images. After each round the worse half retires, and the others
are judged on twice as many images: most of the work goes to those that are hard to tell apart. The race asks for
losses, not for gradients.
"""

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from promask.learners.base import CARTESIAN, Description, State
from promask.operators.fourier import fft_order
from promask.problem.microbatches import not_finite
from promask.problem.objective import loss_and_slopes
from promask.problem.problem import Problem
from promask.recon.base import reconstruct_batch
from promask.sampling.pattern import Pattern
from promask.sampling.projection import nth_largest
from promask.types import UnitMask, Units, restore_tensor

Weights = Float[Tensor, " maps"]

SMOOTHING = 1 / 25
"""The standard deviation of the smoothing, as a share of each axis."""
FLOOR = 1e-12
"""The smallest energy, as a share of the largest."""
SIDES = (0.0, 0.35, 0.7)
"""How much one half of k-space is preferred; with 0.35, half of log 2, a unit counts twice its conjugate twin."""
OUTLINES: tuple[Mapping[str, float], ...] = (
    {},
    {"smooth": 1.0},
    {"smooth": 1.0, "distance": -0.75},
    {"smooth": 1.0, "distance": -1.5},
    {"distance": -0.75},
)
"""From ragged, as the energy is, to compact."""
PULL = 0.4
"""How much the energy counts more towards a direction, or along an axis."""
BEYOND = 1e4
"""A score beyond all others."""
WIDTH = 0.5
"""Undecided are units whose scores are this close to the last affordable one: as close as shapes are."""


@dataclass(kw_only=True)
class RaceState(State):
    """Where the race is between two rounds."""

    family: "Shapes"
    order: Tensor
    """In which order images are looked at."""
    candidates: Float[Tensor, "candidate maps"]
    """The weights of the shapes that are left."""
    totals: Float[Tensor, " candidate"]
    """The sum of the losses of each, over the images seen."""
    seen: int = 0

    def memory(self) -> Mapping[str, Any]:
        """The candidates, and how good they are."""
        return {"candidates": self.candidates, "totals": self.totals, "seen": self.seen}

    def restore_memory(self, memory: Mapping[str, Any]) -> None:
        """Go on from there."""
        count = len(memory["candidates"])
        self.candidates = restore_tensor(memory["candidates"], self.candidates[:count])
        self.totals, self.seen = restore_tensor(memory["totals"], self.totals[:count]), int(memory["seen"])


@dataclass(frozen=True, kw_only=True)
class ShapeRace:
    """A step is a round; the first is on `batch_size` images.

    The race ends with one shape, or with the best of those that are left when all images were seen.
    """

    name: ClassVar[str] = "shape-race"
    about: ClassVar[Description] = Description(
        patterns=(CARTESIAN,),
        defaults={"steps": 5, "batch_size": 48, "patience": 0},
        noun="round",
        curve="Each step is a round of a race between shapes of masks; the loss is that of the best one so far.",
    )

    steps: int
    """The most rounds."""
    batch_size: int
    """The images of the first round."""

    def init(self, problem: Problem, member: int) -> RaceState:
        """All shapes around the energy, or around the probabilities to start from."""
        like = problem.images.like
        by_energy = problem.start.by_energy
        base = problem.energy if by_energy else problem.start.draw(problem.random("start", member)).to(like)
        family = shapes(log_energy(base), problem.pattern, problem.affordable(base), problem.always, problem.never)
        candidates = family.candidates()
        return RaceState(
            theta=problem.initial(member),
            finetuning=problem.finetuning,
            family=family,
            order=torch.randperm(len(problem.images), generator=problem.random("batches", member)),
            candidates=torch.stack(candidates),
            totals=torch.zeros(len(candidates), dtype=torch.float64),
        )

    def batches(self, problem: Problem, state: RaceState, member: int) -> Generator[Tensor, None, None]:
        """The numbers of images: at first `batch_size`, then as many again as were seen before."""
        while True:
            yield state.order[state.seen : max(2 * state.seen, self.batch_size)]

    def step(self, problem: Problem, state: RaceState, batch: Tensor) -> tuple[RaceState, float]:
        """Judge all shapes on further images; the worse half retires."""
        masks = [_mask(problem, state.family, weights) for weights in state.candidates]
        totals = state.totals + _losses(masks, problem, batch)
        state.seen += len(batch)
        if not totals.isfinite().all():
            raise FloatingPointError(
                not_finite(float(totals.sum()), state.step + 1, batch.tolist(), problem.images)
            )
        ranking = totals.argsort()
        if problem.finetuning is not None:
            _finetune(problem, masks[int(ranking[0])], batch)
        state.theta = _probabilities(problem, state.family, state.candidates[int(ranking[0])])
        state.budget = problem.budget
        kept = ranking[: math.ceil(len(state.candidates) / 2)]
        state.candidates, state.totals = state.candidates[kept], totals[kept]
        return state, float(totals.min()) / state.seen

    def finished(self, problem: Problem, state: RaceState) -> bool:
        """When one shape is left, all images were seen, or the rounds are over."""
        alone = state.step > 0 and len(state.candidates) == 1
        return alone or state.seen == len(problem.images) or state.step >= self.steps


@torch.no_grad()
def _losses(masks: list[Units], problem: Problem, images: Tensor) -> Tensor:
    """The sum of the losses of the same images with each of the masks."""
    on_grid = [problem.pattern.expand(mask) for mask in masks]
    totals = torch.zeros(len(masks), dtype=torch.float64)
    for piece in problem.images.shared_pieces(images):
        for place, mask in enumerate(on_grid):
            made = piece.geometry.crop(reconstruct_batch(problem.recon, piece, mask))
            totals[place] += float(problem.loss(made, piece)) * len(piece.targets)
    problem.group.sum(totals)
    return totals


def _mask(problem: Problem, family: "Shapes", weights: "Weights") -> Units:
    mask = family.mask(weights)
    return problem.nearest(mask > 0, problem.always, family.score(weights)).to(mask.dtype)


def _probabilities(problem: Problem, family: "Shapes", weights: "Weights") -> Units:
    score = family.score(weights)
    distance = (score - nth_largest(score, problem.affordable(score))) / WIDTH
    return problem.project((0.5 + distance).clamp(-BEYOND, BEYOND), problem.budget)


def _finetune(problem: Problem, mask: Units, images: Tensor) -> None:
    """Train the network on for images as the best mask shows them, a step for each piece."""
    finetuning = problem.finetuning
    assert finetuning is not None
    for piece in problem.images.pieces(images):
        draws = mask.expand(len(piece.targets), *mask.shape)
        found = loss_and_slopes(draws, piece, problem.pattern, problem.loss, problem.recon, finetuning.weights)
        finetuning.observe(found.weight_gradients)
        finetuning.step(len(piece.targets))


@dataclass(frozen=True)
class Shapes:
    """All masks of one size that weights can describe, in FFT order."""

    base: Units
    maps: Float[Tensor, "maps *units"]
    names: tuple[str, ...]
    size: int

    def score(self, weights: Weights) -> Units:
        """The larger, the sooner a unit is acquired."""
        return self.base + torch.tensordot(weights.to(self.maps), self.maps, 1)

    def mask(self, weights: Weights) -> Units:
        """The units of the largest scores: zeros and ones."""
        score = self.score(weights)
        result = torch.zeros_like(score).flatten()
        result[score.flatten().topk(self.size).indices] = 1
        return result.reshape(score.shape)

    def weights(self, **values: float) -> Weights:
        """Weights by name; the others are 0."""
        return torch.tensor([values.get(name, 0.0) for name in self.names])

    def candidates(self) -> list[Weights]:
        """Every side with every outline, the energy itself first; and a compact one pulled in every direction."""
        grid = [self.weights(half=half, **outline) for outline in OUTLINES for half in SIDES]
        middle = self.weights(half=SIDES[1], **OUTLINES[2])
        pulls = [name for name in self.names if name.partition(" ")[0] in ("towards", "along", "across")]
        pulled = [middle + self.weights(**{name: sign * PULL}) for name in pulls for sign in (1, -1)]
        return grid + pulled


def shapes(base: Units, pattern: Pattern, size: int, always: UnitMask, never: UnitMask) -> Shapes:
    """Shapes around a base, the logarithm of energies or of probabilities."""
    axes = pattern.encoded
    offsets = _offsets(pattern).to(base.device, base.dtype)
    length = offsets.square().sum(0).sqrt()
    direction = offsets / length.clamp_min(torch.finfo(base.dtype).tiny)
    off_centre = length > 0
    nearest = length[off_centre].min() if off_centre.any() else length.new_ones(())
    free = ~(always | never)
    maps = {
        "half": fft_order(pattern.half(), axes).to(base),
        "smooth": smoothed(base, ~never) - base,
        "distance": (length.clamp_min(nearest / 2) / nearest).log(),
    }
    if axes > 1:
        maps |= {f"towards {axis}": direction[axis] for axis in range(axes)}
        maps |= {f"along {axis}": direction[axis].square() - off_centre / axes for axis in range(axes - 1)}
        maps |= {
            f"across {one} {other}": 2 * direction[one] * direction[other]
            for one in range(axes)
            for other in range(one)
        }
    decided = torch.where(always, BEYOND, 0.0) - torch.where(never, BEYOND, 0.0)
    stacked = torch.stack([values * free for values in maps.values()])
    return Shapes(base + decided.to(base), stacked, tuple(maps), size)


def log_energy(energy: Units) -> Units:
    """Finite also where there is none."""
    return energy.clamp_min((FLOOR * energy.max()).clamp_min(torch.finfo(energy.dtype).tiny)).log()


def _offsets(pattern: Pattern) -> Float[Tensor, "axis *units"]:
    """The place of each unit along each free axis, as a share of the axis, in FFT order."""
    along = [torch.fft.fftfreq(n, dtype=torch.float64) for n in pattern.unit_shape]
    if pattern.varies:  # frames have no distance from each other
        along[0] = torch.zeros_like(along[0])
    return torch.stack(torch.meshgrid(*along, indexing="ij"))


def smoothed(values: Units, counted: UnitMask) -> Units:
    """Gaussian means over what is counted, around the edges of k-space."""
    weights = _blurred(counted.double()).clamp_min(FLOOR)
    return (_blurred(values.double() * counted) / weights).to(values.dtype)


def _blurred(values: Units) -> Units:
    spectrum = torch.fft.fftn(values)
    for axis, n in enumerate(values.shape):
        frequency = torch.fft.fftfreq(n, dtype=torch.float64, device=values.device)
        response = torch.exp(-2 * (math.pi * SMOOTHING * n * frequency).square())
        spectrum = spectrum * response.reshape([-1 if place == axis else 1 for place in range(values.ndim)])
    return torch.fft.ifftn(spectrum).real
