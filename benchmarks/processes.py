"""Learning with one process and with two, each with one thread; and what checkpoints cost.

`torchrun --nproc-per-node 2 -m benchmarks.processes 256 30` measures all kinds and prints them as JSON.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from benchmarks.steps import ACCELERATION, WARM_UP, hearts
from promask.data.sample_sets import ArraySet
from promask.learning.api import learn
from promask.problem.parallel import joined

PROCESSES = 2
KINDS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "default": ("default preset, 16 x 1", {}),
    "large": ("default preset, 64 x 1", {"batch_size": 64}),
    "paper": ("paper preset, 32 x 4", {"preset": "paper", "members": 1}),
    "cg-sense": ("CG-SENSE, 8 coils, 4 x 1", {"recon": "cg-sense", "coils": 8}),
}
"""The images x masks of a step and the settings of each kind."""


def processes_table(size: int, steps: int) -> list[dict[str, Any]]:
    """For each kind, the seconds of a step and of the whole run, with one and with two processes."""
    measured = {str(count): _measured_in(count, size, steps) for count in (1, PROCESSES)}
    return [
        {"step": label, **{count: kinds[kind] for count, kinds in measured.items()}}
        for kind, (label, _) in KINDS.items()
    ]


def checkpoints(data: ArraySet, steps: int) -> dict[str, Any]:
    """The number of checkpoints that a run of `steps` steps writes, and the seconds that they take."""
    with tempfile.TemporaryDirectory() as folder:
        run = learn(data, ACCELERATION, steps=steps, patience=0, checkpoint=folder)
    return {"seconds": run.record.seconds, "steps": steps, "checkpoints": asdict(run.record.checkpoints)}


def _measured_in(count: int, size: int, steps: int) -> dict[str, dict[str, float]]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    command = [*launcher, "-m", "benchmarks.processes", str(size), str(steps)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(size: int, steps: int) -> None:
    """Learn with the other processes of the group, if there are any."""
    torch.set_num_threads(1)
    images = hearts(size).images
    seconds = {}
    with joined() as group:
        for kind, (_, settings) in KINDS.items():
            stamps: list[float] = []
            run = learn(
                images,
                ACCELERATION,
                steps=steps,
                patience=0,
                group=group,
                on_step=lambda _, stamps=stamps: stamps.append(time.perf_counter()),
                **settings,
            )
            intervals = [after - before for before, after in itertools.pairwise(stamps[WARM_UP:])]
            seconds[kind] = {"step": statistics.median(intervals), "run": run.record.seconds}
    if group.leads:
        print(json.dumps(seconds))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
