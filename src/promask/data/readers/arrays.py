"""Files that hold arrays by name: which of them is taken, and the roles of its axes."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from promask.data.atomic import NUMBERS, Array
from promask.data.axes import COIL, CONTRAST, EMPTY, FRAME, PARTS, SLICE, SUBJECT, Axes, find_axes
from promask.data.reading import Reading
from promask.data.sample_file import COUNTED, RawSample, ReadMaps, SampleFile
from promask.data.sandbox import check_claim
from promask.errors import Choice, InputError, UncertainDataError, one_line
from promask.types import Geometry

MAPS = ("maps", "sens", "sensitivities", "sensitivity_maps", "sens_maps", "smaps", "csm", "coil_maps", "coilmap")
"""Arrays of coil sensitivities, by the names that programs give them."""
RESERVED = ("label", "subject", "slice_id", *MAPS)
"""Arrays that say something about the images."""
IMAGES = ("image", "images", "img", "imgs", "im", "recon", "reconstruction", "reconstruction_rss", "target")
KSPACE = ("kspace", "kspace_full", "kspace_single_full", "ksp", "kdata", "kdata_full", "rawdata", "raw")
"""Arrays whose names tell what they hold."""
TRAJECTORIES = ("k", "traj", "trajectory", "ktraj", "k_traj")
"""Arrays of places in k-space: then the samples do not lie on a Cartesian grid."""
COUNTS = {
    CONTRAST: ("channels", "contrasts", "contrast", "echo_time_ms", "echo_times", "echo_time", "te", "te_ms"),
    FRAME: ("trigger_time_ms", "trigger_times", "trigger_time", "frame_times", "frame_time_ms"),
}
"""Lists beside the images that have one entry for each contrast, or for each frame."""
CONTRAST_NAMES, ECHO_TIMES = ("channels", "contrasts", "contrast"), ("echo_time_ms", "echo_times_ms", "te_ms")
"""Those of them that name contrasts, and those that tell times of echoes in ms."""
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


@dataclass(frozen=True)
class KnownLayout:
    """What is known of an array because a public data set, or its format, has it so."""

    name: str
    """Of the data set, for messages."""
    array: str
    axes: Axes
    """As its users see the array."""
    readout: str | None = None
    extent: tuple[tuple[int, int], ...] = ()
    alternating: bool = False
    """Whether neighbours in k-space have opposite signs: transforms without a shift need no other order then."""
    maps: Axes | None = None
    """Of the array of coil sensitivities, where it has an order of its own."""


def read_arrays(
    arrays: Mapping[str, LazyArray],
    path: Path,
    reading: Reading,
    last_first: bool = False,
    known: KnownLayout | None = None,
) -> SampleFile:
    """The samples in a file of named arrays; the roles of axes are known, named in `reading.axes`, or found.

    With `last_first`, users see the axes of the arrays in the opposite order, as those of MATLAB do.
    """
    name, axes = _choose(arrays, path, reading, last_first, known)
    array = arrays[name]
    roles = axes.reversed() if last_first else axes
    samples = Samples(array, roles.names, axes, alternating=known is not None and known.alternating)
    check_claim(samples.count * COUNTED, path)
    numbers = reading.choose_samples(samples.counts)
    labels = _labels(arrays, path, samples)

    def read(chosen: Sequence[int]) -> Iterator[RawSample]:
        places = [samples.place(number) for number in chosen]
        labelled = itertools.repeat(None) if labels is None else labels.read(places)
        yield from zip(samples.read(places), labelled, strict=False)

    subjects = _subjects(arrays, path, samples, numbers)
    maps = None if name in MAPS else _maps(arrays, path, reading, samples, known)
    return SampleFile(
        files=(path,),
        shape=samples.shape,
        numbers=numbers,
        read=read,
        holds_kspace=axes.holds_kspace,
        subjects=subjects,
        unlabelled=_unlabelled(arrays, path, samples, numbers),
        maps=maps,
        geometry=_name_contrasts(
            samples.geometry(named=reading.axes is not None, known=known), arrays, samples, path
        ),
        counts=samples.counts,
        understood=how_understood(reading, known),
        variant=f"{path.suffix} {name}, {axes}{', maps' if maps else ''}",
    )


def how_understood(reading: Reading, known: KnownLayout | None = None) -> str:
    """By what the roles of the axes of an array are known."""
    return "`axes`" if reading.axes else known.name if known else "the rule for arrays"


@dataclass(frozen=True)
class Samples:
    """The samples of an array whose axes have these names, in the order in which it is stored."""

    array: LazyArray
    stored: tuple[str, ...]
    axes: Axes
    """As users see the array: directions come in this order."""
    alternating: bool = False
    names: tuple[str, ...] = field(init=False)
    """The axes of samples, the slowest first."""
    lengths: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = tuple(name for name in self.stored if name in self.axes.samples)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "lengths", tuple(self.length(name) for name in names))

    def length(self, name: str) -> int:
        """The length of the axis of this name."""
        return self.array.shape[self.stored.index(name)]

    @property
    def count(self) -> int:
        """How many samples there are."""
        return math.prod(self.lengths)

    @property
    def interleaved(self) -> bool:
        """Whether coils alternate with their real and imaginary parts."""
        return PARTS in self.stored and self.length(PARTS) > 2

    @property
    def channel(self) -> str:
        """What channels are: `coil`, `contrast`, or nothing."""
        return COIL if self.interleaved else next(iter(self.axes.channel), "")

    @property
    def shape(self) -> tuple[int, ...]:
        """(channel, *space) of a sample."""
        channels = self.length(PARTS) // 2 if self.interleaved else 1
        if self.axes.channel:
            channels = self.length(self.axes.channel[0])
        return (channels, *(self.length(name) for name in self.axes.directions))

    @property
    def counts(self) -> dict[str, int]:
        """How many slices, frames and so on there are, the slowest first."""
        return dict(zip(self.names, self.lengths, strict=True))

    def geometry(self, named: bool, known: KnownLayout | None = None) -> Geometry:
        """What is known of the axes of a sample; where a user has named them, kx of k-space is the readout."""
        directions = tuple(f"k{direction.removeprefix('k')}" for direction in self.axes.directions)
        readout = known.readout if known else "kx" if named and self.axes.holds_kspace else None
        return Geometry(
            extent=known.extent if known else (),
            axes=directions,
            readout=directions.index(readout) if readout in directions else None,
            channels=self.channel,
        )

    def place(self, number: int) -> dict[str, int]:
        """The index of a sample along each axis of samples."""
        index = np.unravel_index(number, self.lengths) if self.lengths else ()
        return {name: int(at) for name, at in zip(self.names, index, strict=True)}

    def read(self, places: Sequence[Mapping[str, int]]) -> Iterator[Array]:
        """The values of samples, (channel, *space), complex where there are parts."""
        parts = (PARTS,) if PARTS in self.stored else ()
        for values in read_at(
            self.array, self.stored, places, (*self.axes.channel, *self.axes.directions, *parts)
        ):
            joined = np.moveaxis(join_parts(values), -1, 0) if parts else join_complex(values)
            joined = joined.reshape(self.shape)
            if self.alternating:
                joined = joined * _alternating_signs(self.shape[1:])
            yield joined


def _alternating_signs(shape: Sequence[int]) -> Array:
    return np.where(np.indices(shape).sum(0) % 2, -1, 1).astype(np.float32)


def read_at(
    array: LazyArray, names: Sequence[str], places: Sequence[Mapping[str, int]], wanted: Sequence[str]
) -> Iterator[Array]:
    """Parts of an array whose axes have names, at places along some of them, with the wanted axes in this order.

    Where places increase along the first axis, no more than one entry along it is in memory.
    """

    def take(values: Array, left: Sequence[str], place: Mapping[str, int]) -> Array:
        where = tuple(place.get(name, 0) if name in place or name == EMPTY else slice(None) for name in left)
        kept = [name for name in left if name not in place and name != EMPTY]
        return values[where].transpose([kept.index(name) for name in wanted])

    first = names[0]
    rows = [place[first] for place in places if first in place]
    if not rows or rows != sorted(rows):
        values = array.whole()
        yield from (take(values, names, place) for place in places)
        return
    by_row = {row: list(group) for row, group in itertools.groupby(places, key=lambda place: place[first])}
    for in_row, values in zip(by_row.values(), array.rows(list(by_row)), strict=True):
        for place in in_row:
            yield take(values, names[1:], {name: at for name, at in place.items() if name != first})


@dataclass(frozen=True)
class _Labels:
    array: LazyArray
    names: tuple[str, ...]
    directions: tuple[str, ...]

    def read(self, places: Sequence[Mapping[str, int]]) -> Iterator[Array]:
        own = [{name: at for name, at in place.items() if name in self.names} for place in places]
        return read_at(self.array, self.names, own, self.directions)


def _labels(arrays: Mapping[str, LazyArray], path: Path, samples: Samples) -> _Labels | None:
    """The labels of samples: one for each, or one for all frames or contrasts of a slice."""
    label = arrays.get("label")
    if label is None:
        return None
    possible = [
        tuple(name for name in samples.stored if name in (*kept, *samples.axes.directions))
        for kept in (samples.names, [name for name in samples.names if name in (SUBJECT, SLICE)])
    ]
    for names in possible:
        if label.shape == tuple(samples.length(name) for name in names):
            return _Labels(label, names, samples.axes.directions)
    wanted = [samples.length(name) for name in possible[0]]
    raise InputError(
        f"The labels of {path} have shape {list(label.shape)}, but its images need labels of shape {wanted}."
    )


def _maps(
    arrays: Mapping[str, LazyArray],
    path: Path,
    reading: Reading,
    samples: Samples,
    known: KnownLayout | None,
) -> ReadMaps | None:
    """The coil sensitivities beside samples: for all of them, or for each slice.

    Emulated k-space is that of magnitudes, which no sensitivities describe.
    """
    name = next((name for name in MAPS if name in arrays), None)
    if name is None or reading.kspace == "emulated":
        return None
    maps, directions, coils = arrays[name], samples.axes.directions, reading.coils or samples.shape[0]
    lengths = {each: samples.length(each) for each in (*samples.names, *directions)} | {COIL: coils, EMPTY: 1}
    orders = [
        tuple(each for each in order if each in kept)
        for order in (samples.stored, (*samples.names, COIL, *(n for n in samples.stored if n in directions)))
        for kept in ((COIL, *directions), (*samples.names, COIL, *directions), (SLICE, COIL, *directions))
    ]
    if known is not None and known.maps is not None:
        orders = [known.maps.names]
    order = next((each for each in orders if maps.shape == tuple(lengths.get(one, -1) for one in each)), None)
    if order is None or not maps.is_numeric:
        if reading.maps is not None:
            return None
        raise InputError(
            f"The array {name!r} of {path} has shape {list(maps.shape)}, but its images need sensitivities of "
            f"shape {[coils, *samples.shape[1:]]}, or one for each of the {samples.count}: give others with "
            f"`maps`, or rename the array."
        )

    def read(chosen: Sequence[int]) -> Iterator[Array]:
        places = [{each: at for each, at in samples.place(number).items() if each in order} for number in chosen]
        return map(join_complex, read_at(maps, order, places, (COIL, *directions)))

    return read


def join_complex(values: Array) -> Array:
    """Complex numbers as such, also if they were stored as two fields."""
    if values.dtype.names is None:
        return values
    real, imaginary = (values[part].astype(np.float32) for part in values.dtype.names)
    return real + np.complex64(1j) * imaginary


def join_parts(values: Array) -> Array:
    """Complex numbers of real and imaginary parts that alternate along the last axis, half as long then."""
    real, imaginary = (values[..., part::2].astype(np.float32) for part in (0, 1))
    return real + np.complex64(1j) * imaginary


def list_names(names: Iterable[str], most: int = 20) -> str:
    """The names of arrays in a sentence; a file may hold any number of them, with any letters."""
    known = [one_line(name, 60) for name in names]
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more if known else "nothing"


def _choose(
    arrays: Mapping[str, LazyArray], path: Path, reading: Reading, last_first: bool, known: KnownLayout | None
) -> tuple[str, Axes]:
    """The name of the array to take, and the roles of its axes."""
    kind = reading.holds
    if reading.axes is not None:
        kind = "kspace" if Axes.parse(reading.axes).holds_kspace else "image"
    name = reading.array or (known.array if known and kind != "image" else None) or _usual(arrays, path, kind)
    if name not in arrays:
        raise InputError(f"{path} holds no array {name!r}, but {list_names(arrays)}.")
    array = arrays[name]
    if not array.is_numeric:
        held = "a structure" if array.dtype.kind == "V" else f"{array.dtype} values"
        raise InputError(f"{path} holds {held}, but numbers are expected.")
    if 0 in array.shape:
        raise InputError(f"{path} holds no images: its shape is {list(array.shape)}.")
    shape = array.shape[::-1] if last_first else array.shape
    if known is not None and name == known.array and kind != "image":
        return name, known.axes
    if reading.axes is None:
        _refuse_trajectory(arrays, path, name, last_first)
    if kind is None and name.lower() in (*KSPACE, *IMAGES):
        kind = "kspace" if name.lower() in KSPACE else "image"
    source = str(path) if len(arrays) == 1 else f"{one_line(name)!r} of {path}"
    told = _told(arrays, array, reading)
    return name, choose_axes(shape, source, reading, array.is_complex, kind, told, last_first)


def choose_axes(
    shape: Sequence[int],
    source: str,
    reading: Reading,
    is_complex: bool,
    kind: str | None,
    told: Mapping[str, int] = MappingProxyType({}),
    last_first: bool = False,
) -> Axes:
    """The roles of the axes of a bare array: as `reading.axes` names them, or as the rule for arrays finds them.

    `kind` is what the array holds, `image` or `kspace`, if anything tells; for the others see `find_axes`.
    """
    if reading.axes is None:
        if kind == "kspace" and not is_complex and shape[-1] % 2:
            raise InputError(f"The k-space of {source} is not complex.")
        holds_kspace = None if kind is None else kind == "kspace"
        return find_axes(shape, source, is_complex, holds_kspace, reading.volumes, told, last_first)
    axes = Axes.parse(reading.axes)
    axes.check(shape, source)
    if reading.holds not in (None, "kspace" if axes.holds_kspace else "image"):
        what = "k-space" if axes.holds_kspace else "images"
        raise InputError(f"`axes` is {reading.axes!r}, which is {what}, but `holds` is {reading.holds}.")
    if reading.volumes and len(axes.directions) < 3:
        raise InputError(f"`axes` is {reading.axes!r}, two directions, but `volumes` asks for three.")
    if axes.holds_kspace and not is_complex and PARTS not in axes.names:
        raise InputError(f"The k-space of {source} is not complex: name real and imaginary parts re/im in `axes`.")
    return axes


def _usual(arrays: Mapping[str, LazyArray], path: Path, kind: str | None) -> str:
    """The array to take if none is chosen: `image` or `kspace`, or the only one that could be either."""
    usual = ("kspace", "image") if kind == "kspace" else ("image", "kspace")
    for name in usual:
        if name in arrays:
            return name
    images = [name for name in arrays if name not in RESERVED and not name.startswith(ANNOTATED)]
    if len(images) == 1:
        return images[0]
    found = [name for name in images if arrays[name].is_numeric and _axes_longer_than_1(arrays[name]) >= 2]
    known = [name for name in found if name.lower() in (*KSPACE, *IMAGES)]
    if len(found) == 1 or len(known) == 1:
        return (known or found)[0]
    if not found:
        raise InputError(f"{path} holds neither 'image' nor 'kspace', but {list_names(arrays)}.")
    listed = {name: f"{one_line(name, 60)} {list(arrays[name].shape)}" for name in found}
    raise UncertainDataError(
        f"{path} holds {list_names(listed.values())}: choose one with `array`.",
        [Choice("array", name, words) for name, words in listed.items()],
    )


def _axes_longer_than_1(array: LazyArray) -> int:
    return sum(n > 1 for n in array.shape)


def _refuse_trajectory(arrays: Mapping[str, LazyArray], path: Path, name: str, last_first: bool) -> None:
    found = next((other for other in arrays if other.lower() in TRAJECTORIES and other != name), None)
    if found is not None:
        shape = arrays[found].shape[:: -1 if last_first else 1]
        raise InputError(
            f"{path} holds a trajectory ({found!r} {list(shape)}) beside {one_line(name)!r}, so its samples do "
            f"not lie on a Cartesian grid, and masks cannot be learned from them: that needs complete k-space; "
            f"promask.data.reconstruct_raw makes an image of them; if they are on a grid, name the axes with "
            f"`axes`."
        )


def _told(arrays: Mapping[str, LazyArray], array: LazyArray, reading: Reading) -> dict[str, int]:
    """How many slices, coils, contrasts or frames there are, as arrays beside the samples tell."""
    told: dict[str, int] = {}
    dimensions = 3 if reading.volumes else 2
    for key in ("subject", "slice_id"):
        if key in arrays:
            told[SLICE] = max(1, math.prod(arrays[key].shape) if arrays[key].dtype.kind != "O" else 1)
    label = arrays.get("label")
    if label is not None and len(label.shape) in (dimensions, dimensions + 1):
        told.setdefault(SLICE, label.shape[0] if len(label.shape) > dimensions else 1)
        if not array.is_complex and len(array.shape) == dimensions + 2:
            told[CONTRAST] = array.shape[1]
    for role, names in COUNTS.items():
        beside = [arrays[name] for name in arrays if name.lower() in names]
        lists = [each for each in beside if _axes_longer_than_1(each) <= 1]
        if lists and not array.is_complex:
            told.setdefault(role, math.prod(lists[0].shape))
    maps = next((arrays[name] for name in MAPS if name in arrays), None)
    if maps is not None and array.is_complex and (reading.coils is None or len(array.shape) > dimensions + 1):
        told[COIL] = maps.shape[-1 - dimensions] if len(maps.shape) > dimensions else 1
    return told


def _name_contrasts(geometry: Geometry, arrays: Mapping[str, LazyArray], samples: Samples, path: Path) -> Geometry:
    """The geometry with the names of contrasts, or the times of echoes, that a list beside the images tells."""
    if CONTRAST not in samples.stored:
        return geometry
    length = samples.length(CONTRAST)

    def beside(names: Sequence[str], kinds: str) -> list[Any]:
        fitting = (array for name, array in arrays.items() if name.lower() in names and array.dtype.kind in kinds)
        found = next((each for each in fitting if math.prod(each.shape) == length), None)
        return [] if found is None else np.asarray(found.whole()).reshape(-1).tolist()

    names = tuple(_text(name, path) for name in beside(CONTRAST_NAMES, "US"))
    times = tuple(map(float, beside(ECHO_TIMES, "iuf")))
    times = times if all(0 < time < math.inf for time in times) and len(set(times)) == len(times) else ()
    distinct = len({name.lower() for name in names}) == len(names) and all(names)
    return replace(geometry, contrasts=names if distinct else (), echo_times=times)


def _subjects(
    arrays: Mapping[str, LazyArray], path: Path, samples: Samples, numbers: Sequence[int]
) -> list[str] | None:
    """The subject of each sample to read: by an array of names, or by its number along an axis of subjects."""
    key = next((key for key in ("subject", "slice_id") if key in arrays), None)
    if key is None:
        if SUBJECT not in samples.names:
            return None
        return [f"subject-{samples.place(number)[SUBJECT]}" for number in numbers]
    try:
        names = [_text(value, path) for value in np.asarray(arrays[key].whole()).reshape(-1)]
    except SystemError as error:  # NumPy's, for numbers that are no letters
        raise InputError(f"{path} is damaged: its {key} is no text.") from error
    found = _for_samples(names, samples, numbers)
    if found is None:
        raise InputError(f"{path} has {samples.count} images, but names {len(names)} subjects.")
    if key == "subject":
        return found
    # Plain slice numbers say nothing of patients; to take each for one would leak neighbours into the test.
    return [name.split("_")[0] for name in found] if all("_" in name for name in names) else None


def _for_samples(values: Sequence[Any], samples: Samples, numbers: Sequence[int]) -> list[Any] | None:
    """The value of each sample to read, of one for each sample, each slice or each subject; None if none fits."""
    if len(values) == samples.count:
        return [values[number] for number in numbers]
    for name in (SLICE, SUBJECT):
        if name in samples.names and samples.length(name) == len(values):
            return [values[samples.place(number)[name]] for number in numbers]
    return None


def _unlabelled(
    arrays: Mapping[str, LazyArray], path: Path, samples: Samples, numbers: Sequence[int]
) -> list[tuple[str, ...]] | None:
    """What arrays such as `has_myocardium` say: one value per image, false where it was not annotated."""
    names = [name for name in arrays if name.startswith(ANNOTATED)]
    if "label" not in arrays or not names:
        return None
    annotated: dict[str, list[Any]] = {}
    for name in names:
        values = np.asarray(arrays[name].whole()).reshape(-1)
        found = _for_samples(values.tolist(), samples, numbers)
        if found is None or values.dtype.kind not in "buif" or not np.isin(values, (0, 1)).all():
            raise InputError(f"{path} has {samples.count} images, but {name} is not one truth value for each.")
        annotated[name.removeprefix(ANNOTATED)] = found
    return [
        tuple(name for name, values in annotated.items() if not values[place]) for place in range(len(numbers))
    ]


def _text(value: Any, path: Path) -> str:
    if isinstance(value, float | np.floating) and value.is_integer():  # MATLAB's numbers
        value = int(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if not isinstance(value, str | np.generic | int | float):
        raise InputError(f"The subjects of {path} must be numbers or texts, but are {type(value).__name__}.")
    return str(value)
