"""The one loop: a learner makes steps until it has finished; everything else is a hook."""

from collections.abc import Sequence
from contextlib import closing
from typing import Protocol, runtime_checkable

from promask.learners.base import Learner, State
from promask.problem.problem import Problem


@runtime_checkable
class Hook(Protocol):
    """What happens around the steps of a member: checkpoints, records, progress, early stopping."""

    def start(self, member: int, state: State) -> None:
        """Before the first step; the state may be changed in place, to resume."""

    def after_step(self, member: int, state: State, loss: float) -> None:
        """After every step, with its mean loss."""


def optimise(problem: Problem, learner: Learner, member: int = 0, hooks: Sequence[Hook] = ()) -> State:
    """Learn the probabilities of one member.

    Args:
        problem: What is asked: images, pattern, budget, reconstruction, loss, start.
        learner: How probabilities are moved.
        member: Its number; members differ by their start and their random numbers.
        hooks: Called in this order, before the first step and after every step.

    Returns:
        The state after the last step; `state.theta` are the probabilities, (*units), in FFT order.
    """
    state: State = learner.init(problem, member)
    hooks = (Record(), *hooks)
    for hook in hooks:
        hook.start(member, state)
    with closing(learner.batches(problem, state, member)) as batches:
        while state.history.stopped is None and not learner.finished(problem, state):
            state, loss = learner.step(problem, state, next(batches))
            for hook in hooks:
                hook.after_step(member, state, loss)
    return state


class Record:
    """Writes down the loss, the budget and the temperature of every step."""

    def start(self, member: int, state: State) -> None:
        """Nothing to do."""

    def after_step(self, member: int, state: State, loss: float) -> None:
        """Append one step to the history."""
        state.history.loss.append(loss)
        state.history.budget.append(state.budget)
        state.history.temperature.append(state.temperature)
