"""Iterative gradient sampling: greedy lines, to compare with.

Starting from the line through the centre, add the line whose gradient promises most, on all the data, until the
budget is used up (Gözcü et al. 2018 with gradients in place of trials; the 1D baseline of the paper).
"""

import torch

from promask.fourier import fft_order
from promask.learning.batches import Samples
from promask.learning.step import Task, backpropagate
from promask.patterns import Pattern
from promask.types import UnitMask


def igs(samples: Samples, pattern: Pattern, task: Task, budget: int) -> UnitMask:
    """Exactly `budget` lines, in FFT order."""
    chosen = fft_order(pattern.centre(1), len(pattern.free))
    everything = torch.arange(len(samples))
    while int(chosen.sum()) < budget:
        gradient = torch.zeros(pattern.unit_shape, dtype=samples.like.dtype)
        for piece in samples.pieces(everything):
            masks = chosen.to(piece.targets.dtype).expand(len(piece.targets), *pattern.unit_shape)
            gradient += backpropagate(masks, piece, pattern, task).gradients.sum(0)
        best = gradient.masked_fill(chosen, torch.inf).argmin()
        chosen.view(-1)[best] = True
    return chosen
