"""HDF5 files: arrays by name, or the layouts of fastMRI and of ISMRMRD."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from promask.data.atomic import Array
from promask.data.readers.arrays import LazyArray, read_arrays
from promask.data.readers.fastmri import is_fastmri, read_fastmri_file
from promask.data.readers.ismrmrd import is_ismrmrd, read_ismrmrd
from promask.data.readers.public_sets import find_calgary_campinas, find_skm_tea
from promask.data.reading import Reading
from promask.data.sample_file import SampleFile
from promask.data.sandbox import open_hdf5

if TYPE_CHECKING:
    import h5py


def read_hdf5(path: Path, reading: Reading) -> SampleFile:
    """Arrays as in a .npz file; or a file of fastMRI, ISMRMRD, Calgary-Campinas or SKM-TEA."""
    with open_hdf5(path) as file:
        of_fastmri, of_ismrmrd = is_fastmri(file), is_ismrmrd(file)
    if of_fastmri and reading.array is None and reading.axes is None:
        return read_fastmri_file(path, reading)
    if of_ismrmrd:
        return read_ismrmrd(path, reading)
    arrays = list_hdf5_arrays(path)
    known = None
    if reading.axes is None and reading.array is None:
        known = find_calgary_campinas(arrays) or find_skm_tea(arrays, path)
    return read_arrays(arrays, path, reading, known=known)


def list_hdf5_arrays(path: Path) -> dict[str, LazyArray]:
    """All arrays of a file; those in groups are named `group/array`."""
    import h5py

    found: dict[str, LazyArray] = {}

    def note(name: str, item: "h5py.HLObject") -> None:
        # What MATLAB keeps in groups such as #refs# is its own.
        if isinstance(item, h5py.Dataset) and item.shape is not None and not name.startswith("#"):
            found[name] = _lazy_array(path, name, item)

    with open_hdf5(path) as file:
        file.visititems(note)
    return found


def _lazy_array(path: Path, name: str, dataset: "h5py.Dataset") -> LazyArray:
    """An array of a file, which is opened again when its values are read."""

    def read_rows(indices: Sequence[int]) -> Iterator[Array]:
        with open_hdf5(path, name) as file:
            yield from (file[name][index] for index in indices)

    def whole() -> Array:
        with open_hdf5(path, name) as file:
            values: Array = file[name][()]
            return values

    return LazyArray(dataset.shape, dataset.dtype, whole, read_rows)
