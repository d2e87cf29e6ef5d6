"""HDF5 files: arrays by name, or the layouts of fastMRI and of ISMRMRD."""

from pathlib import Path

from promask.data.fastmri import is_fastmri, read_fastmri_file
from promask.data.hdf5_arrays import arrays_of, opened
from promask.data.ismrmrd import is_ismrmrd, read_ismrmrd
from promask.data.named_arrays import stack_of_arrays
from promask.data.stack import Stack
from promask.reading import Reading


def read_hdf5(path: Path, reading: Reading) -> Stack:
    """`image` or `kspace` with `label` and `subject`, as in a .npz file; or a file of fastMRI or ISMRMRD."""
    with opened(path) as file:
        raw, measured = is_fastmri(file), is_ismrmrd(file)
    if raw and reading.array is None:
        return read_fastmri_file(path, reading)
    if measured:
        return read_ismrmrd(path, reading)
    return stack_of_arrays(arrays_of(path), path, reading)
