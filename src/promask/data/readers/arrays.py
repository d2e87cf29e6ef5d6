"""Files that hold arrays by name: which of them is taken, and as what."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from promask.data.atomic import NUMBERS, Array
from promask.data.reading import Reading
from promask.data.sample_file import RawSample, ReadMaps, SampleFile
from promask.errors import InputError, InputWarning, one_line

MAPS = "maps"
RESERVED = ("label", "subject", "slice_id", MAPS)
"""Arrays that say something about the images."""
ANNOTATED = "has_"
"""The beginning of the names of arrays that say where a class, which comes after it, was annotated."""


@dataclass(frozen=True)
class LazyArray:
    """An array in a file: its shape and type are known, its values are read when they are asked for."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    whole: Callable[[], Array]
    """Reads all values."""
    read_rows: Callable[[Sequence[int]], Iterable[Array]] | None = None
    """Reads the entries along the first axis that have these increasing indices; None: of all values."""

    @classmethod
    def of(cls, array: Array) -> "LazyArray":
        """An array in memory."""
        return cls(array.shape, array.dtype, lambda: array)

    def rows(self, indices: Sequence[int]) -> Iterable[Array]:
        """The entries along the first axis that have these increasing indices."""
        if self.read_rows is not None:
            return self.read_rows(indices)
        values = self.whole()
        return (values[index] for index in indices)

    @property
    def paired(self) -> bool:
        """Whether real and imaginary parts are two fields."""
        fields = [self.dtype[name] for name in self.dtype.names or ()]
        return len(fields) == 2 and all(field.kind in "iuf" for field in fields)

    @property
    def is_complex(self) -> bool:
        """Whether the numbers are complex."""
        return self.dtype.kind == "c" or self.paired

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.dtype.kind in NUMBERS or self.paired


def read_arrays(arrays: Mapping[str, LazyArray], path: Path, reading: Reading) -> SampleFile:
    """The samples in a file of named arrays, (N, *space), (N, channel, *space) or a single one, (*space)."""
    name, holds_kspace = _choose(arrays, path, reading)
    array = arrays[name]
    if not array.is_numeric:
        kind = "a structure" if array.dtype.kind == "V" else f"{array.dtype} values"
        raise InputError(f"{path} holds {kind}, but numbers are expected.")
    dimensions = 3 if reading.volumes else 2
    # Real and imaginary parts along the last axis, as raw data often have them.
    split = holds_kspace and not array.is_complex and array.shape[-1:] == (2,)
    shape = array.shape[:-1] if split else array.shape
    if holds_kspace and not split and not array.is_complex:
        raise InputError(f"The k-space of {path} is not complex.")
    if 0 in shape:
        raise InputError(f"{path} holds no images: its shape is {list(shape)}.")
    if not dimensions <= len(shape) <= dimensions + 2:
        raise InputError(
            f"{path} has shape {list(shape)}, but images of {dimensions} axes are expected, alone or "
            f"stacked as (N, *space) or (N, channel, *space)."
        )
    alone = len(shape) == dimensions
    space = shape[-dimensions:]
    channels = shape[1] if len(shape) == dimensions + 2 else 1
    count = 1 if alone else shape[0]
    label = arrays.get("label")
    wanted = space if alone else (count, *space)
    if label is not None and label.shape != wanted:
        raise InputError(
            f"The labels of {path} have shape {list(label.shape)}, but its images need labels of shape "
            f"{list(wanted)}."
        )
    numbers = reading.choose_slices(count)

    def read(chosen: Sequence[int]) -> Iterator[RawSample]:
        rows = [array.whole()] if alone else array.rows(chosen)
        labels = [None] * len(chosen) if label is None else [label.whole()] if alone else label.rows(chosen)
        for values, labelled in zip(rows, labels, strict=True):
            yield join_complex(values, split).reshape(channels, *space), labelled

    subjects = _subjects(arrays, path, count)
    maps = None if name == MAPS else _maps(arrays, path, reading, (count, channels, *space))
    return SampleFile(
        files=(path,),
        shape=(channels, *space),
        numbers=numbers,
        read=read,
        holds_kspace=holds_kspace,
        subjects=None if subjects is None else [subjects[number] for number in numbers],
        unlabelled=_unlabelled(arrays, path, count, numbers),
        maps=maps,
        variant=f"{path.suffix} {name}, {holds_kspace}{', maps' if maps else ''}",
    )


def _maps(
    arrays: Mapping[str, LazyArray], path: Path, reading: Reading, shape: tuple[int, ...]
) -> ReadMaps | None:
    """The coil maps beside samples of this shape, (N, channel, *space): for all of them, or one for each.

    Emulated k-space is that of magnitudes, which no maps describe.
    """
    if MAPS not in arrays or reading.kspace == "emulated":
        return None
    maps, each = arrays[MAPS], (reading.coils or shape[1], *shape[2:])
    if not maps.is_numeric or maps.shape not in (each, (shape[0], *each)):
        if reading.maps is not None:
            return None
        raise InputError(
            f"The `{MAPS}` of {path} have shape {list(maps.shape)}, but its images need coil maps of shape "
            f"{list(each)}, or one for each of the {shape[0]}: give others with `maps`, or rename the array."
        )

    def read(chosen: Sequence[int]) -> Iterator[Array]:
        if maps.shape == each:
            return itertools.repeat(join_complex(maps.whole()), len(chosen))
        return map(join_complex, maps.rows(chosen))

    return read


def join_complex(values: Array, split: bool = False) -> Array:
    """Complex numbers as such, whether they were stored as two fields or, if `split`, along the last axis."""
    if values.dtype.names is not None:
        real, imaginary = (values[field].astype(np.float32) for field in values.dtype.names)
    elif split:
        real, imaginary = (values[..., part].astype(np.float32) for part in (0, 1))
    else:
        return values
    return real + np.complex64(1j) * imaginary


def list_names(names: Iterable[str], most: int = 20) -> str:
    """The names of arrays in a sentence; a file may hold any number of them, with any letters."""
    known = [one_line(name, 60) for name in names]
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more if known else "nothing"


def _choose(arrays: Mapping[str, LazyArray], path: Path, reading: Reading) -> tuple[str, bool]:
    """The name of the array to take, and whether it is k-space."""
    usual = ("kspace", "image") if reading.holds == "kspace" else ("image", "kspace")
    name = reading.array
    if name is None:
        name = next((name for name in usual if name in arrays), None) or _only(arrays, path, reading)
    if name not in arrays:
        raise InputError(f"{path} holds no array {name!r}, but {list_names(arrays)}.")
    if reading.holds is not None:
        return name, reading.holds == "kspace"
    if name in usual:
        return name, name == "kspace"
    if arrays[name].is_complex:
        _warn(
            f"{path}: complex {one_line(name)!r} is taken as centred k-space; set `holds` to image if it is one."
        )
    return name, arrays[name].is_complex


def _warn(sentence: str) -> None:
    warnings.warn(sentence, InputWarning, stacklevel=3)


def _only(arrays: Mapping[str, LazyArray], path: Path, reading: Reading) -> str:
    """The array to take if none is named as usual: the first one of numbers with enough axes."""
    images = [name for name in arrays if name not in RESERVED and not name.startswith(ANNOTATED)]
    if len(images) == 1:
        return images[0]
    dimensions = 3 if reading.volumes else 2
    found = [name for name in images if arrays[name].is_numeric and len(arrays[name].shape) >= dimensions]
    if not found:
        raise InputError(f"{path} holds neither an array 'image' nor 'kspace', but {list_names(arrays)}.")
    if len(found) > 1:
        _warn(f"{path} holds {list_names(found)}: {one_line(found[0])} is taken; choose another one with `array`.")
    return found[0]


def _subjects(arrays: Mapping[str, LazyArray], path: Path, count: int) -> list[str] | None:
    key = next((key for key in ("subject", "slice_id") if key in arrays), None)
    if key is None:
        return None
    try:
        names = [_text(value, path) for value in np.asarray(arrays[key].whole()).reshape(-1)]
    except SystemError as error:  # NumPy's, for numbers that are no letters
        raise InputError(f"{path} is damaged: its {key} is no text.") from error
    if len(names) != count:
        raise InputError(f"{path} has {count} images, but names {len(names)} subjects.")
    if key == "subject":
        return names
    # Plain slice numbers say nothing of patients; to take each for one would leak neighbours into the test.
    return [name.split("_")[0] for name in names] if all("_" in name for name in names) else None


def _unlabelled(
    arrays: Mapping[str, LazyArray], path: Path, count: int, numbers: Sequence[int]
) -> list[tuple[str, ...]] | None:
    """What arrays such as `has_myocardium` say: one value per image, false where it was not annotated."""
    names = [name for name in arrays if name.startswith(ANNOTATED)]
    if "label" not in arrays or not names:
        return None
    annotated = {name.removeprefix(ANNOTATED): np.asarray(arrays[name].whole()).reshape(-1) for name in names}
    for name, values in annotated.items():
        if len(values) != count or values.dtype.kind not in "buif" or not np.isin(values, (0, 1)).all():
            raise InputError(f"{path} has {count} images, but {ANNOTATED}{name} is not one truth value for each.")
    return [tuple(name for name, values in annotated.items() if not values[number]) for number in numbers]


def _text(value: Any, path: Path) -> str:
    if isinstance(value, float | np.floating) and value.is_integer():  # MATLAB's numbers
        value = int(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if not isinstance(value, str | np.generic | int | float):
        raise InputError(f"The subjects of {path} must be numbers or texts, but are {type(value).__name__}.")
    return str(value)
