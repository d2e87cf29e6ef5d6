"""The loss of one mask over all the images that a baseline looks at, and its gradient.

Swaps that lower the loss, from the energy mask on (after the BASS algorithm of Zibetti et al. 2021).

Blocks of acquired units of least importance are swapped for others of most importance, as long as this lowers the
loss of a fixed set of images; when nothing does, the blocks become smaller.

Iterative gradient sampling: greedy growth from the centre (Razumov et al. 2022).

Starting from the centre, add the units whose gradient promises most, over the learning images, until the budget is
used up. Lines are added one by one; single locations are so many that each sweep over the images adds several.
"""

import itertools
import math

import torch

from promask.baselines.fixed import energy
from promask.baselines.problem import Problem
from promask.data.file_set import prepare
from promask.data.sample_sets import Subset
from promask.losses.base import Loss
from promask.operators.fourier import centred, fft_order
from promask.problem.batches import Samples
from promask.problem.objective import Backpropagated, backpropagate
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED
from promask.sampling.pattern import Pattern
from promask.types import SampleSet, UnitMask, Units

USUAL_SIZE = 2**16
"""The numbers of a slice of 256 x 256; of larger samples, fewer are looked at."""
FEWEST = 8
"""Samples that are looked at however large they are."""


def examples(data: SampleSet, most: int, task: Loss, recon: Reconstruction = ZERO_FILLED) -> Samples:
    """At most so many samples, at equal distances, with what the task needs to know of them."""
    data = prepare(data)
    affordable = most * USUAL_SIZE // math.prod(data.shape)
    count = min(len(data), most, max(FEWEST, affordable))
    chosen = Subset(data, [index * len(data) // count for index in range(count)])
    return Samples.of_task(chosen, torch.device("cpu"), task, recon)


def whole_gradient(units: UnitMask, samples: Samples, pattern: Pattern, task: Loss) -> Backpropagated:
    """The mean loss when all samples are reconstructed with these units, and dL/dm, centred, as a draw of one."""
    mask = fft_order(units, len(pattern.free)).to(samples.like.dtype)
    loss, gradient = torch.zeros((), dtype=mask.dtype), torch.zeros_like(mask)
    for piece in samples.pieces(torch.arange(len(samples))):
        result = backpropagate(mask.expand(len(piece.targets), *mask.shape), piece, pattern, task, samples.recon)
        loss += result.loss
        gradient += result.gradients.sum(0)
    return Backpropagated(loss / len(samples), centred(gradient, len(pattern.free)).unsqueeze(0) / len(samples))


GREEDY_IMAGES = 128
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
    samples = examples(problem.data, GREEDY_IMAGES, problem.task, problem.recon)
    return refined(energy(problem), problem.block(), samples, problem.pattern, problem.task)


def refined(units: UnitMask, always: UnitMask, samples: Samples, pattern: Pattern, task: Loss) -> UnitMask:
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


IMAGES = 256
"""The most images in a sweep."""
SWEEPS = 64
"""How often the gradient is computed anew, if the units are not lines."""


def igs(problem: Problem) -> UnitMask:
    """Exactly the budget."""
    return _grown(problem, problem.budget)


def igs_paper(problem: Problem) -> UnitMask:
    """As published: the line to start from comes on top of the budget."""
    return _grown(problem, min(problem.budget + 1, problem.pattern.units))


def _grown(problem: Problem, count: int) -> UnitMask:
    pattern, task = problem.pattern, problem.task
    samples = examples(problem.data, IMAGES, task, problem.recon)
    chosen = problem.block() | pattern.centre(1)
    sweeps = count if len(pattern.free) == 1 else SWEEPS
    for size in sizes(int(chosen.sum()), count, sweeps):
        (gradient,) = whole_gradient(chosen, samples, pattern, task).gradients
        chosen = pattern.largest((-gradient).masked_fill(chosen, torch.inf), size)
    return chosen


def sizes(first: int, last: int, sweeps: int) -> list[int]:
    """How many units there are after each sweep: one more each time, or, if that takes too long, along a root.

    The last units of the budget are worth the least and depend the most on the others: towards the end, few are
    added at a time.

    >>> sizes(1, 4, sweeps=5)
    [2, 3, 4]
    >>> sizes(1, 101, sweeps=5)
    [46, 64, 78, 90, 101]
    """
    wanted = last - first
    if wanted <= sweeps:
        return list(range(first + 1, last + 1))
    return sorted({first + round(wanted * (sweep / sweeps) ** 0.5) for sweep in range(1, sweeps + 1)})
