"""Masks that need no learning, and that a learned one should not fall short of.

What a unit is worth depends on the others, and some masks are better than their parts: a solid block leaves an
empty background nearly empty, which structural similarity rewards, and no small step leads there from scattered
units. So learning ends with a look at the plain masks, on images that were learned from, or, where a network
judges, on others.
"""

import torch

from promask.fourier import centred, fft_order
from promask.learning.batches import Samples
from promask.patterns import Pattern
from promask.tasks import Task
from promask.types import UnitMask, Units

LOOKED_AT = 64
"""The most samples that decide what learning ends with."""
FEWER = 24
"""The same where a reconstruction takes long."""
JUDGES = 256
"""The same where a network judges: it is of two minds."""


def plain_masks(samples: Samples, pattern: Pattern, budget: int, centre: int) -> dict[str, UnitMask]:
    """The units of most energy, and the innermost ones; each has the central block of width `centre`."""
    energy = centred(samples.mean_energy(pattern), len(pattern.free)).cpu()
    innermost = pattern.innermost(budget)
    return {
        name: best_units(values, pattern, budget, centre)
        for name, values in {"energy": energy, "centre": innermost}.items()
    }


def best_units(values: Units | UnitMask, pattern: Pattern, budget: int, centre: int) -> UnitMask:
    """The units of the largest values, centred, among them the central block."""
    return pattern.largest(values.double().masked_fill(pattern.centre(centre), torch.inf), budget)


@torch.no_grad()
def mean_loss(units: UnitMask, samples: Samples, pattern: Pattern, task: Task, most: int = LOOKED_AT) -> float:
    """The mean loss of some of the samples, at equal distances, reconstructed with the same units."""
    mask = pattern.expand(fft_order(units, len(pattern.free)).to(samples.like))
    chosen = samples.some(most)
    total = torch.zeros((), dtype=torch.float64)
    for piece in samples.shared_pieces(chosen):
        images = piece.geometry.judged(samples.recon(piece.spectra, mask, piece.maps))
        total += float(task(images, piece)) * len(piece.targets)
    samples.group.add_up(total)
    return float(total) / len(chosen)
