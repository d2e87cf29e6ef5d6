"""Real images: the MNI152 T1 brain that nilearn's wheel carries, and a slice of a head that matplotlib carries."""

import importlib.util
from pathlib import Path
from typing import IO, cast

import numpy as np
import torch

from promask.data.sample_sets import ArraySet
from promask.errors import InputError

CROP = (slice(2, 194), slice(5, 229))
"""192 x 224 pixels of 1 mm around the brain: sizes that the Fourier transform likes."""
SLICES = slice(20, 140, 2)
BLOCK = 5
"""Slices per block; a block of neighbours is never split."""


def brain(volumes: bool = False, phase: bool = False) -> ArraySet:
    """60 axial slices (N, 1, 224, 192) at 1 mm, every other one; labels 1 grey matter, 2 white matter.

    With `volumes`: one volume (1, 1, 60, 112, 96) at 2 mm.
    """
    if phase:
        raise InputError("The built-in brain has no phase: use cardiac+phase or knee+phase.")
    t1, grey, white = (
        _read(f"mni_icbm152_{name}_tal_nlin_sym_09a_converted.nii.gz") for name in ("t1", "gm", "wm")
    )
    images = _upright(t1) / 255.0
    probabilities = np.stack([np.full_like(images, 127.0), _upright(grey), _upright(white)])
    labels = probabilities.argmax(0)
    if volumes:
        images = images.reshape(60, 112, 2, 96, 2).mean((2, 4))
        labels = labels[:, ::2, ::2]
        return ArraySet(torch.from_numpy(images[None, None]), "brain", torch.from_numpy(labels[None]))
    blocks = [f"block-{index // BLOCK:02d}" for index in range(len(images))]
    return ArraySet(torch.from_numpy(images[:, None]), "brain", torch.from_numpy(labels), blocks)


def _upright(volume: np.ndarray) -> np.ndarray:
    """(x, y, z) of the file -> (slice, rows from front to back, columns)."""
    return np.ascontiguousarray(volume[(*CROP, SLICES)].transpose(2, 1, 0)[:, ::-1].astype(np.float32))


def _read(name: str) -> np.ndarray:
    package = importlib.util.find_spec("nilearn")
    if package is None or package.origin is None or importlib.util.find_spec("nibabel") is None:
        raise InputError("The built-in brain comes with nilearn: pip install 'promask[brain]'.")
    import nibabel

    path = Path(package.origin).parent / "datasets" / "data" / name
    if not path.exists():
        raise InputError("The installed nilearn does not carry the MNI152 volumes: install nilearn 0.10 or newer.")
    return np.asarray(nibabel.Nifti1Image.from_filename(path).dataobj)


def head(volumes: bool = False, phase: bool = False) -> ArraySet:
    """A sagittal slice (1, 1, 256, 256), without labels."""
    if volumes or phase:
        raise InputError("The built-in head is a single slice of magnitudes: it has no volume and no phase.")
    from matplotlib.cbook import get_sample_data

    file = cast(IO[bytes], get_sample_data("s1045.ima.gz"))
    with file:
        values = np.frombuffer(file.read(), dtype=">u2").astype(np.float32).reshape(256, 256)
    return ArraySet(torch.from_numpy(values / values.max())[None, None], "head")
