"""NumPy's own files: .npy, mapped into memory, and .npz, read as a stream."""

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from promask.data.named_arrays import LazyArray, of_array, stack_of_arrays
from promask.data.stack import Stack
from promask.errors import InputError
from promask.files import Array, numpy_file
from promask.reading import Reading


def read_npy(path: Path, reading: Reading) -> Stack:
    """Images, or with `--holds kspace` k-space, in a .npy file."""
    return stack_of_arrays(mapped_npy(path), path, reading)


def mapped_npy(path: Path) -> dict[str, LazyArray]:
    """The only array of a .npy file."""
    with numpy_file(path):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} is an archive of arrays: give it the ending .npz.")
    return {"array": of_array(array)}


def read_npz(path: Path, reading: Reading) -> Stack:
    """Images (`image`) or centred k-space (`kspace`) in a .npz file, with `label`, `subject` or `slice_id`."""
    return stack_of_arrays(arrays_of_npz(path), path, reading)


def arrays_of_npz(path: Path) -> dict[str, LazyArray]:
    """The arrays of a .npz file by name."""
    with numpy_file(path), path.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":
            raise InputError(f"{path} is a single array: give it the ending .npy.")
        with zipfile.ZipFile(file) as archive:
            return {
                name.removesuffix(".npy"): _member(path, archive, name)
                for name in archive.namelist()
                if name.endswith(".npy")
            }


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> LazyArray:
    with archive.open(name) as stream:
        shape, fortran_order, dtype = _header(stream)

    def whole() -> Array:
        with numpy_file(path), zipfile.ZipFile(path) as opened, opened.open(name) as stream:
            array: Array = np.lib.format.read_array(stream, allow_pickle=False)
            return array

    def rows(indices: Sequence[int]) -> Iterator[Array]:
        if fortran_order:
            array = whole()
            yield from (array[index] for index in indices)
            return
        with numpy_file(path), zipfile.ZipFile(path) as opened, opened.open(name) as stream:
            _header(stream)
            length = int(np.prod(shape[1:])) * dtype.itemsize
            wanted = set(indices)
            for index in range(max(wanted) + 1):
                content = _read_exactly(stream, length)
                if index in wanted:
                    yield np.frombuffer(content, dtype).reshape(shape[1:])

    return LazyArray(shape, dtype, rows, whole)


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream)


def _read_exactly(stream: Any, length: int) -> bytes:
    content = stream.read(length)
    if len(content) != length:
        raise EOFError
    return content
