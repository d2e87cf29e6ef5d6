"""How good a mask is, measured on fully sampled data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from promask.conventions import Measured, find_convention
from promask.data import OnFile, choose_part, load, prepared
from promask.errors import InputError
from promask.fourier import fft_order, space_axes, spectrum
from promask.magnitude import magnitude
from promask.reading import Reading
from promask.recon import zero_filled
from promask.types import AnyArray, Mask, SampleSet, Targets

CHUNK = 8
"""Images reconstructed at a time; with more of them, their intermediate results leave the cache."""


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

    def summary(self) -> dict[str, Any]:
        """Means over images or volumes; None where a metric is not defined (SSIM of images below 7 pixels)."""
        count = len(self.psnr)
        means = {name: sum(getattr(self, name)) / count for name in ("psnr", "ssim", "nmse")}
        finite = {name: mean if math.isfinite(mean) else None for name, mean in means.items()}
        about = {name: getattr(self, name) for name in ("acceleration", "images", "part", "convention")}
        return {**finite, **about, **({"volumes": count} if self.of == "volume" else {})}


def evaluate(
    mask: Any,
    data: Any,
    part: str | None = None,
    on_file: OnFile | None = None,
    convention: str = "paper",
    **settings: Any,
) -> Evaluation:
    """Zero-filled reconstructions with a centred mask, (*space), against the fully sampled images.

    Held-out samples are used if the data set tells its subjects, and all of them otherwise; `part` chooses.
    The convention, `paper` or `fastmri`, says how quality is measured; a volume of fastMRI's is here all slices of
    a subject, or a sample with three axes. Further settings are those of `Reading`, for files.
    """
    rule = find_convention(convention)
    mask = torch.as_tensor(mask)
    whole = load(data, Reading(**{"volumes": mask.ndim == 3, **settings}))
    chosen, part = choose_part(whole, part, usual="test")
    mask = check_mask(mask, whole)
    chosen = prepared(chosen, on_file)
    indices = range(len(chosen))
    quality = rule.measure(
        Measured(
            chunks=[indices[start : start + CHUNK] for start in indices[::CHUNK]],
            volumes=chosen.groups if mask.ndim == 2 else list(map(str, indices)),
            targets=lambda chunk: _judged(_images(chosen, chunk), chosen),
            pairs=lambda chunk: reconstruct(mask, chosen, chunk),
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
    )


def achieved_acceleration(mask: Mask, extent: Sequence[tuple[int, int]] = ()) -> float:
    """Locations over acquired locations; padding, outside the extent, is neither."""
    covered = mask[tuple(slice(*ends) for ends in extent)]
    return covered.numel() / int(covered.sum())


def reconstruct(mask: Mask, data: SampleSet, indices: range) -> tuple[Targets, Targets]:
    """Zero-filled magnitude images and their fully sampled targets, the part of them that is judged."""
    images = _images(data, indices)
    spectra = spectrum(images, space_axes(mask.ndim))
    filled = zero_filled(spectra, fft_order(mask, mask.ndim), mask.ndim)
    return _judged(filled, data), _judged(images, data)


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


def _images(data: SampleSet, indices: range) -> AnyArray:
    return torch.stack([data[index].image for index in indices])


def _judged(images: AnyArray, data: SampleSet) -> Targets:
    part = data.geometry.judged(images)
    return magnitude(part) if part.is_complex() else part.abs()
