"""The classes to train for: those that a user names, those that are known of a data set, or all in its labels."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from promask.errors import InputError, InputWarning
from promask.segmentation.classes import Classes
from promask.training.parts import Parts
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
        numbers.update(part.geometry.judged(sample.label).unique().tolist())
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
