"""How much memory a file may ask for: what is plausible for its size, known before any of it is taken.

A file that is not compressed holds what it says, and never meets these limits. One that is compressed may hold
a thousand times its size, as zeros do, and a header may promise anything. So a small file may hold as much as any
real one would, `ALWAYS`, and a large one `TIMES` its size as well: a file of 1 MB never takes more than 1 GB,
whatever is done with its content. Whoever has a file that is larger, and right, can save it without compression.

What headers tell of patients stays in the file.

Every HDF5 file is read by another process first, which may come to harm: see `sandbox_child`.
"""

import atexit
import hashlib
import json
import logging
import os
import selectors
import subprocess
import sys
import threading
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from promask.errors import InputError, one_line

ALWAYS = 256 << 20
"""Bytes that every file may hold: the labels of 500 slices of 512 x 512 pixels, whose file may have 100 kB."""
TIMES = 256
"""Of its size that a file may hold as well: real images come to 3, labels to a few hundred."""

PIECE = 1 << 20
"""Bytes that are unpacked at a time."""


def most_bytes(*files: Path) -> int:
    """The bytes that the content of these files may take."""
    try:
        return ALWAYS + TIMES * sum(file.stat().st_size for file in files)
    except OSError as error:
        raise InputError(f"Cannot read {files[0]}: {error.strerror or error}.") from error


def check_claim(claimed: int, *files: Path) -> None:
    """Refuse files whose content would take more bytes than is plausible."""
    if claimed > most_bytes(*files):
        raise too_large(claimed, files)


def unpacked(stream: IO[bytes], path: Path, bits: int = zlib.MAX_WBITS) -> Iterator[bytes]:
    """What the compressed rest of a stream holds, piece by piece; refused when it becomes more than is plausible.

    A stream that ends too early is a `zlib.error`.
    """
    most, total, unpacker = most_bytes(path), 0, zlib.decompressobj(bits)
    while not unpacker.eof:
        packed = unpacker.unconsumed_tail or stream.read(PIECE)
        piece = unpacker.decompress(packed, PIECE)
        if not packed and not piece:
            raise zlib.error("the stream ends too early")
        total += len(piece)
        if total > most:
            raise too_large(total, [path])
        yield piece


def too_large(claimed: int, files: Sequence[Path]) -> InputError:
    """What is said of files that claim too much."""
    size = sum(file.stat().st_size for file in files)
    return InputError(
        f"{files[0]} has {_amount(size)}, but says that it holds what takes {_amount(claimed)}, which is not "
        f"plausible: it is damaged, or made to fill the memory; if it is right, save it without compression."
    )


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
def unquoted() -> Iterator[None]:
    """Other packages read a header: their warnings and logs, which may quote what they find, are not shown."""
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


PROBE = Path(__file__).with_name("sandbox_child.py")
SECONDS, BYTES_PER_SECOND = 3.0, 10_000_000
"""Processor time that a file may take, far more than any needs, and what must be read in each second more."""
PATIENCE = 40
"""How much longer it may take by the clock, on a machine that is busy, or from a slow disk."""
CAREFUL = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3"}
"""With the C library of GNU, memory that the HDF5 library has damaged is noticed; elsewhere this means nothing."""
Reads = Sequence[tuple[str, str | None]]
"""Arrays whose values will be read, by name; of some, a single field."""


class _Trial:
    """The other process, started when it is needed and again when it came to harm."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.owner = 0
        self.lock = threading.Lock()
        self.passed: set[tuple[object, ...]] = set()

    def __call__(self, path: Path, reads: Reads) -> None:
        """Refuse a file that the library does not survive, or that claims too much."""
        state = path.stat()
        key = (str(path.absolute()), state.st_size, state.st_mtime_ns, state.st_ino, tuple(reads))
        with self.lock:
            if key in self.passed:
                return
            found = self._ask(path, reads, SECONDS + state.st_size / BYTES_PER_SECOND)
            if found:
                raise InputError(f"{path} is damaged: {one_line(found)}.")
            self.passed.add(key)

    def _ask(self, path: Path, reads: Reads, seconds: float) -> str:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        question = {"path": str(path.absolute()), "most": most_bytes(path), "seconds": seconds}
        try:
            process.stdin.write(json.dumps({**question, "reads": list(reads)}) + "\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                answer = process.stdout.readline() if selector.select(PATIENCE * seconds) else None
        except OSError:
            answer = None
        if answer:
            return str(json.loads(answer))
        self.stop()
        return "the HDF5 library does not survive it, or comes to no end with it"

    def _started(self) -> subprocess.Popen[str]:
        if self.process is None or self.owner != os.getpid():  # after a fork it belongs to the other process
            self.owner = os.getpid()
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(PROBE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **CAREFUL},
                text=True,
            )
            atexit.register(self.stop)
        return self.process

    def stop(self) -> None:
        """End the other process."""
        if self.process is not None and self.owner == os.getpid():
            self.process.kill()
            self.process.communicate()
        self.process = None


try_first = _Trial()
"""Refuses a file that is not to be read; what passed is not tried again as long as it stays the same."""
