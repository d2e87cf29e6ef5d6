"""What the loop asks of a learner, and the state that it keeps between two steps."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch

from promask.problem.objective import Finetuning
from promask.problem.problem import Problem
from promask.types import Units, restore_tensor

CARTESIAN, ROTATIONS = "Cartesian", "rotations"
"""What a learner can choose: samples and lines, or spokes and interleaves."""


@dataclass
class History:
    """The loss, budget and temperature of every step, and the step after which the mask no longer changed."""

    loss: list[float] = field(default_factory=list)
    """The mean loss of each step."""
    budget: list[float] = field(default_factory=list)
    """What the probabilities could sum to after each step."""
    temperature: list[float] = field(default_factory=list)
    """Of each step; 0 for learners that have none."""
    stopped: int | None = None
    """The step after which the mask no longer changed; None if learning was not stopped early."""
    halved: list[tuple[int, int]] = field(default_factory=list)
    """Steps in which memory ran out, and how many images were worked on at a time from then on."""

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """As it is now, for when it is asked for: lists only grow."""
        steps, stopped, halved = len(self.loss), self.stopped, [list(each) for each in self.halved]

        def state() -> dict[str, Any]:
            lists = (values[:steps] for values in (self.loss, self.budget, self.temperature))
            values = torch.tensor(list(lists), dtype=torch.float64)
            return {"values": values, "stopped": stopped, "halved": halved}

        return state

    @staticmethod
    def restored(state: Mapping[str, Any]) -> "History":
        """Restore a history from a checkpoint.

        Args:
            state: What the function that `snapshot` returned gave.

        Returns:
            The history as it was.
        """
        loss, budget, temperature = state["values"].tolist()
        halved = [(int(step), int(count)) for step, count in state["halved"]]
        return History(loss, budget, temperature, state["stopped"], halved)


@dataclass
class State:
    """Where a member is between two steps: everything that the next step depends on.

    A learner adds what it remembers itself, in a subclass with its own `memory` and `restore_memory`.
    """

    theta: Units
    """The probabilities, (*units), in FFT order."""
    finetuning: Finetuning | None = None
    """The network that is trained while the mask is learned; None if there is none."""
    budget: float = 0.0
    """What the probabilities may sum to after the last step."""
    temperature: float = 0.0
    """Of the last step, for learners that have one."""
    watched: torch.Tensor | None = None
    """The mask at the last look of `EarlyStopping`."""
    history: History = field(default_factory=History)
    """The loss of every step so far, among others."""

    @property
    def step(self) -> int:
        """How many steps were made."""
        return len(self.history.loss)

    def memory(self) -> Mapping[str, Any]:
        """What the learner remembers beside the probabilities: numbers and tensors not changed in place later."""
        return {}

    def restore_memory(self, memory: Mapping[str, Any]) -> None:
        """Go on from what `memory` gave.

        Args:
            memory: As read from a checkpoint; what does not fit is a ValueError, a LookupError or a TypeError.
        """

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """The state as it is now, for when it is asked for: what takes time is left for then."""
        theta, memory, watched = self.theta, self.memory(), self.watched
        network = None if self.finetuning is None else self.finetuning.state()
        history = self.history.snapshot()
        return lambda: {
            "theta": theta,
            "memory": memory,
            "watched": watched,
            "network": network,
            "history": history(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a snapshot.

        Args:
            state: As read from a checkpoint; one that does not fit is a ValueError, a LookupError or a TypeError.
        """
        self.theta = restore_tensor(state["theta"], self.theta)
        if not ((self.theta >= 0) & (self.theta <= 1)).all():
            raise ValueError("The probabilities of the state are not between 0 and 1.")
        self.restore_memory(state["memory"])
        self.watched = state["watched"]
        self.history = History.restored(state["history"])
        if self.finetuning is not None:
            self.finetuning.resume(state["network"])


@runtime_checkable
class Learner(Protocol):
    """How probabilities are learned: an initial state, a step, and when to end. It has settings, but no state.

    A new learner is one file and one line in the table of `promask.learners`, or an object given to `learn`.
    """

    name: ClassVar[str]
    steps: int
    """The most steps of a member."""

    def init(self, problem: Problem, member: int) -> Any:
        """The state before the first step, with the start and the random numbers of a member.

        Args:
            problem: What is asked.
            member: The number of the member; members differ by their random numbers.

        Returns:
            A `State`.
        """

    def batches(self, problem: Problem, state: Any, member: int) -> Generator[Any, None, None]:
        """The batches of the steps that follow a state.

        Args:
            problem: What is asked.
            state: The state to go on from, initial or restored.
            member: The number of the member.

        Returns:
            A generator of batches, each as `step` takes it.
        """

    def step(self, problem: Problem, state: Any, batch: Any) -> tuple[Any, float]:
        """One step.

        Args:
            problem: What is asked.
            state: The state before; it may be changed in place.
            batch: The next one of `batches`.

        Returns:
            The state after the step, and the mean loss of the step.
        """

    def finished(self, problem: Problem, state: Any) -> bool:
        """Whether no further step is to be made.

        Args:
            problem: What is asked.
            state: The state after the last step.

        Returns:
            True when the member has ended.
        """


@dataclass(frozen=True)
class Description:
    """What settings, selection, figures and reports need to know of a learner without comparing its name."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Settings that suit it, where a preset and the user say nothing."""
    averages: bool = True
    """Whether the mean over members is meaningful; otherwise the best member is kept."""
    selects: bool = True
    """Whether the result is replaced by a reference mask that is better."""
    random: bool = True
    """Whether its probabilities leave a choice, so that random masks can be drawn from them."""
    noun: str = "step"
    """What a step is called."""
    curve: str = "The loss of the images of each step, with masks that are drawn at random."
    """What the learning curve shows."""
    validates: bool = False
    """Whether patients are held back from learning, which decide in the end what is kept."""
    patterns: tuple[str, ...] = (CARTESIAN, ROTATIONS)
    """Whether it can choose samples and lines of Cartesian k-space, spokes and interleaves, or both."""
    fewest_masks: int = 1
    """The fewest masks that a step can do with: batch size times samples."""
