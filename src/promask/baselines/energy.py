"""The closed form: the units that hold the most energy on average.

For zero-filling and the complex squared error, Parseval's theorem makes this the best mask there is.
"""

import torch

from promask.baselines.problem import Problem
from promask.data import prepared
from promask.fourier import centred, space_axes, spectrum
from promask.types import UnitMask


def energy(problem: Problem) -> UnitMask:
    """The units of largest mean |k|^2; ties are broken as for the mode of a learned distribution."""
    data, pattern = prepared(problem.data), problem.pattern
    dimensions = len(pattern.shape)
    total = torch.zeros(pattern.shape, dtype=torch.float64)
    for index in range(len(data)):
        image = data[index].image
        total += spectrum(image, space_axes(dimensions)).abs().square().sum(0)
    return problem.best(pattern.total(centred(total, dimensions)))
