"""A distribution over masks: independent Bernoulli units on a pattern (Eq. 1), with a budget."""

from dataclasses import dataclass

import torch

from promask.patterns import Pattern
from promask.types import Mask, Masks, UnitMask, Units

PROPOSALS = 2**24
"""How many random numbers are drawn at once when masks of an exact size are sought by rejection."""


@dataclass(frozen=True)
class MaskDistribution:
    """Probabilities on the units of a pattern. Everything is centred: DC at index n // 2.

    >>> halves = MaskDistribution(torch.full((4,), 0.5), Pattern((3, 4), free=(1,)), budget=2)
    >>> halves.mode()[0]
    tensor([False,  True,  True, False])
    >>> halves.sample_exact(count=5, seed=0).sum((1, 2))
    tensor([6, 6, 6, 6, 6])
    """

    probabilities: Units
    pattern: Pattern
    budget: int

    def mode(self) -> Mask:
        """The most probable mask of exactly `budget` units (section 3.4 of the paper): the largest probabilities.

        Ties go to the unit nearer to the centre of k-space, then to the one that comes first in memory.
        """
        return self.pattern.expand(self._chosen(self._ranking()[: self.budget]))

    def sample(self, count: int, seed: int) -> Masks:
        """Independent random masks, (count, *space); their size varies around the sum of the probabilities."""
        generator = torch.Generator().manual_seed(seed)
        uniform = torch.rand((count, *self.pattern.unit_shape), generator=generator, dtype=torch.float64)
        return self.pattern.expand(uniform < self.probabilities)

    def sample_exact(self, count: int, seed: int) -> Masks:
        """Random masks given that exactly `budget` units are acquired, (count, *space).

        Scaling all odds by one factor leaves this distribution as it is. With the factor that makes `budget` the
        expected size, independent draws have that size often enough to wait for it.
        """
        generator = torch.Generator().manual_seed(seed)
        theta = self.probabilities.flatten().to(torch.float64)
        certain, impossible = theta >= 1, theta <= 0
        open_units = (~certain & ~impossible).nonzero().flatten()
        wanted = self.budget - int(certain.sum())
        scaled = _of_expected_size(theta[open_units], wanted)
        masks = []
        for _ in range(count):
            mask = certain.clone()
            if wanted < 0:  # more certain units than the budget holds: they are alike
                mask[_choose(certain, -wanted, generator)] = False
            elif wanted > len(open_units):  # the rest must come from units that are alike, too
                mask[open_units] = True
                mask[_choose(impossible, wanted - len(open_units), generator)] = True
            elif wanted > 0:
                mask[open_units] = _bernoulli_of_size(scaled, wanted, generator)
            masks.append(mask.reshape(self.pattern.unit_shape))
        return self.pattern.expand(torch.stack(masks))

    def mean(self) -> torch.Tensor:
        """The probability of every k-space location, (*space)."""
        return self.pattern.expand(self.probabilities)

    def entropy(self) -> float:
        """How undecided the distribution is, in bits: 0 for a single mask, one per unit for fair coins."""
        theta = self.probabilities.to(torch.float64)
        bits = torch.special.entr(theta) + torch.special.entr(1 - theta)
        return float(bits.sum() / torch.log(torch.tensor(2.0)))

    def _ranking(self) -> torch.Tensor:
        nearest_first = self.pattern.distance().flatten().argsort(stable=True)
        by_probability = self.probabilities.flatten()[nearest_first].argsort(descending=True, stable=True)
        return nearest_first[by_probability]

    def _chosen(self, indices: torch.Tensor) -> UnitMask:
        units = torch.zeros(self.pattern.units, dtype=torch.bool)
        units[indices] = True
        return units.reshape(self.pattern.unit_shape)


def _choose(candidates: UnitMask, count: int, generator: torch.Generator) -> torch.Tensor:
    indices = candidates.nonzero().flatten()
    return indices[torch.randperm(len(indices), generator=generator)[:count]]


def _of_expected_size(theta: torch.Tensor, size: int) -> torch.Tensor:
    """The probabilities whose odds are those of `theta` times one factor and whose sum is `size`, by bisection."""
    if not 0 < size < len(theta):
        return torch.full_like(theta, float(size > 0))
    log_odds = torch.logit(theta)
    low, high = -float(log_odds.max()) - 60, -float(log_odds.min()) + 60
    for _ in range(100):
        middle = (low + high) / 2
        too_small = float(torch.sigmoid(log_odds + middle).sum()) < size
        low, high = (middle, high) if too_small else (low, middle)
    return torch.sigmoid(log_odds + high)


def _bernoulli_of_size(probabilities: torch.Tensor, size: int, generator: torch.Generator) -> UnitMask:
    """One draw of independent Bernoulli units given that `size` of them are one, by rejection."""
    proposals = max(1, min(256, PROPOSALS // len(probabilities)))
    while True:
        uniform = torch.rand((proposals, len(probabilities)), generator=generator, dtype=torch.float64)
        masks = uniform < probabilities
        fitting = (masks.sum(1) == size).nonzero()
        if len(fitting):
            return masks[int(fitting[0])]
