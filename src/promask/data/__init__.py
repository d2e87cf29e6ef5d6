"""Data sets: built-in names, NumPy files and arrays. A new kind is one file and one line in a table here."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from promask.data.arrays import from_images, from_kspace, read_npy, read_npz
from promask.data.brain import brain
from promask.data.cardiac import cardiac
from promask.data.head import head
from promask.data.knee import knee
from promask.data.phantom import Anatomy
from promask.data.sets import ArraySet, Subset
from promask.data.split import PARTS, choose_part
from promask.errors import InputError
from promask.types import Sample, SampleSet

__all__ = [
    "BUILT_IN",
    "PARTS",
    "READERS",
    "ArraySet",
    "Subset",
    "choose_part",
    "from_images",
    "from_kspace",
    "load",
]


def _procedural(anatomy: Callable[..., Anatomy], name: str) -> Callable[..., ArraySet]:
    def build(volumes: bool = False, phase: bool = False) -> ArraySet:
        if volumes:
            raise InputError(f"The built-in {name} has slices only: leave out the volumes.")
        made = anatomy(phase=phase)
        return from_images(made.image, made.label, made.subject, name=name)

    return build


BUILT_IN: Mapping[str, Callable[..., ArraySet]] = {
    "brain": brain,
    "head": head,
    "cardiac": _procedural(cardiac, "cardiac"),
    "knee": _procedural(knee, "knee"),
}
READERS: Mapping[str, Callable[[Path, bool], SampleSet]] = {".npz": read_npz, ".npy": read_npy}


def load(data: Any, volumes: bool = False) -> SampleSet:
    """A data set from whatever a user has: a DATA string, a path, an array, a tensor or a torch Dataset.

    `volumes` says that a sample has three axes rather than two. A built-in name may be followed by `+phase`.

    >>> load(torch.rand(3, 16, 16)).shape
    (1, 16, 16)
    """
    if isinstance(data, str | Path):
        return _from_text(str(data), volumes)
    if isinstance(data, SampleSet):
        return data
    if isinstance(data, torch.Tensor) or hasattr(data, "__array__"):
        return from_images(data, volumes=volumes)
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return _from_dataset(data, volumes)
    raise InputError(f"Cannot take data from a {type(data).__name__}: give an array, a Dataset, a file or a name.")


def _from_text(text: str, volumes: bool) -> SampleSet:
    name, _, option = text.partition("+")
    if name in BUILT_IN and option in ("", "phase"):
        return BUILT_IN[name](volumes=volumes, phase=option == "phase")
    path = Path(text)
    if not path.exists():
        built_in = ", ".join(BUILT_IN)
        raise InputError(f"{text} is neither a file nor a built-in data set ({built_in}).")
    if path.suffix not in READERS or path.is_dir():
        raise InputError(f"{text} cannot be read: promask reads {' and '.join(READERS)} files.")
    return READERS[path.suffix](path, volumes)


def _from_dataset(data: Any, volumes: bool) -> SampleSet:
    """A torch Dataset whose items are samples, images, or (image, label) pairs."""
    items = [data[index] for index in range(len(data))]
    if not items:
        raise InputError("The data set is empty.")
    name = type(data).__name__
    if isinstance(items[0], Sample):
        images = [item.image for item in items]
        labels = [item.label for item in items]
        subjects = [item.group for item in items]
    else:
        pairs = [item if isinstance(item, tuple | list) else (item, None) for item in items]
        if not all(isinstance(pair[0], torch.Tensor) or hasattr(pair[0], "__array__") for pair in pairs):
            raise InputError(f"The items of the {name} must be images, (image, label) pairs or promask samples.")
        images = [torch.as_tensor(pair[0]) for pair in pairs]
        labels = [pair[1] for pair in pairs]
        subjects = None
    if len({image.shape for image in images}) > 1:
        raise InputError(f"The images of the {name} differ in shape: they must be alike.")
    stacked_labels = None
    if all(label is not None for label in labels):
        stacked_labels = torch.stack([torch.as_tensor(label) for label in labels])
    return from_images(torch.stack(images), stacked_labels, subjects, volumes, f"the {name}")
