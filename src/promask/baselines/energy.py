"""The closed form: the units that hold the most energy on average.

For zero-filling and the complex squared error, Parseval's theorem makes this the best mask there is.
"""

import torch

from promask.data import prepared
from promask.fourier import centred, space_axes, spectrum
from promask.patterns import Pattern
from promask.types import SampleSet, UnitMask


def energy(pattern: Pattern, budget: int, seed: int, data: SampleSet) -> UnitMask:
    """The `budget` units of largest mean |k|^2; ties are broken as for the mode of a learned distribution."""
    data = prepared(data)
    dimensions = len(pattern.shape)
    total = torch.zeros(pattern.shape, dtype=torch.float64)
    for index in range(len(data)):
        image = data[index].image
        total += spectrum(image, space_axes(dimensions)).abs().square().sum(0)
    return pattern.largest(pattern.total(centred(total, dimensions)), budget)
