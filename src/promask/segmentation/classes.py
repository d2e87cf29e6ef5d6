"""The classes of a segmentation: names, the numbers that labels have for them, and how labels become regions."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from promask.errors import InputError
from promask.types import Label, Logits, Sample, Scalar

Labels = Integer[Tensor, "batch *space"]
Regions = Bool[Tensor, "batch class *space"]

EXACT_BITS = 24
"""Of whole numbers that single precision, in which labels are augmented, keeps apart."""


@dataclass(frozen=True)
class Classes:
    """The classes that a network tells apart, without the background.

    >>> Classes.parse(["myocardium=1", "ventricle=2"]).names
    ('myocardium', 'ventricle')

    Args:
        names: One for each class.
        values: The numbers that labels have for them, at least 1.
        overlapping: Whether a pixel belongs to every class whose number its label reaches, as in the nested
            regions of BraTS, and not to one class at most.
    """

    names: tuple[str, ...]
    values: tuple[int, ...]
    overlapping: bool = False

    def __post_init__(self) -> None:
        if not self.names:
            raise InputError("There are no classes to segment: the labels are 0 everywhere.")
        for what in (self.names, self.values):
            if len(set(what)) < len(what):
                raise InputError(f"The classes must differ, but are {', '.join(map(str, what))}.")
        if min(self.values) < 1:
            raise InputError(f"The labels of classes must be at least 1, but one is {min(self.values)}.")

    @staticmethod
    def parse(texts: Sequence[str], overlapping: bool = False) -> "Classes":
        """Read classes from texts.

        Args:
            texts: `name=number` for each class, or names alone, which are then numbered from 1.
            overlapping: Whether a pixel belongs to every class whose number its label reaches.

        Returns:
            The classes.

        Raises:
            InputError: If a text is neither a name nor `name=number`.
        """
        names, values = [], []
        for place, text in enumerate(texts, start=1):
            name, equals, number = text.partition("=")
            if not name or (equals and not number.isdecimal()):
                raise InputError(f"A class must be a name or name=number, such as lesion=1, but is {text!r}.")
            names.append(name)
            values.append(int(number) if equals else place)
        return Classes(tuple(names), tuple(values), overlapping)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def outputs(self) -> int:
        """Channels of a network: one for each class, and one for the background unless they overlap."""
        return len(self) + (not self.overlapping)

    def label(self, sample: Sample) -> Label:
        """The label of a sample; where classes were not annotated, its background is a negative number.

        The bits of that number, without the sign, say which classes it may be as well.

        Args:
            sample: A sample with a label.

        Returns:
            Whole numbers, (*space).

        Raises:
            InputError: If the sample has no label.
        """
        if sample.label is None:
            raise InputError(f"{sample.name} has no label: a segmentation needs labels of all samples.")
        hidden = sum(1 << place for place, name in enumerate(self.names) if name in sample.unlabelled)
        if hidden >= 1 << EXACT_BITS:
            raise InputError(f"Only the first {EXACT_BITS} classes can be annotated in a part of the samples.")
        label = sample.label.to(torch.int32)  # unsigned numbers know no negative ones
        return torch.where(label == 0, -hidden, label) if hidden else label

    def regions(self, labels: Labels) -> Regions:
        """Where each class is.

        Args:
            labels: As `label` gives them, (batch, *space).

        Returns:
            (batch, class, *space), booleans.
        """
        labels = labels.unsqueeze(1)
        values = self._column(self.values, labels)
        return labels >= values if self.overlapping else labels == values

    def hidden(self, labels: Labels) -> Regions:
        """Where each class may be, in the background, as it was not annotated.

        Args:
            labels: As `label` gives them, (batch, *space).

        Returns:
            (batch, class, *space), booleans.
        """
        labels = labels.unsqueeze(1)
        return (labels < 0) & ((-labels >> self._column(range(len(self)), labels)) & 1 == 1)

    def predicted(self, logits: Logits) -> Regions:
        """Where a network with these outputs sees each class.

        Args:
            logits: The outputs of the network, (batch, output, *space).

        Returns:
            (batch, class, *space), booleans.
        """
        if self.overlapping:
            return logits > 0
        return logits.argmax(1, keepdim=True) == self._column(range(1, self.outputs), logits)

    @staticmethod
    def _column(numbers: Sequence[int], like: Tensor) -> Tensor:
        return torch.tensor(list(numbers), device=like.device).reshape(-1, *[1] * (like.ndim - 2))


PerClass = Float[Tensor, "batch class"]


@dataclass(frozen=True)
class Overlap:
    """The scores of each image and class; NaN where there is nothing to find."""

    dice: PerClass
    iou: PerClass


def overlap(predicted: Regions, truth: Regions, hidden: Regions) -> Overlap:
    """Dice and intersection over union of regions."""
    both, either, present = (
        part.flatten(2).sum(2, dtype=torch.float64) for part in (predicted & truth, predicted | truth, truth)
    )
    nothing = (present == 0) | hidden.flatten(2).any(2)
    iou = (both / either).masked_fill(nothing, torch.nan)
    return Overlap(dice=2 * iou / (1 + iou), iou=iou)


def overlap_of(logits: Logits, labels: Labels, classes: Classes) -> Overlap:
    """The scores of the outputs of a network."""
    return overlap(classes.predicted(logits), classes.regions(labels), classes.hidden(labels))


def macro(values: PerClass) -> float:
    """The mean over the classes of each image, and then over the images; NaN if there is nothing to find."""
    return float(values.nanmean(1).nanmean())


SMOOTH = 1e-5
"""Added to both sides of the Dice ratio, in pixels, as MONAI does."""


def dice_cross_entropy(logits: Logits, labels: Labels, classes: Classes) -> Scalar:
    """The mean over the images of one minus the soft Dice of each class, plus the cross-entropy."""
    regions = classes.regions(labels)
    hidden = classes.hidden(labels) if (labels < 0).any() else None
    if classes.overlapping:
        entropy = torch.nn.functional.binary_cross_entropy_with_logits(
            logits, regions.to(logits.dtype), reduction="none"
        )
        if hidden is not None:
            entropy = entropy.masked_fill(hidden, 0)
        probabilities = logits.sigmoid()
    else:
        logarithms = logits.log_softmax(1)
        entropy = -_log_likelihood(logarithms, regions, hidden)
        probabilities = logarithms[:, 1:].exp()
    return entropy.mean() + _dice_loss(probabilities, regions, hidden)


def _log_likelihood(logarithms: Tensor, regions: Tensor, hidden: Tensor | None) -> Tensor:
    background = ~regions.any(1, keepdim=True)
    if hidden is None:
        return logarithms.gather(1, torch.cat([background, regions], 1).to(torch.uint8).argmax(1, keepdim=True))
    possible = torch.cat([background, regions | hidden], 1)
    return logarithms.masked_fill(~possible, -torch.inf).logsumexp(1, keepdim=True)


def _dice_loss(probabilities: Tensor, regions: Tensor, hidden: Tensor | None) -> Tensor:
    space = tuple(range(2, probabilities.ndim))
    truth = regions.to(probabilities.dtype)
    both = (probabilities * truth).sum(space)
    total = probabilities.sum(space) + truth.sum(space)
    losses = 1 - (2 * both + SMOOTH) / (total + SMOOTH)
    if hidden is None:
        return losses.mean()
    annotated = (~hidden.flatten(2).any(2)).to(losses.dtype)
    return ((losses * annotated).sum(1) / annotated.sum(1).clamp_min(1)).mean()
