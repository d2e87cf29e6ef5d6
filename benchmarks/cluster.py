"""What a Dask cluster costs: `python -m benchmarks.cluster` starts one on this machine, with 1 worker and with 2.

It prints processor time beside wall time, because processor time hardly depends on the load of the machine.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from promask.problem.cluster import map_unordered
from promask.report.comparison import compare

CALLS, PAUSES, PAUSE = 2000, 200, 0.1


@contextmanager
def cluster(workers: int, folder: Path) -> Iterator[tuple[str, int, int]]:
    """The address of a scheduler, its process id, and the process id of a worker."""
    known = folder / f"scheduler-{workers}.json"
    processes = [_dask("scheduler", "--port", "0", "--scheduler-file", str(known))]
    try:
        while not (known.exists() and known.read_text().endswith("}")):
            time.sleep(0.1)
        address = json.loads(known.read_text())["address"]
        processes += [_dask("worker", address, "--no-nanny", "--nthreads", "1") for _ in range(workers)]
        while (
            len({process for _, process in map_unordered(address, _process, [0.1] * 4 * workers, int)}) < workers
        ):
            pass
        yield address, processes[0].pid, processes[1].pid
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _dask(*words: str) -> "subprocess.Popen[bytes]":
    words = (*words, "--host", "127.0.0.1", "--no-dashboard")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-m", "dask", *words], **quiet)


def _process(common: int, seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def processor_seconds(process: int) -> float:
    """The processor time that a process has used so far (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(process: int) -> float:
    """The resident memory of a process (Linux)."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def passed(address: str, count: int, seconds: float) -> float:
    """The wall time of `count` calls that only wait for some seconds."""
    began = time.perf_counter()
    assert sum(1 for _ in map_unordered(address, _process, [seconds] * count, int)) == count
    return time.perf_counter() - began


def cells(address: str, out: Path) -> None:
    """Run a comparison, so that a worker has loaded everything that masks need."""
    images = np.random.default_rng(0).random((24, 64, 64), dtype=np.float32)
    compare(images, 8, "random", seeds=20, out=out, scheduler=address)


def main() -> None:
    """Print a line for each number of workers."""
    with tempfile.TemporaryDirectory() as folder:
        for workers in (1, 2):
            with cluster(workers, Path(folder)) as (address, scheduler, worker):
                waited = passed(address, PAUSES, PAUSE)
                before = time.process_time(), processor_seconds(scheduler)
                empty = passed(address, CALLS, 0)
                here, there = time.process_time() - before[0], processor_seconds(scheduler) - before[1]
                cells(address, Path(folder) / f"out-{workers}")
                print(
                    f"{workers} worker(s): {PAUSES} calls of {PAUSE} s in {waited:.1f} s; an empty call takes "
                    f"{1e3 * empty / CALLS:.1f} ms, {1e3 * here / CALLS:.1f} ms of the command's processor and "
                    f"{1e3 * there / CALLS:.1f} ms of the scheduler's; memory after a comparison: scheduler "
                    f"{resident_megabytes(scheduler):.0f} MB, worker {resident_megabytes(worker):.0f} MB"
                )
        mask = next(Path(folder).rglob("masks/*/*.npy")).stat().st_size
        record = next(Path(folder).rglob("cells/*/*.json")).stat().st_size
        print(f"Files of a cell: {mask} bytes of mask, {record} bytes of record; load {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
