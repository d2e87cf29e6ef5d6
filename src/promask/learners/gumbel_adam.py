"""The learner of the paper: straight-through Gumbel gradients and Adam."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from promask.learners.base import Description
from promask.learners.gradient import Evidence, GradientLearner
from promask.problem.problem import Problem
from promask.sampling import schedules
from promask.sampling.projection import nth_largest
from promask.sampling.straight_through import Draws, StraightThroughGumbel, logistic_noise, skip_random_numbers
from promask.types import Spectra, UnitDraws, Units, restore_tensor

EPSILON = 1e-8
"""Of Adam, as published: units move at the same speed, whatever they are worth, unless their gradient is small
against it, so the scale of the images matters."""


@dataclass(frozen=True, kw_only=True)
class GumbelAdam(GradientLearner):
    """Eqs. 4 and 5, then a step of Adam: sections 3.2 and 4."""

    name: ClassVar[str] = "gumbel-adam"
    about: ClassVar[Description] = Description(
        defaults={"steps": 100, "batch_size": 16, "patience": 10},
        selects=False,  # the paper's result is left as it is
    )

    learning_rate: float = 0.01
    """The step size of Adam."""

    def evidence(self, problem: Problem, noise: torch.Generator) -> Evidence:
        """The straight-through gradient."""
        return GumbelEvidence(problem, noise, self.steps, self.learning_rate)


class GumbelEvidence:
    """The gradient of the probabilities through hard masks, and the optimiser that follows it."""

    def __init__(self, problem: Problem, noise: torch.Generator, steps: int, learning_rate: float) -> None:
        self.problem, self.noise, self.steps, self.learning_rate = problem, noise, steps, learning_rate
        self.theta = torch.full_like(problem.energy, 0.5)
        self.adam = torch.optim.Adam([self.theta], learning_rate, eps=EPSILON)
        self.gumbel = StraightThroughGumbel(self.theta, 1.0)
        self.draws: Draws | None = None
        self.total, self.count = torch.zeros_like(self.theta), self.theta.new_zeros(())

    def begin(self, theta: Units, step: int) -> float:
        """The temperature falls linearly from 1 to 0.03."""
        self.theta.copy_(theta)
        self.total.zero_()
        self.count.zero_()
        self.gumbel = StraightThroughGumbel(
            theta, temperature=schedules.linear(step, self.steps, first=1.0, last=0.03)
        )
        return self.gumbel.temperature

    def draw(self, count: int) -> UnitDraws:
        """Hard masks; their slopes are kept for `observe`."""
        noise = logistic_noise((count, *self.theta.shape), self.theta, self.noise)
        self.draws = self.gumbel(noise)
        return self.draws.masks

    def skip(self, count: int) -> None:
        """Without the numbers that the noise would take."""
        skip_random_numbers(count * self.theta.numel(), self.theta, self.noise)

    def observe(self, masks: UnitDraws, gradients: UnitDraws, spectra: Spectra, rows: slice = slice(None)) -> None:
        """dL/dm times d(soft mask)/dtheta, summed over the masks."""
        assert self.draws is not None
        self.total += self.draws.slope[rows].mul_(gradients).sum(0)
        self.count += len(masks)

    @property
    def sums(self) -> Sequence[torch.Tensor]:
        """The sum of the gradients, and of how many masks."""
        return self.total, self.count

    def propose(self) -> Units:
        """A step of Adam along the mean gradient."""
        self.theta.grad = self.total / self.count
        if not self.adam.state:
            self._warn_of_scale(self.theta.grad)
        self.adam.step()
        return self.theta.clone()

    def state(self) -> Mapping[str, Any]:
        """That of Adam."""
        known = self.adam.state.get(self.theta, {})
        return {name: value.clone() for name, value in known.items()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        if state:
            like = {"step": torch.zeros(()), "exp_avg": self.theta, "exp_avg_sq": self.theta}
            self.adam.state[self.theta] = {
                name: restore_tensor(state[name], each).clone() for name, each in like.items()
            }

    def _warn_of_scale(self, gradient: Units) -> None:
        """Say so if the gradient of the last affordable unit is so large that Adam cannot tell it from others, or
        so small that it will not move: the ends of the range in which images were seen to give good masks."""
        marginal = float(nth_largest(-gradient, self.problem.affordable(-gradient)))
        reach = self.learning_rate * self.steps * abs(marginal) / EPSILON
        if abs(marginal) > EPSILON / 2 or reach < 0.5:
            warnings.warn(
                f"At the scale of these images the published optimiser cannot rank the samples: the gradient of "
                f"the last affordable one is {marginal:.0e} and should be near {EPSILON / 10:.0e}; "
                f"scale the images, or use the default preset, which does not depend on it.",
                stacklevel=2,
            )
