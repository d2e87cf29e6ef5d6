"""What the loop asks of a task."""

from typing import Any, Protocol, runtime_checkable

import torch

from promask.errors import InputError
from promask.types import AnyImages, Batch, Label, Sample, Scalar


@runtime_checkable
class Task(Protocol):
    """What the reconstructed images are for, as a loss: a mean over the images."""

    @property
    def name(self) -> str:
        """For messages and records."""

    @property
    def needs_labels(self) -> bool:
        """Whether batches must hold labels."""

    def label(self, sample: Sample) -> Label:
        """The label of a sample as the task wants it."""

    def __call__(self, images: AnyImages, batch: Batch, /) -> Scalar:
        """The loss of the reconstructed images of a batch."""


def needs_phase(task: Task) -> bool:
    """Whether the targets of batches must be complex: a task that needs them says so by `needs_phase`."""
    return bool(getattr(task, "needs_phase", False))


def checked(value: Any, name: str) -> Scalar:
    """What a loss of a user's own returned: a scalar that depends on the images."""
    is_scalar = isinstance(value, torch.Tensor) and value.ndim == 0
    if not is_scalar or (torch.is_grad_enabled() and not value.requires_grad):
        raise InputError(f"The loss {name} must return a scalar tensor that depends on its first argument.")
    scalar: Scalar = value
    return scalar
