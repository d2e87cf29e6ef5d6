"""MATLAB's files: users see the axes in MATLAB's order, (y, x, slice) for one; here they are stored reversed.

Version 7.3 is HDF5. SciPy reads the earlier ones, in the sandbox: it crashes on some damaged files.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from promask.data.atomic import Array
from promask.data.readers.arrays import LazyArray, read_arrays
from promask.data.readers.hdf5 import list_hdf5_arrays
from promask.data.readers.public_sets import find_cmrxrecon
from promask.data.reading import Reading
from promask.data.sample_file import SampleFile
from promask.data.sandbox import open_hdf5, sandbox
from promask.errors import InputError

if TYPE_CHECKING:
    import h5py

NAMES = ("subject", "slice_id")
"""Lists of texts."""
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
USER_BLOCK = 512
"""Bytes of text that MATLAB puts before the HDF5 content."""


def read_mat(path: Path, reading: Reading) -> SampleFile:
    """Variables `image` or `kspace`, with `label` and `subject`; or a file of CMRxRecon."""
    arrays = list_mat_arrays(path)
    known = find_cmrxrecon(arrays, path) if reading.axes is None and reading.array is None else None
    return read_arrays(arrays, path, reading, last_first=True, known=known)


def list_mat_arrays(path: Path) -> dict[str, LazyArray]:
    """The variables of a file by name, with their axes reversed."""
    if not is_hdf5(path):
        return list_mat_variables(path)
    arrays = list_hdf5_arrays(path)
    with open_hdf5(path, *NAMES) as file:
        texts = {name: _texts(file, name) for name in NAMES if name in arrays}
    return arrays | {name: LazyArray.of(np.array(text)) for name, text in texts.items() if text is not None}


def is_hdf5(path: Path) -> bool:
    """Whether a MATLAB file is of version 7.3."""
    try:
        with path.open("rb") as file:
            start = file.read(USER_BLOCK + len(HDF5_SIGNATURE))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    return HDF5_SIGNATURE in (start[: len(HDF5_SIGNATURE)], start[USER_BLOCK:])


def list_mat_variables(path: Path) -> dict[str, LazyArray]:
    """The variables of a file before version 7.3 by name, with their axes reversed, as HDF5 has them."""
    return {
        name: LazyArray(shape[::-1], dtype, partial(_read_variable, path, name))
        for name, (shape, dtype) in sandbox.list_matlab(path).items()
    }


def _read_variable(path: Path, name: str) -> Array:
    return sandbox.read_matlab(path, name).T


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
