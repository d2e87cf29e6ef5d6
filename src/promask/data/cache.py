"""Prepared samples on disk, keyed by the content of the files and by how they were read.

Everything is written under a temporary name and renamed: an entry is there as a whole or not at all, however many
processes work on it. A process that is killed leaves only a temporary folder, which is removed after a day.
"""

import atexit
import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from promask.data.atomic import replace_file
from promask.errors import InputError, InputWarning

STALE = 24 * 3600
"""Seconds after which a temporary folder is taken to be left over."""
TEMPORARY = "unfinished-"
SUBSTITUTE = "PROMASK_SUBSTITUTE"
"""The environment variable of a temporary folder in place of the cache; processes that we start inherit it."""
_lock = threading.Lock()
KEY = re.compile(r"[0-9a-f]{64}")
"""The names of entries and of digests."""


def cache_folder() -> Path:
    """PROMASK_CACHE, or `promask` in the usual place for caches."""
    import platformdirs

    chosen = os.environ.get("PROMASK_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("promask")


class Column:
    """Arrays of one shape and type, one after the other in a file."""

    def __init__(self, file: Path, shape: Sequence[int], dtype: str) -> None:
        self.file, self.shape, self.dtype = file, tuple(shape), np.dtype(dtype)
        self.row_bytes = int(np.prod(self.shape)) * self.dtype.itemsize

    @property
    def rows(self) -> float:
        """The number of arrays; not whole if the file is damaged."""
        return self.file.stat().st_size / self.row_bytes

    def __getitem__(self, row: int) -> torch.Tensor:
        with self.file.open("rb") as file:
            file.seek(row * self.row_bytes)
            content = bytearray(file.read(self.row_bytes))
        if len(content) != self.row_bytes:
            raise OSError(f"{self.file} is too short")
        return torch.from_numpy(np.frombuffer(content, self.dtype).reshape(self.shape))


class ColumnWriter:
    """Writes a column with the shape and type of the first array."""

    def __init__(self, file: Path) -> None:
        self.file = file.open("wb")
        self.about: dict[str, Any] = {}

    def __enter__(self) -> "ColumnWriter":
        return self

    def __exit__(self, *_: object) -> None:
        """Flush everything to disk; the file is closed even if the disk is full."""
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
        finally:
            self.file.close()

    def append(self, values: torch.Tensor) -> None:
        """Write one more array."""
        array = np.ascontiguousarray(values.numpy())
        self.about = self.about or {"shape": list(array.shape), "dtype": array.dtype.str}
        self.file.write(array.tobytes())


Write = Callable[[Path], dict[str, Any]]
"""Fills a folder, and returns its description."""
Fits = Callable[[Path, dict[str, Any]], bool]
"""Whether a folder and its description are as expected."""


def find_or_write(key: str, write: Write, fits: Fits) -> tuple[Path, dict[str, Any]]:
    """The folder of a key, and its description; made by `write` if it is missing or damaged.

    If the cache is full or read-only, the folder is made in a temporary substitute of the cache.
    """
    place = Path("samples", key[:2], key)
    folders = [cache_folder() / place]
    if SUBSTITUTE in os.environ:
        folders.append(Path(os.environ[SUBSTITUTE]) / place)
    for folder in folders:
        known = _read(folder, fits)
        if known is not None:
            return folder, known
    try:
        return folder, _make(folder, write, fits)
    except OSError as error:
        reason = f"Cannot keep prepared samples in {cache_folder()}: {error.strerror or error}"
        try:
            if len(folders) > 1:
                raise
            folder = _substitute(reason) / place
            return folder, _make(folder, write, fits)
        except OSError as last:
            raise InputError(
                f"{reason}, and there is no room for temporary files either; free some space there, or choose "
                f"another folder with the environment variable PROMASK_CACHE."
            ) from last


def content_key(files: Sequence[Path], settings: Any) -> str:
    """A key that changes with the bytes of the files and with the settings, and with nothing else."""
    description = json.dumps([[_digest(file) for file in files], settings], sort_keys=True, default=str)
    return hashlib.sha256(description.encode()).hexdigest()


def size_on_disk() -> int:
    """The bytes of everything in the cache."""
    folder = cache_folder()
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.exists() else 0


def clear() -> None:
    """Empty the cache; what another process still uses is made again when it needs it."""
    samples, digests = cache_folder() / "samples", cache_folder() / "digests"
    for path in [*samples.glob("??/*"), *digests.glob("*")]:
        if KEY.fullmatch(path.name) and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif KEY.fullmatch(path.name):
            path.unlink(missing_ok=True)
    _remove_stale(samples)  # others are being written


def _read(folder: Path, fits: Fits) -> dict[str, Any] | None:
    try:
        known = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        whole = all((folder / name).stat().st_size == size for name, size in known["sizes"].items())
        return known["about"] if whole and fits(folder, known["about"]) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None


def _make(folder: Path, write: Write, fits: Fits) -> dict[str, Any]:
    temporary = folder.parent.parent / f"{TEMPORARY}{uuid.uuid4().hex}"
    try:
        temporary.mkdir(parents=True)
        _remove_stale(temporary.parent)
        about = write(temporary)
        sizes = {path.name: path.stat().st_size for path in temporary.iterdir()}
        (temporary / "about.json").write_text(json.dumps({"about": about, "sizes": sizes}), encoding="utf-8")
        folder.parent.mkdir(exist_ok=True)
        _replace(temporary, folder, fits)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return about


def _substitute(reason: str) -> Path:
    """A temporary folder in place of the cache, for this process and those that it starts; warns of it."""
    with _lock:
        if SUBSTITUTE not in os.environ:
            place = tempfile.mkdtemp(prefix="promask-")
            atexit.register(shutil.rmtree, place, ignore_errors=True)
            os.environ[SUBSTITUTE] = place
            warnings.warn(
                f"{reason}; they are kept in {place} until this process ends, and must be made again next time: "
                f"free some space, or choose another folder with the environment variable PROMASK_CACHE.",
                InputWarning,
                stacklevel=2,
            )
        return Path(os.environ[SUBSTITUTE])


def _replace(temporary: Path, folder: Path, fits: Fits) -> None:
    for _ in range(10):
        try:
            temporary.rename(folder)
            return
        except OSError:
            if _read(folder, fits) is not None:  # another process was faster, with the same content
                return
            shutil.rmtree(folder, ignore_errors=True)  # damaged
    temporary.rename(folder)


def _remove_stale(parent: Path) -> None:
    for path in parent.glob(f"{TEMPORARY}*"):
        try:
            if time.time() - path.stat().st_mtime > STALE:
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # removed by someone else
            continue


def _digest(file: Path) -> str:
    """The hash of the content, computed once for each path, size and time of change."""
    state = file.stat()
    stamp = f"{file.resolve()}|{state.st_size}|{state.st_mtime_ns}|{state.st_ctime_ns}|{state.st_ino}"
    known = cache_folder() / "digests" / hashlib.sha256(stamp.encode()).hexdigest()
    with suppress(OSError, ValueError):
        digest = known.read_text(encoding="ascii")
        if KEY.fullmatch(digest):
            return digest
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    with suppress(OSError):  # it is computed again next time
        known.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(known) as temporary:
            temporary.write_text(digest, encoding="ascii")
    return digest
