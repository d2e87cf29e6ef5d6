"""What is told of learning after every step, and what is remembered of it.

How the probabilities came about: those of the first member at a few of its steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from promask.learning.config import Config
from promask.operators.fourier import centred, fft_order
from promask.problem.initial import Start
from promask.sampling.pattern import Pattern
from promask.sampling.straight_through import generator
from promask.types import Units


@dataclass(frozen=True)
class Progress:
    """What a callback is told after every step. The probabilities are in FFT order."""

    member: int
    members: int
    step: int
    steps: int
    loss: float
    budget: float
    temperature: float
    probabilities: Units


OnStep = Callable[[Progress], None]


@dataclass
class History:
    """The loss, budget and temperature of every step, and the step after which the mode no longer changed."""

    loss: list[float] = field(default_factory=list)
    budget: list[float] = field(default_factory=list)
    temperature: list[float] = field(default_factory=list)
    stopped: int | None = None
    halved: list[tuple[int, int]] = field(default_factory=list)
    """Steps in which memory ran out, and how many images were worked on at a time from then on."""

    def append(self, progress: Progress) -> None:
        """Note one step."""
        self.loss.append(progress.loss)
        self.budget.append(progress.budget)
        self.temperature.append(progress.temperature)

    def so_far(self) -> Callable[[], dict[str, Any]]:
        """As it is now, for when it is asked for: lists only grow."""
        steps, stopped, halved = len(self.loss), self.stopped, [list(each) for each in self.halved]

        def state() -> dict[str, Any]:
            lists = (values[:steps] for values in (self.loss, self.budget, self.temperature))
            values = torch.tensor(list(lists), dtype=torch.float64)
            return {"values": values, "stopped": stopped, "halved": halved}

        return state

    @staticmethod
    def of_state(state: Mapping[str, Any]) -> "History":
        """As it was."""
        loss, budget, temperature = state["values"].tolist()
        halved = [(int(step), int(count)) for step, count in state["halved"]]
        return History(loss, budget, temperature, state["stopped"], halved)


MOMENTS = 16
"""The most moments that are kept, the start and the end among them."""
LARGEST = 2**22
"""The most values that are kept; of very many units there are fewer moments."""


@dataclass(frozen=True)
class Trajectory:
    """The probabilities after some steps, centred; step 0 is the start."""

    steps: tuple[int, ...]
    probabilities: Float[Tensor, "moment *units"]


def first_of(start: Start, pattern: Pattern, config: Config) -> Units:
    """Where the first member starts: what is always or never acquired is so from the beginning."""
    drawn, axes = start(generator(config.seed, 0, "start")).cpu(), len(pattern.free)
    always, never = (fft_order(units, axes) for units in (pattern.centre(config.centre), pattern.padding()))
    return drawn.masked_fill(always, 1).masked_fill(never, 0)


class Recorder:
    """Keeps moments of the first member, evenly spaced however many steps there will be."""

    def __init__(self, start: Units, then: OnStep | None = None) -> None:
        self.most = min(MOMENTS, LARGEST // start.numel())
        self.kept = {0: start.to("cpu", torch.float32)}
        self.every, self.then = 1, then
        self.last: tuple[int, Units] | None = None

    def on_step(self, progress: Progress) -> None:
        """Keep the probabilities of a step, if it is its turn."""
        if progress.member == 0 and self.most > 1:
            self.last = (progress.step, progress.probabilities)
            if progress.step % self.every == 0:
                self.kept[progress.step] = progress.probabilities.to("cpu", torch.float32, copy=True)
            if len(self.kept) > self.most:
                self.every *= 2
                self.kept = {step: theta for step, theta in self.kept.items() if step % self.every == 0}
        if self.then is not None:
            self.then(progress)

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

    def trajectory(self, dimensions: int) -> Trajectory | None:
        """What was kept, and the last step; None if there are too many units to keep any."""
        if self.last is None:
            return None
        kept = self.kept | {self.last[0]: self.last[1].to("cpu", torch.float32)}
        steps = sorted(kept)
        if len(steps) > self.most:  # the end takes the place of the moment before it
            steps.pop(-2)
        values = torch.stack([centred(kept[step], dimensions) for step in steps])
        return Trajectory(tuple(steps), values.to(torch.float16).to(torch.float32))
