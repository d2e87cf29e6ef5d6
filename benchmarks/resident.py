"""How the memory of this process changes over the steps of a run."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PAGE = os.sysconf("SC_PAGE_SIZE")
COLUMNS = "MB after warm-up | MB for 1,000 steps | floor, MB | max - min, MB"


def resident() -> int:
    """Bytes that the process holds in memory now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


@dataclass(frozen=True)
class Growth:
    """The growth of the memory after the warm-up, in MB."""

    level: float
    slope: float
    """The slope of a straight line through all steps, in MB for 1,000 steps."""
    floor: float
    """The smallest value of the last quarter minus that of the first: memory that is never released."""
    spread: float
    """The largest value minus the smallest."""

    def cells(self) -> str:
        """The cells of a Markdown table below `COLUMNS`."""
        return f"{self.level:.0f} | {self.slope:+.3f} | {self.floor:+.1f} | {self.spread:.1f}"


class Memory:
    """Memory after each step, in an array that is allocated beforehand."""

    def __init__(self, steps: int) -> None:
        self.bytes: npt.NDArray[Any] = np.full(steps, -1, np.int64)  # written to, so that it is resident

    def note(self, step: int) -> None:
        """Record the memory after a step, counted from 1."""
        self.bytes[step - 1] = resident()

    def growth(self, warm_up: float = 0.2) -> Growth:
        """The growth after a warm-up of this fraction of the steps."""
        first = int(warm_up * len(self.bytes))
        megabytes = self.bytes[first:] / 2**20
        steps = np.arange(first, len(self.bytes)) / 1000
        slope = float(np.polyfit(steps, megabytes, 1)[0])
        part = len(megabytes) // 4
        floor = float(megabytes[-part:].min() - megabytes[:part].min())
        return Growth(float(megabytes.mean()), slope, floor, float(np.ptp(megabytes)))
