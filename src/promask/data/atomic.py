"""Files and folders that are either whole or not there: written under a temporary name, then renamed."""

import os
import re
import shutil
import tempfile
import tokenize
import uuid
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from promask.errors import InputError

Array = npt.NDArray[Any]
NUMBERS = "buifc"
"""The kinds of NumPy types that hold numbers."""
REPLACED = ".replaced"
"""Added to the name of a folder that another one is about to replace."""


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` to write a file to; it is renamed to `path` if nothing goes wrong.

    It is flushed to disk before it is renamed: after a power failure there is the old file or the new one.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        yield temporary
        flush_to_disk(temporary)
        temporary.replace(path)
        flush_to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk."""
    if path.is_dir() and os.name == "nt":  # where folders cannot be flushed
        return
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder`, which replaces it if nothing goes wrong.

    For a moment neither has the name: if the process is killed then, `recover_folder` restores it.
    """
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    replaced = folder.with_name(f"{temporary.name}{REPLACED}")
    temporary.mkdir()
    try:
        yield temporary
        flush_to_disk(temporary)
        if folder.exists():
            folder.rename(replaced)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        if replaced.exists() and not folder.exists():
            replaced.rename(folder)
        raise
    flush_to_disk(folder.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def recover_folder(folder: Path) -> None:
    """Repair what a process left that was killed while it wrote `folder`: the new folder is there, or the old one.

    Its temporary files and folders are removed. Call this only when that process is certain to have ended.
    """
    folder = folder.resolve()
    if not folder.parent.is_dir():
        return
    ours = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{32}}({re.escape(REPLACED)})?")
    left = [path for path in folder.parent.iterdir() if ours.fullmatch(path.name)]
    for old in left:
        if old.name.endswith(REPLACED) and not folder.exists():
            new = old.with_name(old.name.removesuffix(REPLACED))
            (new if new.exists() else old).rename(folder)
    for path in left:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
    if folder.is_dir():
        for path in [path for path in folder.iterdir() if is_temporary(path.name)]:
            path.unlink()


def is_temporary(name: str) -> bool:
    """Whether a file has a temporary name of `replace_file`."""
    return re.fullmatch(r"\..+\.[0-9a-f]{32}", name) is not None


def save_array(path: Path, array: torch.Tensor) -> None:
    """Write a .npy file."""
    with replace_file(path) as temporary, temporary.open("wb") as file:
        np.save(file, array.numpy())


def save_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8."""
    with replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_writable(folder: Path) -> None:
    """Refuse a place that cannot be written to, by trying, before any work is done."""
    existing = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryDirectory(dir=existing):
            pass
    except OSError as error:
        raise InputError(f"Cannot write to {existing}: choose another place for the result.") from error


NUMPY_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, EOFError, LookupError, SyntaxError, ValueError),
    *(TypeError, RuntimeError, OverflowError, MemoryError),
)
"""What NumPy and zipfile raise when a file is broken, or holds pickled objects, which are never read."""


@contextmanager
def explain_numpy_errors(path: Path) -> Iterator[None]:
    """Turn whatever NumPy and zipfile raise for a broken file into one sentence."""
    try:
        yield
    except InputError:
        raise
    except NUMPY_DAMAGE as error:
        raise InputError(
            f"{path} is damaged or holds objects: it is not a NumPy file that can be read."
        ) from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error


def read_array(path: Path, kinds: str, what: str) -> torch.Tensor:
    """The numbers of a .npy file; `kinds` are the letters of the NumPy types allowed, `what` names the content."""
    with explain_numpy_errors(path), path.open("rb") as file:
        content = np.load(file, allow_pickle=False)
    if not isinstance(content, np.ndarray) or content.dtype.kind not in kinds:
        raise InputError(f"{path} does not hold {what}.")
    return as_tensor(content)


def as_tensor(array: Array) -> torch.Tensor:
    """A tensor of the same numbers, whatever their byte order; PyTorch has no numbers of more than 64 bits."""
    if array.dtype.kind in "fc" and array.dtype.itemsize > {"f": 8, "c": 16}[array.dtype.kind]:
        array = array.astype(np.float64 if array.dtype.kind == "f" else np.complex128)
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return torch.from_numpy(array if array.flags.writeable else array.copy())
