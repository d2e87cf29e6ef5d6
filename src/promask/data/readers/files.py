"""Files that hold arrays by name, whatever they are of."""

from collections.abc import Callable, Mapping
from pathlib import Path

from promask.data.readers.arrays import LazyArray
from promask.data.readers.hdf5 import list_hdf5_arrays
from promask.data.readers.matlab import list_mat_arrays
from promask.data.readers.numpy import list_npy_arrays, list_npz_arrays

ARRAY_LISTS: Mapping[str, Callable[[Path], Mapping[str, LazyArray]]] = {
    ".npy": list_npy_arrays,
    ".npz": list_npz_arrays,
    ".mat": list_mat_arrays,
    ".h5": list_hdf5_arrays,
    ".hdf5": list_hdf5_arrays,
}
"""Lists the arrays of a file, by its ending; those of MATLAB have their axes reversed."""
