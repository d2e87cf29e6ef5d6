"""Equally spaced lines with a fully sampled centre, as in parallel imaging."""

import torch

from promask.errors import InputError
from promask.patterns import Pattern
from promask.types import SampleSet, UnitMask

CENTRE_SHARE = 0.04


def equispaced(pattern: Pattern, budget: int, seed: int, data: SampleSet) -> UnitMask:
    """4 % of the lines in the centre, the rest of the budget evenly over the other lines, at a random offset.

    The centre counts in the budget; a budget below 4 % is all centre.
    """
    if len(pattern.free) != 1:
        raise InputError("Equispaced masks are made of lines: choose the pattern 1d.")
    centre = min(budget, round(CENTRE_SHARE * pattern.units))
    mask = pattern.centre(centre)
    others = (~mask & ~pattern.padding()).nonzero().flatten()
    remaining = budget - int(mask.sum())
    if remaining:
        spacing = len(others) / remaining
        generator = torch.Generator().manual_seed(seed)
        offset = torch.rand((), generator=generator, dtype=torch.float64) * spacing
        positions = offset + spacing * torch.arange(remaining, dtype=torch.float64)
        mask[others[positions.long().clamp_max(len(others) - 1)]] = True
    return mask
