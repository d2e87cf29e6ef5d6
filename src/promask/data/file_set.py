"""A data set in files: only headers are read at first; prepared samples are kept in the cache on disk."""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from promask.data.atomic import Array, as_tensor
from promask.data.axes import FRAME
from promask.data.cache import Column, ColumnWriter, content_key, find_or_write
from promask.data.preprocess import (
    choose_readout,
    describe_doubt,
    describe_flaw,
    describe_undersampling,
    prepare_image,
    prepare_label,
)
from promask.data.reading import Reading
from promask.data.sample_file import RawSample, ReadHeader, SampleFile
from promask.data.sample_sets import Subset, resolve_subset
from promask.data.sensitivities import normalise_maps, read_given_maps
from promask.data.simulate import scan_geometry, scan_shape, simulate_scan
from promask.errors import InputError, InputWarning
from promask.types import Geometry, Image, Sample, SampleSet

VERSION = 4
"""Of how samples are prepared; cache entries of another version are not used."""
IMAGES, LABELS, MAPS = ("<f4", "<c8"), ("<i4",), ("<c8",)
"""The types of prepared arrays; promask runs on no machine of another byte order."""
OnFile = Callable[[int, int], None]
"""Called with the number of files that are prepared, and their total."""


@dataclass(frozen=True)
class PreparedFile:
    """The prepared samples of a file in the cache, and what is wrong with the others."""

    images: Column | None
    labels: Column | None
    maps: Column | None
    rows: dict[int, int]
    """The row of the sample of each number."""
    flaws: dict[int, str]
    doubt: str | None
    """Why the k-space is perhaps not centred."""

    @staticmethod
    def open(folder: Path, about: dict[str, Any]) -> "PreparedFile":
        """What a folder of the cache holds according to its description."""
        columns = {
            name: Column(folder / name, **about[name]) if about.get(name) else None
            for name in ("images", "labels", "maps")
        }
        rows = {number: row for row, number in enumerate(about["numbers"])}
        flaws = {int(number): text for number, text in about["flaws"].items()}
        return PreparedFile(**columns, rows=rows, flaws=flaws, doubt=about["doubt"])

    def fits(self, file: SampleFile, reading: Reading) -> bool:
        """Whether this belongs to a file: anyone may have written to the cache."""
        shape, _ = file.prepared_layout(reading)
        columns = [
            (self.images, shape, IMAGES),
            (self.labels, shape[1:], LABELS),
            (self.maps, (reading.coils or shape[0], *shape[1:]), MAPS),
        ]
        return (
            {*self.rows, *self.flaws} == set(file.numbers)
            and all(
                column is None
                or (column.shape == wanted and column.dtype.str in types and column.rows == len(self.rows))
                for column, wanted, types in columns
            )
            and (self.images is not None or not self.rows)
            and isinstance(self.doubt, str | None)
        )

    def read(self, number: int) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """The image of a sample, and its label and coil sensitivities if it has them."""
        row = self.rows[number]
        assert self.images is not None
        label, maps = (None if column is None else column[row] for column in (self.labels, self.maps))
        return self.images[row], label, maps


class FileSet:
    """The samples of files of one shape, one after the other."""

    def __init__(self, files: Sequence[SampleFile], reading: Reading, name: str) -> None:
        self.name, self.reading = name, reading
        self.files, shape, geometry = keep_common_layout(files, reading)
        self.geometry = scan_geometry(choose_readout(geometry, reading, name), reading, shape[1:])
        self.holds_kspace, self.counts = self.files[0].holds_kspace, common_counts(self.files)
        self.understood, self.cut = self.files[0].understood, self.files[0].cut
        self.shape = scan_shape(shape, reading, name)
        self.places = [(place, number) for place, file in enumerate(self.files) for number in file.numbers]
        """The file of each sample, and its number in it."""
        if not self.places:
            raise InputError(f"{name} holds no slices to take.")
        spaces, numbers = [file.shape[1:] for file in self.files], [file.numbers for file in self.files]
        self.groups: Sequence[str] = [
            subject for file in self.files for subject in (file.subjects or [name] * len(file.numbers))
        ]
        in_folders = any(file.held_out is not None for file in self.files)
        self.held_out = [bool(self.files[place].held_out) for place, _ in self.places] if in_folders else None
        self._unlabelled = [
            names for file in self.files for names in (file.unlabelled or [()] * len(file.numbers))
        ]
        in_series = reading.per is not None or (self.counts.get(FRAME, 1) > 1 and not reading.each_frame)
        self._maps = None if in_series else read_given_maps(reading, name, self.shape, spaces, numbers)
        self._prepared: dict[int, PreparedFile] = {}

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int, /) -> Sample:
        sample, maps = self.without_scan(index)
        return simulate_scan(sample, maps, index % len(self), self.reading, self.geometry)

    def without_scan(self, index: int) -> tuple[Sample, Image | None]:
        """Read a sample without simulated coils and noise.

        Args:
            index: Its place in the data set.

        Returns:
            The sample, and the coil sensitivities that were given with it, if any.
        """
        place, number = self.places[index]
        prepared, name = self.prepare_file(place), self.files[place].sample_name(number)
        if number in prepared.flaws:
            raise _refusal(name, prepared.flaws[number])
        try:
            image, label, maps = prepared.read(number)
        except OSError:  # the cache was cleared in the meantime
            self._prepared.pop(place, None)
            image, label, maps = self.prepare_file(place).read(number)
        maps = maps if self._maps is None else self._maps[index]
        return Sample(image, label, self.groups[index], name, self._unlabelled[index]), maps

    def prepared(self, indices: Sequence[int], on_file: OnFile | None = None) -> Subset:
        """Some of the samples, prepared: see `prepare`."""
        return prepare_files(self, indices, on_file)

    def prepare_file(self, place: int) -> PreparedFile:
        """The prepared samples of a file, from the cache if they are there."""
        if place not in self._prepared:
            file, reading = self.files[place], self.reading
            apart = ("select", "skip_bad", "readout", "each_frame", "per", *Reading.SCAN)
            settings = {name: value for name, value in reading.reading_settings().items() if name not in apart}
            description = [VERSION, settings, file.variant, file.shape, list(file.numbers), asdict(file.geometry)]
            with _explain_errors(file):
                key = content_key(file.files, description)
            folder, about = find_or_write(
                key,
                lambda folder: _write(folder, file, reading),
                lambda folder, about: PreparedFile.open(folder, about).fits(file, reading),
            )
            self._prepared[place] = PreparedFile.open(folder, about)
        return self._prepared[place]


@runtime_checkable
class Preparable(Protocol):
    """A data set whose samples are prepared from files."""

    def prepared(self, indices: Sequence[int], on_file: OnFile | None = None) -> Subset:
        """Some of the samples, prepared; with `skip_bad` without those that cannot be used."""


def read_headers(headers: Iterable[ReadHeader], reading: Reading) -> list[SampleFile]:
    """The files whose headers can be read; others are an error, or left out with `skip_bad`."""
    result, failures = [], []
    for read_header in headers:
        try:
            file = read_header()
            file.check_size()
            result.append(file)
        except InputError as error:
            if not reading.skip_bad:
                raise
            failures.append(error)
    if not result:
        raise failures[0]
    for failure in failures:
        warnings.warn(f"Left out: {failure}", InputWarning, stacklevel=2)
    return result


def common_counts(files: Sequence[SampleFile]) -> Mapping[str, int]:
    """How many frames and contrasts each slice of all files has; what differs between files is left out."""
    first, *others = (file.counts for file in files)
    return {name: n for name, n in first.items() if all(other.get(name) == n for other in others)}


def keep_common_layout(
    files: Sequence[SampleFile], reading: Reading
) -> tuple[Sequence[SampleFile], tuple[int, ...], Geometry]:
    """The files of the most common shape and geometry, and these; others are an error, or left out: `skip_bad`."""
    layouts = [(shape, replace(geometry, voxel=())) for shape, geometry in _layouts(files, reading)]
    (shape, geometry), count = Counter(layouts).most_common(1)[0]
    other = [index for index, layout in enumerate(layouts) if layout != (shape, geometry)]
    if other:
        other_shape, other_geometry = layouts[other[0]]
        if other_shape != shape:
            difference = f"shape {list(other_shape)} and not {list(shape)}"
        elif other_geometry.extent != geometry.extent:
            difference = f"measured extent {list(other_geometry.extent)} and not {list(geometry.extent)}"
        elif other_geometry.region != geometry.region:
            regions = [list(each.region or shape[1:]) for each in (other_geometry, geometry)]
            difference = f"judged region {regions[0]} and not {regions[1]}"
        else:
            axes = [" ".join((*each.axes, each.channels, *each.contrasts)) for each in (other_geometry, geometry)]
            difference = f"axes {axes[0]} and not {axes[1]}"
        sentence = (
            f"{files[other[0]].name} has samples of {difference}, as {count} of the {len(files)} files have"
            f"{f' (and {len(other) - 1} more differ)' if len(other) > 1 else ''}"
        )
        if not reading.skip_bad:
            resize = "bring all images to one size with `size`, or " if other_shape[0] == shape[0] else ""
            raise InputError(f"{sentence}: {resize}leave out those that differ with `skip_bad`.")
        warnings.warn(f"{sentence}: left out.", InputWarning, stacklevel=2)
    common = [file for file, layout in zip(files, layouts, strict=True) if layout == (shape, geometry)]
    voxels = {each.voxel for _, each in _layouts(common, reading)}
    return common, shape, replace(geometry, voxel=voxels.pop() if len(voxels) == 1 else ())


def _layouts(files: Sequence[SampleFile], reading: Reading) -> list[tuple[tuple[int, ...], Geometry]]:
    return [file.prepared_layout(reading) for file in files]


def _write(folder: Path, file: SampleFile, reading: Reading) -> dict[str, Any]:
    """Prepare the samples of a file in a folder, and describe them."""
    (_, *size), _ = file.prepared_layout(reading)
    numbers: list[int] = []
    flaws: dict[int, str] = {}
    doubt: str | None = None
    with (
        ColumnWriter(folder / "images") as images,
        ColumnWriter(folder / "labels") as labels,
        ColumnWriter(folder / "maps") as maps,
    ):
        for number, (values, label), sensitivities in _read(file):
            image = prepare_image(values, file, reading)
            flaw = describe_flaw(image) or (describe_undersampling(values) if file.holds_kspace else None)
            if flaw:
                flaws[number] = flaw
                continue
            if not numbers and file.holds_kspace:
                doubt = describe_doubt(values, file.geometry.extent)
            images.append(image)
            if label is not None:
                labels.append(prepare_label(label, file, reading))
            if sensitivities is not None:
                maps.append(normalise_maps(as_tensor(sensitivities), size, file.name))
            numbers.append(number)
    about = {"images": images.about, "labels": labels.about, "maps": maps.about}
    return {**about, "numbers": numbers, "flaws": flaws, "doubt": doubt}


def _read(file: SampleFile) -> Iterator[tuple[int, RawSample, Array | None]]:
    """The number, the values and label, and the coil sensitivities of each sample."""
    with _explain_errors(file):
        maps = [None] * len(file.numbers) if file.maps is None else file.maps(file.numbers)
        yield from zip(file.numbers, file.read(file.numbers), maps, strict=True)


@contextmanager
def _explain_errors(file: SampleFile) -> Iterator[None]:
    """Turn the error of a file that cannot be read, perhaps because it is gone, into one sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(f"Cannot read {file.name}: {error.strerror or error}.") from error


def prepare(data: SampleSet, on_file: OnFile | None = None) -> SampleSet:
    """Prepare the files of a data set, so that its samples are read from the cache from now on.

    Args:
        data: The data set; one in memory needs no preparation.
        on_file: Called with the number of files that are prepared, and their total.

    Returns:
        The same samples; with `skip_bad` without those that cannot be used, of which a warning tells.

    Raises:
        InputError: If a sample cannot be used, and `skip_bad` was not set when the data were loaded.
    """
    base, indices = resolve_subset(data)
    return base.prepared(indices, on_file) if isinstance(base, Preparable) else data


def prepare_files(base: FileSet, indices: Sequence[int], on_file: OnFile | None = None) -> Subset:
    """Prepare the files of some samples of a data set: see `prepare`."""
    needed = list(dict.fromkeys(base.places[index][0] for index in indices))
    failures: dict[int, InputError] = {}
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        futures = [pool.submit(base.prepare_file, place) for place in needed]
        try:
            for done, (place, future) in enumerate(zip(needed, futures, strict=True), start=1):
                try:
                    future.result()
                except InputError as error:
                    if not base.reading.skip_bad:
                        raise
                    failures[place] = error
                if on_file is not None:
                    on_file(done, len(needed))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    for failure in failures.values():
        warnings.warn(f"Left out: {failure}", InputWarning, stacklevel=2)
    return _leave_out_flawed(base, [index for index in indices if base.places[index][0] not in failures])


def _leave_out_flawed(data: FileSet, indices: Sequence[int]) -> Subset:
    """These samples of prepared files without those that have a flaw; without `skip_bad`, these are an error."""
    places = [data.places[index] for index in indices]
    for place in dict.fromkeys(place for place, _ in places):
        doubt = data.prepare_file(place).doubt
        if doubt is not None:
            warnings.warn(f"The k-space of {data.files[place].name} {doubt}", InputWarning, stacklevel=3)
            break
    flaws = [data.prepare_file(place).flaws.get(number) for place, number in places]
    flawed = [
        (data.files[place].sample_name(number), flaw)
        for (place, number), flaw in zip(places, flaws, strict=True)
        if flaw
    ]
    if flawed:
        if not data.reading.skip_bad:
            raise _refusal(*flawed[0])
        more = f", and {len(flawed) - 1} more like it" if len(flawed) > 1 else ""
        warnings.warn(f"Left out: {' '.join(flawed[0])}{more}.", InputWarning, stacklevel=3)
    kept = [index for index, flaw in zip(indices, flaws, strict=True) if not flaw]
    if not kept:
        raise InputError(f"None of the samples needed from {data.name} can be used.")
    return Subset(data, kept)


def _refusal(sample_name: str, flaw: str) -> InputError:
    return InputError(
        f"{sample_name} {flaw}: leave it out with `slices`, or leave out all such slices with `skip_bad`."
    )
