"""Model averaging: independent members, the mean of their probabilities, and how much they disagree."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from promask.config import SHAPE, Config
from promask.learning.batches import Samples
from promask.learning.checkpoint import Keeper
from promask.learning.distributed import Group
from promask.learning.finetuning import Finetuning
from promask.learning.loop import optimise
from promask.learning.progress import History, OnStep
from promask.learning.race import race
from promask.learning.start import Start
from promask.learning.state import packed, unpacked
from promask.patterns import Pattern
from promask.projection import rounded_down
from promask.tasks import Task
from promask.types import Units

Elsewhere = Callable[[Task, Keeper], list[tuple[Units, History]]]
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
    task: Task,
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
