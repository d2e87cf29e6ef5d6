"""MATLAB files: written as version 5, read in every version."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from promask.data.hdf5_arrays import opened
from promask.data.matlab import is_hdf5, variables_of_mat
from promask.errors import InputError
from promask.export.mask_file import ExportedMask
from promask.files import NUMBERS, Array, replacing


def write_mat(mask: ExportedMask, path: Path) -> None:
    """A logical array `mask`, and a variable for each fact."""
    from scipy.io import savemat

    with replacing(path) as temporary:
        # Compressed for the checksum.
        variables = {"mask": mask.mask.numpy(), **mask.facts()}
        savemat(temporary, variables, appendmat=False, do_compression=True)


def read_mat(path: Path) -> tuple[Array, dict[str, Any]]:
    """The variable `mask`, or the only array of numbers, and all the variables."""
    variables = _version_7_3(path) if is_hdf5(path) else _version_5(path)
    return variables[_name_of_mask(path, variables)], variables


def _version_5(path: Path) -> dict[str, Any]:
    found = variables_of_mat(path)
    readable = {name: variable for name, variable in found.items() if variable.dtype.kind in (*NUMBERS, "U")}
    variables = {name: variable.whole() for name, variable in readable.items()}
    texts = {
        name: value.item() for name, value in variables.items() if value.dtype.kind == "U" and value.size == 1
    }
    return {**variables, **texts}


def _version_7_3(path: Path) -> dict[str, Any]:
    """HDF5, where MATLAB's axes are in the reverse order, and texts are arrays of character codes."""
    import h5py

    with opened(path) as file:
        names = [
            name
            for name, item in file.items()
            if isinstance(item, h5py.Dataset) and item.attrs.get("MATLAB_class") != b"char"
        ]
    with opened(path, *names) as file:
        return {name: np.asarray(file[name]).T for name in names}


def _name_of_mask(path: Path, variables: Mapping[str, Any]) -> str:
    if "mask" in variables:
        return "mask"
    numbers = [
        name for name, value in variables.items() if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS
    ]
    if len(numbers) != 1:
        raise InputError(f"{path} holds {len(numbers)} arrays of numbers: call the one that is the mask `mask`.")
    return numbers[0]
