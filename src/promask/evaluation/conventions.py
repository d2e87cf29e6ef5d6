"""The conventions in which image quality is measured. A new one is one function and one line in the table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from promask.errors import InputError
from promask.losses import metrics
from promask.losses.metrics import GAUSSIAN, UNIFORM, PerImage, Window
from promask.types import Images


@dataclass(frozen=True)
class Measured:
    """The images that are measured, which are made a chunk at a time."""

    chunks: Sequence[range]
    """All of them, in order."""
    volumes: Sequence[str]
    """The name of the volume of each image; those of a volume need not be neighbours."""
    targets: Callable[[range], Images]
    """The fully sampled magnitude images of a chunk."""
    pairs: Callable[[range], tuple[Images, Images]]
    """The reconstructed magnitude images of a chunk, and its targets."""


@dataclass(frozen=True)
class Quality:
    """The metrics of every image or volume; SSIM is NaN where the window does not fit."""

    psnr: list[float]
    ssim: list[float]
    nmse: list[float]


@dataclass(frozen=True)
class Convention:
    """How quality is measured, and how that is told."""

    measure: Callable[[Measured], Quality]
    of: str
    """What each value belongs to: `image` or `volume`."""
    sentence: str
    """To be printed beside the numbers."""


def paper(measured: Measured) -> Quality:
    """Each image by itself."""
    quality = Quality([], [], [])
    for chunk in measured.chunks:
        images, targets = metrics.clipped(*measured.pairs(chunk))
        error = metrics.energy(images - targets)
        quality.psnr.extend(metrics.decibels(error / targets[0].numel()).tolist())
        quality.ssim.extend(_similarity(images, targets, GAUSSIAN).tolist())
        quality.nmse.extend((error / metrics.energy(targets)).tolist())
    return quality


def fastmri(measured: Measured) -> Quality:
    """Each volume by itself, relative to the maximum of its target."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(measured.volumes))}
    volume_of = torch.tensor([numbers[name] for name in measured.volumes])
    highest = torch.zeros(len(numbers))
    for chunk in measured.chunks:
        volumes = volume_of[chunk.start : chunk.stop]
        highest.scatter_reduce_(0, volumes, measured.targets(chunk).flatten(1).amax(1), "amax")

    error, energy, similarity = torch.zeros(3, len(numbers), dtype=torch.float64)
    for chunk in measured.chunks:
        volumes = volume_of[chunk.start : chunk.stop]
        images, targets = measured.pairs(chunk)
        scale = highest[volumes].reshape(-1, *[1] * (targets.ndim - 1))
        images, targets = images / scale, targets / scale
        error.index_add_(0, volumes, metrics.energy(images - targets) / targets[0].numel())
        energy.index_add_(0, volumes, metrics.energy(targets) / targets[0].numel())
        # Slices of a sample that is a volume are averaged over like channels.
        slices = _similarity(images.flatten(1, -3), targets.flatten(1, -3), UNIFORM)
        similarity.index_add_(0, volumes, slices.double())
    count = volume_of.bincount()
    return Quality(
        psnr=metrics.decibels(error / count).tolist(),
        ssim=(similarity / count).tolist(),
        nmse=(error / energy).tolist(),
    )


CONVENTIONS: Mapping[str, Convention] = {
    "paper": Convention(
        paper,
        of="image",
        sentence="Each image is scaled by the range of its target and clipped to it; SSIM has a Gaussian "
        "window of 7 pixels along each axis.",
    ),
    "fastmri": Convention(
        fastmri,
        of="volume",
        sentence="As in fastMRI, each volume is measured as a whole, relative to the maximum of its target, and "
        "nothing is clipped; SSIM is that of its slices, with a 7 x 7 uniform window.",
    ),
}


def find_convention(name: str) -> Convention:
    """A convention of the table."""
    if name not in CONVENTIONS:
        raise InputError(f"Unknown convention {name!r}: choose one of {', '.join(CONVENTIONS)}.")
    return CONVENTIONS[name]


def _similarity(images: Images, targets: Images, window: Window) -> PerImage:
    if not window.fits(targets):
        return torch.full((len(targets),), torch.nan)
    return metrics.structural_similarity(images, targets, window)
