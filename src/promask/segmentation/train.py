"""The classes to train for: those that a user names, those that are known of a data set, or all in its labels.

From labelled images to a network that segments them: the whole of training in one call.
"""

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
from promask.data.file_set import OnFile
from promask.data.reading import Reading
from promask.data.sample_sets import reading_of
from promask.data.sources import load
from promask.errors import InputError, InputWarning
from promask.segmentation.classes import Classes
from promask.segmentation.fit import OnBatch, OnEpoch, Parts, Recipe, find_recipe, fit, score, split, summary
from promask.segmentation.network import Architecture, SegmentationNetwork
from promask.types import SampleSet

HEART = Classes(("right-ventricle", "myocardium", "left-ventricle"), (1, 2, 3))
TUMOUR = Classes(("whole", "core", "enhancing"), (1, 2, 3), overlapping=True)
KNOWN: Mapping[str, Classes] = {"acdc": HEART, "cardiac": HEART, "brats": TUMOUR}
"""By the name of the data set, or what stands before the colon."""


@dataclass(frozen=True)
class Found:
    """What the labels of a part hold."""

    numbers: frozenset[int]
    unlabelled: frozenset[str]
    """Classes that were not annotated in some of its samples."""


def choose_classes(parts: Parts, wanted: Classes | Sequence[str] | None, overlapping: bool, name: str) -> Classes:
    """The classes to train for, after a look at all labels: every class can be learned and validated."""
    train, validation, test = (_look(part, name) for part in (parts.train, parts.validation, parts.test))
    everywhere = Found(
        train.numbers | validation.numbers | test.numbers,
        train.unlabelled | validation.unlabelled | test.unlabelled,
    )
    if everywhere.numbers == {0}:
        raise InputError(f"The labels of {name} are 0 everywhere: there is nothing to segment.")
    classes = _classes(wanted, overlapping, name, sorted(everywhere.numbers - {0}))
    for class_name, value in zip(classes.names, classes.values, strict=True):
        if not _is_there(value, train, classes):
            raise InputError(
                f"The class {class_name} (label {value}) is in no sample of {name} that is learned from: name the "
                f"others with --classes, or add subjects that have it."
            )
    if not any(_is_there(value, validation, classes) for value in classes.values):
        raise InputError(
            f"None of the classes is in the validation part of {name}, which says when to stop: add subjects."
        )
    _check_annotations(everywhere, classes, name)
    return classes


def _check_annotations(found: Found, classes: Classes, name: str) -> None:
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
            f"background: name the classes, such as --classes {example}=1 other=2.",
            InputWarning,
            stacklevel=4,
        )


def _look(part: SampleSet, name: str) -> Found:
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
    return Found(frozenset(numbers), frozenset(unlabelled))


def _classes(
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


def _is_there(value: int, found: Found, classes: Classes) -> bool:
    return max(found.numbers) >= value if classes.overlapping else value in found.numbers


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
