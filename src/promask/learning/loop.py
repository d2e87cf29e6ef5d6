"""Where a member is between two steps: everything that the next step depends on.

The one loop: draw masks, see what they are worth, move the probabilities, project (Algorithm 1).
"""

import math
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import torch

from promask.learners import RULES
from promask.learners.base import Conditions, Rule
from promask.learning.checkpoint import Keeper
from promask.learning.config import Config
from promask.learning.history import History, OnStep, Progress
from promask.learning.microbatches import InParts, said_of, telling_of_memory
from promask.losses.base import Loss
from promask.operators.fourier import fft_order
from promask.problem.batches import Samples
from promask.problem.initial import Start
from promask.problem.objective import Backpropagated, Differentiate, Finetuning, backpropagate, insert
from promask.sampling import schedules
from promask.sampling.pattern import Pattern
from promask.sampling.projection import constrain
from promask.sampling.straight_through import generator
from promask.types import Spectra, UnitDraws, Units, restore_tensor

STEADY = 0.002
"""The share of the mode's units that may still change hands when it is said to change no longer."""
UNDECIDED = 0.1
"""The most undecided units, as a share of the mode's, for this to be said: 4 theta (1 - theta), summed."""


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


@dataclass
class Standing:
    """The probabilities, and what the rule, the random numbers, the watch and a network that is trained know."""

    theta: Units
    rule: Rule
    noise: torch.Generator
    watch: ModeWatch
    finetuning: Finetuning | None = None
    history: History = field(default_factory=History)

    @property
    def step(self) -> int:
        """How many steps were made."""
        return len(self.history.loss)

    def so_far(self) -> Callable[[], dict[str, Any]]:
        """The state as it is now, for when it is asked for: what takes time is left for then."""
        theta, rule, noise, last = self.theta, self.rule.state(), self.noise.get_state(), self.watch.last
        network = None if self.finetuning is None else self.finetuning.state()
        history = self.history.so_far()
        return lambda: {
            "theta": theta,
            "rule": rule,
            "noise": noise,
            "watch": last,
            "network": network,
            "history": history(),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; one that does not fit is a ValueError, a LookupError or a TypeError."""
        self.theta = restore_tensor(state["theta"], self.theta)
        if not ((self.theta >= 0) & (self.theta <= 1)).all():
            raise ValueError("The probabilities of the state are none.")
        self.rule.resume(state["rule"])
        self.noise.set_state(state["noise"])
        self.watch.last = state["watch"]
        self.history = History.of_state(state["history"])
        if self.finetuning is not None:
            self.finetuning.resume(state["network"])


def optimise(
    samples: Samples,
    pattern: Pattern,
    task: Loss,
    config: Config,
    start: Start,
    member: int = 0,
    on_step: OnStep | None = None,
    finetuning: Finetuning | None = None,
    keeper: Keeper | None = None,
) -> tuple[Units, History]:
    """Learn the probabilities of one member, in FFT order, from its own start, updates and random numbers.

    A single image is a data set of one. With `finetuning`, the network of the task is trained on at the same time.
    The `keeper` is told the state after every step, and may know one to go on from.
    """
    like, keeper = samples.like, keeper or Keeper()
    target = pattern.budget(config.acceleration)
    always = fft_order(pattern.centre(config.centre), len(pattern.free)).to(like.device)
    never = fft_order(pattern.padding(), len(pattern.free)).to(like.device)
    drawn = start(generator(config.seed, member, "start"))
    noise = generator(config.seed, member, "noise", like.device)
    conditions = Conditions(
        steps=config.steps,
        learning_rate=config.learning_rate,
        pattern=pattern,
        budget=target,
        energy=samples.mean_energy(pattern),
        always=always,
        never=never,
        generator=noise,
    )
    now = Standing(
        theta=drawn.to(like).masked_fill(always, 1).masked_fill(never, 0),
        rule=RULES[config.rule](conditions),
        noise=noise,
        watch=ModeWatch(target, config.patience),
        finetuning=finetuning,
    )
    known = keeper.resumed(member)
    if known is not None:
        with keeper.refusing_unfit(member):
            now.resume(known)
    differentiate: Differentiate = insert if config.rule == "exchange" else backpropagate
    in_parts = InParts(differentiate, samples, pattern, task, finetuning.weights if finetuning else ())
    order, count = generator(config.seed, member, "batches"), config.batch_size * config.samples
    total, group = torch.zeros((), dtype=like.dtype, device=like.device), samples.group

    def note(result: Backpropagated, masks: UnitDraws, spectra: Spectra, rows: slice) -> None:
        now.rule.observe(masks, result.gradients, spectra, rows)
        if finetuning is not None:
            finetuning.observe(result.of_weights)
        total.add_(result.loss)

    with closing(samples.batches(config.batch_size, config.samples, order, now.step)) as batches:
        for step in range(now.step + 1, config.steps + 1):
            if now.history.stopped is not None:
                break
            temperature = now.rule.begin(now.theta, step)
            total.zero_()
            for_our_turn: list[tuple[Backpropagated, UnitDraws, Spectra, slice]] = []
            with telling_of_memory(step):
                for piece in next(batches):
                    if piece.batch is None:
                        now.rule.skip(piece.count)
                        continue
                    masks = now.rule.draw(piece.count)
                    for rows, part, result in in_parts(masks[piece.rows], piece.batch, now.history, step):
                        of_draws = slice(piece.rows.start + rows.start, piece.rows.start + rows.stop)
                        seen = (result, masks[of_draws], part.spectra, of_draws)
                        if group.leads:
                            note(*seen)
                        else:
                            for_our_turn.append(seen)
            of_network = () if finetuning is None else finetuning.gradients
            with group.in_turn(total, *now.rule.evidence, *of_network):
                for seen in for_our_turn:
                    note(*seen)
            loss = float(total) / count
            if not math.isfinite(loss):
                raise FloatingPointError(said_of(loss, step, [], samples))
            if finetuning is not None:
                finetuning.step(count)
            budget = schedules.budget(
                step,
                config.steps,
                pattern.units,
                target,
                config.exploration,
                config.exploitation,
                config.annealing,
            )
            now.theta = constrain(now.rule.propose(), budget, always, never)
            progress = Progress(member, config.members, step, config.steps, loss, budget, temperature, now.theta)
            now.history.append(progress)
            if step < config.steps and now.watch.is_steady(now.theta, step):
                now.history.stopped = step
            if on_step is not None:
                on_step(progress)
            keeper.keep(member, now.so_far())
    return now.theta, now.history
