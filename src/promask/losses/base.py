"""The contract of a loss, and weighted sums of several, such as `0.5*segmentation + 0.5*mse`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch

from promask.errors import InputError
from promask.types import AnyImages, Batch, Label, Sample, Scalar


@runtime_checkable
class Loss(Protocol):
    """What the reconstructed images are for, as a number: the contract of every loss, also of your own.

    A loss that compares complex images says so by an attribute `needs_phase = True`.
    """

    @property
    def name(self) -> str:
        """For messages and records."""

    @property
    def needs_labels(self) -> bool:
        """Whether batches must hold labels."""

    def label(self, sample: Sample) -> Label:
        """Return the label of a sample as the loss wants it.

        Args:
            sample: A sample of the data set.

        Returns:
            Whole numbers, (*space).
        """

    def __call__(self, images: AnyImages, batch: Batch, /) -> Scalar:
        """Compute the loss of the reconstructed images of a batch.

        Args:
            images: (batch, channel, *space), real or complex.
            batch: The fully sampled targets, and the labels if the loss needs them.

        Returns:
            A scalar, a mean over the images.
        """


def needs_phase(loss: Loss) -> bool:
    """Whether the targets of batches must be complex."""
    return bool(getattr(loss, "needs_phase", False))


def check_scalar(value: Any, name: str) -> Scalar:
    """What a loss function of a user's own returned: a scalar that depends on the images."""
    is_scalar = isinstance(value, torch.Tensor) and value.ndim == 0
    if not is_scalar or (torch.is_grad_enabled() and not value.requires_grad):
        raise InputError(f"The loss {name} must return a scalar tensor that depends on its first argument.")
    scalar: Scalar = value
    return scalar


@dataclass(frozen=True)
class Term:
    """One loss of a weighted sum.

    Args:
        weight: How much it counts.
        loss: Any loss.
        scale: The value of the loss that counts as 1.
    """

    weight: float
    loss: Loss
    scale: float = 1.0


@dataclass(frozen=True)
class WeightedSum:
    """A weighted sum of losses, each divided by a scale of its own, as their sizes cannot be compared.

    Args:
        terms: The losses, at most one of which may need labels.
    """

    terms: Sequence[Term]

    def __post_init__(self) -> None:
        if sum(term.loss.needs_labels for term in self.terms) > 1:
            raise InputError(f"Only one of the losses can be a segmentation, but there are more in {self.name}.")

    @property
    def name(self) -> str:
        """As it may be written."""
        return " + ".join(f"{repr(term.weight).removesuffix('.0')}*{term.loss.name}" for term in self.terms)

    @property
    def needs_labels(self) -> bool:
        """Whether one of them does."""
        return any(term.loss.needs_labels for term in self.terms)

    @property
    def needs_phase(self) -> bool:
        """Whether one of them does."""
        return any(needs_phase(term.loss) for term in self.terms)

    @property
    def pointwise(self) -> bool:
        """Whether all of them are means over pixels."""
        return all(getattr(term.loss, "pointwise", False) for term in self.terms)

    def label(self, sample: Sample) -> Label:
        """The label for the one loss that needs it."""
        return next(term.loss for term in self.terms if term.loss.needs_labels).label(sample)

    def scaled_by(self, values: Sequence[float]) -> "WeightedSum":
        """The same sum, with each loss divided by a value such as its loss for the initial mask.

        Args:
            values: One for each term, all positive.

        Returns:
            A new sum with these scales.
        """
        if min(values) <= 0:
            raise InputError(
                f"The losses of {self.name} cannot be compared: one of them is not positive at the start."
            )
        return WeightedSum([replace(term, scale=value) for term, value in zip(self.terms, values, strict=True)])

    def __call__(self, images: AnyImages, batch: Batch) -> Scalar:
        """The weighted sum for the reconstructed images of a batch."""
        total = [term.weight / term.scale * term.loss(images, batch) for term in self.terms]
        return sum(total[1:], start=total[0])
