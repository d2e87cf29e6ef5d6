"""What a step costs, as ratios within one run: `make bench`."""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.textbook import Settings, gumbel_source, textbook
from promask.config import Config
from promask.data import ArraySet, from_images
from promask.data.cardiac import cardiac
from promask.fourier import to_kspace
from promask.learning.batches import Samples, index_batches
from promask.learning.loop import optimise
from promask.learning.start import starting_probabilities
from promask.patterns import Pattern
from promask.tasks import Reconstruction

WARM_UP = 2


def median_interval(stamps: list[float]) -> float:
    """The median time between neighbouring time stamps, after a few to warm up."""
    return statistics.median(after - before for before, after in itertools.pairwise(stamps[WARM_UP:]))


def textbook_step(data: ArraySet, steps: int) -> float:
    """A step of Algorithm 1 at the paper's settings."""
    generator = torch.Generator().manual_seed(0)
    theta = torch.rand(data.shape[1:], generator=generator)
    batches = index_batches(len(data), 32, generator)
    gumbel = gumbel_source(torch.float32, generator)
    kspace = to_kspace(data.images, (-2, -1))
    learner = textbook(kspace, theta, Settings(acceleration=8), torch.nn.functional.mse_loss, batches, gumbel)
    return median_interval([time.perf_counter() for _ in itertools.islice(learner, steps)])


def promask_step(data: ArraySet, preset: str, steps: int) -> float:
    """A step of the one loop with the settings of a preset."""
    stamps: list[float] = []
    config = Config.preset(preset, acceleration=8, steps=steps)
    samples = Samples(data, torch.device("cpu"))
    pattern = Pattern.named("2d", data.shape[1:])
    start = starting_probabilities(config.init, samples, pattern, pattern.budget(8))
    on_step = lambda _: stamps.append(time.perf_counter())  # noqa: E731
    optimise(samples, pattern, Reconstruction("mse"), config, start, on_step=on_step)
    return median_interval(stamps)


def fourier_floor(data: ArraySet, preset: str, steps: int) -> float:
    """The bare transforms of a step: one back for each reconstruction, one forth for each gradient."""
    config = Config.preset(preset, acceleration=8)
    arrays = torch.randn(config.batch_size * config.samples, *data.shape[1:], dtype=torch.complex64)
    out = torch.empty_like(arrays)

    def transforms() -> Iterator[None]:
        for _ in range(steps):
            torch.fft.ifft2(arrays, norm="ortho", out=out)
            torch.fft.fft2(arrays, norm="ortho", out=out)
            yield

    return median_interval([time.perf_counter() for _ in transforms()])


def main() -> None:
    """Measure, print a table, and write the numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10, help="steps of each kind to take the median of")
    parser.add_argument("--size", type=int, default=256, help="pixels along each axis")
    parser.add_argument("--out", type=Path, default=Path("runs/bench.json"), help="where the JSON goes")
    arguments = parser.parse_args()
    steps, size = arguments.steps + WARM_UP + 1, arguments.size

    made = cardiac(subjects=8, slices=6, size=size)
    data = from_images(made.image, made.label, made.subject, name="cardiac")
    floors = {preset: fourier_floor(data, preset, steps) for preset in ("paper", "default")}
    rows = [
        ("textbook, 32 x 4", textbook_step(data, steps), floors["paper"]),
        ("paper preset, 32 x 4", promask_step(data, "paper", steps), floors["paper"]),
        ("default preset, 8 x 4", promask_step(data, "default", 3 * steps), floors["default"]),
    ]
    yardstick = rows[0][1]
    table = Table("step (images x masks)", box=None, pad_edge=False)
    for heading in ("ms", "textbook / this", "this / Fourier floor"):
        table.add_column(heading, justify="right")
    for name, seconds, floor in rows:
        table.add_row(name, f"{1e3 * seconds:.1f}", f"{yardstick / seconds:.1f}", f"{seconds / floor:.1f}")
    threads = torch.get_num_threads()
    Console().print(f"{size} x {size}, {threads} threads", table, sep="\n")
    record = [{"step": name, "seconds": seconds, "fourier_floor": floor} for name, seconds, floor in rows]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"size": size, "threads": threads, "rows": record}, indent=1))


main()
