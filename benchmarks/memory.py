"""Peak memory above the data, with each kind of step in a separate process."""

import multiprocessing
from pathlib import Path

from benchmarks.steps import STEPS, hearts


def peak_memory(kind: str, size: int) -> int:
    """Bytes that a few steps need above the data, measured in a separate process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak_memory, (kind, size))


def _peak_memory(kind: str, size: int) -> int:
    data = hearts(size)
    STEPS[kind](hearts(16), 5)  # libraries are loaded and threads are started
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak is counted from here on
    before = kilobytes("VmRSS")
    STEPS[kind](data, 5)
    return 1024 * (kilobytes("VmHWM") - before)


def kilobytes(name: str) -> int:
    """A line of what Linux tells of this process."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1])
