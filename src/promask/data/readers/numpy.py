"""NumPy's own files: .npy, and .npz, read as a stream."""

import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from promask.data.atomic import Array, explain_numpy_errors
from promask.data.readers.arrays import LazyArray, read_arrays
from promask.data.reading import Reading
from promask.data.sample_file import SampleFile
from promask.data.sandbox import check_claim
from promask.errors import InputError


def read_npy(path: Path, reading: Reading) -> SampleFile:
    """Images, or k-space if `reading.holds` says so, in a .npy file."""
    return read_arrays(list_npy_arrays(path), path, reading)


def list_npy_arrays(path: Path) -> dict[str, LazyArray]:
    """The only array of a .npy file, which is open only while it is read: there may be thousands of them."""
    with explain_numpy_errors(path), path.open("rb") as stream:
        if stream.read(2) == b"PK":
            raise InputError(f"{path} is an archive of arrays: give it the ending .npz.")
        stream.seek(0)
        shape, _, dtype = _header(stream)
        if dtype.hasobject:
            raise ValueError("objects are not read")
        if path.stat().st_size < stream.tell() + math.prod(shape) * dtype.itemsize:
            raise EOFError
        stream.seek(0)
        found = _lazy_array(path, stream, lambda: path.open("rb"))
    return {"array": replace(found, whole=partial(_map_npy, path))}


def _map_npy(path: Path) -> Array:
    with explain_numpy_errors(path):
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


def read_npz(path: Path, reading: Reading) -> SampleFile:
    """Images (`image`) or centred k-space (`kspace`) in a .npz file, with `label`, `subject` or `slice_id`."""
    return read_arrays(list_npz_arrays(path), path, reading)


def list_npz_arrays(path: Path) -> dict[str, LazyArray]:
    """The arrays of a .npz file by name."""
    with explain_numpy_errors(path), path.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":
            raise InputError(f"{path} is a single array: give it the ending .npy.")
        with zipfile.ZipFile(file) as archive:
            return {
                name.removesuffix(".npy"): _member(path, archive, name)
                for name in archive.namelist()
                if name.endswith(".npy")
            }


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> LazyArray:
    about = archive.getinfo(name)
    if about.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(f"{path} is compressed in a way that NumPy does not use: save it with numpy.savez.")
    check_claim(about.file_size, path)  # no more than this is ever decompressed

    @contextmanager
    def open_member() -> Iterator[Any]:
        with zipfile.ZipFile(path) as archive, archive.open(name) as stream:
            yield stream

    with archive.open(about) as stream:
        found = _lazy_array(path, stream, open_member)
    if math.prod(found.shape) * found.dtype.itemsize > about.file_size:
        raise EOFError
    return found


def _lazy_array(path: Path, stream: Any, reopen: Callable[[], AbstractContextManager[Any]]) -> LazyArray:
    """The array whose header comes next in a stream; its values are read from the same one, opened again."""
    shape, fortran_order, dtype = _header(stream)

    def whole() -> Array:
        with explain_numpy_errors(path), reopen() as stream:
            array: Array = np.lib.format.read_array(stream, allow_pickle=False)
            return array

    def read_rows(indices: Sequence[int]) -> Iterator[Array]:
        with explain_numpy_errors(path), reopen() as stream:
            _header(stream)
            first, length = stream.tell(), math.prod(shape[1:]) * dtype.itemsize
            for index in indices:
                stream.seek(first + index * length)
                yield np.frombuffer(_read_exactly(stream, length), dtype).reshape(shape[1:])

    return LazyArray(shape, dtype, whole, None if fortran_order else read_rows)


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream)


def _read_exactly(stream: Any, length: int) -> bytes:
    content = stream.read(length)
    if len(content) != length:
        raise EOFError
    return content
