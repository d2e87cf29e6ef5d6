"""Variable density: random units, denser towards the centre of k-space."""

import torch

from promask.patterns import Pattern
from promask.types import SampleSet, UnitMask

WIDTH = 35 / 128
"""The standard deviation, as a share of the half width of k-space: 35 of 256 pixels, as published."""


def gaussian(pattern: Pattern, budget: int, seed: int, data: SampleSet) -> UnitMask:
    """Units drawn one after the other from a Gaussian around the centre, none of them twice.

    Adding Gumbel noise to the log density and keeping the largest is the same as drawing without replacement.
    """
    generator = torch.Generator().manual_seed(seed)
    log_density = -pattern.distance() / (2 * WIDTH**2)
    uniform = torch.rand(pattern.unit_shape, generator=generator, dtype=torch.float64)
    keys = log_density - torch.log(-torch.log(uniform))
    return pattern.largest(keys, budget)
