"""Losses of images: the paper's section 4.3, where magnitude images should be like the fully sampled ones."""

from collections.abc import Mapping

import torch

from promask.errors import InputError
from promask.losses.base import check_scalar
from promask.losses.metrics import structural_similarity, to_target_range
from promask.operators.fourier import magnitude, real_product
from promask.types import AnyImages, Batch, Images, Label, LossFunction, Sample, Scalar


def mse(images: Images, targets: Images) -> Scalar:
    """Mean squared error."""
    return torch.nn.functional.mse_loss(images, targets)


def l1(images: Images, targets: Images) -> Scalar:
    """Mean absolute error."""
    return torch.nn.functional.l1_loss(images, targets)


def ssim(images: Images, targets: Images) -> Scalar:
    """One minus the structural similarity, in the convention of the metric but without its clipping."""
    return 1 - structural_similarity(*to_target_range(images, targets)).mean()


def psnr(images: Images, targets: Images) -> Scalar:
    """By how many dB the PSNR is below 120: the mean over images and channels, each relative to its largest value.

    Images of little error count as much as others: a share of the error that is saved has the same worth in all.
    """
    axes = list(range(2, targets.ndim))
    errors = (images - targets).square().mean(axes)
    peaks = targets.amax(axes).clamp_min(torch.finfo(targets.dtype).tiny)
    return 10 * (errors / peaks.square() / LEAST_ERROR).clamp_min(1).log10().mean()


def complex_mse(images: AnyImages, targets: AnyImages) -> Scalar:
    """Mean squared distance of complex numbers."""
    difference = images - targets
    return real_product(difference, difference).mean() if difference.is_complex() else difference.square().mean()


def complex_l1(images: AnyImages, targets: AnyImages) -> Scalar:
    """Mean distance of complex numbers."""
    return magnitude(images - targets).mean()


LEAST_ERROR = 1e-12
"""No relative squared error counts as smaller: 120 dB."""
MOVING = 0.08
"""The temporal standard deviation from which pixels count as moving, relative to the largest magnitude."""
EMPHASIS = 10.0
"""How much more pixels count that move: in hearts they count about as much as all others together then."""


def motion(images: Images, targets: Images) -> Scalar:
    """Mean squared error of series of frames, in which pixels that move count eleven times.

    What moves is a small part of the field of view, and the rest would decide alone.

    Args:
        images: Magnitudes, (batch, frame, *space).
        targets: The same, fully sampled, scaled so that the largest magnitude of a series is about 1.

    Returns:
        The mean.
    """
    moving = (targets.std(1, keepdim=True, correction=0) / MOVING).square().clamp_max(1)
    return ((1 + EMPHASIS * moving) * (images - targets).square()).mean()


LOSSES: Mapping[str, LossFunction] = {"mse": mse, "l1": l1, "ssim": ssim, "psnr": psnr}
"""Of magnitude images."""
SERIES_LOSSES: Mapping[str, LossFunction] = {"motion": motion}
"""Of magnitude images of series of frames."""
COMPLEX_LOSSES: Mapping[str, LossFunction] = {"complex-mse": complex_mse, "complex-l1": complex_l1}
"""Of complex images."""
POINTWISE = ("mse", "l1", *SERIES_LOSSES, *COMPLEX_LOSSES)
"""Means over pixels."""


class ImageLoss:
    """A loss of reconstructed and fully sampled images.

    >>> ImageLoss("l1").name, ImageLoss(torch.nn.HuberLoss()).name
    ('l1', 'HuberLoss')

    Args:
        loss: `mse`, `l1`, `ssim` or `psnr` of magnitudes, `motion` of series of frames, `complex-mse` or
            `complex-l1`; or any differentiable function of images and targets, (batch, channel, *space) both, that
            returns a scalar, a mean over the images.
        phase: Whether a function of your own takes complex images instead of magnitudes.
    """

    needs_labels = False

    def __init__(self, loss: str | LossFunction, phase: bool = False) -> None:
        known = {**LOSSES, **SERIES_LOSSES, **COMPLEX_LOSSES}
        if isinstance(loss, str):
            if loss not in known:
                raise InputError(f"Unknown loss {loss!r}: choose one of {', '.join(known)}.")
            self.name, self.loss = loss, known[loss]
        elif not callable(loss):
            raise InputError(f"`loss` must be the name of a loss or a function, but is {loss!r}.")
        else:
            self.name, self.loss = getattr(loss, "__name__", type(loss).__name__), loss
        self.needs_phase = phase or loss in COMPLEX_LOSSES
        self.pointwise = loss in POINTWISE
        """Whether it is a mean over pixels, so that columns of series may be taken by themselves."""

    def label(self, sample: Sample) -> Label:
        """No label is needed."""
        raise NotImplementedError

    def __call__(self, images: AnyImages, batch: Batch) -> Scalar:
        """The loss of the reconstructed images of a batch."""
        made, targets = images, batch.targets
        if batch.geometry.indexes:  # frames count as channels do
            made, targets = made.flatten(1, 2), targets.flatten(1, 2)
        elif self.loss is motion:
            raise InputError("The loss motion is for series of frames, but the data have none: choose mse.")
        if self.needs_phase:
            return check_scalar(self.loss(made, targets), self.name)
        return check_scalar(self.loss(magnitude(made), targets.abs()), self.name)
