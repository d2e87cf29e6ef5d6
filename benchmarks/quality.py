"""Learned masks against the closed form on held-out slices: the tables of docs/benchmarks.md.

python -m benchmarks.quality FOLDER --loss mse --seeds 5 --out runs/quality-mse.json
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.igs import igs
from promask.baselines import baseline_mask
from promask.data import choose_part, load
from promask.evaluation import evaluate
from promask.fourier import centred
from promask.learning.batches import Samples
from promask.learning.learn import learn
from promask.patterns import Pattern
from promask.tasks import Reconstruction
from promask.types import Mask, SampleSet

FILES = ("cardiac_sunnybrook", "brain_ms", "knee_multiecho")
ACCELERATIONS = (4, 8, 16, 32)


def main() -> None:
    """Learn and evaluate every cell; the JSON file grows with every one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the three .npz files are")
    parser.add_argument("--files", nargs="+", default=FILES)
    parser.add_argument("--accelerations", nargs="+", type=float, default=ACCELERATIONS)
    parser.add_argument("--loss", default="mse")
    parser.add_argument("--pattern", default="2d")
    parser.add_argument("--init", default=None, help="energy or uniform; the preset's choice without it")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True, help="where the JSON goes")
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)

    cells = []
    print(HEADING[arguments.pattern])
    for name in arguments.files:
        whole = load(str(arguments.folder / f"{name}.npz"))
        train, test = (choose_part(whole, part, usual=part)[0] for part in ("train", "test"))
        for acceleration in arguments.accelerations:
            cell = {"data": name, "acceleration": acceleration}
            cell |= measure(train, test, acceleration, arguments)
            cells.append(cell)
            print(row(cell), flush=True)
            record = {"settings": {**vars(arguments), "folder": "", "out": ""}, "cells": cells}
            arguments.out.write_text(json.dumps(record, indent=1))


def measure(
    train: SampleSet, test: SampleSet, acceleration: float, arguments: argparse.Namespace
) -> dict[str, Any]:
    """One cell: the closed form, greedy lines if the units are lines, and the learned masks of all seeds."""
    pattern = Pattern.named(arguments.pattern, train.shape[1:])
    cell: dict[str, Any] = {
        "energy": scores(baseline_mask("energy", train, pattern, acceleration), test),
    }
    if arguments.pattern == "1d":
        samples, budget = Samples(train, torch.device("cpu")), pattern.budget(acceleration)
        lines = centred(igs(samples, pattern, Reconstruction(arguments.loss), budget), 1)
        cell["igs"] = scores(pattern.expand(lines), test)
    learned, seconds = [], []
    for seed in range(arguments.seeds):
        began = time.perf_counter()
        run = learn(
            train,
            acceleration,
            loss=arguments.loss,
            init=arguments.init,
            pattern=arguments.pattern,
            seed=seed,
        )
        seconds.append(time.perf_counter() - began)
        learned.append(scores(run.mask, test))
    return cell | {"learned": learned, "seconds": seconds}


def scores(mask: Mask, test: SampleSet) -> dict[str, float]:
    """Means over the held-out slices."""
    summary = evaluate(mask, test).summary()
    return {name: summary[name] for name in ("psnr", "ssim")}


HEADING = {
    "2d": "| data | x | energy PSNR / SSIM | learned PSNR / SSIM | gain | spread | seconds |\n"
    "|---|---|---|---|---|---|---|",
    "1d": "| data | x | energy PSNR / SSIM | greedy IGS | learned PSNR / SSIM | gain | spread | seconds |\n"
    "|---|---|---|---|---|---|---|---|",
}


def row(cell: dict[str, Any]) -> str:
    """The cell as a row of Markdown: means over the seeds, and the largest minus the smallest."""
    energy, learned = cell["energy"], cell["learned"]
    psnr, ssim = ([score[name] for score in learned] for name in ("psnr", "ssim"))
    mean = statistics.fmean(psnr), statistics.fmean(ssim)
    columns = [cell["data"], f"{cell['acceleration']:g}", f"{energy['psnr']:.2f} / {energy['ssim']:.4f}"]
    if "igs" in cell:
        columns.append(f"{cell['igs']['psnr']:.2f} / {cell['igs']['ssim']:.4f}")
    columns += [
        f"{mean[0]:.2f} / {mean[1]:.4f}",
        f"{mean[0] - energy['psnr']:+.3f} dB / {mean[1] - energy['ssim']:+.4f}",
        f"{max(psnr) - min(psnr):.3f} dB / {max(ssim) - min(ssim):.4f}",
        f"{statistics.median(cell['seconds']):.1f}",
    ]
    return f"| {' | '.join(columns)} |"


if __name__ == "__main__":
    main()
