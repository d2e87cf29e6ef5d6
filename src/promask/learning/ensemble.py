"""Model averaging: independent members, the mean of their probabilities, and how much they disagree."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from promask.config import SHAPE, Config
from promask.learning.batches import Samples
from promask.learning.finetuning import Finetuning
from promask.learning.loop import History, OnStep, optimise
from promask.learning.race import race
from promask.learning.start import Start
from promask.patterns import Pattern
from promask.projection import rounded_down
from promask.tasks import Task
from promask.types import Units


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
) -> Ensemble:
    """Learn `config.members` members that share the data and nothing else."""
    way = race if config.rule == SHAPE else optimise
    members = [
        way(samples, pattern, task, config, start, member, on_step, finetuning) for member in range(config.members)
    ]
    stacked = torch.stack([theta for theta, _ in members]).to(torch.float64)
    mean = rounded_down(stacked.mean(0), members[0][0].dtype)  # each member keeps the budget, and so does the mean
    return Ensemble(
        mean,
        stacked.var(0, correction=0).to(mean.dtype),
        [theta for theta, _ in members],
        [history for _, history in members],
    )
