"""Peak memory above the data, each kind of step in a process of its own."""

import multiprocessing
import resource

from benchmarks.steps import STEPS, hearts


def peak_memory(kind: str, size: int) -> int:
    """Bytes that a few steps need above the data, in a process of their own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak_memory, (kind, size))


def _peak_memory(kind: str, size: int) -> int:
    data = hearts(size)
    STEPS[kind](hearts(16), 5)  # libraries are loaded and threads are started
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    STEPS[kind](data, 5)
    return 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
