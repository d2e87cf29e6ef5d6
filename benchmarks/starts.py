"""Random initial probabilities against the default ones, on held-out slices: a table of docs/benchmarks.md.

python -m benchmarks.starts FOLDER --loss mse
"""

import argparse
import statistics
from pathlib import Path

from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.evaluation.evaluate import evaluate
from promask.learning.api import learn
from promask.types import SampleSet

FILES = ("cardiac_sunnybrook", "brain_ms", "knee_multiecho")
ACCELERATIONS = (4, 8, 16, 32)


def main() -> None:
    """Learn every cell from both initial probabilities, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the three .npz files are")
    parser.add_argument("--files", nargs="+", default=FILES)
    parser.add_argument("--accelerations", nargs="+", type=float, default=ACCELERATIONS)
    parser.add_argument("--loss", default="mse")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    print("| data | x | PSNR / SSIM |\n|---|---|---|")
    for name in arguments.files:
        whole = load(str(arguments.folder / f"{name}.npz"))
        train, test = (choose_part(whole, part, default=part)[0] for part in ("train", "test"))
        for acceleration in arguments.accelerations:
            uniform, energy = (
                mean_scores(train, test, acceleration, arguments.loss, init, arguments.seeds)
                for init in ("uniform", "energy")
            )
            differences = f"{uniform[0] - energy[0]:+.3f} dB / {uniform[1] - energy[1]:+.4f}"
            print(f"| {name} | {acceleration:g} | {differences} |", flush=True)


def mean_scores(
    train: SampleSet, test: SampleSet, acceleration: float, loss: str, init: str, seeds: int
) -> tuple[float, float]:
    """PSNR and SSIM, means over held-out slices and seeds."""
    masks = [learn(train, acceleration, loss=loss, init=init, seed=seed).mask for seed in range(seeds)]
    summaries = [evaluate(mask, test).summary() for mask in masks]
    psnr, ssim = (statistics.fmean(summary[name] for summary in summaries) for name in ("psnr", "ssim"))
    return psnr, ssim


if __name__ == "__main__":
    main()
