"""A distribution over masks: independent Bernoulli units on a pattern (Eq. 1), and draws of an exact size."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from promask.errors import InputError
from promask.operators.fourier import fft_order
from promask.sampling.feasible import group_of
from promask.sampling.pattern import Pattern
from promask.types import Mask, Masks, UnitMask, Units

NEGLIGIBLE = 1e-14
"""Probabilities below this share of the largest are rounding errors of the Fourier transform."""


class ExactSizeSampler:
    """Draws from p(m | sum(m) = size) for independent units with probabilities strictly between 0 and 1.

    The units are paired, the pairs are paired, and so on. A first pass upwards finds the distribution of the
    number of ones in every block; a draw goes downwards and splits the number of each block between its halves.
    """

    def __init__(self, probabilities: Float[Tensor, " units"], size: int) -> None:
        self.units, self.size = len(probabilities), size
        width = 1 << max(self.units - 1, 0).bit_length()
        padded = torch.nn.functional.pad(_scale_odds(probabilities, size), (0, width - self.units))
        self.levels = [torch.stack([1 - padded, padded], 1)]
        while len(self.levels[-1]) > 1:
            self.levels.append(_sums(self.levels[-1][0::2], self.levels[-1][1::2]))

    def draw(self, generator: torch.Generator) -> Bool[Tensor, " units"]:
        """One draw, in a time nearly proportional to the number of units."""
        ones = torch.tensor([self.size])
        for halves in reversed(self.levels[:-1]):
            left, right = halves[0::2], halves[1::2]
            in_left = torch.arange(left.shape[1])
            in_right = ones[:, None] - in_left
            possible = (in_right >= 0) & (in_right < right.shape[1])
            weights = left * right.gather(1, in_right.clamp(0, right.shape[1] - 1)) * possible
            cumulative = weights.cumsum(1)
            uniform = torch.rand(len(ones), 1, generator=generator, dtype=torch.float64)
            chosen = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)[:, 0]
            chosen = chosen.clamp_max(left.shape[1] - 1)
            ones = torch.stack([chosen, ones - chosen], 1).flatten()
        return ones[: self.units] == 1


def _scale_odds(probabilities: Float[Tensor, " units"], size: int) -> Float[Tensor, " units"]:
    """The probabilities whose odds are the given ones times one factor and whose sum is `size`, by bisection."""
    # The factor cancels in the distribution given the size; it makes that size likely, and arithmetic accurate.
    log_odds = torch.logit(probabilities)
    low, high = -float(log_odds.max()) - 60, -float(log_odds.min()) + 60
    for _ in range(100):
        middle = (low + high) / 2
        too_small = float(torch.sigmoid(log_odds + middle).sum()) < size
        low, high = (middle, high) if too_small else (low, middle)
    return torch.sigmoid(log_odds + high)


def _sums(left: Float[Tensor, "blocks n"], right: Float[Tensor, "blocks n"]) -> Float[Tensor, "blocks m"]:
    """The distribution of the sum of two independent numbers, for each pair of blocks: a convolution."""
    length = left.shape[1] + right.shape[1] - 1
    product = torch.fft.rfft(left, length) * torch.fft.rfft(right, length)
    sums = torch.fft.irfft(product, length)
    return torch.where(sums > NEGLIGIBLE * sums.amax(1, keepdim=True), sums, 0.0)


@dataclass(frozen=True)
class MaskDistribution:
    """Probabilities of the units of a pattern. Everything is centred: DC at index n // 2.

    >>> halves = MaskDistribution(torch.full((4,), 0.5), Pattern((3, 4), free=(1,)), budget=2)
    >>> halves.mode()[0]
    tensor([False,  True,  True, False])
    >>> halves.sample_exact(count=5, seed=0).sum((1, 2))
    tensor([6, 6, 6, 6, 6])

    Args:
        probabilities: From 0 to 1, one for each unit, (*units); 0 in the padding.
        pattern: What is acquired as a whole.
        budget: The number of units to acquire.
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
        if self.probabilities[self.pattern.never()].any():
            raise InputError("What the limits leave out is never acquired: its probabilities must be 0.")
        if not 1 <= self.budget <= self.pattern.units:
            raise InputError(f"The budget must be from 1 to {self.pattern.units} units, but is {self.budget}.")

    def mode(self) -> Mask:
        """Return the most probable mask of exactly `budget` units (section 3.4 of the paper).

        Returns:
            The mask, (*space): the units of largest probability; ties are broken as in `Pattern.largest`.
        """
        return self.pattern.expand(self.pattern.largest(self.probabilities, self.budget))

    def sample(self, count: int, seed: int) -> Masks:
        """Draw independent random masks, whose size varies around the sum of the probabilities.

        Args:
            count: How many masks.
            seed: The same seed gives the same masks.

        Returns:
            (count, *space).
        """
        generator = torch.Generator().manual_seed(seed)
        shape = self.pattern.unit_shape
        masks = [
            torch.rand(shape, generator=generator, dtype=torch.float64) < self.probabilities for _ in range(count)
        ]  # one by one: of a volume, all the random numbers would take gigabytes
        return self.pattern.expand(torch.stack(masks))

    def sample_exact(self, count: int, seed: int) -> Masks:
        """Draw random masks, given that each acquires exactly `budget` units, and equal numbers where asked for.

        With a largest gap, a mask that was drawn is brought to the nearest one that keeps it. Where contrasts have
        costs, each has as many units as in the most probable mask.

        Args:
            count: How many masks.
            seed: The same seed gives the same masks.

        Returns:
            (count, *space).
        """
        generator = torch.Generator().manual_seed(seed)
        theta = self.probabilities.flatten().to(torch.float64)
        possible, group = ~self.pattern.never().flatten(), group_of(self.pattern).flatten()
        sizes = [self.budget // (int(group.max()) + 1)] * (int(group.max()) + 1)
        if self.pattern.limits.cost:
            units = self.pattern.restrict(self.mode())
            group = torch.arange(len(units)).repeat_interleave(units[0].numel())
            sizes = units.flatten(1).sum(1).tolist()
        parts = [_Part(theta, possible & (group == each), size) for each, size in enumerate(sizes)]
        masks = []
        for _ in range(count):
            mask = torch.zeros(len(theta), dtype=torch.bool)
            for part in parts:
                part.draw(mask, generator)
            drawn, certain = (each.reshape(self.pattern.unit_shape) for each in (mask, (theta >= 1) & mask))
            masks.append(self.pattern.nearest(drawn, certain, self.probabilities, self.budget))
        return self.pattern.expand(torch.stack(masks))

    def mean(self) -> torch.Tensor:
        """The probability of every k-space location, (*space)."""
        return self.pattern.expand(self.probabilities)

    def entropy(self) -> float:
        """How undecided the distribution is, in bits: 0 for a single mask, one per unit for fair coins."""
        theta = self.probabilities.to(torch.float64)
        bits = torch.special.entr(theta) + torch.special.entr(1 - theta)
        return float(bits.sum() / torch.log(torch.tensor(2.0)))


class _Part:
    """Units of which a fixed number is drawn."""

    def __init__(self, theta: Float[Tensor, " units"], own: UnitMask, size: int) -> None:
        self.certain = (theta >= 1) & own
        self.impossible = (theta <= 0) & own
        self.open = (own & (theta > 0) & ~self.certain).nonzero().flatten()
        self.wanted = size - int(self.certain.sum())
        undecided = 0 < self.wanted < len(self.open)
        self.sampler = ExactSizeSampler(theta[self.open], self.wanted) if undecided else None

    def draw(self, mask: UnitMask, generator: torch.Generator) -> None:
        """Set the units that are drawn."""
        mask |= self.certain
        if self.wanted < 0:  # more certain units than the number holds: they are alike
            mask[_choose(self.certain, -self.wanted, generator)] = False
        elif self.sampler is not None:
            mask[self.open] = self.sampler.draw(generator)
        elif self.wanted > 0:  # all that are possible, and the rest from the impossible ones, which are alike, too
            mask[self.open] = True
            mask[_choose(self.impossible, self.wanted - len(self.open), generator)] = True


def _choose(candidates: UnitMask, count: int, generator: torch.Generator) -> torch.Tensor:
    indices = candidates.nonzero().flatten()
    return indices[torch.randperm(len(indices), generator=generator)[:count]]


def initial_probabilities(values: Any, pattern: Pattern) -> Units:
    """Probabilities to start from, in FFT order, from a centred array of them: one per unit or per location."""
    probabilities = torch.as_tensor(values).to(torch.float32)
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise InputError("The probabilities to start from must be numbers from 0 to 1.")
    if probabilities.shape != pattern.unit_shape:
        if probabilities.shape != pattern.shape:
            raise InputError(
                f"The probabilities to start from have shape {list(probabilities.shape)}, but the units have "
                f"shape {list(pattern.unit_shape)}."
            )
        probabilities = pattern.restrict(probabilities)
    return fft_order(probabilities, pattern.encoded)
