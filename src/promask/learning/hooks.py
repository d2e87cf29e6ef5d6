"""Hooks of the loop: early stopping, progress for a callback, and the trajectory of the probabilities."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from promask.learners.base import State
from promask.operators.fourier import centred
from promask.problem.problem import Problem
from promask.types import Units

UNCHANGED = 0.002
"""The share of the mask's units that may still change when it is said to change no longer."""
UNDECIDED = 0.1
"""The most undecided units, as a share of the mask's, for this to be said: 4 theta (1 - theta), summed."""
MOST_MOMENTS = 16
"""The most moments of a trajectory that are kept, the start and the end among them."""
MOST_VALUES = 2**22
"""The most values that are kept; of very many units there are fewer moments."""


@dataclass(frozen=True)
class Progress:
    """What a callback is told after every step."""

    member: int
    """The number of the member, from 0."""
    members: int
    """How many members there are."""
    step: int
    """Counts from 1."""
    steps: int
    """The most steps of a member."""
    loss: float
    """The mean over the images of the step."""
    budget: float
    """How many samples or lines the probabilities may sum to; seconds, where contrasts have costs."""
    temperature: float
    """Of the step; 0 for learners that have none."""
    probabilities: Units
    """One per sample or line, (*units), centred: DC at index n // 2."""


OnStep = Callable[[Progress], None]


@dataclass(frozen=True)
class EarlyStopping:
    """Stops a member when its mask is the same as `patience` steps before; 0: never.

    The mask is not checked while many probabilities are undecided: they may still change it.
    """

    patience: int
    budget: int
    steps: int
    """After the last step there is nothing to stop."""

    def start(self, member: int, state: State) -> None:
        """Nothing to do."""

    def after_step(self, member: int, state: State, loss: float) -> None:
        """Look at the mask every `patience` steps."""
        if self.patience == 0 or state.step >= self.steps or state.step % self.patience:
            return
        theta = state.theta
        if float((4 * theta * (1 - theta)).sum()) > UNDECIDED * self.budget:
            state.watched = None
            return
        chosen = torch.zeros(theta.numel(), dtype=torch.bool, device=theta.device)
        size = min(self.budget, round(float(theta.sum())) or 1)  # fewer, where units cost more than 1
        chosen[theta.flatten().topk(size).indices] = True
        last, state.watched = state.watched, chosen
        if last is not None and int((chosen & ~last).sum()) <= UNCHANGED * self.budget:
            state.history.stopped = state.step


@dataclass(frozen=True)
class ReportProgress:
    """Tells a callback of every step."""

    on_step: OnStep
    members: int
    steps: int
    dimensions: int
    """Of the grid of units."""
    unit: float = 1.0
    """What a budget of 1 stands for: see `Pattern.cost_unit`."""

    def start(self, member: int, state: State) -> None:
        """Nothing to do."""

    def after_step(self, member: int, state: State, loss: float) -> None:
        """Call it."""
        probabilities = centred(state.theta, self.dimensions)
        about = (loss, state.budget * self.unit, state.temperature, probabilities)
        self.on_step(Progress(member, self.members, state.step, self.steps, *about))


@dataclass(frozen=True)
class Trajectory:
    """The probabilities of the first member after some steps, centred; step 0 is the start."""

    steps: tuple[int, ...]
    probabilities: Float[Tensor, "moment *units"]


class TrajectoryRecorder:
    """Keeps moments of the first member, evenly spaced however many steps there will be."""

    def __init__(self, problem: Problem) -> None:
        start = problem.initial(0)
        self.dimensions = problem.pattern.encoded
        self.most = min(MOST_MOMENTS, MOST_VALUES // start.numel())
        self.kept = {0: start.to("cpu", torch.float32)}
        self.every = 1
        self.last: tuple[int, Units] | None = None

    def start(self, member: int, state: State) -> None:
        """Nothing to do: the start is known."""

    def after_step(self, member: int, state: State, loss: float) -> None:
        """Keep the probabilities of a step, if it is its turn."""
        if member != 0 or self.most < 2:
            return
        self.last = (state.step, state.theta)
        if state.step % self.every == 0:
            self.kept[state.step] = state.theta.to("cpu", torch.float32, copy=True)
        if len(self.kept) > self.most:
            self.every *= 2
            self.kept = {step: theta for step, theta in self.kept.items() if step % self.every == 0}

    def state(self) -> dict[str, Any]:
        """What is kept so far."""
        last = None if self.last is None else list(self.last)
        return {"kept": [[step, theta] for step, theta in self.kept.items()], "every": self.every, "last": last}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from what was kept; one that does not fit is a ValueError or a LookupError."""
        start = self.kept[0]
        kept = {int(step): theta for step, theta in state["kept"]}
        if any(theta.shape != start.shape for theta in kept.values()):
            raise ValueError("The state does not fit.")
        self.kept, self.every = kept, int(state["every"])
        self.last = None if state["last"] is None else (int(state["last"][0]), state["last"][1])

    def trajectory(self) -> Trajectory | None:
        """What was kept, and the last step; None if there are too many units to keep any."""
        if self.last is None:
            return None
        kept = self.kept | {self.last[0]: self.last[1].to("cpu", torch.float32)}
        steps = sorted(kept)
        if len(steps) > self.most:  # the end takes the place of the moment before it
            steps.pop(-2)
        values = torch.stack([centred(kept[step], self.dimensions) for step in steps])
        return Trajectory(tuple(steps), values.to(torch.float16).to(torch.float32))
