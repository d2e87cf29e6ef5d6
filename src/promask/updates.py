"""How a gradient moves the probabilities, before the projection. Each run makes an update of its own."""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import torch

from promask.schedules import step_size
from promask.types import Units

LARGEST_MOVE = 3.0
"""The budget-scaled step treats gains beyond this many times the marginal one alike."""


@runtime_checkable
class Update(Protocol):
    """Moves the probabilities by one step; what it remembers between steps is its own."""

    def __call__(self, theta: Units, gradient: Units, gain: Units) -> Units:
        """`gradient` is the estimate of dL/dtheta; `gain` is -dL/dm, summed over all drawn masks."""


class Adam:
    """Adam (Kingma and Ba 2015) with its usual constants, as published.

    It moves every unit at the same speed, whatever the unit is worth, unless its gradient is small against
    epsilon: the scale of the images matters.
    """

    DECAY = (0.9, 0.999)
    EPSILON = 1e-8

    def __init__(self, learning_rate: float, steps: int, budget: int) -> None:
        self.learning_rate = learning_rate
        self.step = 0
        self.first: torch.Tensor | float = 0.0
        self.second: torch.Tensor | float = 0.0

    def __call__(self, theta: Units, gradient: Units, gain: Units) -> Units:
        """One step, with the bias of the two running means corrected."""
        self.step += 1
        slow, slower = self.DECAY
        self.first = slow * self.first + (1 - slow) * gradient
        self.second = slower * self.second + (1 - slower) * gradient.square()
        mean = self.first / (1 - slow**self.step)
        size = (self.second / (1 - slower**self.step)).sqrt()
        return theta - self.learning_rate * mean / (size + self.EPSILON)


class BudgetScaled:
    """Steps in units of the marginal gain: what the last unit that the budget can pay for is worth.

    Units worth more than that rise fast, units worth less move slowly, and the scale of the images cancels.
    Running means over a few steps make up for the noise of few draws; their slow start cancels in the ratio.
    """

    DECAY = 0.8

    def __init__(self, learning_rate: float, steps: int, budget: int) -> None:
        self.learning_rate, self.steps, self.budget = learning_rate, steps, budget
        self.step = 0
        self.gradient: torch.Tensor | float = 0.0
        self.gain: torch.Tensor | float = 0.0

    def __call__(self, theta: Units, gradient: Units, gain: Units) -> Units:
        """A step along the mean gradient, scaled and clipped, of a length that falls tenfold over the run."""
        self.step += 1
        self.gradient = self.DECAY * self.gradient + (1 - self.DECAY) * gradient
        self.gain = self.DECAY * self.gain + (1 - self.DECAY) * gain
        units = self.gain.numel()
        rank = min(self.budget, (units + 1) // 2)  # where the budget pays for nearly all, the last gains are noise
        marginal = self.gain.flatten().kthvalue(units - rank + 1).values.abs()
        move = self.gradient / marginal.clamp_min(torch.finfo(gain.dtype).tiny)
        length = step_size(self.step, self.steps, self.learning_rate, self.learning_rate / 10)
        return theta - length * move.clamp(-LARGEST_MOVE, LARGEST_MOVE)


UPDATES: Mapping[str, Callable[[float, int, int], Update]] = {"adam": Adam, "budget": BudgetScaled}
