"""From labelled images to a network that segments them: the whole of training in one call."""

import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from promask.data import OnFile, load, reading_of
from promask.errors import InputError
from promask.reading import Reading
from promask.segmentation.classes import Classes
from promask.segmentation.network import Architecture, SegmentationNetwork
from promask.training.class_choice import choose_classes
from promask.training.fit import OnBatch, OnEpoch, fit
from promask.training.parts import split
from promask.training.recipe import Recipe, find_recipe
from promask.training.scoring import score, summary
from promask.version import __version__


def train(
    data: Any,
    *,
    classes: Classes | Sequence[str] | None = None,
    overlapping: bool = False,
    preset: str | Recipe = "default",
    epochs: int | None = None,
    seed: int = 0,
    on_epoch: OnEpoch | None = None,
    on_batch: OnBatch | None = None,
    on_file: OnFile | None = None,
    **reading: Any,
) -> SegmentationNetwork:
    """Train a U-Net on fully sampled magnitude images, and measure it on subjects that it never saw.

    `data` is whatever `promask.data.load` takes, with labels. `classes` are texts such as `lesion=1`; without
    them, every number in the labels is a class. `overlapping`: a pixel belongs to every class whose number its
    label reaches. Further settings are those of `Reading`, for files. The network's `record` says how the
    training went and how good the network is.
    """
    recipe = find_recipe(preset, epochs)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InputError(f"seed must be a whole number from 0 to {2**32 - 1}, but is {seed!r}.")
    whole = load(data, Reading(**reading))
    parts = split(whole, on_file)
    began = time.perf_counter()
    chosen = choose_classes(parts, classes, overlapping, whole.name)
    channels, *space = whole.shape
    network = SegmentationNetwork(Architecture(channels, chosen, len(space), recipe.widths), seed)
    history = fit(network, parts, recipe, seed, on_epoch, on_batch)
    network.record = {
        "data": whole.name,
        "shape": list(whole.shape),
        "reading": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in reading_of(whole).reading_settings().items()
        },
        "split": parts.sizes(),
        "preset": preset if isinstance(preset, str) else None,
        "seed": seed,
        "epochs": len(history.loss),
        "best_epoch": history.best,
        "history": {"loss": history.loss, "dice": history.dice},
        "test": summary(score(network, parts.test), chosen),
        "seconds": round(time.perf_counter() - began, 3),
        "versions": {
            "promask": __version__,
            "torch": str(torch.__version__),
            "monai": version("monai"),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    return network
