"""Where a member is between two steps: everything that the next step depends on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from promask.learning.finetuning import Finetuning
from promask.learning.progress import History
from promask.rules import Rule
from promask.rules.rule import fitting
from promask.types import Units

STEADY = 0.002
"""The share of the mode's units that may still change hands when it is said to change no longer."""
UNDECIDED = 0.1
"""The most undecided units, as a share of the mode's, for this to be said: 4 theta (1 - theta), summed."""


class ModeWatch:
    """Looks at the mode every `patience` steps, and tells when it is the same as the last time; 0: never.

    It looks away while many units are undecided: what they will do may turn others.
    """

    def __init__(self, budget: int, patience: int) -> None:
        self.budget, self.patience = budget, patience
        self.last: torch.Tensor | None = None

    def is_steady(self, theta: Units, step: int) -> bool:
        """Whether at most a share of `STEADY` of the mode's units changed hands since the last look."""
        if self.patience == 0 or step % self.patience:
            return False
        if float((4 * theta * (1 - theta)).sum()) > UNDECIDED * self.budget:
            self.last = None
            return False
        chosen = torch.zeros(theta.numel(), dtype=torch.bool, device=theta.device)
        chosen[theta.flatten().topk(self.budget).indices] = True
        last, self.last = self.last, chosen
        return last is not None and int((chosen & ~last).sum()) <= STEADY * self.budget


@dataclass
class Standing:
    """The probabilities, and what the rule, the random numbers, the watch and a network that is trained know."""

    theta: Units
    rule: Rule
    noise: torch.Generator
    watch: ModeWatch
    finetuning: Finetuning | None = None
    history: History = field(default_factory=History)

    @property
    def step(self) -> int:
        """How many steps were made."""
        return len(self.history.loss)

    def so_far(self) -> Callable[[], dict[str, Any]]:
        """The state as it is now, for when it is asked for: what takes time is left for then."""
        theta, rule, noise, last = self.theta, self.rule.state(), self.noise.get_state(), self.watch.last
        network = None if self.finetuning is None else self.finetuning.state()
        history = self.history.so_far()
        return lambda: {
            "theta": theta,
            "rule": rule,
            "noise": noise,
            "watch": last,
            "network": network,
            "history": history(),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; one that does not fit is a ValueError, a LookupError or a TypeError."""
        self.theta = fitting(state["theta"], self.theta)
        if not ((self.theta >= 0) & (self.theta <= 1)).all():
            raise ValueError("The probabilities of the state are none.")
        self.rule.resume(state["rule"])
        self.noise.set_state(state["noise"])
        self.watch.last = state["watch"]
        self.history = History.of_state(state["history"])
        if self.finetuning is not None:
            self.finetuning.resume(state["network"])
