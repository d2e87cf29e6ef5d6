"""Random masks from probabilities, and the published gradient through them."""

from dataclasses import dataclass

import torch

from promask.types import UnitDraws, Units

TINY = 1e-20
"""Keeps the log odds of probabilities 0 and 1 finite."""


@dataclass(frozen=True)
class Draws:
    """Binary masks on the grid of units, with the slope that carries gradients back to the probabilities.

    `masks` are 0 or 1 in floating point; `slope` is d(soft mask) / d(theta), both (draws, *units).
    """

    masks: UnitDraws
    slope: UnitDraws


def bernoulli(probabilities: Units, count: int, generator: torch.Generator) -> UnitDraws:
    """Independent masks of zeros and ones, (count, *units)."""
    uniform = torch.rand(
        (count, *probabilities.shape),
        dtype=probabilities.dtype,
        device=probabilities.device,
        generator=generator,
    )
    return torch.lt(uniform, probabilities, out=uniform)


def logistic_noise(shape: tuple[int, ...], like: Units, generator: torch.Generator) -> torch.Tensor:
    """g1 - g0, the difference of two Gumbel(0, 1) numbers, which is one logistic number; always finite."""
    smallest = torch.finfo(like.dtype).eps / 4  # half of the grid on which uniform numbers are drawn
    return torch.rand(shape, dtype=like.dtype, device=like.device, generator=generator).logit_(eps=smallest)


def straight_through_gumbel(probabilities: Units, noise: UnitDraws, temperature: float) -> Draws:
    """Bernoulli masks with the straight-through Gumbel gradient: Eqs. 4 and 5.

    The hard mask 1(rho + g1 - g0 >= 0) goes forward; the slope is that of sigmoid((rho + g1 - g0) / tau).
    """
    complement = 1 - probabilities
    log_odds = torch.log(probabilities + TINY) - torch.log(complement + TINY)
    score = log_odds + noise
    masks = torch.ge(score, 0, out=torch.empty_like(score))
    soft = score.div_(temperature).sigmoid_()
    log_odds_slope = 1 / (probabilities + TINY) + 1 / (complement + TINY)
    slope = torch.addcmul(soft, soft, soft, value=-1).mul_(log_odds_slope / temperature)
    return Draws(masks, slope)
