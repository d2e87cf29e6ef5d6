"""The way of a run: its probabilities at a few steps, and the mask that each would give."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from promask.errors import InputError
from promask.learning.run import Run
from promask.patterns import Pattern
from promask.types import Mask, Units

Item = TypeVar("Item")


@dataclass(frozen=True)
class Moment:
    """The first member after a step; step 0 is the start."""

    step: int
    probabilities: Units
    pattern: Pattern
    allowed: float
    """What the probabilities may sum to: the annealed budget."""

    @property
    def units(self) -> int:
        """How many units the mask has: what the probabilities sum to, within the budget."""
        wanted = round(float(self.probabilities.double().sum()))
        return max(1, min(wanted, math.floor(self.allowed + 1e-6)))

    @property
    def mask(self) -> Mask:
        """The most probable mask of so many units."""
        return self.pattern.expand(self.pattern.largest(self.probabilities, self.units))

    @property
    def acceleration(self) -> float:
        """All units over those of the mask."""
        return self.pattern.units / self.units


def moments(run: Run) -> list[Moment]:
    """All moments that the run kept, from the start to the end."""
    if run.trajectory is None:
        raise InputError(
            "The run kept no probabilities on its way (trajectory.npy), as older versions did not, and volumes of "
            "very many units do not: learn it again."
        )
    budgets: Sequence[float] = run.history["budget"]
    pattern = run.distribution.pattern
    kept = zip(run.trajectory.steps, run.trajectory.probabilities, strict=True)
    return [
        Moment(step, theta, pattern, budgets[max(step, 1) - 1])  # the start: within the budget of the first step
        for step, theta in kept
    ]


def spread_out(items: Sequence[Item], count: int) -> list[Item]:
    """At most so many of the items, the first and the last among them, at nearly equal distances.

    >>> spread_out(range(10), 4)
    [0, 3, 6, 9]
    """
    places = np.linspace(0, len(items) - 1, min(count, len(items))).round().astype(int)
    return [items[place] for place in places]


def phases(run: Run) -> dict[str, tuple[float, float]]:
    """First and last step of each phase, by its name, as in Figure 3; none where nothing is annealed."""
    config = run.config
    if config.annealing == "none":
        return {}
    first, last = config.exploration * config.steps, (1 - config.exploitation) * config.steps
    return {
        "exploration": (0.0, first),
        "constraining": (first, last),
        "exploitation": (last, float(config.steps)),
    }


def told_of(run: Run) -> str:
    """What one must know of the moments of a run: whose they are, and whether its mask came from them."""
    members, plain = run.config.members, run.about.get("plain")
    notes = [f"The first of {members} members."] if members > 1 else []
    notes += [f"The run ended with the plain mask {plain!r}, which was better."] if plain else []
    return " ".join(notes)
