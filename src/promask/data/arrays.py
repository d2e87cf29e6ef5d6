"""Arrays in memory and in NumPy files as data sets."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from promask.data.sets import ArraySet
from promask.errors import InputError
from promask.fourier import space_axes, to_image

Array = npt.NDArray[Any]


def from_images(
    images: Any,
    labels: Any = None,
    subjects: Sequence[str] | None = None,
    volumes: bool = False,
    name: str = "the array",
) -> ArraySet:
    """A data set from images, real or complex: (H, W), (N, H, W) or (N, channel, H, W).

    With `volumes`, each of them has a further axis before H. Values keep their scale; precision becomes single.
    """
    images = _single_precision(images, name)
    if not images.numel():
        raise InputError(f"{name} holds no images: its shape is {list(images.shape)}.")
    dimensions = 3 if volumes else 2
    if not dimensions <= images.ndim <= dimensions + 2:
        raise InputError(
            f"{name} has shape {list(images.shape)}, but images of {dimensions} axes are expected, alone or "
            f"stacked as (N, *space) or (N, channel, *space)."
        )
    alone = images.ndim == dimensions
    if images.ndim < dimensions + 2:
        images = images.reshape(-1 if not alone else 1, 1, *images.shape[-dimensions:])
    if labels is not None:
        labels = torch.as_tensor(np.asarray(labels).astype(np.int64))
        labels = labels[None] if alone else labels
    return ArraySet(images, name, labels, subjects)


def from_kspace(
    kspace: Any,
    labels: Any = None,
    subjects: Sequence[str] | None = None,
    volumes: bool = False,
    name: str = "the array",
) -> ArraySet:
    """A data set from centred, fully sampled k-space: (H, W), (N, H, W) or (N, coil, H, W), complex."""
    kspace = _single_precision(kspace, name)
    if not kspace.is_complex():
        raise InputError(f"The k-space of {name} is not complex.")
    if not torch.isfinite(kspace).all():
        raise InputError(f"The k-space of {name}{_first_bad(kspace)} holds NaN or infinite values.")
    dimensions = 3 if volumes else 2
    return from_images(to_image(kspace, space_axes(dimensions)), labels, subjects, volumes, name)


def read_npy(path: Path, volumes: bool) -> ArraySet:
    """Real images in a .npy file."""
    images = read_numpy(path)
    if isinstance(images, dict):
        raise InputError(f"{path} is an archive of arrays: give it the ending .npz.")
    if np.iscomplexobj(images):
        raise InputError(
            f"{path} is complex and does not say what it holds: save it in a .npz file, as `kspace` or as `image`."
        )
    return from_images(images, volumes=volumes, name=str(path))


def read_npz(path: Path, volumes: bool) -> ArraySet:
    """Images (`image`) or centred k-space (`kspace`) in a .npz file, with `label`, `subject` or `slice_id`."""
    arrays = read_numpy(path)
    if not isinstance(arrays, dict):
        raise InputError(f"{path} is a single array: give it the ending .npy.")
    build = from_images if "image" in arrays else from_kspace
    content = arrays.get("image", arrays.get("kspace"))
    if content is None:
        found = ", ".join(arrays) or "nothing"
        raise InputError(f"{path} holds neither `image` nor `kspace`, but {found}.")
    return build(content, arrays.get("label"), _subjects(arrays), volumes, str(path))


def read_numpy(path: Path) -> Array | dict[str, Array]:
    """The array of a .npy file or the named arrays of a .npz file; never anything pickled."""
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return content
            return {name: content[name] for name in content.files}
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path} is not a NumPy file that can be read: it is damaged or holds objects."
        ) from error


def _subjects(arrays: dict[str, Array]) -> list[str] | None:
    if "subject" in arrays:
        return [str(name) for name in arrays["subject"].reshape(-1)]
    if "slice_id" in arrays:
        return [str(name).split("_")[0] for name in arrays["slice_id"].reshape(-1)]
    return None


def _single_precision(values: Any, name: str) -> torch.Tensor:
    if isinstance(values, torch.Tensor):
        return values.detach().cpu().to(torch.complex64 if values.is_complex() else torch.float32)
    array = np.asarray(values)
    if array.dtype.kind not in "buifc":
        raise InputError(f"{name} holds {array.dtype} values, but numbers are expected.")
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused by name
        return torch.from_numpy(array.astype(np.complex64 if array.dtype.kind == "c" else np.float32))


def _first_bad(kspace: torch.Tensor) -> str:
    if kspace.ndim <= 2:
        return ""
    bad = ~torch.isfinite(kspace).flatten(1).all(1)
    return f", slice {int(bad.nonzero()[0])},"
