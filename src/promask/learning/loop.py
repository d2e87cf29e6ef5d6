"""The one loop: draw masks, see what they are worth, move the probabilities, project (Algorithm 1)."""

import math
from contextlib import closing

import torch

from promask import schedules
from promask.config import Config
from promask.fourier import fft_order
from promask.learning.batches import Samples
from promask.learning.checkpoint import Keeper
from promask.learning.finetuning import Finetuning
from promask.learning.parts import InParts, said_of, telling_of_memory
from promask.learning.progress import History, OnStep, Progress
from promask.learning.randomness import generator
from promask.learning.standing import ModeWatch, Standing
from promask.learning.start import Start
from promask.learning.step import Backpropagated, Differentiate, backpropagate, insert
from promask.patterns import Pattern
from promask.projection import project
from promask.rules import RULES, Conditions
from promask.tasks import Task
from promask.types import Spectra, UnitDraws, UnitMask, Units


def optimise(
    samples: Samples,
    pattern: Pattern,
    task: Task,
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


def constrain(theta: Units, budget: float, always: UnitMask, never: UnitMask) -> Units:
    """The nearest probabilities within the budget; units that are always acquired take their share of it."""
    decided = always | never
    if not decided.any():
        return project(theta, budget)
    result = always.to(theta.dtype)
    result[~decided] = project(theta[~decided], budget - int(always.sum()))
    return result
