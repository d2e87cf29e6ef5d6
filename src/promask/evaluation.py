"""How good a mask is: the paper's metrics on fully sampled data."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from promask import metrics
from promask.data import choose_part, load
from promask.errors import InputError
from promask.files import read_array
from promask.fourier import fft_order, space_axes, spectrum
from promask.recon import zero_filled
from promask.types import AnyArray, Images, Mask, SampleSet

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


def evaluate(mask: Any, data: Any, part: str | None = None) -> Evaluation:
    """Zero-filled reconstructions with a centred mask, (*space), against the fully sampled images.

    Held-out samples are used if the data set tells its subjects, and all of them otherwise; `part` chooses.
    """
    mask = torch.as_tensor(mask)
    whole = load(data, volumes=mask.ndim == 3)
    chosen, part = choose_part(whole, part, usual="test")
    mask = check_mask(mask, whole)
    psnr: list[float] = []
    ssim: list[float] = []
    nmse: list[float] = []
    for start in range(0, len(chosen), CHUNK):
        images, targets = reconstruct(mask, chosen, range(start, min(start + CHUNK, len(chosen))))
        psnr += metrics.psnr(images, targets).tolist()
        nmse += metrics.nmse(images, targets).tolist()
        fits = min(targets.shape[2:]) >= metrics.WINDOW
        ssim += metrics.ssim(images, targets).tolist() if fits else [math.nan] * len(targets)
    return Evaluation(psnr, ssim, nmse, acceleration=mask.numel() / int(mask.sum()), part=part)


def reconstruct(mask: Mask, data: SampleSet, indices: range) -> tuple[Images, Images]:
    """Zero-filled magnitude images and their fully sampled targets, (batch, channel, *space) each."""
    images = torch.stack([data[index].image for index in indices])
    spectra = spectrum(images, space_axes(mask.ndim))
    return zero_filled(spectra, fft_order(mask, mask.ndim), mask.ndim).abs(), images.abs()


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
            f"The mask has shape {list(values.shape)}, but the k-space of the data has shape {list(space)}."
        ) from error
    if not values.any():
        raise InputError("The mask acquires nothing.")
    return values


def read_mask(path: Path) -> AnyArray:
    """The values of a mask in a run folder or a .npy file, centred; `check_mask` makes them a mask."""
    file = path / "mask.npy" if path.is_dir() else path
    if not file.exists():
        raise InputError(f"{path} is neither a run folder nor a mask file.")
    if file.suffix != ".npy":
        raise InputError(f"{file} is not a mask file: promask reads masks from .npy files and run folders.")
    return read_array(file, "buif", "a mask")
