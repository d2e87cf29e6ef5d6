"""Model averaging: independent members, the mean of their probabilities, and how much they disagree.

Members of a run on the workers of a Dask cluster: each is learned by one of them, from its start to its end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from promask.cluster.dask import map_unordered
from promask.data.sources import absolute
from promask.learning.checkpoint import Keeper, packed, unpacked
from promask.learning.config import SHAPE, Config
from promask.learning.history import History, OnStep, Progress, Recorder, first_of
from promask.learning.loop import optimise
from promask.learning.opening import Opened, Opening
from promask.learning.race import race
from promask.losses import freeze_networks
from promask.losses.base import Loss
from promask.problem.batches import Samples
from promask.problem.initial import STARTS, Start
from promask.problem.objective import Finetuning
from promask.problem.parallel import Group
from promask.sampling.pattern import Pattern
from promask.sampling.projection import rounded_down
from promask.types import Units

Elsewhere = Callable[[Loss, Keeper], list[tuple[Units, History]]]
"""Learns all members in other processes."""


@dataclass(frozen=True)
class Ensemble:
    """The average over members, in FFT order; `variance` is per unit over the members (the paper's Figure 5)."""

    probabilities: Units
    variance: Units
    members: Sequence[Units]
    histories: Sequence[History]


def optimise_members(
    samples: Samples,
    pattern: Pattern,
    task: Loss,
    config: Config,
    start: Start,
    on_step: OnStep | None = None,
    finetuning: Finetuning | None = None,
    keeper: Keeper | None = None,
    elsewhere: Elsewhere | None = None,
) -> Ensemble:
    """Learn `config.members` members that share the data and nothing else.

    In a group of processes each learns some of the members; if there are fewer, all work on each of them together.
    """
    way, keeper, group = race if config.rule == SHAPE else optimise, keeper or Keeper(), samples.group
    split = config.members >= group.size > 1
    own, by = (samples.alone(), keeper.alone()) if split else (samples, keeper)
    numbers = range(config.members)[group.rank :: group.size] if split else range(config.members)
    with by.at_work():
        if elsewhere is not None:
            members = [(theta.to(samples.device), history) for theta, history in elsewhere(task, by)]
        else:
            members = [
                way(own, pattern, task, config, start, number, on_step, finetuning, by) for number in numbers
            ]
    if split:
        members = _from_all(members, config.members, group, samples.device)
    stacked = torch.stack([theta for theta, _ in members]).to(torch.float64)
    mean = rounded_down(stacked.mean(0), members[0][0].dtype)  # each member keeps the budget, and so does the mean
    return Ensemble(
        mean,
        stacked.var(0, correction=0).to(mean.dtype),
        [theta for theta, _ in members],
        [history for _, history in members],
    )


def _from_all(
    members: Sequence[tuple[Units, History]], count: int, group: Group, device: torch.device
) -> list[tuple[Units, History]]:
    """The members of all processes, each of which has every so-many-th, in their order."""
    told = packed({"members": [{"theta": theta, "history": each.so_far()()} for theta, each in members]})
    found = [unpacked(content)["members"] for content in group.gathered(told)]
    ordered = [found[number % group.size][number // group.size] for number in range(count)]
    return [(each["theta"].to(device), History.of_state(each["history"])) for each in ordered]


@dataclass
class LastState(Keeper):
    """Remembers the last state of a member, and writes nothing."""

    state: Callable[[], Mapping[str, Any]] | None = None

    def keep(self, member: int, state: Callable[[], Mapping[str, Any]]) -> None:
        """Take note of the state after a step."""
        self.state = state


@dataclass(frozen=True)
class OnCluster:
    """Learns the members of a run on a cluster; what comes back is kept as if it had been learned here."""

    scheduler: str
    opening: Opening
    recorder: Recorder
    """Of the first member; its callback is told when a member is done."""

    def __call__(self, task: Loss, keeper: Keeper) -> list[tuple[Units, History]]:
        """The members in their order; those that a keeper knows to be finished are not learned again."""
        config = self.opening.config
        done = {member: keeper.resumed(member) for member in range(config.members)}
        found = {
            member: state for member, state in done.items() if state is not None and _is_over(state, config.steps)
        }
        missing = [member for member in range(config.members) if member not in found]
        opening = replace(from_anywhere(self.opening), task=task)
        for member, content in map_unordered(self.scheduler, learned_member, missing, opening):
            answer = unpacked(content)
            found[member] = answer["member"]
            if member == 0:
                self.recorder.resume(answer["recorder"])
            keeper.keep(member, answer["member"].copy)
            _tell(self.recorder.then, len(found) - 1, answer["member"], config.members, config.steps)
        return [_result(found[member]) for member in range(config.members)]


def from_anywhere(opening: Opening) -> Opening:
    """The same for a process in another folder, or on another machine that has the same disk."""
    maps, init = opening.config.maps, opening.init
    return replace(
        opening,
        data=absolute(opening.data),
        config=replace(opening.config, maps=None if maps is None else str(Path(maps).absolute())),
        init=init if not isinstance(init, str | Path) or init in STARTS else Path(init).absolute(),
    )


def learned_member(opened: Opened, member: int) -> bytes:
    """In a worker: the last state of a member, and what was recorded of the first one."""
    config, task, last = opened.config, opened.task, LastState()
    recorder = Recorder(first_of(opened.start, opened.pattern, config))
    way = race if config.rule == SHAPE else optimise
    with freeze_networks(task, opened.samples.recon):
        way(opened.samples, opened.pattern, task, config, opened.start, member, recorder.on_step, None, last)
    assert last.state is not None
    return packed({"member": last.state(), "recorder": recorder.state() if member == 0 else None})


def _is_over(state: Mapping[str, Any], steps: int) -> bool:
    history = History.of_state(state["history"])
    return len(history.loss) == steps or history.stopped is not None


def _result(state: Mapping[str, Any]) -> tuple[Units, History]:
    return state["theta"], History.of_state(state["history"])


def _tell(on_step: OnStep | None, place: int, state: Mapping[str, Any], members: int, steps: int) -> None:
    """That one more member is done, as if it were the one in this place."""
    theta, history = _result(state)
    last = (history.loss[-1], history.budget[-1], history.temperature[-1])
    if on_step is not None:
        on_step(Progress(place, members, steps, steps, *last, theta))
