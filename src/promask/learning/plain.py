"""Masks that need no learning, and that a learned one should not fall short of.

What a unit is worth depends on the others, and some masks are better than their parts: a solid block leaves an
empty background nearly empty, which structural similarity rewards, and no small step leads there from scattered
units. So learning ends with a look at the plain masks, on the images that were learned from.
"""

import torch

from promask.fourier import centred, fft_order
from promask.learning.batches import Samples
from promask.learning.step import Task
from promask.patterns import Pattern
from promask.recon import zero_filled
from promask.types import UnitMask

LOOKED_AT = 64
"""The most samples that decide."""


def plain_masks(samples: Samples, pattern: Pattern, budget: int, centre: int) -> dict[str, UnitMask]:
    """The units of most energy, and the innermost ones; each has the central block of width `centre`."""
    energy = centred(samples.mean_energy(pattern), len(pattern.free)).cpu().double()
    innermost = pattern.innermost(budget).double()
    always = pattern.centre(centre)
    return {
        name: pattern.largest(values.masked_fill(always, torch.inf), budget)
        for name, values in {"energy": energy, "centre": innermost}.items()
    }


def better_plain_mask(
    learned: UnitMask, plain: dict[str, UnitMask], samples: Samples, pattern: Pattern, task: Task
) -> str | None:
    """The name of the plain mask of least loss, if that is less than the loss of the learned one."""
    losses = {name: mean_loss(units, samples, pattern, task) for name, units in plain.items()}
    best = min(losses, key=losses.__getitem__)
    return best if losses[best] < mean_loss(learned, samples, pattern, task) else None


def mean_loss(units: UnitMask, samples: Samples, pattern: Pattern, task: Task) -> float:
    """The mean loss of some of the samples, at equal distances, reconstructed with the same units."""
    mask = fft_order(pattern.expand(units), len(pattern.shape)).to(samples.like).requires_grad_()  # as in learning
    count = min(LOOKED_AT, len(samples))
    total = torch.zeros((), dtype=torch.float64)
    for piece in samples.pieces(torch.arange(count) * len(samples) // count):
        images = piece.geometry.judged(zero_filled(piece.spectra, mask, len(pattern.shape)))
        total += float(task(images, piece).detach()) * len(piece.targets)
    return float(total) / count
