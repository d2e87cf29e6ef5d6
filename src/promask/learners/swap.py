"""Swaps: one mask whose units are exchanged within frames, several at a time, and kept if other images agree.

Where frames are reconstructed together, the patterns of the trade are strong, and a mask that is learned from
scratch does not reach them. So the mask starts from the best of many lattices and golden steps, which race on the
images, against lattices of two zones, and the best of all with other centres. Each step then scores all units:
what the loss would become if one were added or removed, to second order, by a quadratic model of the
reconstruction. The best swaps are made together, and kept only if the mean loss of images that did not propose
them falls. In the end patients who were held back decide whether the start, or the best pattern of the trade, was
better.
"""

import itertools
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from promask.learners.base import CARTESIAN, Description, State
from promask.learners.starts import Round, add_zones, make_starts, vary_centres
from promask.learners.unit_scores import UnitScores
from promask.operators.fourier import fft_order
from promask.problem.batches import ENERGY_SAMPLES, MicroBatch
from promask.problem.problem import Problem, image_losses
from promask.sampling.feasible import group_of
from promask.sampling.limits import FRAME
from promask.types import Batch, UnitMask, restore_tensor

SCORING = 0.6
"""The share of the images of a step that score units; the others test the swaps."""
RACE = (
    Round(0.04, 32),
    Round(0.1, 12),
    Round(0.04, 32, add_zones),
    Round(0.12, 8),
    Round(0.05, 16, vary_centres),
    Round(0.15, 6),
    Round(0.5, 1),
)
"""The first steps."""
MOST_SWAPS = 32
"""Of a step."""
FIRST_SWAPS = 12
"""How many are tried at first."""
STEPS = (0.5, 1.0, 2.0)
"""How many are tried, beside those of the step before."""
ELIGIBLE = 0.8
"""The share of the units that may take part in a step, so that a swap that failed is not tried again and again."""
APART = 2
"""Units at most so far from one that was added (or removed) are not added (or removed) in the same step; where
frames have units of their own, it is the same unit in other frames, which tells the same of what stands still."""
DECAY = 0.6
"""What their number is multiplied with if none were kept."""
CERTAINTY = 0.5
"""By how many standard errors the mean loss must fall."""
VALIDATED = 768
"""The most images that decide in the end."""
KNOWN = 6.0
"""After so many losses of a series, its own mean counts as much as that of all."""
FORGOTTEN = 0.5
"""What is remembered of the scores of another mask."""
ALIKE = 0.4
"""The share of the columns of a batch that are drawn at random; the others are drawn where something moves."""
WHOLE = 32
"""A whole series, where columns cannot be taken by themselves, counts as so many images of a step."""


@dataclass(kw_only=True)
class SwapState(State):
    """The mask, where it came from, what is remembered of scores, and the random numbers."""

    noise: torch.Generator
    racing: Tensor
    """The starts that are still in the race, the best one first, (starts, *units)."""
    totals: Tensor
    """Of each of them, the sum of its losses since others joined the race, (starts,)."""
    starts: Float[Tensor, "2 *units"]
    """The best pattern of the trade, and the mask that won the race."""
    errors: Tensor
    """Of each series: the sum of its losses, and how many of them there were, (2, series)."""
    scores: Tensor
    """What `UnitScores` remembers, (3, *units)."""
    swaps: float = FIRST_SWAPS
    """How many are tried at a time."""
    chances: Tensor | None = None
    """Of the positions along the readout, to be drawn; None: all images are alike."""

    def memory(self) -> Mapping[str, Any]:
        """All of it."""
        numbers = {"racing": self.racing, "totals": self.totals, "starts": self.starts}
        known = {"scores": self.scores, "errors": self.errors, "swaps": self.swaps}
        return {**numbers, **known, "noise": self.noise.get_state()}

    def restore_memory(self, memory: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.starts = restore_tensor(memory["starts"], self.starts)
        self.scores = restore_tensor(memory["scores"], self.scores)
        self.errors = restore_tensor(memory["errors"], self.errors)
        self.racing, self.totals = memory["racing"].to(self.starts.device), memory["totals"]
        self.swaps = float(memory["swaps"])
        self.noise.set_state(memory["noise"])


@dataclass(frozen=True, kw_only=True)
class Swap:
    """One mask of exactly the budget, improved by swaps: probabilities of 0 and 1."""

    name: ClassVar[str] = "swap"
    about: ClassVar[Description] = Description(
        patterns=(CARTESIAN,),
        defaults={"steps": 26, "batch_size": 800, "patience": 0},
        averages=False,
        random=False,
        validates=True,
        curve="First, starts race on some of the images; then each step tests swaps on others: the loss is noisy.",
    )
    steps: int
    """The number of steps, with those of the race."""
    batch_size: int
    """The images, or columns of series, of each step."""

    def init(self, problem: Problem, member: int) -> SwapState:
        """The state before the race."""
        theta = problem.initial(member)
        return SwapState(
            theta,
            noise=problem.random("noise", member, problem.images.device),
            racing=torch.zeros(0, *theta.shape, dtype=torch.bool, device=theta.device),
            totals=torch.zeros(0, dtype=torch.float64),
            starts=torch.zeros(2, *theta.shape, dtype=theta.dtype, device=theta.device),
            errors=torch.zeros(2, len(problem.images.source), dtype=torch.float64),
            scores=torch.zeros(3, *theta.shape, dtype=theta.dtype, device=theta.device),
            chances=position_chances(problem),
        )

    def batches(
        self, problem: Problem, state: SwapState, member: int
    ) -> Generator[Iterator[MicroBatch], None, None]:
        """Random batches; of series, more columns in which something moves."""
        order = problem.random("batches", member)
        return problem.images.batches(self._size(problem), 1, order, state.step, state.chances)

    def step(self, problem: Problem, state: SwapState, batch: Iterator[MicroBatch]) -> tuple[SwapState, float]:
        """A round of the race, or swaps and their test."""
        state.budget = problem.budget
        if state.step == 0:
            state.racing = make_starts(problem)
            state.totals = torch.zeros(len(state.racing), dtype=torch.float64)
            state.theta = state.racing[0].to(state.theta)
            state.starts = torch.stack([state.theta, state.theta])
        races = state.step < len(RACE) and len(state.racing) > 1
        loss = (self._race if races else self._swap)(problem, state, batch)
        if not math.isfinite(loss):
            raise FloatingPointError(f"The loss became {loss} at step {state.step + 1}: are the values too large?")
        if state.step + 1 == self.steps:
            keep_the_better(problem, state)
        return state, loss

    def finished(self, problem: Problem, state: SwapState) -> bool:
        """After the last step."""
        return state.step >= self.steps

    def _size(self, problem: Problem) -> int:
        whole = problem.pattern.indexed and problem.images.along is None
        return max(4, self.batch_size // WHOLE) if whole else self.batch_size

    def _pieces(
        self, problem: Problem, state: SwapState, batch: Iterator[MicroBatch], place: int, beyond: bool = True
    ) -> Iterator[MicroBatch]:
        """The images of a batch, with an end of a piece at a place; series begin at a frame at random.

        Which frame is the first of a heart beat is an accident of triggering, and a mask that depended on it would
        suit the patients who were learned from alone.
        """
        for piece in _cut_at(batch, place, beyond):
            if problem.pattern.indexed != FRAME:
                yield piece
                continue
            frames, noise = problem.pattern.shape[0], state.noise
            first = torch.randint(frames, (piece.count,), generator=noise, device=noise.device)
            here = None if piece.batch is None else _begin_at(piece.batch, first[piece.rows])
            yield replace(piece, batch=here)

    def _race(self, problem: Problem, state: SwapState, batch: Iterator[MicroBatch]) -> float:
        """The starts of least loss go on; the best is the mask."""
        this = RACE[state.step]
        if this.joined_by is not None:
            state.racing = this.joined_by(problem, state.racing)
            state.totals = torch.zeros(len(state.racing), dtype=torch.float64)
        losses, errors = torch.zeros_like(state.totals), torch.zeros_like(state.errors)
        count, series = math.ceil(this.share * self._size(problem)), series_weights(state.errors)
        for piece in self._pieces(problem, state, batch, count, beyond=False):
            if piece.batch is not None:
                weights, numbers = _weights(state, piece.batch)
                found = torch.stack([weights * _losses(problem, units, piece.batch) for units in state.racing])
                losses += found @ series[numbers]
                _note(errors, numbers, found.median(0).values)
        problem.group.sum(losses, errors)
        state.errors += errors
        state.totals = state.totals + losses
        order = state.totals.argsort(stable=True)[: this.keep if state.step + 1 < self.steps else 1]
        state.racing, state.totals = state.racing[order.to(state.racing.device)], state.totals[order]
        state.theta = state.racing[0].to(state.theta)
        of_the_trade = all(each.joined_by is None for each in RACE[: state.step + 1])
        state.starts = torch.stack([state.theta if of_the_trade else state.starts[0], state.theta])
        return float(losses[order[0]]) / count

    def _swap(self, problem: Problem, state: SwapState, batch: Iterator[MicroBatch]) -> float:
        """Score units on some images, swap some of them, and keep that if the loss of the others falls."""
        size = self._size(problem)
        scoring = math.ceil(SCORING * size)
        members, scores = state.theta > 0, UnitScores(problem, state.theta > 0, state.noise)
        proposed: list[UnitMask] = []
        totals, errors = torch.zeros(len(STEPS), 3, dtype=torch.float64), torch.zeros_like(state.errors)
        seen, series = 0, series_weights(state.errors)
        for piece in self._pieces(problem, state, batch, scoring):
            if seen < scoring:
                weights, numbers = (None, None) if piece.batch is None else _weights(state, piece.batch)
                scores.observe(piece, None if weights is None else weights * series[numbers])
            else:
                proposed = proposed or self._propose(problem, state, scores)
                if piece.batch is not None:
                    weights, numbers = _weights(state, piece.batch)
                    before = weights * _losses(problem, members, piece.batch)
                    _note(errors, numbers, before)
                    after = torch.stack([weights * _losses(problem, units, piece.batch) for units in proposed])
                    before, change = series[numbers] * before, series[numbers] * (after - before)
                    sums = (before.sum().expand(len(change)), change.sum(1), change.square().sum(1))
                    totals += torch.stack(sums, 1)
            seen += piece.count
        problem.group.sum(totals, errors)
        state.errors += errors
        before, change, square = (totals / (size - scoring)).T
        spread = ((square - change.square()).clamp_min(0) / max(size - scoring - 1, 1)).sqrt()
        best = int((change + CERTAINTY * spread).argmin())
        accepted = bool(change[best] < -CERTAINTY * spread[best])
        state.swaps = min(max(state.swaps * (STEPS[best] if accepted else DECAY), 1.0), MOST_SWAPS)
        if accepted:
            if scores.linear:  # those of a mask that is no more
                state.scores = FORGOTTEN * state.scores.masked_fill(proposed[best] != members, 0)
            state.theta = proposed[best].to(state.theta)
        return float(before[0] + min(change[best], 0) if accepted else before[0])

    def _propose(self, problem: Problem, state: SwapState, scores: "UnitScores") -> list[UnitMask]:
        """Masks with few, some and many of the best swaps."""
        add, remove, state.scores = scores.gather(state.scores)
        chance = torch.rand(2, *add.shape, generator=state.noise, device=add.device) < ELIGIBLE
        members, fixed = state.theta > 0, problem.always | problem.never
        add = torch.where(members | fixed | ~chance[0], torch.inf, add)
        remove = torch.where(~members | fixed | ~chance[1], torch.inf, remove)
        group = fft_order(group_of(problem.pattern), problem.pattern.encoded)
        shape = members.shape
        apart = [shape[0] // 2, *[0] * (len(shape) - 1)] if problem.pattern.varies else [APART] * len(shape)
        limits, proposed = problem.pattern.limits, list[UnitMask]()
        for count in (max(1, round(state.swaps * step)) for step in STEPS):
            swapped = swap_best(members.cpu(), add.cpu(), remove.cpu(), group, count, apart=apart)
            if limits.largest_gap or limits.cost:
                swapped = problem.nearest(swapped, problem.always, -add.nan_to_num(posinf=0)).cpu()
            proposed.append(swapped.to(members.device))
        return proposed


def swap_best(
    members: UnitMask,
    add: Float[Tensor, "*units"],
    remove: Float[Tensor, "*units"],
    group: Tensor,
    count: int,
    apart: Sequence[int] = (),
) -> UnitMask:
    """Swap units within groups, those of the smallest sums of scores first.

    Units near one that was added are not added as well, nor are those near one that was removed: they tell much
    the same.

    >>> members = torch.tensor([[True, False, False], [False, True, False]])
    >>> add = torch.tensor([[torch.inf, -3.0, -1.0], [-2.0, torch.inf, 5.0]])
    >>> remove = torch.where(members, 1.0, torch.inf)
    >>> swap_best(members, add, remove, torch.tensor([[0, 0, 0], [1, 1, 1]]), count=1).int()
    tensor([[0, 1, 0],
            [0, 1, 0]], dtype=torch.int32)

    Args:
        members: The units of the mask, (*units).
        add: The change of the loss if a unit is added; infinite for units that cannot be.
        remove: The same if it is removed.
        group: The number of the group of each unit, whose number of members stays.
        count: How many swaps at most; those that would raise the loss are not made.
        apart: How far, along each axis, units are near; by default only the unit itself is.

    Returns:
        The units after the swaps.
    """
    result, add, remove, groups = members.clone(), add.clone(), remove.clone(), int(group.max()) + 1
    for _ in range(count):
        best = torch.full((2, groups), torch.inf, dtype=add.dtype)
        for row, values in enumerate((add, remove)):
            best[row].scatter_reduce_(0, group.flatten().clamp_min(0), values.flatten(), "amin")
        sums = best.sum(0)
        chosen = int(sums.argmin())
        if not float(sums[chosen]) < 0:
            break
        for row, (values, state) in enumerate(((add, True), (remove, False))):
            place = ((values == best[row, chosen]) & (group == chosen)).nonzero()[0].tolist()
            result[tuple(place)] = state
            sides = zip(place, values.shape, apart or [0] * values.ndim, strict=True)
            near = [torch.tensor([(at + step) % n for step in range(-far, far + 1)]) for at, n, far in sides]
            values[torch.meshgrid(*near, indexing="ij")] = torch.inf
    return result


def _cut_at(pieces: Iterator[MicroBatch], place: int, beyond: bool = True) -> Iterator[MicroBatch]:
    """The same images, with an end of a piece after so many of them; without `beyond`, only the images before."""
    seen = 0
    for piece in pieces:
        ends = [end for end in (0, place - seen, piece.count) if 0 <= end <= piece.count]
        for first, last in itertools.pairwise(ends):
            if first == last or (not beyond and seen + first >= place):
                continue
            rows = slice(max(piece.rows.start, first), min(piece.rows.stop, last))
            here = rows.start < rows.stop and piece.batch is not None
            own = slice(rows.start - piece.rows.start, rows.stop - piece.rows.start)
            part = piece.batch.part(own) if here and piece.batch is not None else None
            moved = slice(rows.start - first, rows.stop - first) if here else slice(0, 0)
            yield MicroBatch(last - first, moved, part)
        seen += piece.count


def position_chances(problem: Problem) -> Float[Tensor, " position"] | None:
    """How often each position along the readout is drawn: more where more changes over time.

    Args:
        problem: What is asked.

    Returns:
        Chances that sum to 1; None where samples are no columns of series.
    """
    images = problem.images
    if images.along is None or not problem.pattern.indexed:
        return None
    count = len(images) // len(images.source)
    total = torch.zeros(2, count, dtype=torch.float64)
    for piece in images.shared_pieces(images.some(ENERGY_SAMPLES)):
        assert piece.indices is not None
        changes = piece.targets.abs().var(2, correction=0).flatten(1).mean(1).double().cpu()
        total.index_add_(1, piece.indices % count, torch.stack([changes, torch.ones_like(changes)]))
    images.group.sum(total)
    profile = total[0] / total[1].clamp_min(1)
    profile = profile / profile.sum() if profile.sum() > 0 else torch.full_like(profile, 1 / count)
    return ALIKE / count + (1 - ALIKE) * profile


def series_weights(errors: Float[Tensor, "2 series"]) -> Float[Tensor, " series"]:
    """By which the losses of series are multiplied, so that all of them count alike, whatever their errors are.

    >>> series_weights(torch.tensor([[400.0, 100.0, 0.0], [100.0, 100.0, 0.0]]))
    tensor([0.6386, 2.3043, 1.0000])

    Args:
        errors: The sum of the losses of each series, and their number.

    Returns:
        One over the mean loss, relative to that of all series; near 1 where little is known.
    """
    total, count = errors.sum(1)
    mean = total / count.clamp_min(1)
    if not mean > 0:
        return torch.ones_like(errors[0])
    return mean * (errors[1] + KNOWN) / (errors[0] + KNOWN * mean)


def _weights(state: SwapState, batch: Batch) -> tuple[Float[Tensor, " batch"], Integer[Tensor, " batch"]]:
    """By which losses are multiplied, so that their mean is that over all positions; and the numbers of series."""
    assert batch.indices is not None
    if state.chances is None:
        return torch.ones(len(batch.spectra), dtype=torch.float64), batch.indices
    positions = len(state.chances)
    return 1 / (positions * state.chances[batch.indices % positions]), batch.indices // positions


def _note(errors: Float[Tensor, "2 series"], numbers: Integer[Tensor, " batch"], losses: Tensor) -> None:
    """Add the losses of some series."""
    errors.index_add_(1, numbers, torch.stack([losses, torch.ones_like(losses)]))


def _begin_at(batch: Batch, first: Integer[Tensor, " batch"]) -> Batch:
    """The same series, each from another frame on; after the last frame comes the first."""
    frames = batch.spectra.shape[2]
    order = (first[:, None] + torch.arange(frames, device=first.device)) % frames
    rows = torch.arange(len(order), device=first.device)[:, None]
    spectra, targets = (
        each.transpose(1, 2)[rows, order].transpose(1, 2) for each in (batch.spectra, batch.targets)
    )
    return replace(batch, spectra=spectra, targets=targets)


def _losses(problem: Problem, units: UnitMask, batch: Batch) -> Float[Tensor, " batch"]:
    return image_losses(units, batch, problem.images, problem.pattern, problem.loss)


def keep_the_better(problem: Problem, state: SwapState) -> None:
    """Go back to what won the race, or to the best pattern of the trade, if patients who were held back say so.

    All series count alike, whatever their errors are: the geometric mean of their losses decides.
    """
    validation, candidates = problem.validation, [state.theta, *state.starts.flip(0)]
    if validation is None or all(torch.equal(state.theta, start) for start in state.starts):
        return
    series, count = len(validation.source), len(validation) // len(validation.source)
    totals, seen = torch.zeros(len(candidates), series, dtype=torch.float64), torch.zeros(series)
    for piece in validation.shared_pieces(validation.some(VALIDATED)):
        assert piece.indices is not None
        found = torch.stack([_losses(problem, units > 0, piece) for units in candidates])
        totals.index_add_(1, piece.indices // count, found)
        seen += torch.bincount(piece.indices // count, minlength=series)
    problem.group.sum(totals, seen)
    means = (totals / seen)[:, seen > 0].nan_to_num(nan=math.inf).log().mean(1)
    state.theta = candidates[int(means.argmin())]
