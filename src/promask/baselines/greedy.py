"""Swaps that lower the loss, from the energy mask on (after the BASS algorithm of Zibetti et al. 2021).

Blocks of acquired units of least importance are swapped for others of most importance, as long as this lowers the
loss of a fixed set of images; when nothing does, the blocks become smaller.
"""

import itertools
import math

import torch

from promask.baselines.energy import energy
from promask.baselines.problem import Problem
from promask.baselines.whole_gradient import examples, whole_gradient
from promask.fourier import centred
from promask.learning.batches import Samples
from promask.patterns import Pattern
from promask.tasks import Task
from promask.types import UnitMask, Units

IMAGES = 128
"""The most images that decide whether a swap is kept."""
LOOKS = 150
"""The most swaps that are tried."""
FIRST_SHARE = 1 / 64
"""Of the acquired units, that is swapped at a time at first."""
CANDIDATES = 3
"""Blocks on either side that are tried before they become smaller."""
SIDE = 0.1
"""By how much one half of k-space is preferred, in gains of the best unit: conjugate twins tell much the same."""


def greedy(problem: Problem) -> UnitMask:
    """The units of most energy, and then swaps; the central block stays."""
    samples = examples(problem.data, IMAGES, problem.task, problem.recon)
    return refined(energy(problem), problem.block(), samples, problem.pattern, problem.task)


def refined(units: UnitMask, always: UnitMask, samples: Samples, pattern: Pattern, task: Task) -> UnitMask:
    """Other units, as many and centred, of which these samples have a lower loss, or the same ones."""
    fixed = always | pattern.padding()
    if (units | fixed).all() or not (units & ~fixed).any():
        return units
    energies = centred(samples.mean_energy(pattern), len(pattern.free))
    found = whole_gradient(units, samples, pattern, task)
    block, looks = max(1, math.floor(FIRST_SHARE * int(units.sum()))), 0
    while block >= 1:
        gain = gains(units, found.gradients[0], energies, pattern)
        for leaving, coming in swaps(gain, units, fixed, block):
            if looks == LOOKS:
                return units
            trial = units.flatten().clone()
            trial[leaving], trial[coming] = False, True
            result = whole_gradient(trial.reshape(units.shape), samples, pattern, task)
            looks += 1
            if result.loss < found.loss:
                units, found = trial.reshape(units.shape), result
                break
        else:
            block //= 2
    return units


def gains(units: UnitMask, gradient: Units, energies: Units, pattern: Pattern) -> Units:
    """By how much each unit lowers the loss: (m - 1/2) c - dL/dm, for a loss that is quadratic in it.

    The curvature c is taken to be proportional to the energy, and such that the best value of the others is 1.
    """
    others = ~units & ~pattern.padding()
    total = energies[others].sum().clamp_min(torch.finfo(energies.dtype).tiny)
    curvature = -energies * (gradient[others].sum() / total)
    gain = (units.to(gradient.dtype) - 0.5) * curvature - gradient
    return gain + SIDE * gain[others].max().abs() * pattern.half().to(gain.dtype)


def swaps(gain: Units, units: UnitMask, fixed: UnitMask, block: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Indices of units that leave and of as many that come, the most promising first."""
    movable = int((units & ~fixed).sum()), int((~units & ~fixed).sum())
    block = min(block, *movable)
    count = min(CANDIDATES * block, *movable)
    gain = gain.flatten()
    leaving = torch.where((units & ~fixed).flatten(), gain, torch.inf).topk(count, largest=False).indices
    coming = torch.where((~units & ~fixed).flatten(), gain, -torch.inf).topk(count).indices
    pairs = itertools.product(leaving.split(block), coming.split(block))
    return [(out, into) for out, into in pairs if len(out) == len(into)]
