"""The time of one step of learning for a segmentation network, and of the bare network on the same batch."""

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.learning import learn_members, step_times
from promask.data.sample_sets import ArraySet
from promask.learners.shape_race import shapes
from promask.learning.config import Config
from promask.losses.segmentation import Segmentation, freeze
from promask.problem.batches import SpectraSet
from promask.sampling.pattern import Pattern
from promask.segmentation.classes import Classes, dice_cross_entropy
from promask.segmentation.network import Architecture, SegmentationNetwork
from promask.types import Batch

ACCELERATION = 16
BATCH = 32


def network_steps(data: ArraySet, steps: int) -> dict[str, Any]:
    """Seconds for one reconstruction per image: of gradient and shape steps, and of the network alone."""
    task = Segmentation(SegmentationNetwork(Architecture(data.shape[0], Classes.parse(["a", "b", "c"]))))
    samples = SpectraSet(data, torch.device("cpu"), task.label)
    with freeze(task.network):
        bare = _median(lambda: _bare_pass(samples, task), steps)
        gradient = _step(samples, data, task, steps, learner="best-response", batch_size=BATCH)
        shape = _first_round(samples, data, task)
    return {"bare": bare, "gradient": gradient, "shape": shape, "images": BATCH}


def _first_round(samples: SpectraSet, data: ArraySet, task: Segmentation) -> float:
    """The seconds of the first round of a race, divided by the number of its masks."""
    config = Config.preset("default", acceleration=ACCELERATION, loss=task.name, steps=1, batch_size=BATCH)
    pattern = Pattern.named("2d", data.shape[1:])
    none = torch.zeros(pattern.unit_shape, dtype=torch.bool)
    masks = len(shapes(samples.mean_energy(pattern), pattern, 1, none, none).candidates())
    began = time.perf_counter()
    learn_members(samples, pattern, task, config)
    return (time.perf_counter() - began) / masks


def _step(samples: SpectraSet, data: ArraySet, task: Segmentation, steps: int, **settings: Any) -> float:
    config = Config.preset(
        "default", acceleration=ACCELERATION, loss=task.name, steps=steps + 1, patience=0, **settings
    )
    pattern = Pattern.named("2d", data.shape[1:])
    stamps = step_times(samples, pattern, task, config)
    return statistics.median(after - before for before, after in itertools.pairwise(stamps))


def _bare_pass(samples: SpectraSet, task: Segmentation) -> None:
    """Forward and backward pass, in micro-batches as large as those of the loop."""
    assert task.classes is not None
    pieces: list[Batch] = list(samples.pieces(torch.arange(BATCH).remainder(len(samples))))
    for piece in pieces:
        assert piece.labels is not None
        images = piece.targets.detach().requires_grad_()
        loss = dice_cross_entropy(task.network(images), piece.labels, task.classes)
        torch.autograd.grad(loss, images)


def _median(action: Callable[[], None], repeats: int) -> float:
    stamps = [time.perf_counter()]
    for _ in range(repeats + 1):
        action()
        stamps.append(time.perf_counter())
    return statistics.median(after - before for before, after in itertools.pairwise(stamps[1:]))
