"""The learner for spokes: a smooth density of angles, found by races, and then single spokes that are moved.

Nearly all that can be gained over uniform spokes is a smooth density of their angles: a few numbers. So the search
begins with uniform spokes, of the best offset, and changes all numbers a little, at random. Each change races
against what there is, on the same images: first on few of them, and on more while it is ahead. Steps become larger
after success, and smaller without (a (1+1) evolution strategy). In the end single spokes are moved: the derivative
of the loss proposes which, and the race decides.
"""

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from promask.learners.base import ROTATIONS, Description, State
from promask.operators.fourier import centred
from promask.problem.objective import loss_and_slopes
from promask.problem.problem import Problem
from promask.sampling.angles import HARMONICS, AngularDensity, rows_of
from promask.types import UnitMask, Units, restore_tensor

ROUNDS = (4, 10)
"""On so many images a change is compared at first; then on all of them."""
SMOOTH = 0.75
"""The share of the steps that change the density; the others move single spokes."""
FIRST_WIDTH, LEAST_WIDTH = 0.35, 0.03
"""Standard deviations of the changes of a density, at first and at least."""
GROWTH, DECAY = 1.5, 0.9
"""What it is multiplied with after a success, and without."""
OF_OFFSET, OF_TURN, OF_FALLOFF = 0.5, 0.5, 2.0
"""How much larger the changes of the other numbers are."""
LARGEST = 2.5
"""No number of a density is larger: e^2.5 times as many spokes here as there are evenly."""
SCORED = 8
"""Images whose derivatives propose moves."""
MOST_MOVED = 4
"""Spokes at a time."""
ELIGIBLE = 0.5
"""The share of the spokes, and of the gaps, that may take part in a move, so that not always the same are tried."""
CERTAINTY = 1.0
"""By how many standard errors a move must be better: there are many of them."""


@dataclass(kw_only=True)
class AngularState(State):
    """The best set so far, its losses, and the random numbers."""

    noise: torch.Generator
    images: Integer[Tensor, " images"]
    """That races are run on, in their order."""
    numbers: Float[Tensor, " numbers"]
    """Those of the density."""
    width: Tensor
    """The standard deviation of the next changes."""
    losses: Float[Tensor, " images"]
    """Of the best set, for each image."""
    slopes: Units
    """The derivative of the loss for the best set, centred; 0 if it is not known yet."""

    def memory(self) -> Mapping[str, Any]:
        """All of it."""
        known = {name: getattr(self, name) for name in ("numbers", "width", "losses", "slopes")}
        return {**known, "noise": self.noise.get_state()}

    def restore_memory(self, memory: Mapping[str, Any]) -> None:
        """Go on from there."""
        for name in ("numbers", "width", "losses", "slopes"):
            setattr(self, name, restore_tensor(memory[name], getattr(self, name)))
        self.noise.set_state(memory["noise"])


@dataclass(frozen=True, kw_only=True)
class AngularDensityRace:
    """One set of exactly the budget: probabilities of 0 and 1. A step is a race."""

    name: ClassVar[str] = "angular-density"
    about: ClassVar[Description] = Description(
        defaults={"steps": 120, "batch_size": 32, "patience": 0},
        averages=False,
        random=False,
        validates=True,
        patterns=(ROTATIONS,),
        noun="race",
        curve="Each step is a race of a change against the best spokes so far; the loss is theirs.",
    )
    steps: int
    """The number of races."""
    batch_size: int
    """The images of a race."""

    def init(self, problem: Problem, member: int) -> AngularState:
        """The state before the first race."""
        count = min(self.batch_size, len(problem.images))
        noise = problem.random("noise", member)
        order = torch.randperm(count, generator=noise)
        theta = problem.initial(member)
        return AngularState(
            theta,
            noise=noise,
            images=problem.images.some(count)[order],
            numbers=torch.zeros(2 * HARMONICS + 3, dtype=torch.float64),
            width=torch.tensor(FIRST_WIDTH),
            losses=torch.zeros(count, dtype=torch.float64),
            slopes=torch.zeros(theta.shape, dtype=theta.dtype),
        )

    def batches(self, problem: Problem, state: AngularState, member: int) -> Generator[None, None, None]:
        """Nothing: all races are on the same images."""
        while True:
            yield None

    def step(self, problem: Problem, state: AngularState, batch: None) -> tuple[AngularState, float]:
        """A race, of a change of the density or of moved spokes; the first finds the offset of uniform spokes."""
        state.budget = problem.budget
        if state.step == 0:
            given = problem.start.given
            density = AngularDensity() if given else problem.uniform
            state.numbers = torch.tensor(density.numbers, dtype=torch.float64)
            chosen = problem.centred(problem.best(state.theta)) if given else density.place(*_about(problem))
            self._accept(problem, state, chosen, problem.losses(chosen, state.images))
        elif state.step < SMOOTH * self.steps and not problem.start.given:
            self._change_density(problem, state)
        else:
            self._move_spokes(problem, state)
        loss = float(state.losses.mean())
        if not math.isfinite(loss):
            raise FloatingPointError(f"The loss became {loss} at step {state.step + 1}: are the values too large?")
        return state, loss

    def finished(self, problem: Problem, state: AngularState) -> bool:
        """After the last race."""
        return state.step >= self.steps

    def _change_density(self, problem: Problem, state: AngularState) -> None:
        """All numbers change a little; those that make no difference stay 0."""
        rows, pattern = rows_of(problem.pattern), problem.pattern
        factors = [*[1.0] * (2 * HARMONICS), OF_OFFSET, OF_TURN * (rows > 1), OF_FALLOFF * (pattern.encoded > 0)]
        change = torch.randn(len(factors), generator=state.noise, dtype=torch.float64) * torch.tensor(factors)
        numbers = state.numbers + float(state.width) * change
        numbers[: 2 * HARMONICS].clamp_(-LARGEST, LARGEST)
        units = AngularDensity.of(numbers.tolist()).place(*_about(problem))
        losses = self._race(problem, state, units, certainty=0.0)
        if losses is not None:
            state.numbers = numbers
            self._accept(problem, state, units, losses)
        state.width = (state.width * (DECAY if losses is None else GROWTH)).clamp(LEAST_WIDTH, FIRST_WIDTH * 2)

    def _move_spokes(self, problem: Problem, state: AngularState) -> None:
        """A few spokes of little worth leave for candidates of more, in the same row."""
        members = problem.centred(state.theta > 0)
        if not state.slopes.any():
            state.slopes = self._slopes(problem, members, state)
        count = int(torch.randint(1, MOST_MOVED + 1, (), generator=state.noise))
        chance = torch.rand(2, *members.shape, generator=state.noise) < ELIGIBLE
        removal = torch.where(members & chance[0], -state.slopes, torch.inf)
        insertion = torch.where(~members & chance[1], state.slopes, torch.inf)
        units, pattern = members.clone(), problem.pattern
        # One row after the other, so that equal numbers stay equal.
        view, remove, add = (
            each if each.ndim > 1 and pattern.varies else each.reshape(1, -1) for each in (units, removal, insertion)
        )
        rows = torch.randint(len(view), (count,), generator=state.noise).tolist()
        for row in rows:
            leaving, coming = int(remove[row].argmin()), int(add[row].argmin())
            if math.isinf(remove[row, leaving]) or math.isinf(add[row, coming]):
                continue
            view[row, leaving], view[row, coming] = False, True
            remove[row, leaving] = add[row, coming] = torch.inf
        losses = self._race(problem, state, units, CERTAINTY)
        if losses is not None:
            self._accept(problem, state, units, losses)

    def _slopes(self, problem: Problem, members: UnitMask, state: AngularState) -> Units:
        """The mean over a few images of the derivative of their losses, centred."""
        total = torch.zeros_like(state.theta)
        in_order = state.theta
        for piece in problem.images.shared_pieces(state.images[:SCORED]):
            masks = in_order.expand(len(piece.targets), *in_order.shape)
            total += loss_and_slopes(masks, piece, problem.pattern, problem.loss, problem.recon).gradients.sum(0)
        problem.group.sum(total)
        return centred(total, problem.pattern.encoded).cpu() / min(SCORED, len(state.images))

    def _race(
        self, problem: Problem, state: AngularState, units: UnitMask, certainty: float
    ) -> Float[Tensor, " images"] | None:
        """The losses of other units, if they are better than the best so far; otherwise None, as soon as possible."""
        if torch.equal(units, problem.centred(state.theta > 0)):
            return None
        found = torch.zeros(0, dtype=torch.float64)
        for end in (*ROUNDS, len(state.images)):
            images = state.images[len(found) : end]
            if not len(images):
                continue
            found = torch.cat([found, problem.losses(units, images)])
            known = state.losses[: len(found)]
            change = (found - known) / known.abs().clamp_min(torch.finfo(known.dtype).tiny)
            error = change.std() / len(change) ** 0.5 if len(change) > 1 else change.new_zeros(())
            last = len(found) == len(state.images)
            if not change.mean() < -certainty * error * last:
                return None
        return found

    def _accept(self, problem: Problem, state: AngularState, units: UnitMask, losses: Tensor) -> None:
        state.theta = problem.in_fft_order(units).to(state.theta)
        state.losses, state.slopes = losses, torch.zeros_like(state.slopes)


def _about(problem: Problem) -> tuple[Any, int]:
    return problem.pattern, problem.budget
