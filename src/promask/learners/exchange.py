"""Exchange: units that are missed least leave the mask, and those that are missed most come.

Where a reconstruction infers samples from their neighbours, what a unit is worth depends on which others there
are, and independent draws of all of them say little about a mask in which they keep their distance. So the mask
stays one mask. Each image sees it without a few of its units, others in their place; what a unit is worth is only
ever asked where it is missing, as that is what members and candidates can be compared by.
"""

import math
from collections.abc import Mapping, Sequence

import torch

from promask.learners.base import Conditions
from promask.sampling import schedules
from promask.types import Spectra, UnitDraws, Units, restore_tensor

MISSING = 0.05
"""The share of the members that an image does without."""
EXCHANGED = (0.2, 0.002)
"""First and last: the share of the members that leave in a step."""
NOVELTIES = (0.2, 0.03)
"""First and last: the weight of a new step in the running means."""
ELIGIBLE = 0.34
"""The share of the candidates that may come in a step: not all of a gap that one of them would fill."""


class Exchange:
    """A mask of exactly the budget, as probabilities of 0 and 1."""

    def __init__(self, conditions: Conditions) -> None:
        self.conditions = conditions
        flat = conditions.energy.flatten()
        self.fixed = (conditions.always | conditions.never).flatten()
        self.fixed[flat.argmax()] = True  # without the strongest unit, usually the centre, nothing is as it was
        self.sums = torch.zeros_like(flat)
        self.counts = torch.zeros_like(flat)
        self.seen = torch.zeros(2, *flat.shape, dtype=flat.dtype, device=flat.device)
        """What is added to both in a step."""
        self.members = torch.zeros_like(self.fixed)
        self.queue = torch.zeros(0, dtype=torch.int64, device=flat.device)
        self.step = 0

    def begin(self, theta: Units, step: int) -> float:
        """The share that is exchanged falls geometrically."""
        if step == 1:
            always, never = self.conditions.always.flatten(), self.conditions.never.flatten()
            wanted = theta.flatten().masked_fill(self.fixed, 2).masked_fill(always, 3).masked_fill(never, -1)
            self.members[wanted.topk(self.conditions.budget).indices] = True
        self.step = step
        self.queue = torch.zeros(0, dtype=torch.int64, device=theta.device)
        self.seen.zero_()
        return self._share

    def draw(self, count: int) -> UnitDraws:
        """The mask, each time without other members, and with candidates in their place."""
        masks = self.members.to(self.sums.dtype).repeat(count, 1)
        for mask in masks:
            leaving = self._next_members()
            coming = self._race(self._worth.clamp_min(0) * ~(self.members | self.fixed), len(leaving))
            mask[leaving], mask[coming] = 0, 1
        return masks.reshape(count, *self.conditions.energy.shape)

    def skip(self, count: int) -> None:
        """What follows depends on how the masks were drawn."""
        self.draw(count)

    def observe(self, masks: UnitDraws, gradients: UnitDraws, spectra: Spectra, rows: slice = slice(None)) -> None:
        """Take note of what units are worth where they are missing."""
        missing = masks.flatten(1) == 0
        self.seen[0] -= (gradients.flatten(1) * missing).sum(0)
        self.seen[1] += missing.sum(0)

    @property
    def evidence(self) -> Sequence[torch.Tensor]:
        """What missing units were worth, and how often they were missing."""
        return (self.seen,)

    def propose(self) -> Units:
        """Members of least worth leave for candidates of more."""
        decay = 1 - schedules.geometric(self.step, self.conditions.steps, *NOVELTIES)
        self.sums, self.counts = decay * self.sums + self.seen[0], decay * self.counts + self.seen[1]
        self.members = self.members.clone()
        worth, generator = self._worth, self.conditions.generator
        chance = torch.rand(len(worth), generator=generator, device=worth.device)
        candidates = ~self.members & ~self.fixed & (chance < ELIGIBLE)
        known = self.members & ~self.fixed & (self.counts > 0)
        # A share of a few lines need not be a whole number of them.
        wanted = self._share * self.conditions.budget + float(
            torch.rand((), generator=generator, device=worth.device)
        )
        count = min(math.floor(wanted), int(candidates.sum()), int(known.sum()))
        coming = torch.where(candidates, worth, -torch.inf).topk(count)
        leaving = torch.where(known, worth, torch.inf).topk(count, largest=False)
        better = coming.values > leaving.values
        self.members[leaving.indices[better]] = False
        self.members[coming.indices[better]] = True
        return self.members.to(worth.dtype).reshape(self.conditions.energy.shape)

    def state(self) -> Mapping[str, torch.Tensor]:
        """The mask, and what is known of its units."""
        return {"members": self.members, "sums": self.sums, "counts": self.counts}

    def resume(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from a state."""
        self.members = restore_tensor(state["members"], self.members)
        self.sums = restore_tensor(state["sums"], self.sums)
        self.counts = restore_tensor(state["counts"], self.counts)

    @property
    def _worth(self) -> Units:
        return self.sums / self.counts.clamp_min(torch.finfo(self.counts.dtype).tiny)

    @property
    def _share(self) -> float:
        return schedules.geometric(self.step, self.conditions.steps, *EXCHANGED)

    def _next_members(self) -> torch.Tensor:
        """A few members, each in turn before any comes again."""
        generator = self.conditions.generator
        members = (self.members & ~self.fixed).nonzero().flatten()
        count = min(len(members), max(1, round(MISSING * self.conditions.budget)))
        if len(self.queue) < count:
            order = torch.randperm(len(members), generator=generator, device=members.device)
            self.queue = members[order]
        taken, self.queue = self.queue[:count], self.queue[count:]
        return taken

    def _race(self, weights: Units, count: int) -> torch.Tensor:
        """At most so many units, drawn without replacement in proportion to their weights."""
        count = min(count, int((weights > 0).sum()))
        times = torch.empty_like(weights).exponential_(generator=self.conditions.generator)
        return (weights / times).topk(count).indices
