"""Much data and many steps: does memory stay constant, and do the probabilities stay valid?

python -m benchmarks.load
"""

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.resident import COLUMNS, Memory
from benchmarks.volumes import Volumes
from promask.baselines import baseline_mask
from promask.data.arrays import from_images
from promask.evaluation.evaluate import evaluate
from promask.learning.api import learn
from promask.learning.hooks import Progress
from promask.problem import batches
from promask.sampling.pattern import Pattern

BATCH = 16
SHORTER = 50
"""The long run is compared with a run of this many times fewer steps."""
SCALE = {"gumbel-adam": 0.002}
"""Factors for the images: the published learner works at some scales only; the others work at any scale."""


def stream(volumes: int, slices: int, size: int, rounds: int) -> str:
    """Learn from every slice of volumes that are generated on the fly, in each round; none is kept in memory."""
    data = Volumes(volumes, slices, size)
    return _streamed(f"{volumes} volumes of {slices} slices, made on the fly", data, data, rounds)


def files(volumes: int, slices: int, size: int, epochs: int) -> str:
    """The same from NIfTI files through the cache, for several epochs."""
    data = Volumes(volumes, slices, size)
    with tempfile.TemporaryDirectory() as folder, kept_in_memory(_bytes(data) // 4):
        os.environ["PROMASK_CACHE"] = f"{folder}/cache"
        for volume in range(volumes):
            _save(Path(folder) / f"sub-{volume:04d}.nii.gz", [data[volume * slices + z] for z in range(slices)])
        return _streamed(f"{volumes} NIfTI files of {slices} slices", folder, data, epochs)


def _streamed(name: str, source: Any, data: Volumes, epochs: int = 1) -> str:
    steps = epochs * len(data) // BATCH
    memory = Memory(steps)
    began = time.perf_counter()
    run = learn(
        source,
        8,
        steps=steps,
        batch_size=BATCH,
        patience=0,
        part="all",
        on_step=lambda progress: memory.note(progress.step),
    )
    seconds = time.perf_counter() - began
    assert run.record.data.images == len(data)
    waited = run.record.seconds_waited / run.record.seconds
    size = f"{data.size} x {data.size} | {_bytes(data) / 2**30:.2f}"
    return f"| {name}, {size} | {steps} | {memory.growth().cells()} | {seconds:.0f} | {100 * waited:.0f} % |"


def _bytes(data: Volumes) -> int:
    """The memory of all spectra and targets, if they were kept."""
    return len(data) * data.size**2 * 12


def _save(path: Path, slices: list[Any]) -> None:
    import nibabel

    volume = np.stack(slices, axis=-1)
    nibabel.Nifti1Image(volume, np.diag([1.0, 1.0, 4.0, 1.0])).to_filename(path)


@contextmanager
def kept_in_memory(limit: int) -> Iterator[None]:
    """A context in which a data set of more than this many bytes is read again for every batch."""
    usual, batches.MEMORY = batches.MEMORY, limit
    try:
        yield
    finally:
        batches.MEMORY = usual


class Guard:
    """Checks every step: finite numbers, probabilities from 0 to 1, and a sum within the budget."""

    def __init__(self, steps: int, budget: int) -> None:
        self.memory, self.budget, self.steps = Memory(steps), budget, steps
        self.loss = np.full(steps, np.nan)
        self.excess = -math.inf
        """The largest excess over the budget of a step, summed exactly."""
        self.bad = 0
        self.before: torch.Tensor | None = None
        """The mode a twentieth of the steps before the end: from the last tenth on, nothing is scheduled to change
        but the temperature."""

    def on_step(self, progress: Progress) -> None:
        """Called after every step."""
        theta = progress.probabilities
        self.loss[progress.step - 1] = progress.loss
        self.memory.note(progress.step)
        self.excess = max(self.excess, math.fsum(theta.flatten().tolist()) - progress.budget)
        inside = bool(torch.isfinite(theta).all()) and float(theta.min()) >= 0 and float(theta.max()) <= 1
        self.bad += not (inside and math.isfinite(progress.loss))
        if progress.step == self.steps - self.steps // 20:
            self.before = self.mode(theta)

    def mode(self, theta: torch.Tensor) -> torch.Tensor:
        """The units of largest probability, as many as the budget has."""
        chosen = torch.zeros(theta.numel(), dtype=torch.bool)
        chosen[theta.flatten().topk(self.budget).indices] = True
        return chosen


def day(learner: str, steps: int, size: int, acceleration: float = 4) -> str:
    """Take very many steps on a few small images and check each of them."""
    scale = SCALE.get(learner, 1.0)
    made = Volumes(8, 3, size)
    data = from_images(np.stack([scale * made[3 * index + 1] for index in range(8)]))
    pattern = Pattern.named("2d", data.shape[1:])
    settings: dict[str, Any] = {"batch_size": 8, "samples": 1, "patience": 0, "learner": learner}
    if learner == "gumbel-adam":
        settings |= {"preset": "paper", "members": 1}
    guard = Guard(steps, pattern.budget(acceleration))
    last: list[torch.Tensor] = []

    def on_step(progress: Progress) -> None:
        guard.on_step(progress)
        if progress.step == steps:
            last.append(progress.probabilities)

    began = time.perf_counter()
    run = learn(data, acceleration, steps=steps, on_step=on_step, **settings)
    seconds = time.perf_counter() - began
    psnr = _psnr_on(data)
    short = learn(data, acceleration, steps=max(1, steps // SHORTER), **settings)
    closed_form = baseline_mask("energy", data, pattern, acceleration)
    assert guard.before is not None
    turned = int((guard.before & ~guard.mode(last[0])).sum())
    part = steps // 20
    late, later = guard.loss[-2 * part : -part].mean(), guard.loss[-part:].mean()
    return (
        f"| {learner} | {steps} | {guard.bad} | {guard.excess:.1e} | {100 * (later / late - 1):+.2f} % | "
        f"{turned} of {guard.budget} | {psnr(run.mask):.2f}, {psnr(short.mask):.2f}, {psnr(closed_form):.2f} | "
        f"{guard.memory.growth().cells()} | {seconds:.0f} |"
    )


def _psnr_on(data: Any) -> Callable[[torch.Tensor], float]:
    return lambda mask: float(evaluate(mask, data).summary()["psnr"])


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--volumes", type=int, default=1000, help="number of volumes of 35 slices to stream")
    parser.add_argument("--size", type=int, default=256, help="pixels of the slices along each axis")
    parser.add_argument("--rounds", type=int, default=2, help="number of epochs over the volumes")
    parser.add_argument("--files", type=int, default=200, help="number of files to stream")
    parser.add_argument("--steps", type=int, default=100_000, help="steps on the small grid")
    parser.add_argument("--grid", type=int, default=16, help="samples of the small grid along each axis")
    parser.add_argument("--learners", nargs="+", default=["best-response", "gumbel-adam", "exchange"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"| data | GB | steps | {COLUMNS} | seconds | waiting |")
    print("|---|---|---|---|---|---|---|---|---|")
    print(stream(arguments.volumes, 35, arguments.size, arguments.rounds), flush=True)
    print(files(arguments.files, 20, arguments.size // 4, epochs=10), flush=True)
    print(
        "\n| learner | steps | bad steps | largest excess | change of the loss | changed samples | "
        f"PSNR: at the end, after 1/{SHORTER} of the steps, closed form | {COLUMNS} | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for learner in arguments.learners:
        print(day(learner, arguments.steps, arguments.grid), flush=True)


if __name__ == "__main__":
    main()
