"""The default learner: estimate what each unit is worth, and answer with the probabilities that fit best.

The probabilities that maximise the total gain, less a quadratic penalty for being certain, are clip(1/2 + (gain -
lambda) / temperature, 0, 1), with the lambda that keeps the budget: the projection. Gains are measured in units of
the marginal gain, that of the last unit that the budget pays for, so the scale of the images cancels.

The spectrum of a real image repeats itself: two conjugate twins tell the same. Near the margin one of them is
enough, but it matters that the chosen ones lie on the same side, as in partial Fourier imaging, and a pair cannot
know which side the others take. A weak field prefers one half of k-space; it fades with the temperature.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from promask.learners.base import Description
from promask.learners.gradient import Evidence, GradientLearner
from promask.operators.fourier import fft_order
from promask.problem.problem import Problem
from promask.sampling import schedules
from promask.sampling.gains import Gains
from promask.sampling.projection import nth_largest
from promask.sampling.straight_through import bernoulli, skip_random_numbers
from promask.types import Spectra, UnitDraws, Units

TEMPERATURES = (2.0, 0.1)
"""First and last, in marginal gains: how far around the margin units are undecided."""
NOVELTIES = (0.2, 0.03)
"""First and last: the weight of a new step in the running mean of the gains."""
FIELD = 0.1
"""By how much one half of k-space is preferred, times the temperature: from 0.2 down to 0.01."""
LARGEST = 1e6
"""Beyond the reach of the projection's clipping, and finite."""


@dataclass(frozen=True, kw_only=True)
class BestResponse(GradientLearner):
    """Probabilities that are the best response to the gains known so far."""

    name: ClassVar[str] = "best-response"
    about: ClassVar[Description] = Description(
        defaults={"steps": 100, "batch_size": 16, "patience": 10}, fewest_masks=2
    )

    def evidence(self, problem: Problem, noise: torch.Generator) -> Evidence:
        """The gains of the units."""
        return GainEvidence(problem, noise, self.steps)


class GainEvidence:
    """Running means of the gains; the response depends on them alone, not on the probabilities before."""

    def __init__(self, problem: Problem, noise: torch.Generator, steps: int) -> None:
        self.problem, self.noise, self.steps = problem, noise, steps
        self.gains = Gains(problem.energy)
        half = fft_order(problem.pattern.half(), problem.pattern.encoded)
        self.field = FIELD * half.to(problem.energy)
        self.theta = problem.energy  # until the first step begins
        self.step = 0

    def begin(self, theta: Units, step: int) -> float:
        """The temperature falls geometrically."""
        self.theta, self.step = theta, step
        self.gains.begin()
        return self._scheduled(TEMPERATURES)

    def draw(self, count: int) -> UnitDraws:
        """Plain Bernoulli masks."""
        return bernoulli(self.theta, count, self.noise)

    def skip(self, count: int) -> None:
        """Without the numbers that undecided units would take."""
        undecided = int(((self.theta > 0) & (self.theta < 1)).sum())
        skip_random_numbers(count * undecided, self.theta, self.noise)

    def observe(self, masks: UnitDraws, gradients: UnitDraws, spectra: Spectra, rows: slice = slice(None)) -> None:
        """Evidence for the gains."""
        self.gains.observe(masks, gradients, self.problem.pattern.energies(spectra))

    @property
    def sums(self) -> Sequence[torch.Tensor]:
        """The sums that the gains are estimated from."""
        return self.gains.sums, self.gains.count

    def propose(self) -> Units:
        """The best response to the gains known so far."""
        gain = self.gains.estimate(self._scheduled(NOVELTIES) if self.step > 1 else 1.0)
        gain = torch.where(self.problem.always, gain.max(), gain)
        gain = torch.where(self.problem.never, gain.min(), gain)
        per_cost = gain / self.problem.costs
        marginal = nth_largest(per_cost, self.problem.affordable(per_cost))
        temperature = self._scheduled(TEMPERATURES)
        unit = (marginal.abs() * temperature).clamp_min(torch.finfo(gain.dtype).tiny)
        return (0.5 + temperature * self.field + gain / unit).clamp(-LARGEST, LARGEST)

    def state(self) -> Mapping[str, torch.Tensor]:
        """That of the gains."""
        return self.gains.state()

    def resume(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from a state."""
        self.gains.resume(state)

    def _scheduled(self, ends: tuple[float, float]) -> float:
        return schedules.geometric(self.step, self.steps, *ends)
