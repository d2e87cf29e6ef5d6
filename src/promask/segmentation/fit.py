"""How large a network is, and how long it is trained.

Images as they might have been: mirrored, turned, moved, stretched, with other contrast and noise.

Whom the network learns from, who says when to stop, and who is left for the test: no one is in two parts.

How well a network segments fully sampled images.

The loop: augmented batches, Dice plus cross-entropy, and the state that was best on the validation part.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from promask.data.file_set import OnFile, prepare
from promask.data.sample_sets import choose_part
from promask.errors import InputError
from promask.segmentation.classes import Classes, Labels
from promask.segmentation.network import WIDTHS, SegmentationNetwork
from promask.segmentation.overlap import Overlap, dice_cross_entropy, macro, overlap_of
from promask.types import Image, Images, Label, SampleSet


@dataclass(frozen=True)
class Recipe:
    """What presets differ in."""

    widths: tuple[int, ...] = WIDTHS
    epochs: int = 20
    """Times that every image to learn from is seen, at most."""
    patience: int = 8
    """Epochs without a better Dice on the validation part after which training ends; at least a third of all."""
    batch: int = 4
    """Images per step."""

    @property
    def stamina(self) -> int:
        """The same, as it is for so many epochs: small structures are not found for a while."""
        return max(self.patience, self.epochs // 3)

    def __post_init__(self) -> None:
        for name in ("epochs", "patience", "batch"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1, but is {value!r}.")


PRESETS: Mapping[str, Recipe] = {
    "default": Recipe(),
    "small": Recipe(widths=(8, 16, 32, 64), epochs=10, batch=2),
}
"""`small` is for a first try: few images per step make many steps in a short time."""


def find_recipe(preset: str | Recipe, epochs: int | None = None) -> Recipe:
    """The recipe of a preset, or the one given, perhaps with another number of epochs."""
    if isinstance(preset, str):
        if preset not in PRESETS:
            raise InputError(f"Unknown preset {preset!r}: choose one of {', '.join(PRESETS)}.")
        preset = PRESETS[preset]
    return preset if epochs is None else replace(preset, epochs=epochs)


ROTATION = 0.5
"""In radians."""
STRETCH = 0.2
SHEAR = 0.1
SHIFT = 0.08
"""As a share of the shortest axis."""
GAMMA = (0.6, 1.6)
NOISE = 0.05
"""As a share of the largest value."""

Augment = Callable[[Image, Label], tuple[Image, Label]]


def augmentation(space: tuple[int, ...], seed: int) -> Augment:
    """A random change of images and labels of this size; labels stay whole numbers."""
    from monai.transforms.compose import Compose  # takes seconds
    from monai.transforms.intensity.dictionary import RandAdjustContrastd, RandGaussianNoised
    from monai.transforms.spatial.dictionary import RandAffined, RandFlipd

    both = ("image", "label")
    axes = len(space)
    transform = Compose(
        [
            *(RandFlipd(both, prob=0.5, spatial_axis=axis) for axis in range(axes)),
            RandAffined(
                both,
                prob=0.9,
                rotate_range=(ROTATION,) * (1 if axes == 2 else 3),
                scale_range=(STRETCH,) * axes,
                shear_range=(SHEAR,) * axes,
                translate_range=(SHIFT * min(space),) * axes,
                mode=("bilinear", "nearest"),
                padding_mode=("border", "border"),
            ),
            RandAdjustContrastd("image", prob=0.5, gamma=GAMMA),
            RandGaussianNoised("image", prob=0.3, std=NOISE),
        ]
    )
    transform.set_random_state(state=np.random.RandomState(seed))

    def augment(image: Image, label: Label) -> tuple[Image, Label]:
        largest = image.max().clamp_min(torch.finfo(image.dtype).tiny)
        changed: Any = transform({"image": image / largest, "label": label.unsqueeze(0).to(torch.float32)})
        image, label = (changed[name].as_tensor() for name in both)
        return image, label[0].round().to(torch.int64)

    return augment


@dataclass(frozen=True)
class Parts:
    """The parts of a data set; masks are learned from `train` and `validation` together."""

    train: SampleSet
    validation: SampleSet
    test: SampleSet

    def sizes(self) -> dict[str, dict[str, int]]:
        """How many subjects and samples there are in each of them."""
        return {
            name: {"subjects": len(set(part.groups)), "samples": len(part)} for name, part in vars(self).items()
        }


def split(data: SampleSet, on_file: OnFile | None = None) -> Parts:
    """The parts of a data set, made ready: a fifth for the test, and of the others a fifth for validation.

    Subjects are not cut through; of a single one, blocks of slices are taken.
    """
    learning, of_data = choose_part(data, "train", "train")
    test, _ = choose_part(data, "test", "test")
    train, of_learning = choose_part(learning, "train", "train")
    validation, _ = choose_part(learning, "test", "test")
    if "all" in (of_data, of_learning) or not (len(train) and len(validation) and len(test)):
        raise InputError(
            f"{data.name} is too small to be split into training, validation and test: it must hold 3 samples or "
            f"more, of several subjects if possible."
        )
    return Parts(*(prepare(part, on_file) for part in (train, validation, test)))


CHUNK = 16
"""Images segmented at a time."""


def stacked(
    data: SampleSet, indices: Sequence[int], classes: Classes, augment: Augment | None = None
) -> tuple[Images, Labels]:
    """Magnitude images and labels of some samples, perhaps changed at random."""
    pairs = []
    for index in indices:
        sample = data[index]
        image, label = (
            data.geometry.crop(sample.image).abs(),
            data.geometry.crop(classes.label(sample)),
        )
        pairs.append(augment(image, label) if augment is not None else (image, label))
    return torch.stack([image for image, _ in pairs]), torch.stack([label for _, label in pairs])


def score(network: SegmentationNetwork, data: SampleSet) -> Overlap:
    """Dice and intersection over union of every image and class."""
    network.eval()
    indices = range(len(data))
    found = []
    with torch.no_grad():
        for start in indices[::CHUNK]:
            images, labels = stacked(data, indices[start : start + CHUNK], network.classes)
            found.append(overlap_of(network(images), labels, network.classes))
    return Overlap(torch.cat([each.dice for each in found]), torch.cat([each.iou for each in found]))


def summary(scores: Overlap, classes: Classes) -> dict[str, Any]:
    """The means of each class, and of all of them, as plain JSON; None where there is nothing to find."""
    by_class = {
        name: {"dice": _plain(float(dice)), "iou": _plain(float(iou))}
        for name, dice, iou in zip(classes.names, scores.dice.nanmean(0), scores.iou.nanmean(0), strict=True)
    }
    return {"dice": _plain(macro(scores.dice)), "iou": _plain(macro(scores.iou)), "classes": by_class}


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


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
