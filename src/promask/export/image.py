"""Images as files: of numbers, or as a picture."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Complex
from torch import Tensor

from promask.data.atomic import Array, check_writable, replace_file
from promask.errors import InputError
from promask.export.bart import write_pair

BRIGHT = 99.8
"""The percentile of the magnitude that is white in a picture."""


def _write_npy(image: Array, path: Path) -> None:
    with replace_file(path) as temporary, temporary.open("wb") as file:
        np.save(file, image)


def _write_npz(image: Array, path: Path) -> None:
    with replace_file(path) as temporary, temporary.open("wb") as file:
        np.savez(file, image=image)


def _write_mat(image: Array, path: Path) -> None:
    from scipy.io import savemat

    with replace_file(path) as temporary:
        savemat(temporary, {"image": image}, appendmat=False)


def _write_png(image: Array, path: Path) -> None:
    from PIL import Image

    magnitude = np.abs(image)
    white = np.percentile(magnitude, BRIGHT) or 1
    with replace_file(path) as temporary:
        Image.fromarray((np.clip(magnitude / white, 0, 1) * 255).astype(np.uint8)).save(temporary, format="PNG")


IMAGE_WRITERS: Mapping[str, Callable[[Array, Path], None]] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".mat": _write_mat,
    ".png": _write_png,
    ".cfl": lambda image, path: write_pair(image.T, path),
}
"""By the ending of the file."""


def check_image_file(path: str | Path) -> Path:
    """Refuse a file that `write_image` could not write, before any work is done.

    Args:
        path: The file.

    Returns:
        The same.
    """
    path = Path(path)
    if path.suffix.lower() not in IMAGE_WRITERS:
        raise InputError(f"Cannot write an image to {path}: let its name end with {', '.join(IMAGE_WRITERS)}.")
    if path.is_dir():
        raise InputError(f"{path} is a folder: choose a file for the image.")
    check_writable(path.parent)
    return path


def write_image(image: Complex[Tensor, "y x"], path: str | Path) -> Path:
    """Write an image: complex numbers (y, x), or (x, y) for BART; of a .png, the magnitude.

    Args:
        image: Complex.
        path: A .npy, .npz, .mat, .cfl (BART) or .png file.

    Returns:
        The file.
    """
    path = check_image_file(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        IMAGE_WRITERS[path.suffix.lower()](image.numpy(), path)
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error
    return path
