"""Training: its settings, augmented images, the split by subjects, the scores, and the loop."""

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
from promask.segmentation.classes import Classes, Labels, Overlap, dice_cross_entropy, macro, overlap_of
from promask.segmentation.network import WIDTHS, ClassScores, Scores, SegmentationNetwork
from promask.types import Image, Images, Label, SampleSet


@dataclass(frozen=True)
class Recipe:
    """How large a network is, and how long it is trained.

    Args:
        widths: Channels inside the U-Net.
        epochs: Times that every training image is seen, at most.
        patience: Early stopping: epochs without a better Dice on the validation part, at least a third of all.
        batch: Images per step.
    """

    widths: tuple[int, ...] = WIDTHS
    epochs: int = 20
    patience: int = 8
    batch: int = 4

    @property
    def early_stopping(self) -> int:
        """Epochs without improvement after which training ends; small structures are not found for a while."""
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
"""`small` is for a first try: few images per step give many steps in a short time."""


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


def make_augmentation(space: tuple[int, ...], seed: int) -> Augment:
    """Random flips, rotations, shifts, stretches, contrast and noise for images of this size and their labels."""
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
    """The parts of a data set, by subjects; masks are learned from `train` and `validation` together."""

    train: SampleSet
    validation: SampleSet
    test: SampleSet

    def sizes(self) -> dict[str, dict[str, int]]:
        """The numbers of subjects and samples in each part."""
        return {
            name: {"subjects": len(set(part.groups)), "samples": len(part)} for name, part in vars(self).items()
        }


def split(data: SampleSet, on_file: OnFile | None = None) -> Parts:
    """A fifth of the subjects for the test, and of the others a fifth for validation.

    No subject is in two parts; of a single one, blocks of slices are taken.
    """
    learning, chosen = choose_part(data, "train", "train")
    test, _ = choose_part(data, "test", "test")
    train, chosen_again = choose_part(learning, "train", "train")
    validation, _ = choose_part(learning, "test", "test")
    if "all" in (chosen, chosen_again) or not (len(train) and len(validation) and len(test)):
        raise InputError(
            f"{data.name} is too small to be split into training, validation and test: it must hold 3 samples or "
            f"more, of several subjects if possible."
        )
    return Parts(*(prepare(part, on_file) for part in (train, validation, test)))


CHUNK = 16
"""Images segmented at a time."""


def stack_samples(
    data: SampleSet, indices: Sequence[int], classes: Classes, augment: Augment | None = None
) -> tuple[Images, Labels]:
    """Magnitude images and labels of some samples, augmented or not."""
    pairs = []
    for index in indices:
        sample = data[index]
        image, label = (
            data.geometry.crop(sample.image).abs(),
            data.geometry.crop(classes.label(sample)),
        )
        pairs.append(augment(image, label) if augment is not None else (image, label))
    return torch.stack([image for image, _ in pairs]), torch.stack([label for _, label in pairs])


def score_network(network: SegmentationNetwork, data: SampleSet) -> Overlap:
    """Dice and intersection over union of every image and class."""
    network.eval()
    indices = range(len(data))
    found = []
    with torch.no_grad():
        for start in indices[::CHUNK]:
            images, labels = stack_samples(data, indices[start : start + CHUNK], network.classes)
            found.append(overlap_of(network(images.to(network.device)).cpu(), labels, network.classes))
    return Overlap(torch.cat([each.dice for each in found]), torch.cat([each.iou for each in found]))


def summarise(scores: Overlap, classes: Classes) -> ClassScores:
    """The mean scores of each class and of all classes; None where there is nothing to find."""
    by_class: dict[str, Scores] = {
        name: {"dice": _finite(float(dice)), "iou": _finite(float(iou))}
        for name, dice, iou in zip(classes.names, scores.dice.nanmean(0), scores.iou.nanmean(0), strict=True)
    }
    return {"dice": _finite(macro(scores.dice)), "iou": _finite(macro(scores.iou)), "classes": by_class}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


LEARNING_RATE = 2e-3
"""The largest; it rises from nothing and falls back to it."""
WARM_UP = 0.1
"""The share of the steps in which the learning rate rises."""
FEWEST_STEPS = 11
"""Of the schedule: with 10, PyTorch's warm-up of a tenth has no length, and it divides by that."""
WEIGHT_DECAY = 1e-4
LARGEST_GRADIENT = 1.0


@dataclass(frozen=True)
class Epoch:
    """What a callback gets after every epoch: the mean loss, and the mean Dice of the validation part."""

    epoch: int
    epochs: int
    loss: float
    dice: float


OnEpoch = Callable[[Epoch], None]
OnBatch = Callable[[int, int], None]
"""(batches done, batches in all epochs)."""


@dataclass
class History:
    """The loss and the validation Dice of every epoch, and the best epoch, counted from 1."""

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
    """Train a network, and leave it in its best state on the validation part."""
    samples, classes = parts.train, network.classes
    augment = make_augmentation(samples.geometry.region or samples.shape[1:], seed)
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
            images, labels = stack_samples(samples, batch.tolist(), classes, augment)
            loss = dice_cross_entropy(network(images.to(network.device)), labels.to(network.device), classes)
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
        history.dice.append(macro(score_network(network, parts.validation).dice))
        if not history.best or history.dice[-1] > history.dice[history.best - 1]:
            history.best, best = epoch, copy.deepcopy(network.state_dict())
        if on_epoch is not None:
            on_epoch(Epoch(epoch, recipe.epochs, history.loss[-1], history.dice[-1]))
        if epoch - history.best == recipe.early_stopping:
            break
    network.load_state_dict(best)
    network.eval()
    return history
