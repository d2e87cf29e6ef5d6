"""What is told of learning after every step, and what is remembered of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

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
