"""Learning where a network judges: a race between shapes of masks.

All shapes are judged by the network on the same images. After each round the worse half retires, and the others
are judged on twice as many images: most of the work goes to those that are hard to tell apart. The race asks for
losses, not for gradients: those of a network say little about a single unit.
"""

import math

import torch

from promask.config import Config
from promask.fourier import fft_order
from promask.learning.batches import Samples
from promask.learning.finetuning import Finetuning
from promask.learning.loop import History, OnStep, Progress, constrain, generator
from promask.learning.shapes import BEYOND, Shapes, Weights, log_energy, shapes
from promask.learning.start import Start
from promask.learning.step import backpropagate
from promask.patterns import Pattern
from promask.projection import nth_largest
from promask.tasks import Task
from promask.types import UnitMask, Units

WIDTH = 0.5
"""Undecided are units whose scores are this close to the last affordable one: as close as shapes are."""


def race(
    samples: Samples,
    pattern: Pattern,
    task: Task,
    config: Config,
    start: Start,
    member: int = 0,
    on_step: OnStep | None = None,
    finetuning: Finetuning | None = None,
) -> tuple[Units, History]:
    """Learn the probabilities of one member, in FFT order. A step is a round; the first is on `batch_size` images.

    It ends with one shape, or with the best of those that are left when all images were seen.
    """
    like, budget = samples.like, pattern.budget(config.acceleration)
    axes = len(pattern.free)
    always = fft_order(pattern.centre(config.centre), axes).to(like.device)
    never = fft_order(pattern.padding(), axes).to(like.device)
    if config.init == "energy":
        base = log_energy(samples.mean_energy(pattern))
    else:
        base = log_energy(start(generator(config.seed, member, "start")).to(like))
    family = shapes(base, pattern, budget, always, never)
    order = torch.randperm(len(samples), generator=generator(config.seed, member, "batches"))
    runners = family.candidates()
    totals = torch.zeros(len(runners), dtype=torch.float64)
    seen, history = 0, History()

    for step in range(1, config.steps + 1):
        images = order[seen : max(2 * seen, config.batch_size)]
        masks = [family.mask(weights) for weights in runners]
        totals += _losses(masks, samples, images, pattern, task)
        seen += len(images)
        if not totals.isfinite().all():
            raise FloatingPointError(
                f"The loss became {float(totals.sum())} at step {step}: are the values of the images too large?"
            )
        ranking = totals.argsort()
        if finetuning is not None:
            _finetune(finetuning, masks[int(ranking[0])], samples, images, pattern, task)
        theta = _probabilities(family, runners[int(ranking[0])], always, never)
        loss = float(totals.min()) / seen
        progress = Progress(member, config.members, step, config.steps, loss, budget, 0.0, theta)
        history.append(progress)
        if on_step is not None:
            on_step(progress)
        kept = ranking[: math.ceil(len(runners) / 2)]
        runners, totals = [runners[int(place)] for place in kept], totals[kept]
        if len(runners) == 1 or seen == len(samples):
            break
    return theta, history


@torch.no_grad()
def _losses(
    masks: list[Units], samples: Samples, images: torch.Tensor, pattern: Pattern, task: Task
) -> torch.Tensor:
    """The sum of the losses of the same images with each of the masks."""
    on_grid = [pattern.expand(mask) for mask in masks]
    totals = torch.zeros(len(masks), dtype=torch.float64)
    for piece in samples.pieces(images):
        for place, mask in enumerate(on_grid):
            images = piece.geometry.judged(samples.recon(piece.spectra, mask, piece.maps))
            totals[place] += float(task(images, piece)) * len(piece.targets)
    return totals


def _probabilities(family: Shapes, weights: Weights, always: UnitMask, never: UnitMask) -> Units:
    score = family.score(weights)
    distance = (score - nth_largest(score, family.budget)) / WIDTH
    return constrain((0.5 + distance).clamp(-BEYOND, BEYOND), family.budget, always, never)


def _finetune(
    finetuning: Finetuning, mask: Units, samples: Samples, images: torch.Tensor, pattern: Pattern, task: Task
) -> None:
    """Train the network on for images as the best mask shows them, a step for each piece."""
    for piece in samples.pieces(images):
        draws = mask.expand(len(piece.targets), *mask.shape)
        finetuning.observe(
            backpropagate(draws, piece, pattern, task, samples.recon, finetuning.weights).of_weights
        )
        finetuning.step(len(piece.targets))
