"""What a step costs, as ratios within one run: `make bench`."""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.textbook import Settings, gumbel_source, textbook
from promask.config import Config
from promask.data import from_images
from promask.data.cardiac import cardiac
from promask.fourier import to_kspace
from promask.learning.batches import Samples, index_batches
from promask.learning.loop import optimise
from promask.patterns import Pattern
from promask.tasks import Reconstruction

SIZE = 256
WARM_UP = 2


def median_seconds(steps: Iterator[object]) -> float:
    """The median time from one item of an iterator to the next, after a few to warm up."""
    stamps = []
    for _ in steps:
        stamps.append(time.perf_counter())
    return statistics.median(after - before for before, after in itertools.pairwise(stamps[WARM_UP:]))


def textbook_step(kspace: torch.Tensor, steps: int) -> float:
    """A step of Algorithm 1 at the paper's settings."""
    generator = torch.Generator().manual_seed(0)
    settings = Settings(acceleration=8)
    theta = torch.rand(SIZE, SIZE, generator=generator)
    batches = index_batches(len(kspace), 32, generator)
    learner = textbook(
        kspace, theta, settings, torch.nn.functional.mse_loss, batches, gumbel_source(torch.float32, generator)
    )
    return median_seconds(itertools.islice(learner, steps))


def promask_step(samples: Samples, preset: str, steps: int) -> float:
    """A step of the one loop with the settings of a preset."""
    stamps: list[float] = []
    config = Config.preset(preset, acceleration=8, steps=steps)
    pattern = Pattern((SIZE, SIZE), (0, 1))
    optimise(samples, pattern, Reconstruction("mse"), config, on_step=lambda _: stamps.append(time.perf_counter()))
    return statistics.median(after - before for before, after in itertools.pairwise(stamps[WARM_UP:]))


def fourier_floor(preset: str, repeats: int) -> float:
    """The bare transforms of a step: one back for each reconstruction, one forth for each gradient."""
    config = Config.preset(preset, acceleration=8)
    arrays = torch.randn(config.batch_size * config.samples, SIZE, SIZE, dtype=torch.complex64)
    out = torch.empty_like(arrays)

    def transforms() -> Iterator[None]:
        for _ in range(repeats):
            torch.fft.ifft2(arrays, norm="ortho", out=out)
            torch.fft.fft2(arrays, norm="ortho", out=out)
            yield

    return median_seconds(transforms())


def main() -> None:
    """Measure, print a table, and write the numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10, help="steps of each kind to take the median of")
    parser.add_argument("--out", type=Path, default=Path("runs/bench.json"), help="where the JSON goes")
    arguments = parser.parse_args()
    steps = arguments.steps + WARM_UP

    images = cardiac(subjects=8, slices=6, size=SIZE)
    data = from_images(images.image, images.label, images.subject, name="cardiac")
    samples = Samples(data, torch.device("cpu"))
    rows: list[tuple[str, float, float]] = []
    measurements: list[tuple[str, str, Callable[[], float]]] = [
        ("textbook, 32 x 4", "paper", lambda: textbook_step(to_kspace(data.images, (-2, -1)), steps)),
        ("paper preset, 32 x 4", "paper", lambda: promask_step(samples, "paper", steps)),
        ("default preset, 8 x 4", "default", lambda: promask_step(samples, "default", 3 * steps)),
    ]
    floors = {preset: fourier_floor(preset, steps) for preset in ("paper", "default")}
    for name, preset, measure in measurements:
        rows.append((name, measure(), floors[preset]))

    slowest = rows[0][1]
    table = Table("step (images x masks)", box=None, pad_edge=False)
    for heading in ("ms", "textbook / this", "this / Fourier floor"):
        table.add_column(heading, justify="right")
    for name, seconds, floor in rows:
        table.add_row(name, f"{1e3 * seconds:.0f}", f"{slowest / seconds:.1f}", f"{seconds / floor:.1f}")
    Console().print(f"{SIZE} x {SIZE}, {torch.get_num_threads()} threads", table, sep="\n")
    record = [{"step": name, "seconds": seconds, "fourier_floor": floor} for name, seconds, floor in rows]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(
        json.dumps({"size": SIZE, "threads": torch.get_num_threads(), "rows": record}, indent=1)
    )


main()
