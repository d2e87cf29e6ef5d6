"""The rule of the paper: straight-through Gumbel gradients and Adam."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from promask.learners.base import Conditions
from promask.sampling import schedules
from promask.sampling.projection import nth_largest
from promask.sampling.straight_through import Draws, StraightThroughGumbel, logistic_noise, skip_random_numbers
from promask.types import Spectra, UnitDraws, Units, restore_tensor


class Published:
    """Eqs. 4 and 5, then a step of Adam: sections 3.2 and 4."""

    def __init__(self, conditions: Conditions) -> None:
        self.conditions = conditions
        self.adam = Adam(conditions.learning_rate, conditions.energy)
        self.theta = torch.full_like(conditions.energy, 0.5)  # until the first step begins
        self.gumbel = StraightThroughGumbel(self.theta, 1.0)
        self.draws: Draws | None = None
        self.total, self.count = torch.zeros_like(self.theta), self.theta.new_zeros(())

    def begin(self, theta: Units, step: int) -> float:
        """The temperature falls linearly from 1 to 0.03."""
        self.theta, self.total, self.count = theta, torch.zeros_like(theta), theta.new_zeros(())
        self.gumbel = StraightThroughGumbel(
            theta, temperature=schedules.linear(step, self.conditions.steps, first=1.0, last=0.03)
        )
        return self.gumbel.temperature

    def draw(self, count: int) -> UnitDraws:
        """Hard masks; their slopes are kept for `observe`."""
        noise = logistic_noise((count, *self.theta.shape), self.theta, self.conditions.generator)
        self.draws = self.gumbel(noise)
        return self.draws.masks

    def skip(self, count: int) -> None:
        """Without the numbers that the noise would take."""
        skip_random_numbers(count * self.theta.numel(), self.theta, self.conditions.generator)

    def observe(self, masks: UnitDraws, gradients: UnitDraws, spectra: Spectra, rows: slice = slice(None)) -> None:
        """dL/dm times d(soft mask)/dtheta, summed over the masks."""
        assert self.draws is not None
        self.total += self.draws.slope[rows].mul_(gradients).sum(0)
        self.count += len(masks)

    @property
    def evidence(self) -> Sequence[torch.Tensor]:
        """The sum of the gradients, and of how many masks."""
        return self.total, self.count

    def propose(self) -> Units:
        """A step of Adam along the mean gradient."""
        gradient = self.total / self.count
        if self.adam.step == 0:
            self._warn_of_scale(gradient)
        return self.adam(self.theta, gradient)

    def state(self) -> Mapping[str, Any]:
        """That of Adam."""
        return {"step": self.adam.step, "first": self.adam.first, "second": self.adam.second}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self.adam.step = int(state["step"])
        self.adam.first = restore_tensor(state["first"], self.adam.first)
        self.adam.second = restore_tensor(state["second"], self.adam.second)

    def _warn_of_scale(self, gradient: Units) -> None:
        """Say so if the gradient of the last affordable unit is so large that Adam cannot tell it from others, or
        so small that it will not move: the ends of the range in which images were seen to give good masks."""
        steps, rate = self.conditions.steps, self.conditions.learning_rate
        marginal = float(nth_largest(-gradient, self.conditions.budget))
        reach = rate * steps * abs(marginal) / Adam.EPSILON
        if abs(marginal) > Adam.EPSILON / 2 or reach < 0.5:
            warnings.warn(
                f"At the scale of these images the published optimiser cannot rank the samples: the gradient of "
                f"the last affordable one is {marginal:.0e} and should be near {Adam.EPSILON / 10:.0e}; "
                f"scale the images, or use the default preset, which does not depend on it.",
                stacklevel=2,
            )


class Adam:
    """Adam (Kingma and Ba 2015) with its usual constants, as published.

    It moves every unit at the same speed, whatever the unit is worth, unless its gradient is small against
    epsilon: the scale of the images matters.
    """

    DECAY = (0.9, 0.999)
    EPSILON = 1e-8

    def __init__(self, learning_rate: float, like: Units) -> None:
        self.learning_rate = learning_rate
        self.step = 0
        self.first, self.second = torch.zeros_like(like), torch.zeros_like(like)

    def __call__(self, theta: Units, gradient: Units) -> Units:
        """One step, with the bias of the two running means corrected."""
        self.step += 1
        slow, slower = self.DECAY
        self.first = slow * self.first + (1 - slow) * gradient
        self.second = slower * self.second + (1 - slower) * gradient.square()
        mean = self.first / (1 - slow**self.step)
        size = (self.second / (1 - slower**self.step)).sqrt()
        return theta - self.learning_rate * mean / (size + self.EPSILON)
