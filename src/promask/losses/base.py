"""The contract of a loss."""

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
