"""Image quality in the paper's convention, and what other conventions are made of.

Each image is scaled by the range of its fully sampled target, so that the target runs from 0 to 1, and the
reconstruction is clipped to that range. SSIM has a 7 x 7 Gaussian window with sigma 1, over the positions where
the window fits, and is averaged over channels; it is also a loss.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from promask.errors import InputError
from promask.types import Images

WINDOW = 7
SIGMA = 1.0

PerImage = Float[Tensor, " batch"]


@dataclass(frozen=True)
class Window:
    """How the pixels around a position count in SSIM."""

    weights: tuple[float, ...]
    """Along each axis; their sum is 1."""
    sample_covariance: bool = False
    """Whether variances are sums divided by the number of pixels less one, rather than means."""

    def mean(self, images: Images) -> Float[Tensor, "batch channel *valid"]:
        """Weighted means at the positions where the window fits."""
        # Shifted sums, axis by axis: an order of magnitude faster here than a depth-wise convolution and its
        # backward pass, and the same code for slices and volumes.
        for axis in range(2, images.ndim):
            length = images.shape[axis] - WINDOW + 1
            total = self.weights[0] * images.narrow(axis, 0, length)
            for start in range(1, WINDOW):
                total.add_(images.narrow(axis, start, length), alpha=self.weights[start])
            images = total
        return images

    def correction(self, axes: int) -> float:
        """What variances under the weights are multiplied with."""
        pixels = WINDOW**axes
        return pixels / (pixels - 1) if self.sample_covariance else 1.0

    def fits(self, images: Images) -> bool:
        """Whether the images are large enough for it."""
        return min(images.shape[2:]) >= WINDOW


def _gaussian_weights() -> tuple[float, ...]:
    heights = [math.exp(-((place - WINDOW // 2) ** 2) / (2 * SIGMA**2)) for place in range(WINDOW)]
    return tuple(height / sum(heights) for height in heights)


GAUSSIAN = Window(_gaussian_weights())
"""The window of the paper."""
UNIFORM = Window((1 / WINDOW,) * WINDOW, sample_covariance=True)
"""The window of scikit-image, unless it is asked for another."""


def psnr(images: Images, targets: Images) -> PerImage:
    """Peak signal-to-noise ratio in dB of each image."""
    images, targets = clipped(images, targets)
    return decibels(energy(images - targets) / targets[0].numel())


def nmse(images: Images, targets: Images) -> PerImage:
    """Squared error of each image, relative to the target's energy."""
    images, targets = clipped(images, targets)
    return energy(images - targets) / energy(targets)


def ssim(images: Images, targets: Images) -> PerImage:
    """Structural similarity of each image, 1 for an image equal to its target."""
    return structural_similarity(*clipped(images, targets))


def structural_similarity(images: Images, targets: Images, window: Window = GAUSSIAN) -> PerImage:
    """Structural similarity for values from 0 to 1, without clipping; differentiable."""
    if not window.fits(targets):
        raise InputError(
            f"SSIM needs at least {WINDOW} pixels along each axis, but the images are {list(targets.shape[2:])}."
        )
    c1, c2 = 0.01**2, 0.03**2
    correction = window.correction(targets.ndim - 2)
    mean_x, mean_y = window.mean(images), window.mean(targets)
    product, power = mean_x * mean_y, mean_x.square() + mean_y.square()
    covariance = correction * (window.mean(images * targets) - product)
    variances = correction * (window.mean(images.square() + targets.square()) - power)
    similarity = ((2 * product + c1) * (2 * covariance + c2)) / ((power + c1) * (variances + c2))
    return similarity.flatten(1).mean(1)


def energy(images: Images) -> PerImage:
    """The sum of the squares of each image, in double precision."""
    return images.square().flatten(1).sum(1, dtype=torch.float64)


def decibels(mean_squared_error: PerImage) -> PerImage:
    """The peak signal-to-noise ratio for a peak of 1."""
    return -10 * torch.log10(mean_squared_error)


def clipped(images: Images, targets: Images) -> tuple[Images, Images]:
    """Both scaled so that each target runs from 0 to 1, and the images clipped to that."""
    images, targets = to_target_range(images, targets)
    return images.clamp(0, 1), targets


def to_target_range(images: Images, targets: Images) -> tuple[Images, Images]:
    """Both, shifted and scaled so that each target runs from 0 to 1."""
    flat = targets.flatten(1)
    lowest, highest = (bound.reshape(-1, *[1] * (targets.ndim - 1)) for bound in (flat.amin(1), flat.amax(1)))
    return (images - lowest) / (highest - lowest), (targets - lowest) / (highest - lowest)
