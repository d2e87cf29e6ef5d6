"""How far from the centre to sample at several levels of noise: `python -m benchmarks.noise_reach blocks.npz`.

The file is that of `benchmarks.brain_blocks`. For each noise, a mask for CG-SENSE is learned among all samples,
and among those of most signal only, a few times as many as are acquired. Beside them: the largest energy, the
central block, and the mask of the learner, which finds its reach by itself.
"""

import argparse
import math
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.learning import learn_members
from promask.baselines import baseline_mask
from promask.data.reading import Reading
from promask.data.sources import read_part
from promask.evaluation.evaluate import evaluate
from promask.learners import exchange
from promask.learning.config import Config
from promask.losses.image import ImageLoss
from promask.operators.fourier import centred
from promask.problem.batches import SpectraSet
from promask.recon import make_reconstruction
from promask.sampling.pattern import Pattern

AXES = "subject coil x y z"
REACHES = (1.25, 1.6, 2.5, 4.0, math.inf)


def psnr_by_reach(path: str, noise: float, acceleration: float) -> dict[str, float]:
    """The mean PSNR of held-out blocks for each mask, as in `promask compare --convention fastmri`."""
    recon, reading = make_reconstruction("cg-sense"), Reading(volumes=True, axes=AXES, noise=noise)
    whole, learning, _, _ = read_part(path, reading, "train", recon=recon)
    pattern = Pattern(whole.shape[1:], free=(1, 2))
    slices = SpectraSet(learning, torch.device("cpu"), recon=recon, along=0)
    config = Config.preset("default", acceleration=acceleration, recon="cg-sense")

    def measured(mask: torch.Tensor) -> float:
        result = evaluate(mask, whole, "test", convention="fastmri", recon=recon)
        return float(result.summary()["psnr"])

    def learned(reaches: tuple[float, ...]) -> float:
        usual, exchange.REACHES = exchange.REACHES, reaches
        try:
            ensemble = learn_members(slices, pattern.plane(0), ImageLoss("mse"), config)
        finally:
            exchange.REACHES = usual
        theta = centred(ensemble.probabilities, 2)
        return measured(pattern.expand(pattern.largest(theta, pattern.budget(acceleration))))

    result = {
        name: measured(baseline_mask(name, learning, pattern, acceleration, recon=recon))
        for name in ("centre", "energy")
    }
    result |= {f"reach {reach:g}": learned((reach,)) for reach in REACHES}
    return {**result, "promask": learned(exchange.REACHES)}


def main() -> None:
    """Print a row for each noise and acceleration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--accel", type=float, nargs="+", default=[4.0, 8.0])
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.003, 0.01, 0.03])
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for acceleration in arguments.accel:
        for noise in arguments.noise:
            found = psnr_by_reach(arguments.path, noise, acceleration)
            rows.append({"accel": f"x{acceleration:g}", "noise": f"{noise:g}"})
            rows[-1] |= {name: f"{value:.2f}" for name, value in found.items()}
            print(rows[-1], flush=True)
    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row.values())
    Console(soft_wrap=True, highlight=False).print(table)


if __name__ == "__main__":
    main()
