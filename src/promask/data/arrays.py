"""Arrays in memory as data sets."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from promask.data.coils import usable_maps
from promask.data.sets import ArraySet
from promask.errors import InputError
from promask.files import NUMBERS, as_tensor
from promask.fourier import space_axes, to_image


def from_images(
    images: Any,
    labels: Any = None,
    subjects: Sequence[str] | None = None,
    volumes: bool = False,
    name: str = "the array",
    maps: Any = None,
) -> ArraySet:
    """A data set from images, real or complex: (H, W), (N, H, W) or (N, channel, H, W).

    With `volumes`, each of them has a further axis before H. Values keep their scale; precision becomes single.
    `maps` are coil sensitivities, (coil, *space) for all of them or (N, coil, *space).
    """
    images, alone = _stacked(images, volumes, name)
    if labels is not None:
        labels = _labels(labels, name)
        labels = labels[None] if alone else labels
    return ArraySet(images, name, labels, subjects, maps=None if maps is None else _maps(maps, images, name))


def from_kspace(
    kspace: Any,
    labels: Any = None,
    subjects: Sequence[str] | None = None,
    volumes: bool = False,
    name: str = "the array",
    maps: Any = None,
) -> ArraySet:
    """A data set from centred, fully sampled k-space: (H, W), (N, H, W) or (N, coil, H, W), complex."""
    stacked, alone = _stacked(kspace, volumes, name)
    if not stacked.is_complex():
        raise InputError(f"The k-space of {name} is not complex.")
    for index, sample in enumerate(stacked):
        if not torch.isfinite(sample).all():
            raise InputError(f"{name}, slice {index} holds NaN or infinite values: mend it or leave it out.")
    images = to_image(stacked, space_axes(stacked.ndim - 2))
    if labels is not None and alone:
        labels = _labels(labels, name)[None]
    return from_images(images, labels, subjects, volumes, name, maps)


def _stacked(values: Any, volumes: bool, name: str) -> tuple[torch.Tensor, bool]:
    """Samples as (N, channel, *space) in single precision, and whether it was one sample without an axis N."""
    values = _single(values, name)
    if not values.numel():
        raise InputError(f"{name} holds no images: its shape is {list(values.shape)}.")
    dimensions = 3 if volumes else 2
    if not dimensions <= values.ndim <= dimensions + 2:
        raise InputError(
            f"{name} has shape {list(values.shape)}, but images of {dimensions} axes are expected, alone or "
            f"stacked as (N, *space) or (N, channel, *space)."
        )
    alone = values.ndim == dimensions
    channels = values.shape[1] if values.ndim == dimensions + 2 else 1
    return values.reshape(1 if alone else len(values), channels, *values.shape[-dimensions:]), alone


def _single(values: Any, name: str) -> torch.Tensor:
    """Numbers in single precision."""
    if not isinstance(values, torch.Tensor):
        array = np.asarray(values)
        if array.dtype.kind not in NUMBERS:
            raise InputError(f"{name} holds {array.dtype} values, but numbers are expected.")
        values = as_tensor(array)
    return (
        values.detach()
        .cpu()
        .resolve_conj()
        .resolve_neg()
        .to(torch.complex64 if values.is_complex() else torch.float32)
    )


def _maps(maps: Any, images: torch.Tensor, name: str) -> torch.Tensor:
    """Coil maps for images (N, channel, *space); whether their shapes fit is seen later."""
    values, space = _single(maps, f"The coil maps of {name}"), tuple(images.shape[2:])
    if values.ndim not in (len(space) + 1, len(space) + 2) or not values.numel():
        raise InputError(
            f"The coil maps of {name} have shape {list(values.shape)}, but (coil, *space) or (N, coil, *space) is "
            f"expected."
        )
    if values.ndim == len(space) + 1:
        return usable_maps(values, values.shape[1:], name)
    return torch.stack([usable_maps(each, each.shape[1:], name) for each in values])


def _labels(labels: Any, name: str) -> torch.Tensor:
    array = labels.cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)
    if array.dtype.kind not in "buif" or not (array == np.round(array.astype(np.float64))).all():
        raise InputError(f"The labels of {name} must be whole numbers.")
    return as_tensor(array.astype(np.int64))
