"""Reads HDF5 and MATLAB files in a process of its own; it is started by its path, and imports nothing of promask.

The libraries that read these formats end their process, or never return, on some damaged files. So they are tried
here first. Each line of standard input is a question about a file. The answer is a line with what is wrong with
the file, empty if nothing is, and what was found in it; or `null` after a crash. Memory and time are limited to
what is plausible for the file.
"""

import ctypes
import errno
import gc
import json
import math
import os
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

FILTERS = {
    h5py.h5z.FILTER_DEFLATE,
    h5py.h5z.FILTER_SHUFFLE,
    h5py.h5z.FILTER_FLETCHER32,
    h5py.h5z.FILTER_SZIP,
    h5py.h5z.FILTER_LZF,
}
"""Ways to compress that cannot turn nothing into anything, if each is used once."""
SLAB = 16 << 20
"""Bytes that are read at a time."""
UNREADABLE = "it cannot be read as a file of its format"
ELSEWHERE = "it refers to other files, which promask does not follow"


class RefusedError(Exception):
    """The file is not to be read; says why."""


def check_hdf5(path: str, most: int, reads: list[tuple[str, str | None]]) -> None:
    """Walk through a file, and read the arrays, or fields of arrays, that will be read; `most` bytes for each."""
    with h5py.File(path, "r", locking=False) as file:
        _check_item(file)

        def visit(name: str, item: Any) -> None:
            _check_item(item)
            if isinstance(item, h5py.Dataset):
                _check_array(item, most)

        file.visititems(visit)
        for name, field in reads:
            if isinstance(file.get(name), h5py.Dataset):
                _read(file, file[name], field, most)


def _check_item(item: Any) -> None:
    """Check that links stay in the file, and that attributes can be read."""
    if isinstance(item, h5py.Group):
        for name in item:
            if not isinstance(item.get(name, getlink=True), h5py.HardLink | h5py.SoftLink):
                raise RefusedError(ELSEWHERE)
    for name in item.attrs:
        with suppress(TypeError):  # of a type that NumPy does not have; promask does not ask for it
            item.attrs[name]


def _check_array(item: Any, most: int) -> None:
    """Check that an array lies in the file, and that its size and that of its chunks are plausible."""
    if item.external or item.is_virtual:
        raise RefusedError(ELSEWHERE)
    if item.shape is None:
        return
    bytes_each = max(1, item.dtype.itemsize)
    if math.prod(item.shape) * bytes_each > most:
        raise RefusedError(f"its array {item.name!r} has shape {list(item.shape)}, which is not plausible")
    if item.chunks is None:
        return
    if math.prod(item.chunks) * bytes_each > most // 4:  # they are decompressed whole
        raise RefusedError(f"its array {item.name!r} has chunks of {list(item.chunks)}, which is not plausible")
    plan = item.id.get_create_plist()
    filters = [plan.get_filter(number)[0] for number in range(plan.get_nfilters())]
    if len(set(filters)) < len(filters) or not set(filters) <= FILTERS:
        raise RefusedError(f"its array {item.name!r} is compressed in a way that promask does not read")
    whole = math.prod(item.chunks) * item.id.get_type().get_size()
    for number in range(item.id.get_num_chunks()):
        if item.id.get_chunk_info(number).size != whole and not filters:
            raise RefusedError(UNREADABLE)  # the library would write beyond what it has reserved


def _read(file: Any, item: Any, field: str | None, most: int) -> None:
    """Read all of an array, slab by slab; of an array that is stored in one piece, a single value."""
    if item.shape is None or 0 in item.shape:
        return
    source = item if field is None or field not in (item.dtype.names or ()) else item.fields(field)
    has_objects = item.dtype.hasobject
    if not item.shape:
        _follow(file, np.asarray(item[()]), most)
    elif item.chunks is None and not has_objects:
        item[(0,) * len(item.shape)]
    else:
        row = max(1, math.prod(item.shape[1:])) * max(1, item.dtype.itemsize)
        step, left = (1 if has_objects else max(1, SLAB // row)), most
        for start in range(0, item.shape[0], step):
            left -= _follow(file, np.asarray(source[start : start + step]), left)


def _follow(file: Any, values: Any, most: int) -> int:
    """Count the bytes of what an array refers to, such as texts: many entries may refer to a single large one."""
    if not values.dtype.hasobject:
        return 0
    taken = 0
    for value in values.reshape(-1) if values.dtype.names is None else ():
        if isinstance(value, h5py.Reference | h5py.RegionReference):
            if value:
                _read(file, file[value], None, most)
        else:
            taken += (
                value.nbytes if isinstance(value, np.ndarray) else len(value) if hasattr(value, "__len__") else 0
            )
        if taken > most:
            raise RefusedError("its texts or lists are larger than is plausible")
    return taken


NUMBERS = {"logical": "u1", "single": "f4", "double": "f8"} | {
    f"{sign}int{bits}": f"{sign or 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""The NumPy types of MATLAB's classes of numbers."""
OTHERS = {"char": "U", "cell": "O", "struct": "V", "object": "V"}
"""The kinds of NumPy types for its other classes; variables of classes that are in neither table are left out."""
COMPRESSED, COMPLEX = 15, 0x0800
"""The tag of a compressed variable, and the flag of a complex one, in files of version 5 to 7."""


def list_matlab(path: str, most: int) -> list[tuple[str, list[int], str]]:
    """Name, shape and NumPy type of each variable in a file of version 4 to 7; of 5 to 7 only headers are read."""
    from scipy.io import loadmat, whosmat
    from scipy.io.matlab import matfile_version

    if matfile_version(path, appendmat=False)[0] == 0:
        arrays = loadmat(path, appendmat=False).items()
        return [(name, list(a.shape), a.dtype.str) for name, a in arrays if isinstance(a, np.ndarray)]
    found: dict[str, tuple[str, list[int], str]] = {}
    variables = whosmat(path, appendmat=False)
    for (name, shape, kind), is_complex in zip(variables, _are_complex(path), strict=True):
        if kind in NUMBERS | OTHERS and name != "__function_workspace__":
            dtype = "c16" if is_complex and kind in NUMBERS else (NUMBERS | OTHERS)[kind]
            found.setdefault(name, (name, list(shape), dtype))  # SciPy reads the first variable of a name
    return list(found.values())


def _are_complex(path: str) -> Iterator[bool]:
    """Whether each variable of a file of version 5 to 7 is complex, which SciPy's list leaves out."""
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(126)
        order = "<" if file.read(2) == b"IM" else ">"
        while tag := file.read(8):
            kind, length = struct.unpack(f"{order}II", tag)
            end = file.tell() + length
            if end > size:  # SciPy does not notice before the values are read
                raise RefusedError(UNREADABLE)
            if kind == COMPRESSED:
                flags = zlib.decompressobj().decompress(file.read(min(length, 4096)), 20)[16:]
            else:
                flags = file.read(12)[8:]
            yield bool(struct.unpack(f"{order}I", flags)[0] & COMPLEX)
            file.seek(end)


def extract_matlab(path: str, most: int, name: str, target: str) -> None:
    """Save a variable, in MATLAB's order of axes, as a .npy file; cells become an array of what they hold."""
    from scipy.io import loadmat

    values = loadmat(path, appendmat=False, variable_names=[name])[name]
    if not isinstance(values, np.ndarray) or values.dtype.names is not None:
        raise RefusedError(UNREADABLE)
    if values.dtype.hasobject:
        values = np.array([_cell(cell) for cell in values.reshape(-1)]).reshape(values.shape)
    if values.nbytes > most:
        raise MemoryError
    np.save(target, values, allow_pickle=False)


def _cell(cell: Any) -> Any:
    """The number or the text in a cell."""
    kind = cell.dtype.kind if isinstance(cell, np.ndarray) else "O"
    if kind not in "buifU" or (cell.size != 1 and not (kind == "U" and cell.size == 0)):
        raise RefusedError("its cells hold neither numbers nor texts")
    value = cell.item() if cell.size else ""
    return int(value) if isinstance(value, float) and value.is_integer() else value  # MATLAB's whole numbers


TASKS: Mapping[str, Callable[..., Any]] = {
    "check_hdf5": check_hdf5,
    "list_matlab": list_matlab,
    "extract_matlab": extract_matlab,
}


def limit(most: int, seconds: float) -> None:
    """Let this process take no more than it has now and what is plausible, of memory and of processor time."""
    try:
        import resource

        have = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (have + most, hard))
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), hard))
    except (ImportError, OSError, ValueError):  # not on this system
        return


def answer(question: dict[str, Any]) -> tuple[str, Any]:
    """What is wrong with a file, in words, empty if nothing is; and what a task found in it."""
    limit(question["most"], question["seconds"])
    try:
        return "", TASKS[question["task"]](question["path"], question["most"], **question["arguments"])
    except RefusedError as error:
        return f"is damaged: {error}", None
    except MemoryError:
        return "is damaged: its content takes more memory than is plausible for its size", None
    except Exception as error:  # the libraries raise nearly everything
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"needs room for temporary files: {os.strerror(error.errno)}", None
        return f"is damaged: {UNREADABLE}", None


def answer_in_fork(question: dict[str, Any]) -> Any:
    """The same from a process that ends after it; None if it crashes, as it may when the library cleans up."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.close(reader)
        with os.fdopen(writer, "wb") as stream:
            stream.write(json.dumps(answer(question)).encode())
        gc.collect()
        ctypes.CDLL(None).exit(0)  # the library cleans up; Python need not
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        content = stream.read()
    _, status = os.waitpid(process, 0)
    return json.loads(content) if status == 0 and content else None


def main() -> None:
    """Answer until there are no more questions."""
    for line in sys.stdin:
        question = json.loads(line)
        if question["task"] != "check_hdf5":
            import scipy.io  # noqa: F401  before the fork, so that it is imported once
        gc.freeze()  # what is there before the fork: a fork looks through what it made itself
        answered = answer_in_fork(question) if hasattr(os, "fork") else answer(question)
        print(json.dumps(answered), flush=True)


if __name__ == "__main__":
    main()
