"""MATLAB files: written as version 5, read in every version."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from promask.data.matlab import check_sums
from promask.errors import InputError
from promask.export.mask_file import ExportedMask
from promask.files import NUMBERS, Array, replacing


def write_mat(mask: ExportedMask, path: Path) -> None:
    """A logical array `mask`, and a variable for each fact."""
    from scipy.io import savemat

    with replacing(path) as temporary:
        # Compressed for the checksum, which `check_sums` relies on.
        variables = {"mask": mask.mask.numpy(), **mask.facts()}
        savemat(temporary, variables, appendmat=False, do_compression=True)


def read_mat(path: Path) -> tuple[Array, dict[str, Any]]:
    """The variable `mask`, or the only array of numbers, and all the variables."""
    import h5py

    variables = _version_7_3(path) if h5py.is_hdf5(path) else _version_5(path)
    return variables[_name_of_mask(path, variables)], variables


def _version_5(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    check_sums(path.read_bytes())
    content = loadmat(path, appendmat=False)
    variables = {name: value for name, value in content.items() if isinstance(value, np.ndarray)}
    texts = {
        name: value.item() for name, value in variables.items() if value.dtype.kind == "U" and value.size == 1
    }
    return {**variables, **texts}


def _version_7_3(path: Path) -> dict[str, Any]:
    """HDF5, where MATLAB's axes are in the reverse order, and texts are arrays of character codes."""
    import h5py

    with h5py.File(path) as file:
        return {
            name: np.asarray(item).T
            for name, item in file.items()
            if isinstance(item, h5py.Dataset) and item.attrs.get("MATLAB_class") != b"char"
        }


def _name_of_mask(path: Path, variables: Mapping[str, Any]) -> str:
    if "mask" in variables:
        return "mask"
    numbers = [
        name for name, value in variables.items() if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS
    ]
    if len(numbers) != 1:
        raise InputError(f"{path} holds {len(numbers)} arrays of numbers: call the one that is the mask `mask`.")
    return numbers[0]
