"""The images that a mask gives, beside the fully sampled ones that they are judged by."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from promask.data.axes import CONTRAST
from promask.data.device import CPU
from promask.data.hybrid import join_slices, largest_magnitude, slice_at
from promask.data.preprocess import collate, move
from promask.evaluation.conventions import ImagePairs, find_convention
from promask.losses import freeze_networks
from promask.operators.fourier import fft_order, magnitude
from promask.recon.base import Reconstruction, reconstruct_batch
from promask.recon.zero_filled import ZERO_FILLED
from promask.sampling.pattern import Pattern
from promask.types import AnyArray, AnyImages, Batch, Geometry, Images, Mask, Sample, SampleSet, Targets

CHUNK = 8
"""Images reconstructed at a time; with more of them, their intermediate results leave the cache."""
LARGEST_CHUNK = 2**22
"""The numbers of all coils that are reconstructed at a time: volumes come one by one."""


@torch.no_grad()
def reconstruct(
    mask: Mask, data: SampleSet, indices: range, recon: Reconstruction = ZERO_FILLED, device: torch.device = CPU
) -> tuple[Targets, Targets]:
    """Reconstructed magnitude images and their fully sampled targets, the part of them that is judged.

    They are on the device that they were computed on.
    """
    samples, along = (data[index] for index in indices), _slicing_axis(mask, data, recon)
    if along is None:
        images, targets = _reconstruct(mask, list(samples), data.geometry, recon, device)
    else:
        geometry = data.geometry.without(along)
        pairs = [_reconstruct_slices(mask, volume, along, geometry, recon, device) for volume in samples]
        images, targets = (torch.cat(each) for each in zip(*pairs, strict=True))
    return _judged(images, data), _judged(targets, data)


def _reconstruct(
    mask: Mask, samples: Sequence[Sample], geometry: Geometry, recon: Reconstruction, device: torch.device
) -> tuple[AnyImages, AnyImages]:
    """Reconstructed images, and what the reconstruction aims at, (batch, channel, *space)."""
    found = move(collate(samples, recon.uses_maps), device)
    reference = recon.reference(found.clean, found.maps)
    batch = Batch(found.spectra(geometry), reference, geometry, maps=found.maps, cut=found.cut)
    with freeze_networks(recon=recon):
        made = reconstruct_batch(recon, batch, mask_in_fft_order(mask, geometry).to(batch.spectra.real))
    return made, reference


def mask_in_fft_order(mask: Mask, geometry: Geometry) -> Mask:
    """A centred mask as reconstructions take it in the loop; rotations and frames have no centre.

    Args:
        mask: (*kspace), centred.
        geometry: Of the images.

    Returns:
        The mask in FFT order along the directions of Cartesian k-space.
    """
    dimensions = mask.ndim - geometry.indexes
    if geometry.trajectory is None:
        return fft_order(mask, dimensions)
    return torch.fft.ifftshift(mask, -2) if dimensions == 3 else mask  # kz


def _reconstruct_slices(
    mask: Mask, volume: Sample, along: int, geometry: Geometry, recon: Reconstruction, device: torch.device
) -> tuple[Images, Images]:
    """The same for a volume that is taken apart into slices along an axis: magnitudes, (1, channel, *space)."""
    plane, count = mask.select(along, 0), mask.shape[along]
    at_a_time, scale = _chunk_length(volume.image.shape[:1] + plane.shape), largest_magnitude(volume)
    pairs = []
    for start in range(0, count, at_a_time):
        positions = range(start, min(start + at_a_time, count))
        slices = [slice_at(volume, along, position, scale) for position in positions]
        pairs.append([each.abs().cpu() for each in _reconstruct(plane, slices, geometry, recon, device)])
    images, targets = (join_slices(each, along).to(device) for each in zip(*pairs, strict=True))
    return images, targets


def _slicing_axis(mask: Mask, data: SampleSet, recon: Reconstruction) -> int | None:
    """The axis along which volumes are reconstructed slice by slice: one along which the mask does not vary."""
    apart = getattr(recon, "slicewise", False) and data.geometry.trajectory is None
    if mask.ndim < 3 or not apart or data.geometry.indexed == CONTRAST:
        return None
    free = [axis for axis in range(mask.ndim) if not (mask == mask.narrow(axis, 0, 1)).all()]
    geometry = data.geometry
    if not set(free) - set(range(geometry.indexes)):
        return geometry.indexes
    return Pattern(tuple(mask.shape), tuple(free), readout=geometry.readout, indexed=geometry.indexed).slicing_axis


def full_images(
    data: SampleSet, indices: range, recon: Reconstruction = ZERO_FILLED, device: torch.device = CPU
) -> Targets:
    """Fully sampled magnitude images, as the reconstruction would have them: the part of them that is judged."""
    found = move(collate([data[index] for index in indices], recon.uses_maps), device)
    return _judged(recon.reference(found.clean, found.maps), data)


def images_with(
    mask: Mask | None,
    data: SampleSet,
    indices: range,
    recon: Reconstruction = ZERO_FILLED,
    device: torch.device = CPU,
) -> Targets:
    """Reconstructed magnitude images, or, without a mask, the fully sampled ones: the part that is judged."""
    if mask is None:
        return full_images(data, indices, recon, device)
    return reconstruct(mask, data, indices, recon, device)[0]


@dataclass(frozen=True)
class ReconstructedImage:
    """One image with a mask, (1, channel, *space), its fully sampled target, and its quality."""

    image: Targets
    target: Targets
    psnr: float
    ssim: float
    """NaN for images that are too small."""


def reconstruct_one(
    mask: Mask,
    data: SampleSet,
    index: int,
    recon: Reconstruction = ZERO_FILLED,
    convention: str = "paper",
    device: torch.device = CPU,
) -> ReconstructedImage:
    """Reconstruct one image of a data set, and measure it as `evaluate` would."""
    image, target = (each.cpu() for each in reconstruct(mask, data, range(index, index + 1), recon, device))
    alone = ImagePairs(
        [range(1)], ["alone"], lambda _: target, lambda _: (image, target), indexed=data.geometry.indexed
    )
    quality = find_convention(convention).measure(alone)
    return ReconstructedImage(image, target, quality.psnr[0], quality.ssim[0])


def frozen_quality(
    data: SampleSet,
    convention: str = "paper",
    recon: Reconstruction = ZERO_FILLED,
    device: torch.device = CPU,
) -> dict[str, list[float]]:
    """The metrics of the fully sampled temporal mean of every series, as if it were a reconstruction.

    Args:
        data: Series of frames.
        convention: `paper` or `fastmri`.
        recon: What the coils are combined by.
        device: Where PyTorch computes.

    Returns:
        By the name of the metric, a value for each series.
    """

    def both(chunk: range) -> tuple[Targets, Targets]:
        targets = full_images(data, chunk, recon, device)
        return targets, targets

    numbers = list(map(str, range(len(data))))
    pairs = ImagePairs(chunks(data), numbers, lambda chunk: both(chunk)[1], both, data.geometry.indexed)
    return vars(find_convention(convention).measure(pairs).temporal.frozen)


def chunks(data: SampleSet) -> list[range]:
    """The numbers of the images of a data set, so many at a time as are reconstructed together."""
    indices, length = range(len(data)), _chunk_length(data.shape)
    return [indices[start : start + length] for start in indices[::length]]


def _chunk_length(shape: Sequence[int]) -> int:
    return max(1, min(CHUNK, LARGEST_CHUNK // math.prod(shape)))


def _judged(images: AnyArray, data: SampleSet) -> Targets:
    part = data.geometry.crop(images)
    return magnitude(part) if part.is_complex() else part.abs()
