"""How promask reads files that it does not trust: limits for memory, a process of its own for unsafe libraries.

Limits: a file that is not compressed holds what it claims, and never meets them. A compressed one may hold a
thousand times its size, as zeros do, and a header may claim anything. So a small file may hold as much as any real
one would, `ALWAYS`, and a large one `TIMES` its size as well: a file of 1 MB never takes more than 1 GB. Whoever
has a larger file that is right can save it without compression.

Sandbox: HDF5 and MATLAB files are read in another process first, which may crash: see `sandbox_child`.

Privacy: what headers say of patients stays in the file, and is quoted nowhere.
"""

import atexit
import hashlib
import json
import logging
import math
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from promask.errors import InputError, one_line

if TYPE_CHECKING:
    import h5py

ALWAYS = 256 << 20
"""Bytes that every file may hold: the labels of 500 slices of 512 x 512 pixels, whose file may have 100 kB."""
TIMES = 256
"""How many times its size a file may hold as well: real images come to 3, labels to a few hundred."""
PIECE = 1 << 20
"""Bytes that are decompressed at a time."""


def most_bytes(*files: Path) -> int:
    """The bytes that the content of these files may take."""
    try:
        return ALWAYS + TIMES * sum(file.stat().st_size for file in files)
    except OSError as error:
        raise InputError(f"Cannot read {files[0]}: {error.strerror or error}.") from error


def check_claim(claimed: int, *files: Path) -> None:
    """Refuse files whose content would take more bytes than is plausible."""
    if claimed > most_bytes(*files):
        size = sum(file.stat().st_size for file in files)
        raise InputError(
            f"{files[0]} has {_amount(size)}, but says that it holds what takes {_amount(claimed)}, which is not "
            f"plausible: it is damaged, or made to fill the memory; if it is right, save it without compression."
        )


def decompress(stream: IO[bytes], path: Path, bits: int = zlib.MAX_WBITS) -> Iterator[bytes]:
    """What the compressed rest of a stream holds, piece by piece; refused when it becomes more than is plausible.

    A stream that ends too early is a `zlib.error`.
    """
    total, unpacker = 0, zlib.decompressobj(bits)
    while not unpacker.eof:
        packed = unpacker.unconsumed_tail or stream.read(PIECE)
        piece = unpacker.decompress(packed, PIECE)
        if not packed and not piece:
            raise zlib.error("the stream ends too early")
        total += len(piece)
        check_claim(total, path)
        yield piece


def _amount(size: int) -> str:
    """A number of bytes in words.

    >>> _amount(2_500_000)
    '2.5 MB'
    """
    if size >= 10**18:
        return "more than a billion GB"
    for name, unit in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= unit:
            return f"{size / unit:,.0f} {name}" if size >= 100 * unit else f"{size / unit:.2g} {name}"
    return f"{size} bytes"


TALKATIVE = ("pydicom", "nibabel")
"""Packages whose loggers quote what they find in a header."""
_one_at_a_time = threading.RLock()
"""Warnings and loggers are those of the whole process."""


def private_name(patient: str) -> str:
    """The same name for the same patient, to keep a patient's images together: it says who is who, not who.

    Names and numbers of patients can be guessed from it by trying them all, so it is not written anywhere either;
    what is written numbers the subjects.
    """
    return f"patient-{hashlib.sha256(patient.encode(errors='replace')).hexdigest()[:12]}"


@contextmanager
def silence_libraries() -> Iterator[None]:
    """Hide the warnings and logs of packages that read a header, which may quote what they find."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = list(logging.root.manager.loggerDict.items())
        loggers = [
            logger
            for name, logger in known
            if name.partition(".")[0] in TALKATIVE and isinstance(logger, logging.Logger) and not logger.disabled
        ]
        for logger in loggers:
            logger.disabled = True
        try:
            yield
        finally:
            for logger in loggers:
                logger.disabled = False


@contextmanager
def report_damage(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a library raises for a broken file into one sentence; `kind` says what the file should be."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # the libraries raise nearly everything
        if isinstance(error, OSError) and error.errno is not None:
            raise InputError(f"Cannot read {path}: {os.strerror(error.errno)}.") from error
        # The words of the library, and so the error itself, may quote the header.
        raise InputError(f"{path} is damaged: it is not {kind} that can be read.") from None


CRASH = "is damaged: the library that reads it crashes, or does not come to an end"
CHILD = Path(__file__).with_name("sandbox_child.py")
CPU_SECONDS, BYTES_PER_SECOND = 3.0, 10_000_000
"""Processor time that a file may take, far more than any needs, and what must be read in each second more."""
CLOCK_FACTOR = 40
"""How much longer it may take by the clock, on a machine that is busy, or from a slow disk."""
CHECKED_MEMORY = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3"}
"""With the C library of GNU, memory that a library has damaged is noticed; elsewhere this means nothing."""


class Sandbox:
    """The process that reads files of unsafe formats; it is started when needed, and again after a crash.

    One process serves all files: it starts in half a second, and answers in a few milliseconds.
    """

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.owner = 0
        self.lock = threading.Lock()
        self.passed: set[tuple[object, ...]] = set()

    def check_hdf5(self, path: Path, reads: Sequence[tuple[str, str | None]]) -> None:
        """Refuse a file that the library does not survive; `reads` names arrays, or fields, that will be read.

        A file that passed is not checked again as long as it stays the same.
        """
        state = path.stat()
        key = (str(path.absolute()), state.st_size, state.st_mtime_ns, state.st_ino, tuple(reads))
        if key not in self.passed:
            self._ask("check_hdf5", path, reads=list(reads))
            self.passed.add(key)

    def list_matlab(self, path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape, in MATLAB's order, and type of each variable in a MATLAB file of version 4 to 7."""
        found = {name: (tuple(shape), np.dtype(kind)) for name, shape, kind in self._ask("list_matlab", path)}
        for shape, dtype in found.values():  # numbers are stored in as little as a byte each
            check_claim(math.prod(shape) * (2 if dtype.kind == "c" else 1), path)
        return found

    def read_matlab(self, path: Path, name: str) -> npt.NDArray[Any]:
        """The values of one of these variables: numbers or texts."""
        with tempfile.TemporaryDirectory(prefix="promask-") as folder:
            target = Path(folder, "variable.npy")
            self._ask("extract_matlab", path, name=name, target=str(target))
            values: npt.NDArray[Any] = np.load(target, allow_pickle=False)
            return values

    def _ask(self, task: str, path: Path, **arguments: Any) -> Any:
        """What a task of `sandbox_child` finds in a file."""
        with report_damage(path, "a file"), path.open("rb"):  # may it be read?
            seconds = CPU_SECONDS + path.stat().st_size / BYTES_PER_SECOND
        question = {"task": task, "path": str(path.absolute()), "most": most_bytes(path), "seconds": seconds}
        with self.lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps({**question, "arguments": arguments}) + "\n")
                process.stdin.flush()
                with selectors.DefaultSelector() as selector:
                    selector.register(process.stdout, selectors.EVENT_READ)
                    answer = process.stdout.readline() if selector.select(CLOCK_FACTOR * seconds) else ""
            except OSError:
                answer = ""
            if not answer:
                self.stop()
        problem, found = json.loads(answer or "null") or (CRASH, None)
        if problem:
            raise InputError(f"{path} {one_line(problem)}.")
        return found

    def _started(self) -> subprocess.Popen[str]:
        if self.process is None or self.owner != os.getpid():  # after a fork it belongs to the other process
            self.owner = os.getpid()
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **CHECKED_MEMORY},
                text=True,
            )
            atexit.register(self.stop)
        return self.process

    def stop(self) -> None:
        """End the process."""
        if self.process is not None and self.owner == os.getpid():
            self.process.kill()
            self.process.communicate()
        self.process = None


sandbox = Sandbox()
"""The one of this process."""


@contextmanager
def open_hdf5(path: Path, *reads: str | tuple[str, str]) -> "Iterator[h5py.File]":
    """Open an HDF5 file for reading, after the sandbox has tried it.

    `reads` names the arrays whose values will be read, or only a field of them.
    """
    import h5py

    with report_damage(path, "an HDF5 file"):
        sandbox.check_hdf5(path, [(read, None) if isinstance(read, str) else read for read in reads])
        with h5py.File(path, "r", locking=False) as file:
            yield file
