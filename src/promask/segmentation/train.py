"""From labelled images to a network that segments them: the classes to train for, and training in one call."""

import platform
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from promask import __version__
from promask.data.device import find_device
from promask.data.file_set import OnFile
from promask.data.reading import Reading
from promask.data.sample_sets import reading_of
from promask.data.sources import load, refuse_series
from promask.errors import InputError, InputWarning
from promask.segmentation.classes import Classes
from promask.segmentation.fit import (
    OnBatch,
    OnEpoch,
    Parts,
    Recipe,
    find_recipe,
    fit,
    score_network,
    split,
    summarise,
)
from promask.segmentation.network import Architecture, SegmentationNetwork
from promask.types import SampleSet

HEART = Classes(("right-ventricle", "myocardium", "left-ventricle"), (1, 2, 3))
TUMOUR = Classes(("whole", "core", "enhancing"), (1, 2, 3), overlapping=True)
KNOWN: Mapping[str, Classes] = {"acdc": HEART, "cardiac": HEART, "brats": TUMOUR}
"""By the name of the data set, or what stands before the colon."""


@dataclass(frozen=True)
class LabelSummary:
    """The numbers in the labels of a part, and the classes that were not annotated in some of its samples."""

    numbers: frozenset[int]
    unlabelled: frozenset[str]


def choose_classes(parts: Parts, wanted: Classes | Sequence[str] | None, overlapping: bool, name: str) -> Classes:
    """The classes to train for: those asked for, those known of the data set, or all numbers in its labels."""
    train, validation, test = (
        _summarise_labels(part, name) for part in (parts.train, parts.validation, parts.test)
    )
    everywhere = LabelSummary(
        train.numbers | validation.numbers | test.numbers,
        train.unlabelled | validation.unlabelled | test.unlabelled,
    )
    if everywhere.numbers == {0}:
        raise InputError(f"The labels of {name} are 0 everywhere: there is nothing to segment.")
    classes = _resolve_classes(wanted, overlapping, name, sorted(everywhere.numbers - {0}))
    for class_name, value in zip(classes.names, classes.values, strict=True):
        if not _is_present(value, train, classes):
            raise InputError(
                f"The class {class_name} (label {value}) is in no training sample of {name}: name the others "
                f"with `classes`, or add subjects that have it."
            )
    if not any(_is_present(value, validation, classes) for value in classes.values):
        raise InputError(
            f"None of the classes is in the validation part of {name}, which decides when to stop: add subjects."
        )
    _check_annotations(everywhere, classes, name)
    return classes


def _check_annotations(found: LabelSummary, classes: Classes, name: str) -> None:
    """Refuse classes that may be hidden in others, and warn of those that may be in the background unnoticed."""
    numbers = found.numbers - {0}
    for class_name, value in zip(classes.names, classes.values, strict=True):
        if classes.overlapping and class_name in found.unlabelled and min(numbers) < value:
            raise InputError(
                f"The class {class_name} lies inside another one, but was not annotated in some samples of "
                f"{name}: of overlapping classes only the outermost may be missing."
            )
    unknown = found.unlabelled - set(classes.names)
    if unknown and (classes.overlapping or numbers <= set(classes.values)):
        example = min(unknown)
        warnings.warn(
            f"{name} says where {example} was annotated, but no class is called so, and what is missing counts as "
            f"background: name the classes with `classes`, such as {example}=1 other=2.",
            InputWarning,
            stacklevel=4,
        )


def _summarise_labels(part: SampleSet, name: str) -> LabelSummary:
    numbers: set[int] = set()
    unlabelled: set[str] = set()
    for index in range(len(part)):
        sample = part[index]
        if sample.label is None:
            raise InputError(
                f"{sample.name} has no label, but a network learns from labels: give them for all samples, such "
                f"as an array `label` in a .npz file."
            )
        numbers.update(part.geometry.crop(sample.label).unique().tolist())
        unlabelled.update(sample.unlabelled)
    if min(numbers) < 0:
        raise InputError(f"The labels of {name} must be 0 or more, but one is {min(numbers)}.")
    return LabelSummary(frozenset(numbers), frozenset(unlabelled))


def _resolve_classes(
    wanted: Classes | Sequence[str] | None, overlapping: bool, name: str, numbers: Sequence[int]
) -> Classes:
    if isinstance(wanted, Classes):
        return wanted
    known = KNOWN.get(name.partition(":")[0])
    overlapping = overlapping or (known is not None and known.overlapping)
    if wanted is not None:
        return Classes.parse([wanted] if isinstance(wanted, str) else wanted, overlapping)
    if known is not None:
        return replace(known, overlapping=overlapping)
    return Classes(tuple(map(str, numbers)), tuple(numbers), overlapping)


def _is_present(value: int, found: LabelSummary, classes: Classes) -> bool:
    return max(found.numbers) >= value if classes.overlapping else value in found.numbers


def train(
    data: Any,
    *,
    classes: Classes | Sequence[str] | None = None,
    overlapping: bool = False,
    preset: str | Recipe = "default",
    epochs: int | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
    on_epoch: OnEpoch | None = None,
    on_batch: OnBatch | None = None,
    on_file: OnFile | None = None,
    **reading: Any,
) -> SegmentationNetwork:
    """Train a U-Net on fully sampled magnitude images, and measure it on subjects that it never saw.

    Args:
        data: Whatever `promask.data.load` takes, with labels.
        classes: Texts such as `lesion=1`; by default every number in the labels is a class.
        overlapping: Whether a pixel belongs to every class whose number its label reaches.
        preset: `default`, `small`, or a `Recipe`.
        epochs: Times that every training image is seen, at most; None for that of the preset.
        seed: The same seed gives the same network.
        device: Where PyTorch computes, such as `cpu` or `cuda`.
        on_epoch: Called after every epoch.
        on_batch: Called after every batch with the batches done and those of all epochs.
        on_file: Called while files are read.
        **reading: Settings of `Reading`, for files.

    Returns:
        The network, on the CPU; its `record` says how it was trained and how good it is.
    """
    recipe, device = find_recipe(preset, epochs), find_device(device)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InputError(f"seed must be a whole number from 0 to {2**32 - 1}, but is {seed!r}.")
    whole = load(data, Reading(**reading))
    refuse_series(whole, "training a network")
    parts = split(whole, on_file)
    began = time.perf_counter()
    chosen = choose_classes(parts, classes, overlapping, whole.name)
    channels, *space = whole.shape
    network = SegmentationNetwork(Architecture(channels, chosen, len(space), recipe.widths), seed).to(device)
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
        "test": summarise(score_network(network, parts.test), chosen),
        "seconds": round(time.perf_counter() - began, 3),
        "versions": {
            "promask": __version__,
            "torch": str(torch.__version__),
            "monai": version("monai"),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    return network.cpu()
