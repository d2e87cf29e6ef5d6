"""How good a mask is: the paper's metrics on fully sampled data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from promask import metrics
from promask.data import OnFile, choose_part, load, prepared
from promask.errors import InputError
from promask.fourier import fft_order, space_axes, spectrum
from promask.reading import Reading
from promask.recon import zero_filled
from promask.types import AnyArray, Mask, SampleSet, Targets

CHUNK = 16
"""Images reconstructed at a time."""


@dataclass(frozen=True)
class Evaluation:
    """The metrics of every image, with the part of the data they belong to."""

    psnr: list[float]
    ssim: list[float]
    nmse: list[float]
    acceleration: float
    part: str

    def summary(self) -> dict[str, Any]:
        """Means over the images; None where a metric is not defined (SSIM of images below 7 pixels)."""
        count = len(self.psnr)
        means = {name: sum(getattr(self, name)) / count for name in ("psnr", "ssim", "nmse")}
        finite = {name: mean if math.isfinite(mean) else None for name, mean in means.items()}
        return {**finite, "acceleration": self.acceleration, "images": count, "part": self.part}


def evaluate(
    mask: Any, data: Any, part: str | None = None, on_file: OnFile | None = None, **settings: Any
) -> Evaluation:
    """Zero-filled reconstructions with a centred mask, (*space), against the fully sampled images.

    Held-out samples are used if the data set tells its subjects, and all of them otherwise; `part` chooses.
    Further settings are those of `Reading`, for files.
    """
    mask = torch.as_tensor(mask)
    whole = load(data, Reading(**{"volumes": mask.ndim == 3, **settings}))
    chosen, part = choose_part(whole, part, usual="test")
    mask = check_mask(mask, whole)
    chosen = prepared(chosen, on_file)
    psnr: list[float] = []
    ssim: list[float] = []
    nmse: list[float] = []
    for start in range(0, len(chosen), CHUNK):
        images, targets = reconstruct(mask, chosen, range(start, min(start + CHUNK, len(chosen))))
        psnr += metrics.psnr(images, targets).tolist()
        nmse += metrics.nmse(images, targets).tolist()
        fits = min(targets.shape[2:]) >= metrics.WINDOW
        ssim += metrics.ssim(images, targets).tolist() if fits else [math.nan] * len(targets)
    return Evaluation(psnr, ssim, nmse, acceleration=achieved_acceleration(mask, whole.geometry.extent), part=part)


def achieved_acceleration(mask: Mask, extent: Sequence[tuple[int, int]] = ()) -> float:
    """Locations over acquired locations; padding, outside the extent, is neither."""
    covered = mask[tuple(slice(*ends) for ends in extent)]
    return covered.numel() / int(covered.sum())


def reconstruct(mask: Mask, data: SampleSet, indices: range) -> tuple[Targets, Targets]:
    """Zero-filled magnitude images and their fully sampled targets, the part of them that is judged."""
    images = torch.stack([data[index].image for index in indices])
    spectra = spectrum(images, space_axes(mask.ndim))
    filled = zero_filled(spectra, fft_order(mask, mask.ndim), mask.ndim)
    return data.geometry.judged(filled).abs(), data.geometry.judged(images).abs()


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
