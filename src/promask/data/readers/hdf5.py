"""Arrays in HDF5 files, read slice by slice."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from promask.data.atomic import Array
from promask.data.readers.arrays import LazyArray
from promask.data.sandbox import try_first
from promask.errors import InputError

if TYPE_CHECKING:
    import h5py


@contextmanager
def opened(path: Path, *reads: str | tuple[str, str]) -> "Iterator[h5py.File]":
    """An HDF5 file for reading; whatever a broken one makes the library say, as one sentence.

    `reads` names the arrays whose values will be read, or only a field of them: they are tried first.
    """
    import h5py

    try:
        with path.open("rb"):  # its errors are plainer than those of the library
            pass
        try_first(path, [(read, None) if isinstance(read, str) else read for read in reads])
        with h5py.File(path, "r", locking=False) as file:
            yield file
    except InputError:
        raise
    except Exception as error:  # the library raises nearly everything
        if isinstance(error, PermissionError | FileNotFoundError):
            raise InputError(f"Cannot read {path}: {error.strerror}.") from error
        raise InputError(f"{path} is damaged: it is not an HDF5 file that can be read.") from error


def arrays_of(path: Path) -> dict[str, LazyArray]:
    """All arrays of a file; those in groups are named `group/array`."""
    import h5py

    found: dict[str, LazyArray] = {}

    def note(name: str, item: "h5py.HLObject") -> None:
        # What MATLAB keeps in groups such as #refs# is its own.
        if isinstance(item, h5py.Dataset) and item.shape is not None and not name.startswith("#"):
            found[name] = lazy_dataset(path, name, item)

    with opened(path) as file:
        file.visititems(note)
    return found


def lazy_dataset(path: Path, name: str, dataset: "h5py.Dataset") -> LazyArray:
    """A data set of a file, which is opened again when its values are read."""

    def rows(indices: Sequence[int]) -> Iterator[Array]:
        with opened(path, name) as file:
            yield from (file[name][index] for index in indices)

    def whole() -> Array:
        with opened(path, name) as file:
            values: Array = file[name][()]
            return values

    return LazyArray(dataset.shape, dataset.dtype, rows, whole)
