"""Exchange: units that are missed least leave the mask, and those that are missed most come.

Where a reconstruction infers samples from their neighbours, what a unit is worth depends on which others there
are, and independent draws of all of them say little about a mask in which they keep their distance. So the mask
stays one mask. Each image sees it without a few of its units, with others in their place. What a unit is worth is
estimated only where it is missing, so that acquired and new units can be compared.

How far from the centre samples may lie is learned as well. With noise, a reconstruction that infers samples
between scattered ones amplifies it, and a narrow mask may be better than any wide one; single exchanges do not
lead from one to the other. So the mask begins with the units of most signal, and reaches further as long as the
loss of some images falls. What is kept is the best mask that these images have seen.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from promask.learners.base import Description
from promask.learners.gradient import Evidence, GradientLearner
from promask.learners.shape_race import log_energy, smoothed
from promask.losses.base import Loss
from promask.operators.encoding import coil_product, encode
from promask.operators.fourier import fft_order
from promask.problem.objective import Differentiate, LossAndSlopes, loss_and_slopes
from promask.problem.problem import Problem
from promask.recon.base import Reconstruction, reconstruct_batch
from promask.recon.zero_filled import ZERO_FILLED
from promask.sampling import schedules
from promask.sampling.pattern import Pattern
from promask.types import Batch, Spectra, UnitDraws, Units, restore_tensor

MISSING = 0.05
"""The share of the members that an image does without."""
EXCHANGED = (0.2, 0.002)
"""First and last: the share of the members that leave in a step."""
NOVELTIES = (0.2, 0.03)
"""First and last: the weight of a new step in the running means."""
ELIGIBLE = 0.34
"""The share of the candidates that may come in a step: not all of a gap that one of them would fill."""
REACHES = (1.25, 1.6, 2.5, 4.0, math.inf)
"""Among how many units of most signal the mask is found, one after the other, in multiples of the budget."""
GROWING = 0.5
"""The share of the steps in which the reach may grow."""
PATIENCE = 2
"""So many masks in a row that are no better end the growth."""
LOOKS = 10
"""How often the mask is judged, at equal distances."""
JUDGES = 16
"""The most images that judge it."""


def loss_and_insertions(
    masks: UnitDraws,
    batch: Batch,
    pattern: Pattern,
    task: Loss,
    recon: Reconstruction = ZERO_FILLED,
    weights: Sequence[Tensor] = (),
) -> LossAndSlopes:
    """As `loss_and_slopes`, but estimate how the loss would change if missing units were put into the image.

    An iterative reconstruction trusts an acquired sample entirely, and its derivative at a weight of 0 says
    little about a weight of 1. But it is known what the samples would be, and so, to second order, what comes of
    changing the image by them: the slope s along this change, and a curvature c in proportion to their energy e.
    L(1) - L(0) = s + c e / 2, and c is what the loss of the image with all missing units says. (Noise counts: with
    it, the best weight of samples of little signal is below 1.)
    """
    on_grid = pattern.expand(masks).unsqueeze(1)
    with torch.set_grad_enabled(bool(weights)):
        made = reconstruct_batch(recon, batch, on_grid)
    combined = batch.maps is None and made.shape[1] != batch.spectra.shape[1]
    if combined or not made.is_complex():  # coils were combined without an adjoint
        return loss_and_slopes(masks, batch, pattern, task, recon, weights)
    images = made.detach().requires_grad_()
    loss = task(batch.geometry.crop(images), batch) * len(masks)
    of_images, *weight_gradients = torch.autograd.grad(
        loss, (images, *weights), allow_unused=True, materialize_grads=True
    )
    if weights:
        through = torch.autograd.grad(made, tuple(weights), of_images, allow_unused=True, materialize_grads=True)
        weight_gradients = [direct + indirect for direct, indirect in zip(weight_gradients, through, strict=True)]
    with torch.no_grad():
        about = (batch.geometry.trajectory, batch.geometry.indexes)
        kspace, _, encoding = encode(batch.spectra, on_grid, batch.maps, *about)
        missed = encoding(made.detach()).neg_().add_(kspace)
        slopes, energies = (
            pattern.total(coil_product(each, missed).squeeze(1)) for each in (encoding(of_images), missed)
        )
        covered = fft_order(~pattern.never(), pattern.encoded).to(masks.device)
        missing = ((masks == 0) & covered).to(slopes.dtype)
        inserted = encoding.invert(missed * pattern.expand(missing).unsqueeze(1))
        change = task(batch.geometry.crop(made.detach() + inserted), batch) * len(masks) - loss.detach()
        energy = (energies * missing).sum().clamp_min(torch.finfo(slopes.dtype).tiny)
        curvature = 2 * (change - (slopes * missing).sum()) / energy
        worth = slopes + curvature.clamp_min(0) / 2 * energies
    return LossAndSlopes(loss.detach(), worth, weight_gradients)


@dataclass(frozen=True, kw_only=True)
class Exchange(GradientLearner):
    """One mask of exactly the budget, whose units are exchanged for others: probabilities of 0 and 1."""

    name: ClassVar[str] = "exchange"
    about: ClassVar[Description] = Description(
        defaults={"steps": 120, "batch_size": 4, "patience": 0},
        averages=False,  # units that keep their distance have no common mean
        random=False,
        curve="Each step looks at a few images through the mask without a few of its samples: the loss is noisy.",
    )

    @property
    def differentiate(self) -> Differentiate:
        """What is asked of each mask: its loss, and what would come of inserting missing units."""
        return loss_and_insertions

    def evidence(self, problem: Problem, noise: torch.Generator) -> Evidence:
        """What missing units are worth."""
        return ExchangeEvidence(problem, noise, self.steps)


class ExchangeEvidence:
    """What units are worth where they are missing, and the mask that follows."""

    def __init__(self, problem: Problem, noise: torch.Generator, steps: int) -> None:
        self.problem, self.noise, self.steps = problem, noise, steps
        flat = problem.energy.flatten()
        self.signal = smoothed(log_energy(problem.energy / problem.costs), ~problem.never).flatten()
        """The order in which units come within reach: noise does not matter to a mean over many."""
        self.reach, self.best_reach, self.failures = torch.zeros(3, dtype=torch.int64)
        """Places among the reaches, now and of the best mask; and how many masks since then were no better."""
        self.best = torch.zeros_like(flat, dtype=torch.bool)
        self.best_loss = torch.full((), math.inf, dtype=torch.float64)
        self.within = torch.zeros_like(self.best)
        """The units within reach."""
        self.fixed = (problem.always | problem.never).flatten()
        self.fixed[flat.argmax()] = True  # without the strongest unit, usually the centre, nothing is as it was
        self.worths = torch.zeros_like(flat)
        self.counts = torch.zeros_like(flat)
        self.seen = torch.zeros(2, *flat.shape, dtype=flat.dtype, device=flat.device)
        """What is added to both in a step."""
        self.members = torch.zeros_like(self.fixed)
        self.queue = torch.zeros(0, dtype=torch.int64, device=flat.device)
        self.step = 0
        self.size = problem.affordable(self.signal.reshape(problem.energy.shape))
        """About how many units the mask has."""

    def begin(self, theta: Units, step: int) -> float:
        """The share that is exchanged falls geometrically."""
        if step == 1:
            always, never = self.problem.always.flatten(), self.problem.never.flatten()
            for start in (theta.flatten(), self.signal - self.signal.max()):
                wanted = start.masked_fill(self.fixed, 2).masked_fill(always, 3).masked_fill(never, -torch.inf)
                self.members = torch.zeros_like(self.members)
                self.members[wanted.topk(self.problem.affordable(wanted.reshape(theta.shape))).indices] = True
                self._keep_limits(wanted)
                self._judge()
            self.members = self.best if self.best.any() else self.members  # none, if no loss is a number
            self._set_reach(0)
        self.step = step
        self.queue = torch.zeros(0, dtype=torch.int64, device=theta.device)
        self.seen.zero_()
        return self._share

    def draw(self, count: int) -> UnitDraws:
        """The mask, each time without other members, and with candidates in their place."""
        masks = self.members.to(self.worths.dtype).repeat(count, 1)
        for mask in masks:
            leaving = self._next_members()
            candidates = self.within & ~(self.members | self.fixed)
            coming = self._race(self._worth.clamp_min(0) * candidates, len(leaving))
            mask[leaving], mask[coming] = 0, 1
        return masks.reshape(count, *self.problem.energy.shape)

    def skip(self, count: int) -> None:
        """What follows depends on how the masks were drawn."""
        self.draw(count)

    def observe(self, masks: UnitDraws, gradients: UnitDraws, spectra: Spectra, rows: slice = slice(None)) -> None:
        """Take note of what units are worth where they are missing."""
        missing = masks.flatten(1) == 0
        self.seen[0] -= (gradients.flatten(1) * missing).sum(0)
        self.seen[1] += missing.sum(0)

    @property
    def sums(self) -> Sequence[torch.Tensor]:
        """What missing units were worth, and how often they were missing."""
        return (self.seen,)

    def propose(self) -> Units:
        """Members of least worth leave for candidates of more."""
        decay = 1 - schedules.geometric(self.step, self.steps, *NOVELTIES)
        self.worths, self.counts = decay * self.worths + self.seen[0], decay * self.counts + self.seen[1]
        self.members = self.members.clone()
        worth, generator = self._worth, self.noise
        chance = torch.rand(len(worth), generator=generator, device=worth.device)
        candidates = self.within & ~self.members & ~self.fixed & (chance < ELIGIBLE)
        known = self.members & ~self.fixed & (self.counts > 0)
        # A share of a few lines need not be a whole number of them.
        wanted = self._share * self.size + float(torch.rand((), generator=generator, device=worth.device))
        count = min(math.floor(wanted), int(candidates.sum()), int(known.sum()))
        coming = torch.where(candidates, worth, -torch.inf).topk(count)
        leaving = torch.where(known, worth, torch.inf).topk(count, largest=False)
        better = coming.values > leaving.values
        self.members[leaving.indices[better]] = False
        self.members[coming.indices[better]] = True
        self._keep_limits(worth)
        if self.step * LOOKS // self.steps > (self.step - 1) * LOOKS // self.steps:
            self._look()
        return self.members.to(worth.dtype).reshape(self.problem.energy.shape)

    def _keep_limits(self, worth: Units) -> None:
        """Change as few members as the limits of the pattern demand, if any."""
        about = (self.members, self.members & self.fixed, worth)
        wished, kept, by = (each.reshape(self.problem.energy.shape) for each in about)
        self.members = self.problem.nearest(wished, kept, by).flatten()

    def _look(self) -> None:
        """Judge the mask; reach further while that helps, and otherwise go back to the best mask."""
        if self._judge():
            self.best_reach, self.failures = self.reach, torch.zeros_like(self.failures)
        elif self.best.any():
            self.members, self.failures = self.best, self.failures + 1
        further = int(self.reach) + 1
        grows = self.step < GROWING * self.steps and self.failures < PATIENCE and further < len(REACHES)
        self._set_reach(further if grows else int(self.best_reach))

    def _judge(self) -> bool:
        """Whether the mask is the best so far for some images."""
        loss = self.problem.mean_loss(self.members.reshape(self.problem.energy.shape), JUDGES)
        if loss < float(self.best_loss):
            self.best, self.best_loss = self.members, torch.tensor(loss, dtype=torch.float64)
            return True
        return False

    def _set_reach(self, reach: int) -> None:
        self.reach = torch.tensor(reach)
        count = math.ceil(min(REACHES[reach] * self.size, int((~self.problem.never).sum())))
        signal = self.signal.masked_fill(self.problem.never.flatten(), -torch.inf)
        self.within = torch.zeros_like(self.within)
        self.within[signal.topk(count).indices] = True

    def state(self) -> Mapping[str, torch.Tensor]:
        """The mask, and what is known of its units."""
        return {
            "members": self.members,
            "sums": self.worths,
            "counts": self.counts,
            "best": self.best,
            "best_loss": self.best_loss,
            "reaches": torch.stack([self.reach, self.best_reach, self.failures]),
        }

    def resume(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from a state."""
        self.members = restore_tensor(state["members"], self.members)
        self.worths = restore_tensor(state["sums"], self.worths)
        self.counts = restore_tensor(state["counts"], self.counts)
        self.best = restore_tensor(state["best"], self.best)
        self.best_loss = restore_tensor(state["best_loss"], self.best_loss.new_zeros(()))
        reaches = restore_tensor(state["reaches"], torch.zeros(3, dtype=torch.int64))
        self.reach, self.best_reach, self.failures = reaches
        self._set_reach(int(self.reach))

    @property
    def _worth(self) -> Units:
        worth = self.worths / self.counts.clamp_min(torch.finfo(self.counts.dtype).tiny)
        return worth / self.problem.costs.flatten()

    @property
    def _share(self) -> float:
        return schedules.geometric(self.step, self.steps, *EXCHANGED)

    def _next_members(self) -> torch.Tensor:
        """A few members, each in turn before any comes again."""
        generator = self.noise
        members = (self.members & ~self.fixed).nonzero().flatten()
        count = min(len(members), max(1, round(MISSING * self.size)))
        if len(self.queue) < count:
            order = torch.randperm(len(members), generator=generator, device=members.device)
            self.queue = members[order]
        taken, self.queue = self.queue[:count], self.queue[count:]
        return taken

    def _race(self, weights: Units, count: int) -> torch.Tensor:
        """At most so many units, drawn without replacement in proportion to their weights."""
        count = min(count, int((weights > 0).sum()))
        times = torch.empty_like(weights).exponential_(generator=self.noise)
        return (weights / times).topk(count).indices
