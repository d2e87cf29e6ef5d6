"""Several objectives at once, such as `0.5*segmentation + 0.5*mse`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from promask.errors import InputError
from promask.losses.base import Task, needs_phase
from promask.types import AnyImages, Batch, Label, Sample, Scalar


@dataclass(frozen=True)
class Term:
    """One objective, and how much it counts."""

    weight: float
    task: Task
    unit: float = 1.0
    """The loss that counts as 1."""


@dataclass(frozen=True)
class Mixture:
    """A weighted sum of losses, each in units of its own, as their sizes have nothing to do with each other."""

    terms: Sequence[Term]

    def __post_init__(self) -> None:
        if sum(term.task.needs_labels for term in self.terms) > 1:
            raise InputError(f"Only one of the losses can be a segmentation, but there are more in {self.name}.")

    @property
    def name(self) -> str:
        """As it may be written."""
        return " + ".join(f"{repr(term.weight).removesuffix('.0')}*{term.task.name}" for term in self.terms)

    @property
    def needs_labels(self) -> bool:
        """Whether one of them does."""
        return any(term.task.needs_labels for term in self.terms)

    @property
    def needs_phase(self) -> bool:
        """Whether one of them does."""
        return any(needs_phase(term.task) for term in self.terms)

    def label(self, sample: Sample) -> Label:
        """The label that the one wants which needs it."""
        return next(term.task for term in self.terms if term.task.needs_labels).label(sample)

    def in_units_of(self, losses: Sequence[float]) -> "Mixture":
        """The same, with each loss as a share of a given one, such as that of the mask to start from."""
        if min(losses) <= 0:
            raise InputError(
                f"The losses of {self.name} cannot be compared: one of them is not positive at the start."
            )
        return Mixture([replace(term, unit=loss) for term, loss in zip(self.terms, losses, strict=True)])

    def __call__(self, images: AnyImages, batch: Batch) -> Scalar:
        """The weighted sum for the reconstructed images of a batch."""
        total = [term.weight / term.unit * term.task(images, batch) for term in self.terms]
        return sum(total[1:], start=total[0])
