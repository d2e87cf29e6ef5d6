"""Dask clusters for tests: a real scheduler and real workers, on this machine only, which end with the test."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import promask

SOURCES = Path(promask.__file__).parents[1]


@dataclass
class Cluster:
    """The processes of a cluster; what they say goes to files in its folder."""

    folder: Path
    address: str = ""
    scheduler: subprocess.Popen | None = None
    workers: list[subprocess.Popen] = field(default_factory=list)

    def start(self, failures, protocol):
        place = self.folder / "scheduler.json"
        self.scheduler = self._process(
            "scheduler",
            *("--port", "0", "--scheduler-file", place, "--protocol", protocol),
            DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=str(failures),
        )
        while not (place.exists() and place.read_text().endswith("}")):
            assert self.scheduler.poll() is None, (self.folder / "scheduler.txt").read_text()
            time.sleep(0.05)
        self.address = json.loads(place.read_text())["address"]

    def add_worker(self, threads=1, preload=None, **environment):
        words = ["worker", self.address, "--no-nanny", "--nthreads", threads, "--local-directory", self.folder]
        self.workers.append(self._process(*words, *(["--preload", preload] if preload else []), **environment))
        return self.workers[-1]

    def await_workers(self):
        """Until all that were added are there."""
        from distributed import Client

        wanted = {worker.pid for worker in self.workers}
        with Client(self.address, set_as_default=False) as client:
            while set(client.run(os.getpid).values()) != wanted:
                assert all(worker.poll() is None for worker in self.workers)
                time.sleep(0.05)

    def stop(self):
        for process in filter(None, [*self.workers, self.scheduler]):
            process.kill()
            process.wait()

    def _process(self, *words, **environment):
        inherited = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        name = f"{words[0]}{len(self.workers)}.txt" if words[0] == "worker" else "scheduler.txt"
        with (self.folder / name).open("w") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *map(str, words), "--host", "127.0.0.1", "--no-dashboard"],
                cwd=self.folder,
                env={**inherited, "PYTHONPATH": str(SOURCES), **environment},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )


@contextmanager
def running_cluster(folder, failures=3, protocol="tcp"):
    """A scheduler without workers; work that ended more of them than `failures` is not tried again."""
    cluster = Cluster(folder)
    try:
        cluster.start(failures, protocol)
        yield cluster
    finally:
        cluster.stop()
