"""What each unit is worth: its gain L(m=0) - L(m=1), averaged over images and over the masks of the other units.

A derivative dL/dm is not yet a difference. For a loss that is quadratic in a unit, L(1) - L(0) =
dL/dm + (1/2 - m) c, whichever m was drawn; unlike the Gumbel estimate this does not vanish for units that are
never or always drawn. The curvature c is taken to be proportional to the energy of the unit in the image, by a
factor that is fitted for each group of units of like energy, from how the derivatives of drawn and undrawn units
differ.

If the best value of each unit were 1, its derivative would be -(1 - m) c. Only what differs from this is averaged
over the masks of a batch; for the rest, the mean energy over all the data is known.
"""

from collections.abc import Mapping

import torch

from promask.types import UnitDraws, Units, restore_tensor

FIT_MEMORY = 0.9
"""The weight of the past in the fitted factors."""
EVIDENCE = 1e-12
"""The share of the energy that must be undecided for a fit: below, there is nothing but rounding errors."""
SHARED = 1e-3
"""How much all the others count in the fit of a group."""


class Gains:
    """Running means of the gains; one step is `begin`, `observe` for each piece of the batch, and `estimate`."""

    def __init__(self, energy: Units) -> None:
        self.energy = energy
        self.curvature = GroupedRatio(energy)
        self.sums = torch.zeros(4, *energy.shape, dtype=energy.dtype, device=energy.device)
        self.unexplained = torch.zeros_like(energy)
        self.count = energy.new_zeros(())

    def begin(self) -> None:
        """Forget the sums of the step before."""
        self.sums.zero_()
        self.count.zero_()

    def observe(self, masks: UnitDraws, gradients: UnitDraws, energies: UnitDraws) -> None:
        """Sums over the masks of a piece of the batch; `gradients` are dL/dm for the loss of each mask."""
        slope, drawn_slope, total, acquired = self.sums
        for mask, gradient, energy in zip(masks, gradients, energies, strict=True):
            slope += gradient
            drawn_slope.addcmul_(mask, gradient)
            total += energy
            acquired.addcmul_(mask, energy)
        self.count += len(masks)

    def estimate(self, novelty: float) -> Units:
        """The gains, in which this step has a weight of `novelty`."""
        slope, drawn_slope, total, acquired = self.sums / self.count
        # Where dL/dm = (a + factor * m) E in every image, the factor is the ratio of these two.
        share = acquired / total.clamp_min(torch.finfo(total.dtype).tiny)
        curvature = self.curvature(drawn_slope - share * slope, (1 - share) * acquired)
        unexplained = slope + curvature * (total - acquired)
        self.unexplained = self.unexplained.lerp(unexplained, novelty)
        return (curvature / 2) * self.energy - self.unexplained

    def state(self) -> Mapping[str, torch.Tensor]:
        """What is remembered between two steps."""
        return {"unexplained": self.unexplained, "above": self.curvature.above, "below": self.curvature.below}

    def resume(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from a state."""
        self.unexplained = restore_tensor(state["unexplained"], self.unexplained)
        self.curvature.above = restore_tensor(state["above"], self.curvature.above)
        self.curvature.below = restore_tensor(state["below"], self.curvature.below)


class GroupedRatio:
    """The ratio of two running sums for groups of units of like energy: the strongest one, the next two, four, ...

    A group for which there is little evidence takes the ratio of all; where there never was any, it is 0. Steps
    without evidence are not counted.
    """

    def __init__(self, energy: Units) -> None:
        rank = torch.empty(energy.numel(), dtype=torch.int64, device=energy.device)
        rank[energy.flatten().argsort(descending=True)] = torch.arange(energy.numel(), device=energy.device)
        self.group = (rank + 1).to(torch.float64).log2().floor().to(torch.int64)
        self.above = torch.zeros(int(self.group.max()) + 1, dtype=energy.dtype, device=energy.device)
        self.below = torch.zeros_like(self.above)
        self.enough = EVIDENCE * energy.sum()

    def __call__(self, above: Units, below: Units) -> Units:
        """Take note of both, and give the ratio so far for each unit."""
        new_above, new_below = self._sums(above), self._sums(below)
        # Once all units are decided there is nothing new, for ever: what was known before must not fade.
        memory = torch.where(new_below.sum() > self.enough, FIT_MEMORY, 1.0).to(new_below)
        self.above = torch.lerp(new_above, self.above, memory)
        self.below = torch.lerp(new_below, self.below, memory)
        all_above, all_below = SHARED * self.above.sum(), SHARED * self.below.sum()
        below = self.below + all_below
        ratio = torch.where(below > self.enough, (self.above + all_above) / below, 0)
        return ratio[self.group].reshape(above.shape)

    def _sums(self, values: Units) -> torch.Tensor:
        return torch.zeros_like(self.above).index_add_(0, self.group, values.flatten())
