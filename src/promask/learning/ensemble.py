"""Model averaging: independent members, here or on a cluster, their mean, and how much they disagree."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from promask.learners.base import History, Learner
from promask.learning.checkpoint import Checkpointer, packed, unpacked
from promask.learning.hooks import OnStep, Progress, TrajectoryRecorder
from promask.learning.loop import Hook, optimise
from promask.learning.setup import Setup
from promask.losses import freeze_networks
from promask.losses.base import Loss
from promask.operators.fourier import centred
from promask.problem.cluster import map_unordered
from promask.problem.parallel import Group
from promask.problem.problem import Problem
from promask.sampling.projection import rounded_down
from promask.types import Units

Member = tuple[Units, History]
"""The probabilities of a member, in FFT order, and its history."""
Elsewhere = Callable[[Loss, Checkpointer], list[Member]]
"""Learns all members in other processes."""


@dataclass(frozen=True)
class Ensemble:
    """The average over members, in FFT order; `variance` is per unit over the members (the paper's Figure 5)."""

    probabilities: Units
    variance: Units
    members: Sequence[Units]
    histories: Sequence[History]


def optimise_members(
    problem: Problem,
    learner: Learner,
    members: int = 1,
    hooks: Sequence[Hook] = (),
    checkpointer: Checkpointer | None = None,
    elsewhere: Elsewhere | None = None,
) -> Ensemble:
    """Learn members that share the problem and nothing else.

    In a group of processes each learns some of the members; if there are fewer, all work on each of them together.
    """
    checkpointer, group = checkpointer or Checkpointer(), problem.group
    split = members >= group.size > 1
    own, keeper = (problem.alone(), checkpointer.alone()) if split else (problem, checkpointer)
    numbers = range(members)[group.rank :: group.size] if split else range(members)
    with keeper.at_work():
        if elsewhere is not None:
            found = [(theta.to(problem.images.device), history) for theta, history in elsewhere(own.loss, keeper)]
        else:
            states = [optimise(own, learner, number, (*hooks, keeper)) for number in numbers]
            found = [(state.theta, state.history) for state in states]
    if split:
        found = _from_all(found, members, group, problem.images.device)
    stacked = torch.stack([theta for theta, _ in found]).to(torch.float64)
    mean = rounded_down(stacked.mean(0), found[0][0].dtype)  # each member keeps the budget, and so does the mean
    return Ensemble(
        mean,
        stacked.var(0, correction=0).to(mean.dtype),
        [theta for theta, _ in found],
        [history for _, history in found],
    )


def _from_all(members: Sequence[Member], count: int, group: Group, device: torch.device) -> list[Member]:
    """The members of all processes, each of which has every so-many-th, in their order."""
    mine = packed({"members": [{"theta": theta, "history": each.snapshot()()} for theta, each in members]})
    found = [unpacked(content)["members"] for content in group.gather(mine)]
    ordered = [found[number % group.size][number // group.size] for number in range(count)]
    return [(each["theta"].to(device), History.restored(each["history"])) for each in ordered]


@dataclass(frozen=True)
class OnCluster:
    """Learns the members of a run on a Dask cluster; what comes back is kept as if it had been learned here."""

    scheduler: str
    setup: Setup
    recorder: TrajectoryRecorder
    """Of the first member."""
    on_step: OnStep | None = None
    """Told when a member is done."""

    def __call__(self, task: Loss, checkpointer: Checkpointer) -> list[Member]:
        """The members in their order; those that are known to be finished are not learned again."""
        config = self.setup.config
        known = {member: checkpointer.load(member) for member in range(config.members)}
        found = {
            member: state
            for member, state in known.items()
            if state is not None and _is_over(state, self.setup.learner.steps)
        }
        missing = [member for member in range(config.members) if member not in found]
        setup = self.setup.for_other_machines(task)
        for member, content in map_unordered(self.scheduler, learn_member, missing, setup):
            answer = unpacked(content)
            found[member] = answer["member"]
            if member == 0:
                self.recorder.resume(answer["recorder"])
            if checkpointer.folder is not None:
                checkpointer.keep(member, answer["member"].copy)
            self._report(len(found) - 1, answer["member"])
        return [_result(found[member]) for member in range(config.members)]

    def _report(self, place: int, state: Mapping[str, Any]) -> None:
        """That one more member is done, as if it were the one in this place."""
        (theta, history), steps = _result(state), self.setup.learner.steps
        last = (history.loss[-1], history.budget[-1], history.temperature[-1])
        if self.on_step is not None:
            probabilities = centred(theta, theta.ndim)
            self.on_step(Progress(place, self.setup.config.members, steps, steps, *last, probabilities))


def learn_member(prepared: Any, member: int) -> bytes:
    """In a worker: the last state of a member, and what was recorded of the first one."""
    problem, learner, early_stopping = prepared.problem, prepared.learner, prepared.early_stopping
    recorder = TrajectoryRecorder(problem)
    with freeze_networks(problem.loss, problem.recon):
        state = optimise(problem, learner, member, (early_stopping, recorder))
    return packed({"member": state.snapshot()(), "recorder": recorder.state() if member == 0 else None})


def _is_over(state: Mapping[str, Any], steps: int) -> bool:
    history = History.restored(state["history"])
    return len(history.loss) == steps or history.stopped is not None


def _result(state: Mapping[str, Any]) -> Member:
    return state["theta"], History.restored(state["history"])
