"""Masks of one pattern that lower a loss step by step: swaps of units, and growth from the centre.

Both look at the mean loss of a fixed set of images and at its gradient with respect to the mask.
"""

import itertools
import math
import weakref
from dataclasses import dataclass
from typing import Any

import torch

from promask.baselines.fixed import energy
from promask.baselines.problem import BaselineProblem
from promask.data.file_set import prepare
from promask.data.hybrid import HybridSet
from promask.data.sample_sets import Subset
from promask.data.sensitivities import calibrate
from promask.losses.base import Loss, needs_phase
from promask.operators.fourier import centred, fft_order
from promask.problem.batches import SpectraSet
from promask.problem.objective import loss_and_slopes
from promask.problem.problem import image_losses, mean_loss, slicing_axis
from promask.sampling.feasible import without_coupling
from promask.sampling.kt import GOLDEN
from promask.sampling.pattern import Pattern
from promask.types import UnitMask, Units

REFERENCE_SIZE = 2**16
"""The numbers of a slice of 256 x 256; of larger samples, fewer are looked at."""
FEWEST_IMAGES = 8
"""Samples that are looked at however large they are."""
MOST_VOLUMES = 4
"""Volumes whose slices are looked at."""
MOST_SERIES, COLUMNS = 24, 384
"""Series that are looked at, and columns of them: all frames, and pixels along the undersampled directions."""
COLUMNS_SIZE = 2**25
"""The numbers of all these columns; where they are planes, fewer are looked at."""

GREEDY_IMAGES = 128
"""The most images that decide whether a swap is kept."""
TRIALS = 150
"""The most swaps that are tried."""
FIRST_SHARE = 1 / 64
"""Of the acquired units, that is swapped at a time at first."""
CANDIDATES = 3
"""Blocks on either side that are tried before they become smaller."""
SIDE = 0.1
"""By how much one half of k-space is preferred, in gains of the best unit: conjugate twins tell much the same."""

IGS_IMAGES = 256
"""The most images in a sweep."""
SWEEPS = 64
"""How often the gradient is computed anew, if the units are not lines."""


@dataclass(frozen=True)
class MaskLoss:
    """The mean loss of some samples when all are reconstructed with the same mask."""

    samples: SpectraSet
    pattern: Pattern
    task: Loss
    series: tuple[int, ...] = ()
    """Of which series each sample is a column; empty where samples are images or slices."""

    @staticmethod
    def of(problem: BaselineProblem, most: int) -> "MaskLoss":
        """For at most so many samples of a problem, at equal distances: slices, also of volumes where possible.

        Of series, 384 columns of up to 24 of them are looked at: few of each, as they are much alike.
        """
        pattern = problem.pattern
        along = slicing_axis(pattern, problem.recon, problem.task)
        if along is not None and pattern.indexed:
            columns, series = _columns(problem, along)
            return MaskLoss(columns, pattern.plane(along), problem.task, series)
        data = prepare(problem.data)
        if along is not None:
            volumes = Subset(data, _spread(len(data), MOST_VOLUMES))
            data, pattern = HybridSet(calibrate(volumes, problem.recon), along), pattern.plane(along)
        affordable = most * REFERENCE_SIZE // math.prod(data.shape)
        chosen = Subset(data, _spread(len(data), min(most, max(FEWEST_IMAGES, affordable))))
        samples = SpectraSet.for_loss(chosen, problem.device, problem.task, problem.recon)
        return MaskLoss(samples, pattern, problem.task)

    def __call__(self, units: UnitMask) -> tuple[float, Units]:
        """The loss, and its gradient dL/dm, centred."""
        axes = self.pattern.encoded
        mask = fft_order(units, axes).to(self.samples.like)
        loss, gradient = mask.new_zeros(()), torch.zeros_like(mask)
        for piece in self.samples.pieces(torch.arange(len(self.samples))):
            masks = mask.expand(len(piece.targets), *mask.shape)
            result = loss_and_slopes(masks, piece, self.pattern, self.task, self.samples.recon)
            loss += result.loss
            gradient += result.gradients.sum(0)
        return float(loss / len(self.samples)), centred(gradient.cpu(), axes) / len(self.samples)

    def value(self, units: UnitMask, most: int) -> float:
        """The loss alone, of at most so many of the samples.

        All series count alike, whatever their errors are, as they do for the learner: of columns, it is the
        geometric mean over series of the mean loss of each.
        """
        if not self.series:
            return mean_loss(units, self.samples, self.pattern, self.task, most)
        numbers = torch.tensor(self.series)
        sums = torch.zeros(2, int(numbers.max()) + 1, dtype=torch.float64)
        units = fft_order(units, self.pattern.encoded)
        for piece in self.samples.pieces(self.samples.some(most)):
            assert piece.indices is not None
            losses = image_losses(units, piece, self.samples, self.pattern, self.task)
            sums.index_add_(1, numbers[piece.indices], torch.stack([losses, torch.ones_like(losses)]))
        total, count = sums[:, sums[1] > 0]
        return float((total / count).log().mean().exp())


def _spread(count: int, most: int) -> list[int]:
    """At most so many numbers below `count`, at equal distances."""
    chosen = min(count, most)
    return [index * count // chosen for index in range(chosen)]


_last_columns: dict[tuple[Any, ...], tuple["weakref.ref[Any]", SpectraSet, tuple[int, ...]]] = {}
"""The columns that were looked at last, and the data that they are of: masks of all seeds look at the same."""


def _columns(problem: BaselineProblem, along: int) -> tuple[SpectraSet, tuple[int, ...]]:
    """Columns of some of the series of a problem, along an axis that is not undersampled; and of which series."""
    key = (id(problem.data), along, id(problem.recon), needs_phase(problem.task), str(problem.device))
    of, columns, numbers = _last_columns.get(key, (None, None, ()))
    if columns is None or of is None or of() is not problem.data or columns.recon is not problem.recon:
        data = prepare(problem.data)
        series = Subset(data, _spread(len(data), MOST_SERIES))
        cut = HybridSet(calibrate(series, problem.recon), along)
        affordable = max(FEWEST_IMAGES, COLUMNS_SIZE // math.prod(cut.shape))
        width = len(cut) // len(series)
        chosen = spread_columns(len(series), width, min(COLUMNS, affordable))
        columns = SpectraSet.for_loss(Subset(cut, chosen), problem.device, problem.task, problem.recon)
        numbers = tuple(column // width for column in chosen)
        _last_columns.clear()
        _last_columns[key] = weakref.ref(problem.data), columns, numbers
    return columns, numbers


def spread_columns(series: int, width: int, most: int) -> list[int]:
    """The numbers of columns of all series, as many of each, at places that differ from one series to the next.

    Places are golden steps: any of the columns at equal distances are spread over the width, too.

    >>> spread_columns(series=2, width=10, most=6)
    [0, 6, 2, 18, 14, 10]
    >>> spread_columns(series=2, width=3, most=6)
    [0, 1, 2, 3, 4, 5]

    Args:
        series: How many there are.
        width: How many columns each of them has.
        most: How many are looked at in all.

    Returns:
        Numbers below `series * width`, those of the first series first.
    """
    if series * width <= most:
        return list(range(series * width))
    each = -(-most // series)
    places = [int(width * (GOLDEN * number % 1)) for number in range(series * each)]
    return list(dict.fromkeys(number // each * width + place for number, place in enumerate(places)))


def greedy(problem: BaselineProblem) -> UnitMask:
    """The units of most energy, and then swaps that lower the loss (after BASS, Zibetti et al. 2021)."""
    return swap_units(energy(problem), problem.block(), MaskLoss.of(problem, GREEDY_IMAGES))


def swap_units(units: UnitMask, always: UnitMask, mask_loss: MaskLoss) -> UnitMask:
    """As many units with a lower loss, or the same ones.

    Blocks of acquired units of least importance are swapped for others of most importance, as long as this lowers
    the loss; when nothing does, the blocks become smaller.
    """
    pattern, samples = mask_loss.pattern, mask_loss.samples
    fixed = always | pattern.never()
    if (units | fixed).all() or not (units & ~fixed).any():
        return units
    energies = centred(samples.mean_energy(pattern).cpu(), pattern.encoded)
    loss, gradient = mask_loss(units)
    block, trials = max(1, math.floor(FIRST_SHARE * int(units.sum()))), 0
    while block >= 1:
        gain = unit_gains(units, gradient, energies, pattern)
        for leaving, coming in swaps(gain, units, fixed, block):
            if trials == TRIALS:
                return units
            trial = units.flatten().clone()
            trial[leaving], trial[coming] = False, True
            trial = pattern.nearest(trial.reshape(units.shape), always, gain, pattern.spent(units))
            trial_loss, trial_gradient = mask_loss(trial)
            trials += 1
            if trial_loss < loss:
                units, loss, gradient = trial, trial_loss, trial_gradient
                break
        else:
            block //= 2
    return units


def unit_gains(units: UnitMask, gradient: Units, energies: Units, pattern: Pattern) -> Units:
    """By how much each unit lowers the loss: (m - 1/2) c - dL/dm, for a loss that is quadratic in it.

    The curvature c is taken to be proportional to the energy, and such that the best value of the others is 1.
    """
    others = ~units & ~pattern.never()
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


def igs(problem: BaselineProblem, more: int = 0) -> UnitMask:
    """Iterative gradient sampling (Razumov et al. 2022): growth from the centre, by what the gradient promises
    most.

    Lines are added one by one; single locations are so many that each sweep over the images adds several.
    """
    pattern = problem.pattern
    count, growing = min(problem.budget + more, pattern.acquirable), without_coupling(pattern)
    mask_loss = MaskLoss.of(problem, IGS_IMAGES)
    chosen = problem.block() | pattern.centre(1)
    for size in sizes(int(chosen.sum()), count, count if len(pattern.free) == 1 else SWEEPS):
        _, gradient = mask_loss(chosen)
        chosen = growing.largest((-gradient).masked_fill(chosen, torch.inf), size)
    return chosen


def igs_paper(problem: BaselineProblem) -> UnitMask:
    """As published: the first line comes on top of the budget."""
    return igs(problem, more=1)


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
