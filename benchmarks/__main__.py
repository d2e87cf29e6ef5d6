"""The cost of learning, as ratios within one run on one machine: `make bench`."""

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.hybrid import hybrid_steps, large_run
from benchmarks.memory import peak_memory
from benchmarks.network import network_steps
from benchmarks.processes import PROCESSES, checkpoints, processes_table
from benchmarks.reading import reading
from benchmarks.reconstructions import COILS, WHOLE, reconstruction_steps, run_step
from benchmarks.rotations import rotation_run, rotation_steps
from benchmarks.series import series_memory, series_steps
from benchmarks.steps import STEPS, default_step, fourier_floor, hearts
from promask.baselines import baseline_mask
from promask.data.arrays import from_images
from promask.data.sample_sets import ArraySet, choose_part
from promask.evaluation.evaluate import evaluate
from promask.learning.api import learn
from promask.sampling.pattern import Pattern

ACCELERATION = 8
PUBLISHED_STEPS = 2500
SCALING_SIZES = (64, 128, 256, 512, 1024)


def steps_table(data: ArraySet, steps: int) -> list[dict[str, Any]]:
    """The time of each kind of step, and of its Fourier transforms alone."""
    floors = {pairs: fourier_floor(data, pairs, steps) for pairs in (128, 16)}
    kinds = [("textbook", "textbook, 32 x 4", 128), ("paper", "paper preset, 32 x 4", 128)]
    kinds.append(("default", "default preset, 16 x 1", 16))
    return [
        {"step": label, "seconds": STEPS[kind](data, steps), "fourier_floor": floors[pairs]}
        for kind, label, pairs in kinds
    ]


def whole_run(data: ArraySet) -> dict[str, float]:
    """The seconds of a default run, and the PSNR of its mask and of the closed form on held-out slices."""
    began = time.perf_counter()
    run = learn(data, ACCELERATION)
    seconds = time.perf_counter() - began
    train, _ = choose_part(data, "train", default="train")
    pattern = Pattern.named("2d", data.shape[1:])
    closed_form = baseline_mask("energy", train, pattern, ACCELERATION)
    return {
        "seconds": seconds,
        "psnr": evaluate(run.mask, data).summary()["psnr"],
        "psnr_closed_form": evaluate(closed_form, data).summary()["psnr"],
    }


def published_psnr(data: ArraySet) -> float:
    """The PSNR of one member of the published algorithm with all its steps, which takes minutes."""
    run = learn(data, ACCELERATION, preset="paper", members=1)
    return float(evaluate(run.mask, data).summary()["psnr"])


def scaling(sizes: Sequence[int], steps: int) -> dict[str, Any]:
    """The time of a default step for several numbers of pixels, and the exponent of a fitted power law."""
    seconds = [default_step(hearts(size, subjects=4, slices=4), steps) for size in sizes]
    logs = torch.tensor([[math.log(size**2), math.log(time)] for size, time in zip(sizes, seconds, strict=True)])
    x, y = (logs - logs.mean(0)).T
    return {"sizes": list(sizes), "seconds": seconds, "exponent": float((x * y).sum() / (x * x).sum())}


def volume_run(shape: tuple[int, int, int], steps: int) -> dict[str, Any]:
    """Learning in three dimensions, from one volume of stacked hearts."""
    slices = hearts(max(shape[0], shape[1]), subjects=shape[2], slices=1).images[:, 0, : shape[0], : shape[1]]
    volume = slices.permute(1, 2, 0)[None, None]
    run = learn(volume, ACCELERATION, pattern="3d", steps=steps, batch_size=2, patience=0)
    closed_form = baseline_mask(
        "energy", from_images(volume, volumes=True), run.distribution.pattern, ACCELERATION
    )
    psnr = {
        name: evaluate(mask, volume).summary()["psnr"]
        for name, mask in (("psnr", run.mask), ("psnr_closed_form", closed_form))
    }
    return {"shape": list(shape), "seconds_per_step": run.record.seconds / steps, **psnr}


def main() -> None:
    """Measure, print tables, and write the numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10, help="steps of each kind; the median is reported")
    parser.add_argument("--size", type=int, default=256, help="pixels along each axis")
    parser.add_argument("--largest", type=int, default=SCALING_SIZES[-1], help="pixels of the largest grid")
    parser.add_argument("--volumes", type=int, default=40, help="number of volumes to read from files")
    parser.add_argument("--frames", type=int, default=20, help="frames of each series")
    parser.add_argument("--volume", type=int, default=160, help="length of the large volume; 0: none")
    parser.add_argument(
        "--published", action="store_true", help="also run one member of the paper preset, which takes minutes"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/bench.json"), help="where the JSON goes")
    arguments = parser.parse_args()
    steps, size = arguments.steps + 3, arguments.size

    data = hearts(size)
    rows = steps_table(data, steps)
    textbook = rows[0]["seconds"]
    run = whole_run(data)
    if arguments.published:
        run["psnr_published"] = published_psnr(data)
    memory = {kind: peak_memory(kind, size) for kind in STEPS}
    growth = scaling([n for n in SCALING_SIZES if n <= arguments.largest], steps)
    quarter = size // 2
    volume = volume_run((quarter, quarter, quarter // 2), steps=20)
    files = reading(size, volumes=arguments.volumes, slices=20, steps=4 * steps)

    network = network_steps(data, max(2, arguments.steps // 3))
    several = processes_table(size, 4 * steps)
    kept = checkpoints(data, 25 * arguments.steps)
    iterative = {"images": reconstruction_steps(data, arguments.steps), "step": run_step(data, arguments.steps)}

    of_series = (arguments.frames, min(96, 3 * size // 8))
    series = {**series_steps(arguments.steps, *of_series), "memory": series_memory(*of_series)}

    rotations = {**rotation_steps(arguments.steps, min(192, size)), "run": rotation_run(min(192, size))}

    n = arguments.volume
    small = (n * 3 // 16, n // 2, n * 3 // 5)
    hybrid = {"steps": hybrid_steps(small, 120), "large": large_run((n, n * 6 // 5, n))} if n else None

    record = {
        "size": size,
        "threads": torch.get_num_threads(),
        "rows": rows,
        "run": {**run, "textbook_run": PUBLISHED_STEPS * textbook},
        "memory": memory,
        "scaling": growth,
        "volume": volume,
        "reading": files,
        "network": network,
        "processes": several,
        "checkpoints": kept,
        "iterative": iterative,
        "series": series,
        "rotations": rotations,
        "hybrid": hybrid,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=1))
    show(record)


def show(record: dict[str, Any]) -> None:
    """Print the numbers as tables and sentences."""
    console, rows, run = Console(soft_wrap=True, highlight=False), record["rows"], record["run"]
    textbook = rows[0]["seconds"]
    console.print(f"{record['size']} x {record['size']}, {record['threads']} threads")
    table = Table("step (images x masks)", box=None, pad_edge=False)
    for heading in ("ms", "textbook / this", "this / Fourier floor"):
        table.add_column(heading, justify="right")
    for row in rows:
        seconds, floor = row["seconds"], row["fourier_floor"]
        table.add_row(row["step"], f"{1e3 * seconds:.1f}", f"{textbook / seconds:.1f}", f"{seconds / floor:.1f}")
    console.print(table)
    published = f", published {run['psnr_published']:.2f} dB" if "psnr_published" in run else ""
    console.print(
        f"A default run takes {run['seconds']:.1f} s, 1/{run['textbook_run'] / run['seconds']:.0f} of a textbook "
        f"run: {run['psnr']:.2f} dB, closed form {run['psnr_closed_form']:.2f} dB{published}."
    )
    memory = record["memory"]
    console.print(
        "Peak memory above the data: "
        + ", ".join(
            f"{kind} {size / 2**20:.0f} MB ({size / max(memory['textbook'], 1):.2f})"
            for kind, size in memory.items()
        )
    )
    growth = record["scaling"]
    each = ", ".join(
        f"{size}: {1e3 * seconds:.1f} ms" for size, seconds in zip(growth["sizes"], growth["seconds"], strict=True)
    )
    console.print(f"A default step on larger grids: {each}; time grows like n^{growth['exponent']:.2f}.")
    volume = record["volume"]
    console.print(
        f"A volume of {' x '.join(map(str, volume['shape']))}: {volume['seconds_per_step']:.2f} s a step, "
        f"{volume['psnr']:.2f} dB, closed form {volume['psnr_closed_form']:.2f} dB."
    )
    files = record["reading"]
    memory_step, disk = files["memory"]["step"], files["disk"]
    console.print(
        f"{files['slices']} slices in gzipped NIfTI files: preprocessed in {files['seconds']['first']:.1f} s, "
        f"opened again in {files['seconds']['again']:.2f} s. A default step from disk takes "
        f"{disk['step'] / memory_step:.2f} times one from memory ({1e3 * disk['step']:.1f} and "
        f"{1e3 * memory_step:.1f} ms), {100 * disk['waiting']:.1f} % of it waiting for the disk."
    )
    network = record["network"]
    console.print(
        f"With a segmentation U-Net and {network['images']} images: a gradient step takes "
        f"{network['gradient'] / network['bare']:.2f} times a forward and backward pass of the bare network "
        f"({network['bare']:.2f} s), and as many reconstructions of a shape step "
        f"{network['shape'] / network['bare']:.2f} times."
    )
    table = Table("a process of one thread", box=None, pad_edge=False)
    for heading in ("step, ms", f"speed-up with {PROCESSES}: a step", "the whole run"):
        table.add_column(heading, justify="right")
    for row in record["processes"]:
        one, several = row["1"], row[str(PROCESSES)]
        ratios = (f"{one[what] / several[what]:.2f}" for what in ("step", "run"))
        table.add_row(row["step"], f"{1e3 * one['step']:.1f}", *ratios)
    console.print(table)
    kept = record["checkpoints"]
    console.print(
        f"Checkpoints of a run of {kept['steps']} steps: {kept['checkpoints']['written']}, which took "
        f"{100 * kept['checkpoints']['seconds'] / kept['seconds']:.2f} % of {kept['seconds']:.1f} s."
    )
    iterative = record["iterative"]
    table = Table(f"one image, {COILS} coils", box=None, pad_edge=False)
    for heading in ("ms", "this / its own transforms"):
        table.add_column(heading, justify="right")
    for row in iterative["images"]:
        table.add_row(row["step"], f"{1e3 * row['seconds']:.1f}", f"{row['ratio']:.2f}")
    console.print(table)
    console.print(
        f"A step of learning for CG-SENSE takes {iterative['step']:.2f} s, so that {WHOLE} steps take "
        f"{WHOLE * iterative['step'] / 60:.1f} minutes."
    )
    show_series(console, record["series"])
    spokes = record["rotations"]
    console.print(
        f"A step of CG-SENSE for {spokes['spokes']} of {spokes['candidates']} spokes, {spokes['coils']} coils and "
        f"{spokes['size']} x {spokes['size']} pixels takes {1e3 * spokes['seconds']:.1f} ms, "
        f"{spokes['transforms']:.2f} times its own Fourier transforms. A default run takes {spokes['run']:.0f} s."
    )
    if record["hybrid"] is None:
        return
    steps, large = record["hybrid"]["steps"], record["hybrid"]["large"]
    whole = steps["steps"] * steps["whole_step"]
    console.print(
        f"A volume of {' x '.join(map(str, steps['shape']))} with {COILS} coils and cs: {steps['steps']} steps in "
        f"hybrid space take {steps['run']:.1f} s, 1/{whole / steps['run']:.0f} of as many on whole volumes. "
        f"{' x '.join(map(str, large['shape']))} with CG-SENSE, from raw data to the report: "
        f"{large['seconds'] / 60:.1f} minutes, {large['above_data'] / 2**30:.1f} GB above the "
        f"{large['data'] / 2**30:.2f} GB of the data."
    )


def show_series(console: Console, series: dict[str, Any]) -> None:
    """Print what a step for series of frames takes."""
    memory = ", ".join(f"{size / 2**20:.0f} MB for {number} series" for number, size in series["memory"].items())
    console.print(
        f"A step of swaps on {series['columns']} columns of series of {series['coils']} coils, "
        f"{series['frames']} frames and {series['lines']} lines takes {series['seconds']:.2f} s, "
        f"{series['transforms']:.2f} times its own Fourier transforms, and {series['reconstructions']:.2f} times "
        f"its reconstructions. Peak memory above the data: {memory}."
    )


if __name__ == "__main__":
    main()
