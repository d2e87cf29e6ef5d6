"""Random masks from probabilities, the published gradient through them, and streams of random numbers."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from promask.types import UnitDraws, Units


def generator(seed: int, member: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A stream of random numbers of its own for each seed, member and purpose: start, batches or noise."""
    entropy = [seed, member, *purpose.encode()]
    state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    return torch.Generator(device).manual_seed(int(state[0]))


TINY = 1e-20
"""Keeps the log odds of probabilities 0 and 1 finite."""

ONE = 0x3F800000
"""The bits of 1.0 in single precision."""


@dataclass(frozen=True)
class Draws:
    """Binary masks on the grid of units, with the slope that carries gradients back to the probabilities.

    `masks` are 0 or 1 in floating point; `slope` is d(soft mask) / d(theta), both (draws, *units).
    """

    masks: UnitDraws
    slope: UnitDraws


def uniform(shape: tuple[int, ...], like: Units, generator: torch.Generator) -> torch.Tensor:
    """Numbers between 0 and 1, neither of which occurs, on a grid of 2^23 values.

    Random bits are the larger part of the cost, and torch.rand throws most of them away: here a word of 64 bits
    makes two numbers. 23 bits after the point of 1.0 make a number from 1 to 2.
    """
    count = math.prod(shape)
    bits = _words(count, like, generator).view(torch.int32)[:count].bitwise_and_(2**23 - 1).bitwise_or_(ONE)
    return bits.view(torch.float32).sub_(1 - 2.0**-24).reshape(shape).to(like.dtype)


def skip_random_numbers(count: int, like: Units, generator: torch.Generator) -> None:
    """Leave a generator as if it had made so many of these numbers, which another process uses."""
    _words(count, like, generator)


def _words(count: int, like: Units, generator: torch.Generator) -> torch.Tensor:
    return torch.empty((count + 1) // 2, dtype=torch.int64, device=like.device).random_(generator=generator)


def bernoulli(probabilities: Units, count: int, generator: torch.Generator) -> UnitDraws:
    """Independent masks of zeros and ones, (count, *units). Certain units need no random numbers."""
    flat = probabilities.flatten()
    undecided = ((flat > 0) & (flat < 1)).nonzero().flatten()
    masks = flat.repeat(count, 1)
    random = uniform((count, len(undecided)), flat, generator)
    masks[:, undecided] = (random < flat[undecided]).to(flat.dtype)
    return masks.reshape(count, *probabilities.shape)


def logistic_noise(shape: tuple[int, ...], like: Units, generator: torch.Generator) -> torch.Tensor:
    """g1 - g0, the difference of two Gumbel(0, 1) numbers, which is one logistic number; always finite."""
    return uniform(shape, like, generator).logit_()


class StraightThroughGumbel:
    """Bernoulli masks with the straight-through Gumbel gradient: Eqs. 4 and 5.

    The hard mask 1(rho + g1 - g0 >= 0) goes forward; the slope is that of sigmoid((rho + g1 - g0) / tau).
    """

    def __init__(self, probabilities: Units, temperature: float) -> None:
        complement = 1 - probabilities
        log_odds = torch.log(probabilities + TINY) - torch.log(complement + TINY)
        self.cooled_odds = log_odds / temperature
        self.slope = (1 / (probabilities + TINY) + 1 / (complement + TINY)) / temperature
        self.temperature = temperature

    def __call__(self, noise: UnitDraws) -> Draws:
        """Masks and slopes, one for each noise."""
        score = torch.add(self.cooled_odds, noise, alpha=1 / self.temperature)
        masks = torch.ge(score, 0, out=torch.empty_like(score))
        soft = score.sigmoid_()
        return Draws(masks, soft.addcmul_(soft, soft, value=-1).mul_(self.slope))
