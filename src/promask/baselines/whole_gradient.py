"""The loss of one mask over all the images that a baseline looks at, and its gradient."""

import math

import torch

from promask.data import Subset, prepared
from promask.fourier import centred, fft_order
from promask.learning.batches import Samples
from promask.learning.step import Backpropagated, backpropagate
from promask.patterns import Pattern
from promask.recon import ZERO_FILLED, Reconstruction
from promask.tasks import Task
from promask.types import SampleSet, UnitMask

USUAL_SIZE = 2**16
"""The numbers of a slice of 256 x 256; of larger samples, fewer are looked at."""
FEWEST = 8
"""Samples that are looked at however large they are."""


def examples(data: SampleSet, most: int, task: Task, recon: Reconstruction = ZERO_FILLED) -> Samples:
    """At most so many samples, at equal distances, with what the task needs to know of them."""
    data = prepared(data)
    affordable = most * USUAL_SIZE // math.prod(data.shape)
    count = min(len(data), most, max(FEWEST, affordable))
    chosen = Subset(data, [index * len(data) // count for index in range(count)])
    return Samples.of_task(chosen, torch.device("cpu"), task, recon)


def whole_gradient(units: UnitMask, samples: Samples, pattern: Pattern, task: Task) -> Backpropagated:
    """The mean loss when all samples are reconstructed with these units, and dL/dm, centred, as a draw of one."""
    mask = fft_order(units, len(pattern.free)).to(samples.like.dtype)
    loss, gradient = torch.zeros((), dtype=mask.dtype), torch.zeros_like(mask)
    for piece in samples.pieces(torch.arange(len(samples))):
        result = backpropagate(mask.expand(len(piece.targets), *mask.shape), piece, pattern, task, samples.recon)
        loss += result.loss
        gradient += result.gradients.sum(0)
    return Backpropagated(loss / len(samples), centred(gradient, len(pattern.free)).unsqueeze(0) / len(samples))
