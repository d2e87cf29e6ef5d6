"""Several losses at once, such as `0.5*segmentation + 0.5*mse`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from promask.errors import InputError
from promask.losses.base import Loss, needs_phase
from promask.types import AnyImages, Batch, Label, Sample, Scalar


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

    def label(self, sample: Sample) -> Label:
        """The label for the one loss that needs it."""
        return next(term.loss for term in self.terms if term.loss.needs_labels).label(sample)

    def scaled_by(self, values: Sequence[float]) -> "WeightedSum":
        """The same sum, with each loss divided by a value such as its loss for the initial mask."""
        if min(values) <= 0:
            raise InputError(
                f"The losses of {self.name} cannot be compared: one of them is not positive at the start."
            )
        return WeightedSum([replace(term, scale=value) for term, value in zip(self.terms, values, strict=True)])

    def __call__(self, images: AnyImages, batch: Batch) -> Scalar:
        """The weighted sum for the reconstructed images of a batch."""
        total = [term.weight / term.scale * term.loss(images, batch) for term in self.terms]
        return sum(total[1:], start=total[0])
