"""MATLAB's files, in MATLAB's order: (H, W), (H, W, N) or (H, W, channel, N)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from promask.data.atomic import Array
from promask.data.readers.arrays import LazyArray, of_array, stack_of_arrays
from promask.data.readers.hdf5 import arrays_of, opened
from promask.data.readers.matlab_v5 import HEADER, Variable, is_version_5, variables_of
from promask.data.reading import Reading
from promask.data.sample_file import SampleFile
from promask.data.sandbox import unquoted
from promask.errors import InputError

if TYPE_CHECKING:
    import h5py

NAMES = ("subject", "slice_id")
"""Lists, in which the order of the axes does not matter."""
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
USER_BLOCK = 512
"""Bytes of text that MATLAB puts before the HDF5 content."""


def describe_mat(path: Path, reading: Reading) -> SampleFile:
    """Variables `image` or `kspace`, with `label` and `subject`; version 5 to 7, or 7.3, which is HDF5."""
    return stack_of_arrays(arrays_of_mat(path), path, reading)


def arrays_of_mat(path: Path) -> dict[str, LazyArray]:
    """The variables of a file by name, in our order of axes."""
    return _version_7_3(path) if is_hdf5(path) else _version_5(path)


def is_hdf5(path: Path) -> bool:
    """Whether a MATLAB file is of version 7.3."""
    try:
        with path.open("rb") as file:
            start = file.read(USER_BLOCK + len(HDF5_SIGNATURE))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    return HDF5_SIGNATURE in (start[: len(HDF5_SIGNATURE)], start[USER_BLOCK:])


def variables_of_mat(path: Path) -> dict[str, Variable]:
    """The variables of a file that is not HDF5."""
    with damage(path):
        with path.open("rb") as file:
            start = file.read(HEADER)
        return variables_of(path) if is_version_5(start) else _version_4(path, start)


def _version_4(path: Path, start: bytes) -> dict[str, Variable]:
    """The matrices of a file as MATLAB wrote them before 1996."""
    import scipy.io

    if 0 not in start[:4]:  # SciPy would take it for another version
        raise ValueError("it is of no version")

    def whole(name: str) -> Array:
        with damage(path):
            return np.asarray(scipy.io.loadmat(path, variable_names=[name])[name])

    variables: dict[str, Any] = scipy.io.loadmat(path)
    return {
        name: Variable(value.shape, value.dtype, partial(whole, name))
        for name, value in variables.items()
        if isinstance(value, np.ndarray)
    }


def _version_5(path: Path) -> dict[str, LazyArray]:
    found = variables_of_mat(path)
    return {name: _in_our_order(_lazy(path, variable), name) for name, variable in found.items()}


def _lazy(path: Path, variable: Variable) -> LazyArray:
    """A variable with its axes reversed, as they lie in the file; it is read when it is needed."""

    def whole() -> Array:
        with damage(path):
            return variable.whole().T

    def rows(indices: Sequence[int]) -> Iterator[Array]:
        values = whole()
        return (values[index] for index in indices)

    return LazyArray(variable.shape[::-1], variable.dtype, rows, whole)


def _version_7_3(path: Path) -> dict[str, LazyArray]:
    arrays = {name: _in_our_order(array, name) for name, array in arrays_of(path).items()}
    with opened(path, *NAMES) as file:
        texts = {name: _texts(file, name) for name in NAMES if name in arrays}
    return arrays | {name: of_array(np.array(text)) for name, text in texts.items() if text is not None}


def _texts(file: "h5py.File", name: str) -> list[str] | None:
    """The texts of a matrix of characters, a row each, or of a cell, which refers to such matrices."""
    kind = file[name].attrs.get("MATLAB_class")
    if kind == b"char":
        return ["".join(map(chr, row)) for row in np.atleast_2d(file[name][()].T)]
    if kind != b"cell":
        return None
    cells = [file[reference] for reference in file[name][()].reshape(-1)]
    if any(cell.attrs.get("MATLAB_class") != b"char" for cell in cells):
        return None
    return ["".join(map(chr, cell[()].reshape(-1))) for cell in cells]


def _in_our_order(array: LazyArray, name: str) -> LazyArray:
    """Of an array whose axes are reversed, (N, channel, W, H): rows of (channel, H, W)."""
    if name in NAMES or len(array.shape) < 2:
        return array
    *leading, width, height = array.shape

    def swapped(values: Array) -> Array:
        return values.swapaxes(-1, -2)

    def rows(indices: Sequence[int]) -> Iterator[Array]:
        return (swapped(row) for row in array.rows(indices))

    return LazyArray((*leading, height, width), array.dtype, rows, lambda: swapped(array.whole()))


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Whatever a broken file makes its reader say, as one sentence."""
    try:
        with unquoted():
            yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or 'it is damaged'}.") from error
    except Exception as error:  # what does not fit may show anywhere
        raise InputError(f"{path} is damaged: it is not a MATLAB file that can be read.") from error
