"""Learners that follow gradients: draw masks, gather evidence, propose, project (Algorithm 1)."""

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch

from promask.learners.base import State
from promask.problem.batches import MicroBatch
from promask.problem.microbatches import MicroBatches, explaining_memory, not_finite
from promask.problem.objective import Differentiate, loss_and_slopes
from promask.problem.problem import Problem
from promask.sampling import schedules
from promask.types import Spectra, UnitDraws, Units


@runtime_checkable
class Evidence(Protocol):
    """How masks are drawn, what is gathered of their losses, and what follows: `begin`, `draw` and `observe` for
    each part of the batch, then `propose`.

    What is drawn depends on what was known before the step, not on what was observed since: processes that share
    a batch draw and observe some of its masks each, and skip the others.
    """

    def begin(self, theta: Units, step: int) -> float:
        """Start a step, which counts from 1, and tell its temperature."""

    def draw(self, count: int) -> UnitDraws:
        """Masks of zeros and ones, (count, *units)."""

    def skip(self, count: int) -> None:
        """Instead of `draw`, where the masks are another process's: the random numbers go on as after it."""

    def observe(self, masks: UnitDraws, gradients: UnitDraws, spectra: Spectra, rows: slice = slice(None)) -> None:
        """Take note of masks just drawn, all or some rows, of dL/dm for the loss of each, and of the images."""

    @property
    def sums(self) -> Sequence[torch.Tensor]:
        """What was observed in this step: sums over masks, which may be changed in place before `propose`."""

    def propose(self) -> Units:
        """The probabilities after this step, before they are projected onto the budget."""

    def state(self) -> Mapping[str, Any]:
        """What is remembered between two steps, as numbers and tensors that are not changed in place later."""

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; one that does not fit is a ValueError or a KeyError."""


@dataclass(kw_only=True)
class GradientState(State):
    """The state of a gradient learner: its evidence, and the random numbers of its masks."""

    evidence: Evidence
    noise: torch.Generator

    def memory(self) -> Mapping[str, Any]:
        """The evidence, and where the random numbers are."""
        return {"evidence": self.evidence.state(), "noise": self.noise.get_state()}

    def restore_memory(self, memory: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.evidence.resume(memory["evidence"])
        self.noise.set_state(memory["noise"])


@dataclass(frozen=True, kw_only=True)
class GradientLearner:
    """The settings that gradient learners share, and their step; `evidence` is what a learner adds."""

    name: ClassVar[str]
    steps: int
    """The number of steps of a member."""
    batch_size: int
    """The images of each step."""
    samples: int = 1
    """L, the masks drawn for each image of a batch."""
    annealing: str = "none"
    """How the budget falls from all units to its target: `cubic`, `linear`, or `none`, the target all along."""
    exploration: float = 0.1
    """The share of the steps before the budget begins to fall."""
    exploitation: float = 0.1
    """The share of the steps after it has reached its target."""

    @property
    def differentiate(self) -> Differentiate:
        """What is asked of each mask: its loss and dL/dm."""
        return loss_and_slopes

    def evidence(self, problem: Problem, noise: torch.Generator) -> Evidence:
        """Make what draws the masks of one member and gathers evidence from them.

        Args:
            problem: What is asked.
            noise: The random numbers of the masks, on the device of the images.

        Returns:
            An object that keeps the contract of `Evidence`.
        """
        raise NotImplementedError

    def init(self, problem: Problem, member: int) -> GradientState:
        """The state before the first step."""
        noise = problem.random("noise", member, problem.images.device)
        evidence = self.evidence(problem, noise)
        return GradientState(problem.initial(member), problem.finetuning, evidence=evidence, noise=noise)

    def batches(
        self, problem: Problem, state: GradientState, member: int
    ) -> Generator[Iterator[MicroBatch], None, None]:
        """Random batches without replacement, in which each image comes `samples` times."""
        order = problem.random("batches", member)
        return problem.images.batches(self.batch_size, self.samples, order, state.step)

    def step(
        self, problem: Problem, state: GradientState, batch: Iterator[MicroBatch]
    ) -> tuple[GradientState, float]:
        """Draw masks and gather evidence for each part of the batch, sum it over processes, propose, project."""
        step, evidence, finetuning = state.step + 1, state.evidence, problem.finetuning
        state.temperature = evidence.begin(state.theta, step)
        total = torch.zeros((), dtype=state.theta.dtype, device=state.theta.device)
        micro_batches = MicroBatches(problem, self.differentiate, state.history.halved)
        with explaining_memory(step):
            for piece in batch:
                if piece.batch is None:
                    evidence.skip(piece.count)
                    continue
                masks = evidence.draw(piece.count)
                for rows, part, result in micro_batches(masks[piece.rows], piece.batch, step):
                    drawn = slice(piece.rows.start + rows.start, piece.rows.start + rows.stop)
                    evidence.observe(masks[drawn], result.gradients, part.spectra, drawn)
                    if finetuning is not None:
                        finetuning.observe(result.weight_gradients)
                    total += result.loss
        problem.group.sum(total, *evidence.sums, *(() if finetuning is None else finetuning.gradients))
        count = self.batch_size * self.samples
        loss = float(total) / count
        if not math.isfinite(loss):
            raise FloatingPointError(not_finite(loss, step, [], problem.images))
        if finetuning is not None:
            finetuning.step(count)
        state.budget = self.budget(problem, step)
        state.theta = problem.project(evidence.propose(), state.budget)
        return state, loss

    def budget(self, problem: Problem, step: int) -> float:
        """What the probabilities may sum to after a step.

        Args:
            problem: What is asked.
            step: The number of the step, from 1.

        Returns:
            The sum; from all units down to the budget of the problem, as `annealing` says.
        """
        units = problem.pattern.units
        ends = (self.exploration, self.exploitation)
        return schedules.budget(step, self.steps, units, problem.budget, *ends, self.annealing)

    def finished(self, problem: Problem, state: GradientState) -> bool:
        """After the last step."""
        return state.step >= self.steps
