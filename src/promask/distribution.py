"""A distribution over masks: independent Bernoulli units on a pattern (Eq. 1), with a budget."""

from dataclasses import dataclass

import torch

from promask.errors import InputError
from promask.exact_size import ExactSize
from promask.patterns import Pattern
from promask.types import Mask, Masks, UnitMask, Units


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

    def __post_init__(self) -> None:
        if self.probabilities.shape != self.pattern.unit_shape:
            raise InputError(
                f"Probabilities of shape {list(self.probabilities.shape)} do not fit units of shape "
                f"{list(self.pattern.unit_shape)}."
            )
        if not ((self.probabilities >= 0) & (self.probabilities <= 1)).all():
            raise InputError("Probabilities must be numbers from 0 to 1.")
        if self.probabilities[self.pattern.padding()].any():
            raise InputError("Padding is never acquired: its probabilities must be 0.")
        if not 1 <= self.budget <= self.pattern.units:
            raise InputError(f"The budget must be from 1 to {self.pattern.units} units, but is {self.budget}.")

    def mode(self) -> Mask:
        """The most probable mask of exactly `budget` units (section 3.4 of the paper): the largest probabilities.

        Ties are broken as in `Pattern.largest`.
        """
        return self.pattern.expand(self.pattern.largest(self.probabilities, self.budget))

    def sample(self, count: int, seed: int) -> Masks:
        """Independent random masks, (count, *space); their size varies around the sum of the probabilities."""
        generator = torch.Generator().manual_seed(seed)
        shape = self.pattern.unit_shape
        masks = [
            torch.rand(shape, generator=generator, dtype=torch.float64) < self.probabilities for _ in range(count)
        ]  # one by one: of a volume, all the random numbers would take gigabytes
        return self.pattern.expand(torch.stack(masks))

    def sample_exact(self, count: int, seed: int) -> Masks:
        """Random masks given that exactly `budget` units are acquired, (count, *space)."""
        generator = torch.Generator().manual_seed(seed)
        theta = self.probabilities.flatten().to(torch.float64)
        certain = theta >= 1
        impossible = (theta <= 0) & ~self.pattern.padding().flatten()
        open_units = ((theta > 0) & ~certain).nonzero().flatten()
        wanted = self.budget - int(certain.sum())
        undecided = ExactSize(theta[open_units], wanted) if 0 < wanted < len(open_units) else None
        masks = []
        for _ in range(count):
            mask = certain.clone()
            if wanted < 0:  # more certain units than the budget holds: they are alike
                mask[_choose(certain, -wanted, generator)] = False
            elif undecided is not None:
                mask[open_units] = undecided.draw(generator)
            elif wanted > 0:  # all that are possible, and the rest from the impossible ones, which are alike, too
                mask[open_units] = True
                mask[_choose(impossible, wanted - len(open_units), generator)] = True
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


def _choose(candidates: UnitMask, count: int, generator: torch.Generator) -> torch.Tensor:
    indices = candidates.nonzero().flatten()
    return indices[torch.randperm(len(indices), generator=generator)[:count]]
