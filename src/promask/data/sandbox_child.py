"""Reads HDF5 files in a process of its own, before promask does; it is started by its path, without promask.

The HDF5 library ends its process, or never returns, on some files that are damaged. So it is tried here first.
Each line of standard input names a file and what will be read of it. The answer is a line that says what is wrong
with it, empty if nothing is. Memory is limited to what is plausible for the file.
"""

import ctypes
import gc
import json
import math
import os
import sys
import time
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
HARMFUL = "the HDF5 library does not survive it, or comes to no end with it"
DAMAGED = "it is not an HDF5 file that can be read"
ELSEWHERE = "it refers to other files, which promask does not follow"


class RefusedError(Exception):
    """The file is not to be read; says why."""


def look(path: str, most: int, reads: list[tuple[str, str | None]]) -> None:
    """Walk through a file, and read what will be read of it; objects may take `most` bytes."""
    with h5py.File(path, "r", locking=False) as file:
        _look_at(file)

        def visit(name: str, item: Any) -> None:
            _look_at(item)
            if isinstance(item, h5py.Dataset):
                _look_at_array(item, most)

        file.visititems(visit)
        for name, field in reads:
            if isinstance(file.get(name), h5py.Dataset):
                _read(file, file[name], field, most)


def _look_at(item: Any) -> None:
    """See that links stay in the file, and that attributes can be read."""
    if isinstance(item, h5py.Group):
        for name in item:
            if not isinstance(item.get(name, getlink=True), h5py.HardLink | h5py.SoftLink):
                raise RefusedError(ELSEWHERE)
    for name in item.attrs:
        with suppress(TypeError):  # of a type that NumPy does not have; promask does not ask for it
            item.attrs[name]


def _look_at_array(item: Any, most: int) -> None:
    """See that an array lies in the file, and that its size and that of its pieces are plausible."""
    if item.external or item.is_virtual:
        raise RefusedError(ELSEWHERE)
    if item.shape is None:
        return
    bytes_each = max(1, item.dtype.itemsize)
    if math.prod(item.shape) * bytes_each > most:
        raise RefusedError(f"its array {item.name!r} has shape {list(item.shape)}, which is not plausible")
    if item.chunks is None:
        return
    if math.prod(item.chunks) * bytes_each > most // 4:  # they are unpacked whole, beside what is read of them
        raise RefusedError(f"its array {item.name!r} has pieces of {list(item.chunks)}, which is not plausible")
    plan = item.id.get_create_plist()
    filters = [plan.get_filter(number)[0] for number in range(plan.get_nfilters())]
    if len(set(filters)) < len(filters) or not set(filters) <= FILTERS:
        raise RefusedError(f"its array {item.name!r} is compressed in a way that promask does not read")
    whole = math.prod(item.chunks) * item.id.get_type().get_size()
    for number in range(item.id.get_num_chunks()):
        if item.id.get_chunk_info(number).size != whole and not filters:
            raise RefusedError(DAMAGED)  # the library would write beyond what it has reserved


def _read(file: Any, item: Any, field: str | None, most: int) -> None:
    """Read all of an array, piece by piece; of what lies in one piece, a single value."""
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


def answer(question: dict[str, Any]) -> str:
    """What is wrong with a file, in words; nothing if it can be read."""
    limit(question["most"], question["seconds"])
    try:
        look(question["path"], question["most"], question["reads"])
    except RefusedError as error:
        return str(error)
    except Exception:  # the library raises nearly everything
        return DAMAGED
    return ""


def answer_of_another(question: dict[str, Any]) -> str:
    """The same from a process that ends after it: what the library has destroyed may show when it cleans up."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.close(reader)
        os.write(writer, json.dumps(answer(question)).encode())
        gc.collect()
        ctypes.CDLL(None).exit(0)  # the library cleans up; Python need not
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        content = told.read()
    _, status = os.waitpid(process, 0)
    return str(json.loads(content)) if status == 0 and content else HARMFUL


def main() -> None:
    """Answer until there are no more questions."""
    ask = answer_of_another if hasattr(os, "fork") else answer
    for line in sys.stdin:
        print(json.dumps(ask(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
