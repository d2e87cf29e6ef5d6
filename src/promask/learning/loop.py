"""The one loop: projected stochastic gradient descent on the probabilities (Algorithm 1)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from promask import schedules
from promask.config import Config
from promask.learning.batches import Samples, index_batches
from promask.learning.step import Task, backpropagate
from promask.patterns import Pattern
from promask.projection import project
from promask.sampling import logistic_noise, straight_through_gumbel
from promask.types import Units
from promask.updates import UPDATES


@dataclass(frozen=True)
class Progress:
    """What a callback is told after every step. The probabilities are in FFT order."""

    member: int
    members: int
    step: int
    steps: int
    loss: float
    budget: float
    temperature: float
    probabilities: Units


OnStep = Callable[[Progress], None]


@dataclass(frozen=True)
class History:
    """The loss, budget and temperature of every step."""

    loss: list[float] = field(default_factory=list)
    budget: list[float] = field(default_factory=list)
    temperature: list[float] = field(default_factory=list)

    def append(self, progress: Progress) -> None:
        """Note one step."""
        self.loss.append(progress.loss)
        self.budget.append(progress.budget)
        self.temperature.append(progress.temperature)


def generator(seed: int, member: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A stream of random numbers of its own for each seed, member and purpose: start, batches or noise."""
    entropy = [seed, member, *purpose.encode()]
    state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    return torch.Generator(device).manual_seed(int(state[0]))


def optimise(
    samples: Samples,
    pattern: Pattern,
    task: Task,
    config: Config,
    member: int = 0,
    start: Units | None = None,
    on_step: OnStep | None = None,
) -> tuple[Units, History]:
    """Learn the probabilities of one member, in FFT order, from its own start, updates and random numbers.

    A single image is a data set of one. `start` is used as it is; without it, theta is drawn from U(0, 1).
    """
    like = samples.targets
    target = pattern.budget(config.acceleration)
    if start is None:
        uniform = torch.rand(
            pattern.unit_shape, generator=generator(config.seed, member, "start"), dtype=like.dtype
        )
        start = uniform.to(like.device)
    theta = start.to(like)
    update = UPDATES[config.update](config.learning_rate, config.steps, target)
    batches = index_batches(len(samples), config.batch_size, generator(config.seed, member, "batches"))
    noise_source = generator(config.seed, member, "noise", like.device)
    history = History()

    for step in range(1, config.steps + 1):
        batch = samples.batch(next(batches))
        temperature = schedules.temperature(step, config.steps)
        noise_shape = (len(batch.targets), config.samples, *pattern.unit_shape)
        noise = logistic_noise(noise_shape, theta, noise_source)
        draws = straight_through_gumbel(theta, noise, temperature)
        result = backpropagate(draws, batch, pattern, task)
        if not math.isfinite(result.loss):
            raise FloatingPointError(
                f"The loss became {result.loss} at step {step}: are the values of the images too large?"
            )
        gradient, gain = draws.pull_back(result.mask_gradient), -result.mask_gradient.sum((0, 1))
        budget = schedules.budget(
            step,
            config.steps,
            pattern.units,
            target,
            config.exploration,
            config.exploitation,
            config.annealing,
        )
        theta = project(update(theta, gradient, gain), budget)
        progress = Progress(member, config.members, step, config.steps, result.loss, budget, temperature, theta)
        history.append(progress)
        if on_step is not None:
            on_step(progress)
    return theta, history
