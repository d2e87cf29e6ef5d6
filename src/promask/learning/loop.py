"""The one loop: draw masks, see what they are worth, move the probabilities, project (Algorithm 1)."""

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import torch

from promask import schedules
from promask.config import Config
from promask.fourier import fft_order
from promask.learning.batches import Samples
from promask.learning.finetuning import Finetuning
from promask.learning.start import Start
from promask.learning.step import Differentiate, backpropagate, insert
from promask.patterns import Pattern
from promask.projection import project
from promask.rules import RULES, Conditions
from promask.tasks import Task
from promask.types import UnitMask, Units

STEADY = 0.002
"""The share of the mode's units that may still change hands when it is said to change no longer."""
UNDECIDED = 0.1
"""The most undecided units, as a share of the mode's, for this to be said: 4 theta (1 - theta), summed."""


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


@dataclass
class History:
    """The loss, budget and temperature of every step, and the step after which the mode no longer changed."""

    loss: list[float] = field(default_factory=list)
    budget: list[float] = field(default_factory=list)
    temperature: list[float] = field(default_factory=list)
    stopped: int | None = None

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
    start: Start,
    member: int = 0,
    on_step: OnStep | None = None,
    finetuning: Finetuning | None = None,
) -> tuple[Units, History]:
    """Learn the probabilities of one member, in FFT order, from its own start, updates and random numbers.

    A single image is a data set of one. With `finetuning`, the network of the task is trained on at the same time.
    """
    like = samples.like
    target = pattern.budget(config.acceleration)
    always = fft_order(pattern.centre(config.centre), len(pattern.free)).to(like.device)
    never = fft_order(pattern.padding(), len(pattern.free)).to(like.device)
    drawn = start(generator(config.seed, member, "start"))
    theta = drawn.to(like).masked_fill(always, 1).masked_fill(never, 0)
    conditions = Conditions(
        steps=config.steps,
        learning_rate=config.learning_rate,
        pattern=pattern,
        budget=target,
        energy=samples.mean_energy(pattern),
        always=always,
        never=never,
        generator=generator(config.seed, member, "noise", like.device),
    )
    rule = RULES[config.rule](conditions)
    order = generator(config.seed, member, "batches")
    watch = ModeWatch(target, config.patience)
    history = History()
    differentiate: Differentiate = insert if config.rule == "exchange" else backpropagate
    weights = finetuning.weights if finetuning is not None else ()

    with closing(samples.batches(config.batch_size, config.samples, order)) as batches:
        for step in range(1, config.steps + 1):
            temperature = rule.begin(theta, step)
            total = torch.zeros((), dtype=like.dtype, device=like.device)
            for piece in next(batches):
                masks = rule.draw(len(piece.targets))
                result = differentiate(masks, piece, pattern, task, samples.recon, weights)
                rule.observe(masks, result.gradients, piece.spectra)
                if finetuning is not None:
                    finetuning.observe(result.of_weights)
                total += result.loss
            loss = float(total) / (config.batch_size * config.samples)
            if not math.isfinite(loss):
                raise FloatingPointError(
                    f"The loss became {loss} at step {step}: are the values of the images too large?"
                )
            if finetuning is not None:
                finetuning.step(config.batch_size * config.samples)
            budget = schedules.budget(
                step,
                config.steps,
                pattern.units,
                target,
                config.exploration,
                config.exploitation,
                config.annealing,
            )
            theta = constrain(rule.propose(), budget, always, never)
            progress = Progress(member, config.members, step, config.steps, loss, budget, temperature, theta)
            history.append(progress)
            if on_step is not None:
                on_step(progress)
            if step < config.steps and watch.is_steady(theta, step):
                history.stopped = step
                break
    return theta, history


def constrain(theta: Units, budget: float, always: UnitMask, never: UnitMask) -> Units:
    """The nearest probabilities within the budget; units that are always acquired take their share of it."""
    decided = always | never
    if not decided.any():
        return project(theta, budget)
    result = always.to(theta.dtype)
    result[~decided] = project(theta[~decided], budget - int(always.sum()))
    return result


class ModeWatch:
    """Looks at the mode every `patience` steps, and tells when it is the same as the last time; 0: never.

    It looks away while many units are undecided: what they will do may turn others.
    """

    def __init__(self, budget: int, patience: int) -> None:
        self.budget, self.patience = budget, patience
        self.last: torch.Tensor | None = None

    def is_steady(self, theta: Units, step: int) -> bool:
        """Whether at most a share of `STEADY` of the mode's units changed hands since the last look."""
        if self.patience == 0 or step % self.patience:
            return False
        if float((4 * theta * (1 - theta)).sum()) > UNDECIDED * self.budget:
            self.last = None
            return False
        chosen = torch.zeros(theta.numel(), dtype=torch.bool, device=theta.device)
        chosen[theta.flatten().topk(self.budget).indices] = True
        last, self.last = self.last, chosen
        return last is not None and int((chosen & ~last).sum()) <= STEADY * self.budget
