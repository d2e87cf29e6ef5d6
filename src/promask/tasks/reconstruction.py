"""The task of the paper's section 4.3: a magnitude image like the fully sampled one."""

from collections.abc import Mapping

import torch

from promask.errors import InputError
from promask.magnitude import magnitude
from promask.metrics import structural_similarity, to_target_range
from promask.tasks.task import checked
from promask.types import Batch, ComplexImages, Images, Label, Loss, Sample, Scalar


def mse(images: Images, targets: Images) -> Scalar:
    """Mean squared error."""
    return torch.nn.functional.mse_loss(images, targets)


def l1(images: Images, targets: Images) -> Scalar:
    """Mean absolute error."""
    return torch.nn.functional.l1_loss(images, targets)


def ssim(images: Images, targets: Images) -> Scalar:
    """One minus the structural similarity, in the convention of the metric but without its clipping."""
    return 1 - structural_similarity(*to_target_range(images, targets)).mean()


LOSSES: Mapping[str, Loss] = {"mse": mse, "l1": l1, "ssim": ssim}


class Reconstruction:
    """A loss on magnitude images: `mse`, `l1`, `ssim`, or any differentiable callable.

    >>> Reconstruction("l1").name, Reconstruction(torch.nn.HuberLoss()).name
    ('l1', 'HuberLoss')
    """

    needs_labels = False

    def __init__(self, loss: str | Loss) -> None:
        if isinstance(loss, str):
            if loss not in LOSSES:
                raise InputError(f"Unknown loss {loss!r}: choose one of {', '.join(LOSSES)}.")
            self.name, self.loss = loss, LOSSES[loss]
        else:
            self.name, self.loss = getattr(loss, "__name__", type(loss).__name__), loss

    def label(self, sample: Sample) -> Label:
        """None is needed."""
        raise NotImplementedError

    def __call__(self, images: ComplexImages, batch: Batch) -> Scalar:
        """The loss of the reconstructed images of a batch."""
        return checked(self.loss(magnitude(images), batch.targets), self.name)
