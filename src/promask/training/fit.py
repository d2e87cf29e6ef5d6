"""The loop: augmented batches, Dice plus cross-entropy, and the state that was best on the validation part."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from promask.segmentation.losses import dice_cross_entropy
from promask.segmentation.network import SegmentationNetwork
from promask.segmentation.scores import macro
from promask.training.augmentation import augmentation
from promask.training.parts import Parts
from promask.training.recipe import Recipe
from promask.training.scoring import score, stacked

LEARNING_RATE = 2e-3
"""The largest one: it rises to it, and falls to nothing."""
WARM_UP = 0.1
"""The share of the steps in which it rises."""
FEWEST_STEPS = 11
"""Of the schedule: with 10, PyTorch's warm-up of a tenth has no length, and it divides by that."""
WEIGHT_DECAY = 1e-4
LARGEST_GRADIENT = 1.0


@dataclass(frozen=True)
class Epoch:
    """What a callback is told after every epoch: the mean loss, and the macro Dice of the validation part."""

    epoch: int
    epochs: int
    loss: float
    dice: float


OnEpoch = Callable[[Epoch], None]
OnBatch = Callable[[int, int], None]
"""Told how many batches are done, and how many there are in all epochs."""


@dataclass
class History:
    """The loss and the validation Dice of every epoch, and the epoch whose state was kept, counted from 1."""

    loss: list[float] = field(default_factory=list)
    dice: list[float] = field(default_factory=list)
    best: int = 0


def fit(
    network: SegmentationNetwork,
    parts: Parts,
    recipe: Recipe,
    seed: int,
    on_epoch: OnEpoch | None = None,
    on_batch: OnBatch | None = None,
) -> History:
    """Train a network; it ends as it was when it was best on the validation part."""
    samples, classes = parts.train, network.classes
    augment = augmentation(samples.geometry.region or samples.shape[1:], seed)
    optimiser = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    batches = math.ceil(len(samples) / recipe.batch)
    steps = batches * recipe.epochs
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, LEARNING_RATE, total_steps=max(steps, FEWEST_STEPS), pct_start=WARM_UP
    )
    generator = torch.Generator().manual_seed(seed)
    history = History()
    best = copy.deepcopy(network.state_dict())
    for epoch in range(1, recipe.epochs + 1):
        network.train()
        total = 0.0
        order = torch.randperm(len(samples), generator=generator)
        for done, batch in enumerate(order.split(recipe.batch), start=(epoch - 1) * batches + 1):
            images, labels = stacked(samples, batch.tolist(), classes, augment)
            loss = dice_cross_entropy(network(images), labels, classes)
            if not loss.isfinite():
                raise FloatingPointError(
                    f"The loss became {float(loss.detach())} in epoch {epoch}: are the values of the images too "
                    f"large?"
                )
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), LARGEST_GRADIENT)
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(batch)
            if on_batch is not None:
                on_batch(done, steps)
        history.loss.append(total / len(samples))
        history.dice.append(macro(score(network, parts.validation).dice))
        if not history.best or history.dice[-1] > history.dice[history.best - 1]:
            history.best, best = epoch, copy.deepcopy(network.state_dict())
        if on_epoch is not None:
            on_epoch(Epoch(epoch, recipe.epochs, history.loss[-1], history.dice[-1]))
        if epoch - history.best == recipe.stamina:
            break
    network.load_state_dict(best)
    network.eval()
    return history
