"""The learner for spokes: a smooth density of angles, found by races.

Nearly all that can be gained over uniform spokes is a smooth density of their angles: a few numbers. The first
races are between uniform spokes of all offsets, and of the best of them with densities that lean to several
directions. The winner is then changed a little, all numbers at random, again and again. Each change races against
what there is, on the same images: first on few of them, and on more while it is ahead. Changes become larger after
success, and smaller without: a (1+1) evolution strategy.
"""

import itertools
import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from promask.errors import InputError
from promask.learners.base import ROTATIONS, Description, State
from promask.problem.problem import Problem
from promask.problem.uniform import as_series, best_set
from promask.sampling.angles import HARMONICS, AngularDensity, rows_of
from promask.types import UnitMask, restore_tensor

ROUNDS = (4, 10)
"""On so many images a change is compared at first; then on all of them."""
FIRST_WIDTH, LEAST_WIDTH = 0.35, 0.03
"""Standard deviations of the changes of a density, at first and at least."""
GROWTH, DECAY = 1.5, 0.9
"""What it is multiplied with after a success, and without."""
OF_OFFSET, OF_TURN, OF_FALLOFF = 0.5, 0.5, 2.0
"""How much larger the changes of the other numbers are."""
LARGEST = 2.5
"""No number of a density is larger: e^2.5 times as many spokes here as there are evenly."""
STRENGTHS, DIRECTIONS, OFFSETS = (0.3, 0.7), 8, 4
"""Of the densities that the search may begin with."""
JUMPS = 0.15
"""The share of the changes in which the offset is drawn anew: better sets may lie beyond worse ones."""


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

    def memory(self) -> Mapping[str, Any]:
        """All of it."""
        known = {name: getattr(self, name) for name in ("numbers", "width", "losses")}
        return {**known, "noise": self.noise.get_state()}

    def restore_memory(self, memory: Mapping[str, Any]) -> None:
        """Go on from there."""
        for name in ("numbers", "width", "losses"):
            setattr(self, name, restore_tensor(memory[name], getattr(self, name)))
        self.noise.set_state(memory["noise"])


@dataclass(frozen=True, kw_only=True)
class AngularDensityRace:
    """One set of exactly the budget: probabilities of 0 and 1. A step is a race."""

    name: ClassVar[str] = "angular-density"
    about: ClassVar[Description] = Description(
        defaults={"steps": 80, "batch_size": 32, "patience": 0},
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
        if problem.start.given:
            raise InputError(
                f"The learner {self.name} starts from uniform spokes: leave out `init`, or choose another learner."
            )
        count = min(as_series(problem, self.batch_size), len(problem.images))
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
        )

    def batches(self, problem: Problem, state: AngularState, member: int) -> Generator[None, None, None]:
        """Nothing: all races are on the same images."""
        while True:
            yield None

    def step(self, problem: Problem, state: AngularState, batch: None) -> tuple[AngularState, float]:
        """A race: of uniform spokes, then of densities that lean, and then of single changes."""
        state.budget = problem.budget
        if state.step < 2:
            sets = [problem.uniform, *_leaning(problem.uniform)] if state.step else [problem.uniform]
            density = best_set(problem, sets)
            state.numbers = torch.tensor(density.numbers, dtype=torch.float64)
            chosen = density.place(*_about(problem))
            self._accept(problem, state, chosen, problem.losses(chosen, state.images))
        else:
            self._change_density(problem, state)
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
        if float(torch.rand((), generator=state.noise)) < JUMPS:
            numbers[2 * HARMONICS] = torch.rand((), generator=state.noise, dtype=torch.float64)
        units = AngularDensity.of(numbers.tolist()).place(*_about(problem))
        losses = self._race(problem, state, units)
        if losses is not None:
            state.numbers = numbers
            self._accept(problem, state, units, losses)
        state.width = (state.width * (DECAY if losses is None else GROWTH)).clamp(LEAST_WIDTH, FIRST_WIDTH * 2)

    def _race(self, problem: Problem, state: AngularState, units: UnitMask) -> Float[Tensor, " images"] | None:
        """The losses of other units, if they are better than the best so far; otherwise None, soon."""
        if torch.equal(units, problem.centred(state.theta > 0)):
            return None
        found = torch.zeros(0, dtype=torch.float64)
        for end in (*(as_series(problem, most) for most in ROUNDS), len(state.images)):
            images = state.images[len(found) : end]
            if not len(images):
                continue
            found = torch.cat([found, problem.losses(units, images)])
            known = state.losses[: len(found)]
            change = (found - known) / known.abs().clamp_min(torch.finfo(known.dtype).tiny)
            if not change.mean() < 0:
                return None
        return found

    def _accept(self, problem: Problem, state: AngularState, units: UnitMask, losses: Tensor) -> None:
        state.theta = problem.in_fft_order(units).to(state.theta)
        state.losses = losses


def _leaning(uniform: AngularDensity) -> list[AngularDensity]:
    """Densities that lean to each of several directions, more and less, with several offsets."""
    found = []
    for strength, direction, offset in itertools.product(STRENGTHS, range(DIRECTIONS), range(OFFSETS)):
        angle = 2 * math.pi * direction / DIRECTIONS
        waves = (strength * math.cos(angle), strength * math.sin(angle), *uniform.waves[2:])
        found.append(replace(uniform, waves=waves, offset=offset / OFFSETS))
    return found


def _about(problem: Problem) -> tuple[Any, int]:
    return problem.pattern, problem.budget
