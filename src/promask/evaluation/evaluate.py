"""How good a mask is, measured on fully sampled data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from promask.data.file_set import OnFile
from promask.data.preprocess import collate, reconstructed_channels
from promask.data.reading import Reading
from promask.data.sources import load, read_part
from promask.errors import InputError
from promask.evaluation.conventions import Measured, find_convention
from promask.losses import freeze_networks
from promask.losses.segmentation import Segmentation, freeze, make_segmentation
from promask.operators.fourier import fft_order, magnitude, space_axes, spectrum
from promask.recon import make_reconstruction
from promask.recon.base import Reconstruction, reconstruct_spectra
from promask.recon.zero_filled import ZERO_FILLED, ZeroFilled
from promask.segmentation.network import SegmentationNetwork
from promask.segmentation.overlap import Overlap, overlap_of
from promask.types import AnyArray, Logits, Mask, SampleSet, Targets

CHUNK = 8
"""Images reconstructed at a time; with more of them, their intermediate results leave the cache."""


@dataclass(frozen=True)
class Segmented:
    """How well a network finds each class in every image: with the mask, and fully sampled."""

    classes: tuple[str, ...]
    with_mask: Overlap
    full: Overlap

    def summary(self) -> dict[str, Any]:
        """Means over the classes of an image, and then over the images; and those of each class."""
        result: dict[str, Any] = {}
        by_class: dict[str, dict[str, float | None]] = {name: {} for name in self.classes}
        for metric in ("dice", "iou"):
            for name, found in ((metric, self.with_mask), (f"{metric}_full", self.full)):
                values: torch.Tensor = getattr(found, metric)
                result[name] = _known(values.nanmean(1).nanmean())
                for of_class, mean in zip(by_class.values(), values.nanmean(0), strict=True):
                    of_class[name] = _known(mean)
            full = result[f"{metric}_full"]
            result[f"{metric}_kept"] = result[metric] / full if full else None
        return {**result, "classes": by_class}


@dataclass(frozen=True)
class Evaluation:
    """The metrics of every image or volume, with the part of the data they belong to."""

    psnr: list[float]
    ssim: list[float]
    nmse: list[float]
    acceleration: float
    images: int
    part: str
    convention: str
    of: str
    """What each value of a metric belongs to: `image` or `volume`."""
    segmented: Segmented | None = None
    """What a network finds, if there is one."""
    recon: str = ZeroFilled.name
    """How the images were reconstructed."""

    def summary(self) -> dict[str, Any]:
        """Means over images or volumes; None where a metric is not defined (SSIM of images below 7 pixels)."""
        count = len(self.psnr)
        means = {name: sum(getattr(self, name)) / count for name in ("psnr", "ssim", "nmse")}
        finite = {name: mean if math.isfinite(mean) else None for name, mean in means.items()}
        about = {name: getattr(self, name) for name in ("acceleration", "images", "part", "convention", "recon")}
        volumes = {"volumes": count} if self.of == "volume" else {}
        return {**finite, **(self.segmented.summary() if self.segmented else {}), **about, **volumes}


def evaluate(
    mask: Any,
    data: Any,
    part: str | None = None,
    on_file: OnFile | None = None,
    convention: str = "paper",
    network: str | Path | SegmentationNetwork | Segmentation | None = None,
    recon: str | Reconstruction = ZeroFilled.name,
    iterations: int | None = None,
    regularisation: float | None = None,
    **settings: Any,
) -> Evaluation:
    """Reconstructions with a centred mask, (*space), against the fully sampled images.

    Held-out samples are used if the data set tells its subjects, and all of them otherwise; `part` chooses.
    The convention, `paper` or `fastmri`, says how quality is measured; a volume of fastMRI's is here all slices of
    a subject, or a sample with three axes. With a network, a file or an object, the summary also has the Dice and
    the IoU of what it finds in the reconstructions, and the share of what it finds in the fully sampled images.
    `recon` is how images are reconstructed: a name, as for `learn`, or an object of `promask.recon`. Further
    settings are those of `Reading`, for files.
    """
    rule = find_convention(convention)
    recon = make_reconstruction(recon, iterations, regularisation)
    task = None if network is None else measurable(network)
    mask = torch.as_tensor(mask)
    whole = load(data, Reading(**{"volumes": mask.ndim == 3, **settings}))
    mask = check_mask(mask, whole)
    _, chosen, part = read_part(whole, part=part, default="test", recon=recon, on_file=on_file)
    if task is not None:
        task.check(chosen, reconstructed_channels(chosen, recon))
    quality = rule.measure(
        Measured(
            chunks=_chunks(chosen),
            volumes=chosen.groups if mask.ndim == 2 else list(map(str, range(len(chosen)))),
            targets=lambda chunk: full_images(chosen, chunk, recon),
            pairs=lambda chunk: reconstruct(mask, chosen, chunk, recon),
        )
    )
    return Evaluation(
        quality.psnr,
        quality.ssim,
        quality.nmse,
        acceleration=achieved_acceleration(mask, whole.geometry.extent),
        images=len(chosen),
        part=part,
        convention=convention,
        of=rule.of,
        segmented=None if task is None else _segmented(task, chosen, mask, recon),
        recon=recon.name,
    )


def achieved_acceleration(mask: Mask, extent: Sequence[tuple[int, int]] = ()) -> float:
    """Locations over acquired locations; padding, outside the extent, is neither."""
    covered = mask[tuple(slice(*ends) for ends in extent)]
    return covered.numel() / int(covered.sum())


@torch.no_grad()
def reconstruct(
    mask: Mask, data: SampleSet, indices: range, recon: Reconstruction = ZERO_FILLED
) -> tuple[Targets, Targets]:
    """Reconstructed magnitude images and their fully sampled targets, the part of them that is judged."""
    images, clean, maps = collate([data[index] for index in indices], recon.uses_maps)
    weights = fft_order(mask, mask.ndim).to(images.real.dtype)
    with freeze_networks(recon=recon):
        made = reconstruct_spectra(recon, spectrum(images, space_axes(mask.ndim)), weights, maps)
    return _judged(made, data), _judged(recon.reference(clean, maps), data)


def full_images(data: SampleSet, indices: range, recon: Reconstruction = ZERO_FILLED) -> Targets:
    """Fully sampled magnitude images, as the reconstruction would have them: the part of them that is judged."""
    _, clean, maps = collate([data[index] for index in indices], recon.uses_maps)
    return _judged(recon.reference(clean, maps), data)


def measurable(network: str | Path | SegmentationNetwork | Segmentation) -> Segmentation:
    """The task of a network, which is a file or an object; its classes must be known."""
    task = make_segmentation(network)
    if task.classes is None:
        raise InputError("To be measured, a network needs classes: give Segmentation the classes of its outputs.")
    return task


def segmented(
    task: Segmentation, data: SampleSet, mask: Mask | None, recon: Reconstruction = ZERO_FILLED
) -> Overlap:
    """What a network finds in reconstructed magnitude images, or, without a mask, in the fully sampled ones."""
    classes = task.classes
    assert classes is not None
    found = []
    for indices in _chunks(data):
        labels = torch.stack([data.geometry.crop(classes.label(data[index])) for index in indices])
        found.append(overlap_of(outputs(task, seen(mask, data, indices, recon)), labels, classes))
    return Overlap(torch.cat([each.dice for each in found]), torch.cat([each.iou for each in found]))


def seen(mask: Mask | None, data: SampleSet, indices: range, recon: Reconstruction = ZERO_FILLED) -> Targets:
    """Reconstructed magnitude images, or, without a mask, the fully sampled ones: the part that is judged."""
    return full_images(data, indices, recon) if mask is None else reconstruct(mask, data, indices, recon)[0]


def outputs(task: Segmentation, images: Targets) -> Logits:
    """What the network of a task makes of magnitude images, in evaluation mode; it is as it was afterwards."""
    with freeze(task.network), torch.no_grad():
        return task.outputs(images).cpu()


def check_mask(values: AnyArray, data: SampleSet) -> Mask:
    """A mask for the k-space of a data set, as booleans; lines broadcast along the other axes."""
    space = data.shape[1:]
    if values.dtype != torch.bool:
        if not ((values == 0) | (values == 1)).all():
            raise InputError("A mask must hold only 0 and 1, or false and true.")
        values = values == 1
    try:
        values = values.expand(space)
    except RuntimeError as error:
        raise InputError(
            f"The mask has shape {list(values.shape)}, but the k-space of the data has shape {list(space)}: "
            f"promask export --shape carries it there."
        ) from error
    if not values[tuple(slice(*ends) for ends in data.geometry.extent)].any():
        raise InputError("The mask acquires nothing.")
    return values


def _segmented(task: Segmentation, data: SampleSet, mask: Mask, recon: Reconstruction) -> Segmented:
    assert task.classes is not None
    with_mask, full = (segmented(task, data, each, recon) for each in (mask, None))
    return Segmented(task.classes.names, with_mask, full)


def _chunks(data: SampleSet) -> list[range]:
    indices = range(len(data))
    return [indices[start : start + CHUNK] for start in indices[::CHUNK]]


def _known(mean: torch.Tensor) -> float | None:
    return float(mean) if mean.isfinite() else None


def _judged(images: AnyArray, data: SampleSet) -> Targets:
    part = data.geometry.crop(images)
    return magnitude(part) if part.is_complex() else part.abs()
