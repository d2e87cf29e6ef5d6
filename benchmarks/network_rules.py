"""Ways to learn a mask for a network, beside masks that need no learning.

`python -m benchmarks.network_rules DATA NETWORK` learns from the training patients of the network and evaluates
on its validation patients; the held-out patients are not used. Learned masks are evaluated without the comparison
with reference masks.
"""

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from promask.data.file_set import prepared
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.evaluation.evaluate import segmented
from promask.learning.config import Config
from promask.learning.ensemble import optimise_members
from promask.learning.selection import JUDGES, mean_loss, plain_masks
from promask.losses.base import Task
from promask.losses.image import ImageLoss
from promask.losses.segmentation import Segmentation, frozen, segmentation_by
from promask.operators.fourier import centred
from promask.problem.batches import Samples
from promask.problem.initial import starting_probabilities
from promask.sampling.distribution import MaskDistribution
from promask.sampling.pattern import Pattern
from promask.types import UnitMask

WAYS: Mapping[str, Mapping[str, Any]] = {
    "promask for mse": {},
    "published: Gumbel, Adam": {"rule": "published", "steps": 50, "batch_size": 16, "init": "energy"},
    "response to gains": {"rule": "response", "steps": 50, "batch_size": 16, "samples": 1, "patience": 10},
    "shape (the default)": {"rule": "shape"},
}


def learned(
    way: str, samples: Samples, pattern: Pattern, acceleration: float, task: Segmentation, seed: int
) -> UnitMask:
    """The mask of one way to learn."""
    goal: Task = ImageLoss("mse") if way == "promask for mse" else task
    config = Config.preset("default", acceleration=acceleration, loss=goal.name, seed=seed, **WAYS[way])
    start = starting_probabilities(config.init, samples, pattern)
    theta = optimise_members(samples, pattern, goal, config, start).probabilities
    distribution = MaskDistribution(centred(theta, len(pattern.free)), pattern, pattern.budget(acceleration))
    return pattern.restrict(distribution.mode())


def main() -> None:
    """One line for each way: the loss and the Dice of each class on validation patients, and the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("network", type=Path)
    parser.add_argument("--acceleration", type=float, default=32)
    parser.add_argument("--pattern", default="2d")
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    task = segmentation_by(arguments.network)
    known = choose_part(load(arguments.data), "train", usual="train")[0]
    fitted, validation = (prepared(choose_part(known, part, usual=part)[0]) for part in ("train", "test"))
    cpu = torch.device("cpu")
    samples, judges = Samples(fitted, cpu, task.label), Samples(validation, cpu, task.label)
    pattern = Pattern.named(arguments.pattern, fitted.shape[1:], None, fitted.geometry.extent)

    def tell(name: str, units: UnitMask, seconds: float) -> None:
        dice = segmented(task, validation, pattern.expand(units)).dice.nanmean(0)
        loss = mean_loss(units, judges, pattern, task, JUDGES)
        rounded = [round(value, 4) for value in dice.tolist()]
        print(
            json.dumps({"way": name, "loss": round(loss, 4), "dice": rounded, "seconds": round(seconds)}),
            flush=True,
        )

    with frozen(task.network):
        budget = pattern.budget(arguments.acceleration)
        tell("everything", torch.ones(pattern.unit_shape, dtype=torch.bool), 0)
        for name, units in plain_masks(samples, pattern, budget, centre=0).items():
            tell(name, units, 0)
        for way in WAYS:
            for seed in range(arguments.seeds):
                began = time.perf_counter()
                units = learned(way, samples, pattern, arguments.acceleration, task, seed)
                tell(way, units, time.perf_counter() - began)


if __name__ == "__main__":
    main()
