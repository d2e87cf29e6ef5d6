"""Every HDF5 file is read by another process first, which may come to harm: see `hdf5_probe`."""

import atexit
import json
import os
import selectors
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from promask.errors import InputError, one_line
from promask.limits import most_bytes

PROBE = Path(__file__).with_name("hdf5_probe.py")
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
