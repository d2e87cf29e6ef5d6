"""Learning where a network judges: a race between shapes of masks.

All shapes are judged by the network on the same images. After each round the worse half retires, and the others
are judged on twice as many images: most of the work goes to those that are hard to tell apart. The race asks for
losses, not for gradients: those of a network say little about a single unit.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from promask.learners.shapes import BEYOND, Shapes, Weights, log_energy, shapes
from promask.learning.checkpoint import Keeper
from promask.learning.config import Config
from promask.learning.history import History, OnStep, Progress
from promask.learning.microbatches import said_of
from promask.losses.base import Loss
from promask.operators.fourier import fft_order
from promask.problem.batches import Samples
from promask.problem.initial import Start
from promask.problem.objective import Finetuning, backpropagate
from promask.recon.base import reconstruct_spectra
from promask.sampling.pattern import Pattern
from promask.sampling.projection import constrain, nth_largest
from promask.sampling.straight_through import generator
from promask.types import UnitMask, Units, restore_tensor

WIDTH = 0.5
"""Undecided are units whose scores are this close to the last affordable one: as close as shapes are."""


def race(
    samples: Samples,
    pattern: Pattern,
    task: Loss,
    config: Config,
    start: Start,
    member: int = 0,
    on_step: OnStep | None = None,
    finetuning: Finetuning | None = None,
    keeper: Keeper | None = None,
) -> tuple[Units, History]:
    """Learn the probabilities of one member, in FFT order. A step is a round; the first is on `batch_size` images.

    It ends with one shape, or with the best of those that are left when all images were seen. The `keeper` is told
    the state after every round, and may know one to go on from.
    """
    keeper = keeper or Keeper()
    like, budget = samples.like, pattern.budget(config.acceleration)
    axes = len(pattern.free)
    always = fft_order(pattern.centre(config.centre), axes).to(like.device)
    never = fft_order(pattern.padding(), axes).to(like.device)
    if config.init == "energy":
        base = log_energy(samples.mean_energy(pattern))
    else:
        base = log_energy(start(generator(config.seed, member, "start")).to(like))
    family = shapes(base, pattern, budget, always, never)
    order = torch.randperm(len(samples), generator=generator(config.seed, member, "batches"))
    runners = family.candidates()
    now = _Standing(torch.stack(runners), torch.zeros(len(runners), dtype=torch.float64), base)
    known = keeper.resumed(member)
    if known is not None:
        with keeper.refusing_unfit(member):
            now.resume(known, finetuning)

    for step in range(len(now.history.loss) + 1, config.steps + 1):
        if now.seen == len(samples) or (step > 1 and len(now.runners) == 1):
            break
        images = order[now.seen : max(2 * now.seen, config.batch_size)]
        masks = [family.mask(weights) for weights in now.runners]
        totals = now.totals + _losses(masks, samples, images, pattern, task)
        now.seen += len(images)
        if not totals.isfinite().all():
            raise FloatingPointError(said_of(float(totals.sum()), step, images.tolist(), samples))
        ranking = totals.argsort()
        if finetuning is not None:
            _finetune(finetuning, masks[int(ranking[0])], samples, images, pattern, task)
        now.theta = _probabilities(family, now.runners[int(ranking[0])], always, never)
        loss = float(totals.min()) / now.seen
        progress = Progress(member, config.members, step, config.steps, loss, budget, 0.0, now.theta)
        now.history.append(progress)
        kept = ranking[: math.ceil(len(now.runners) / 2)]
        now.runners, now.totals = now.runners[kept], totals[kept]
        if on_step is not None:
            on_step(progress)
        keeper.keep(member, now.so_far(finetuning))
    return now.theta, now.history


@dataclass
class _Standing:
    """Where the race is between two rounds."""

    runners: Float[Tensor, "runner maps"]
    totals: Float[Tensor, " runner"]
    theta: Units
    seen: int = 0
    history: History = field(default_factory=History)

    def so_far(self, finetuning: Finetuning | None) -> Callable[[], dict[str, Any]]:
        """The state as it is now, for when it is asked for."""
        state = {"runners": self.runners, "totals": self.totals, "theta": self.theta, "seen": self.seen}
        network, history = None if finetuning is None else finetuning.state(), self.history.so_far()
        return lambda: {**state, "network": network, "history": history()}

    def resume(self, state: Mapping[str, Any], finetuning: Finetuning | None) -> None:
        """Go on from a state; one that does not fit is a ValueError, a LookupError or a TypeError."""
        count = len(state["runners"])
        self.runners = restore_tensor(state["runners"], self.runners[:count])
        self.totals = restore_tensor(state["totals"], self.totals[:count])
        self.theta, self.seen = restore_tensor(state["theta"], self.theta), int(state["seen"])
        self.history = History.of_state(state["history"])
        if finetuning is not None:
            finetuning.resume(state["network"])


@torch.no_grad()
def _losses(
    masks: list[Units], samples: Samples, images: torch.Tensor, pattern: Pattern, task: Loss
) -> torch.Tensor:
    """The sum of the losses of the same images with each of the masks."""
    on_grid = [pattern.expand(mask) for mask in masks]
    totals = torch.zeros(len(masks), dtype=torch.float64)
    for piece in samples.shared_pieces(images):
        for place, mask in enumerate(on_grid):
            made = piece.geometry.crop(reconstruct_spectra(samples.recon, piece.spectra, mask, piece.maps))
            totals[place] += float(task(made, piece)) * len(piece.targets)
    samples.group.add_up(totals)
    return totals


def _probabilities(family: Shapes, weights: Weights, always: UnitMask, never: UnitMask) -> Units:
    score = family.score(weights)
    distance = (score - nth_largest(score, family.budget)) / WIDTH
    return constrain((0.5 + distance).clamp(-BEYOND, BEYOND), family.budget, always, never)


def _finetune(
    finetuning: Finetuning, mask: Units, samples: Samples, images: torch.Tensor, pattern: Pattern, task: Loss
) -> None:
    """Train the network on for images as the best mask shows them, a step for each piece."""
    for piece in samples.pieces(images):
        draws = mask.expand(len(piece.targets), *mask.shape)
        finetuning.observe(
            backpropagate(draws, piece, pattern, task, samples.recon, finetuning.weights).of_weights
        )
        finetuning.step(len(piece.targets))
