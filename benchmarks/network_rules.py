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

from benchmarks.learning import learn_members
from promask.data.file_set import prepare
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.evaluation.segmentation import segment
from promask.learning.config import Config
from promask.learning.selection import MOST_JUDGED, reference_masks
from promask.losses.base import Loss
from promask.losses.image import ImageLoss
from promask.losses.segmentation import Segmentation, freeze, make_segmentation
from promask.operators.fourier import centred
from promask.problem.batches import SpectraSet
from promask.problem.problem import mean_loss
from promask.sampling.distribution import MaskDistribution
from promask.sampling.pattern import Pattern
from promask.types import UnitMask

WAYS: Mapping[str, Mapping[str, Any]] = {
    "promask for mse": {},
    "published: Gumbel, Adam": {"learner": "gumbel-adam", "steps": 50, "batch_size": 16, "init": "energy"},
    "response to gains": {"learner": "best-response", "steps": 50, "batch_size": 16, "samples": 1, "patience": 10},
    "shape (the default)": {"learner": "shape-race"},
}


def learned(
    way: str, samples: SpectraSet, pattern: Pattern, acceleration: float, task: Segmentation, seed: int
) -> UnitMask:
    """The mask of one way to learn."""
    goal: Loss = ImageLoss("mse") if way == "promask for mse" else task
    config = Config.preset("default", acceleration=acceleration, loss=goal.name, seed=seed, **WAYS[way])
    theta = learn_members(samples, pattern, goal, config).probabilities
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
    task = make_segmentation(arguments.network)
    known = choose_part(load(arguments.data), "train", default="train")[0]
    fitted, validation = (prepare(choose_part(known, part, default=part)[0]) for part in ("train", "test"))
    cpu = torch.device("cpu")
    samples, judges = SpectraSet(fitted, cpu, task.label), SpectraSet(validation, cpu, task.label)
    pattern = Pattern.named(arguments.pattern, fitted.shape[1:], None, fitted.geometry.extent)

    def tell(name: str, units: UnitMask, seconds: float) -> None:
        dice = segment(task, validation, pattern.expand(units)).dice.nanmean(0)
        loss = mean_loss(units, judges, pattern, task, MOST_JUDGED)
        rounded = [round(value, 4) for value in dice.tolist()]
        print(
            json.dumps({"way": name, "loss": round(loss, 4), "dice": rounded, "seconds": round(seconds)}),
            flush=True,
        )

    with freeze(task.network):
        budget = pattern.budget(arguments.acceleration)
        tell("everything", torch.ones(pattern.unit_shape, dtype=torch.bool), 0)
        for name, units in reference_masks(samples, pattern, budget, centre=0).items():
            tell(name, units, 0)
        for way in WAYS:
            for seed in range(arguments.seeds):
                began = time.perf_counter()
                units = learned(way, samples, pattern, arguments.acceleration, task, seed)
                tell(way, units, time.perf_counter() - began)


if __name__ == "__main__":
    main()
