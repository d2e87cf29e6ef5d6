"""Steps of learning with a clock: the loop on samples that are there already."""

import time
from collections.abc import Callable
from typing import Any

from promask.learners import make_learner
from promask.learning.config import Config
from promask.learning.ensemble import Ensemble, optimise_members
from promask.learning.hooks import ReportProgress
from promask.learning.setup import state_problem
from promask.losses.base import Loss
from promask.problem.batches import SpectraSet
from promask.sampling.pattern import Pattern


def learn_members(
    samples: SpectraSet, pattern: Pattern, loss: Loss, config: Config, on_step: Callable[[Any], None] | None = None
) -> Ensemble:
    """The members of a run, without a look at reference masks."""
    problem, learner = state_problem(samples, pattern, loss, config), make_learner(config.learner, config)
    hooks = []
    if on_step is not None:
        hooks.append(ReportProgress(on_step, config.members, learner.steps, len(pattern.free)))
    return optimise_members(problem, learner, config.members, hooks)


def step_times(samples: SpectraSet, pattern: Pattern, loss: Loss, config: Config) -> list[float]:
    """The time after every step."""
    stamps: list[float] = []
    learn_members(samples, pattern, loss, config, lambda _: stamps.append(time.perf_counter()))
    return stamps
