"""Independent Bernoulli units, given how many of them are one."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

NEGLIGIBLE = 1e-14
"""Probabilities below this share of the largest are rounding errors of the Fourier transform."""


class ExactSize:
    """Draws from p(m | sum(m) = size) for independent units with probabilities strictly between 0 and 1.

    The units are paired, the pairs are paired, and so on. A first pass upwards finds the distribution of the
    number of ones in every block; a draw goes downwards and splits the number of each block between its halves.
    """

    def __init__(self, probabilities: Float[Tensor, " units"], size: int) -> None:
        self.units, self.size = len(probabilities), size
        width = 1 << max(self.units - 1, 0).bit_length()
        padded = torch.nn.functional.pad(of_expected_size(probabilities, size), (0, width - self.units))
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


def of_expected_size(probabilities: Float[Tensor, " units"], size: int) -> Float[Tensor, " units"]:
    """The probabilities whose odds are the given ones times one factor and whose sum is `size`, by bisection.

    The factor cancels in the distribution given the size; it makes that size a likely one, which keeps the
    arithmetic accurate.
    """
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
