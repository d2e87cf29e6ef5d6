"""Image quality in the paper's convention, and the structural similarity that is also a loss.

Each image is scaled by the range of its fully sampled target, so that the target runs from 0 to 1, and the
reconstruction is clipped to that range. SSIM has a 7 x 7 Gaussian window with sigma 1, over the positions where
the window fits, and is averaged over channels.
"""

import functools

import torch
from jaxtyping import Float
from torch import Tensor

from promask.errors import InputError
from promask.types import Images

WINDOW = 7
SIGMA = 1.0

PerImage = Float[Tensor, " batch"]


def psnr(images: Images, targets: Images) -> PerImage:
    """Peak signal-to-noise ratio in dB of each image."""
    images, targets = to_target_range(images, targets)
    return -10 * torch.log10((images.clamp(0, 1) - targets).square().flatten(1).mean(1))


def nmse(images: Images, targets: Images) -> PerImage:
    """Squared error of each image, relative to the target's energy."""
    images, targets = to_target_range(images, targets)
    return (images.clamp(0, 1) - targets).square().flatten(1).sum(1) / targets.square().flatten(1).sum(1)


def ssim(images: Images, targets: Images) -> PerImage:
    """Structural similarity of each image, 1 for an image equal to its target."""
    images, targets = to_target_range(images, targets)
    return structural_similarity(images.clamp(0, 1), targets)


def structural_similarity(images: Images, targets: Images) -> PerImage:
    """Structural similarity of images whose targets run from 0 to 1, without clipping; differentiable."""
    if min(targets.shape[2:]) < WINDOW:
        raise InputError(
            f"SSIM needs at least {WINDOW} pixels along each axis, but the images are {list(targets.shape[2:])}."
        )
    c1, c2 = 0.01**2, 0.03**2
    mean_x, mean_y = _windowed_mean(images), _windowed_mean(targets)
    variance_x = _windowed_mean(images.square()) - mean_x.square()
    variance_y = _windowed_mean(targets.square()) - mean_y.square()
    covariance = _windowed_mean(images * targets) - mean_x * mean_y
    similarity = ((2 * mean_x * mean_y + c1) * (2 * covariance + c2)) / (
        (mean_x.square() + mean_y.square() + c1) * (variance_x + variance_y + c2)
    )
    return similarity.flatten(1).mean(1)


def to_target_range(images: Images, targets: Images) -> tuple[Images, Images]:
    """Both, shifted and scaled so that each target runs from 0 to 1."""
    flat = targets.flatten(1)
    lowest, highest = (bound.reshape(-1, *[1] * (targets.ndim - 1)) for bound in (flat.amin(1), flat.amax(1)))
    return (images - lowest) / (highest - lowest), (targets - lowest) / (highest - lowest)


def _windowed_mean(images: Images) -> Float[Tensor, "batch channel *valid"]:
    # Shifted sums, axis by axis: an order of magnitude faster here than a depth-wise convolution and its
    # backward pass, and the same code for slices and volumes.
    offsets = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    window = torch.exp(-offsets.square() / (2 * SIGMA**2))
    weights = (window / window.sum()).tolist()
    for axis in range(2, images.ndim):
        length = images.shape[axis] - WINDOW + 1
        shifted = (weight * images.narrow(axis, start, length) for start, weight in enumerate(weights))
        images = functools.reduce(torch.add, shifted)
    return images
