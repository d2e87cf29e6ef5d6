"""ISMRMRD raw data (Inati et al. 2017): the lines of a measurement, put in their places in k-space.

Files of fastMRI have the same XML header; files of BART the same volumes with two phase encodings.
"""

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers.expat import ParserCreate

import numpy as np

from promask.data.atomic import Array
from promask.data.reading import Reading
from promask.data.sample_file import COMPLEX, RawSample, SampleFile, refuse_array_settings
from promask.data.sandbox import check_claim, open_hdf5
from promask.errors import InputError, one_line
from promask.types import Geometry

if TYPE_CHECKING:
    import h5py

MOST_DIGITS = 10
"""Of the numbers of a header; longer ones are taken for none."""

TRAJECTORIES = ("cartesian", "epi", "radial", "goldenangle", "spiral")
OTHER = "non-standard"
"""Any other text, which may say anything, and is not repeated."""


@dataclass(frozen=True)
class MrdHeader:
    """What a header says of the grid of k-space: (readout, phase encoding 1, phase encoding 2)."""

    matrix: tuple[int, int, int]
    """The encoded matrix; 0 where the header does not tell."""
    image: tuple[int, int, int]
    """The matrix of the image; 0 where the header does not tell."""
    centre: tuple[int, int]
    """The number of the phase encoding at the centre of k-space, for both of them."""
    maximum: tuple[int | None, int | None]
    """The largest number of both phase encodings."""
    trajectory: str | None
    """One of `TRAJECTORIES`, or `OTHER`; None if the header does not tell."""

    @staticmethod
    def parse(text: str | bytes, path: Path) -> "MrdHeader":
        """From the text of a header; `path` is the file that holds it, for messages."""
        try:
            _refuse_entities(text)
            root = ElementTree.fromstring(text)
        except Exception as error:  # of which the words may quote the header
            place = f" at line {error.position[0]}" if isinstance(error, ElementTree.ParseError) else ""
            raise InputError(f"The header of {path} is damaged{place}: it is no XML.") from None

        def words(*names: str) -> str | None:
            found = root.findtext("/".join(f"{{*}}{name}" for name in ("encoding", *names)))
            return None if found is None else found.strip()

        def number(*names: str) -> int | None:
            text = words(*names)
            return int(text) if text and text.isdecimal() and len(text) < MOST_DIGITS else None

        def size(space: str) -> tuple[int, int, int]:
            x, y, z = (number(space, "matrixSize", axis) or 0 for axis in "xyz")
            return x, y, z

        matrix, trajectory = size("encodedSpace"), words("trajectory")
        limits = [("encodingLimits", f"kspace_encoding_step_{step}") for step in (1, 2)]

        def centre(step: int) -> int:
            stated = number(*limits[step], "center")
            return matrix[step + 1] // 2 if stated is None else stated

        return MrdHeader(
            matrix=matrix,
            image=size("reconSpace"),
            centre=(centre(0), centre(1)),
            maximum=(number(*limits[0], "maximum"), number(*limits[1], "maximum")),
            trajectory=trajectory if trajectory in (None, *TRAJECTORIES) else OTHER,
        )


def _refuse_entities(text: str | bytes) -> None:
    """Refuse a header that declares entities, which may grow without end or take in other files."""
    parser = ParserCreate()

    def declared(*_: Any) -> None:
        raise ValueError("it declares a document type")

    parser.StartDoctypeDeclHandler = declared
    parser.Parse(text, True)


def cut_volumes(
    volume: Callable[[int], Array], chosen: Sequence[int], depth: int, whole: bool, encoded: bool
) -> Iterator[RawSample]:
    """The samples of these numbers: whole volumes, or slices along the last axis, `depth` for each volume.

    `volume` reads the volume of a number, (coil, x, y, z); if it is `encoded`, it is transformed along z first.
    """
    last, values = -1, np.empty(0)
    for number in chosen:
        if number // depth != last:
            last = number // depth
            values = volume(last)
            if encoded and depth > 1:
                shifted = np.fft.ifft(np.fft.ifftshift(values, axes=-1), axis=-1, norm="ortho")
                values = np.fft.fftshift(shifted, axes=-1).astype(np.complex64)
        yield np.ascontiguousarray(values if whole else values[..., number % depth]), None


NOT_IMAGING = (19, 20, 23, 24, 26, 27, 28, 29, 30, 31)
"""Flags of lines that are not part of the image: noise, calibration, navigators and so on."""
REVERSE = 22
"""The flag of lines that were read from right to left."""
SAMPLE = ("repetition", "phase", "contrast", "set", "slice")
"""The counters that tell samples from each other; averages are averaged."""


def is_ismrmrd(file: "h5py.File") -> bool:
    """Whether a file holds a measurement."""
    return any(_is_measurement(item) for item in file.values())


def read_ismrmrd(path: Path, reading: Reading) -> SampleFile:
    """Every slice, contrast and repetition is a sample with its coils: (coil, readout, phase encoding)."""
    refuse_array_settings(path, reading)
    with open_hdf5(path) as file:
        group = next(name for name, item in file.items() if _is_measurement(item))
    with open_hdf5(path, f"{group}/xml", (f"{group}/data", "head")) as file:
        header = MrdHeader.parse(file[group]["xml"][0], path)
        heads = file[group]["data"]["head"]
    if header.trajectory not in (None, "cartesian"):
        raise InputError(
            f"{path} has a {one_line(header.trajectory)} trajectory: promask reads Cartesian k-space."
        )
    try:
        chosen = np.flatnonzero(~_has_flag(heads["flags"], NOT_IMAGING))
        if not len(chosen):
            raise InputError(f"{path} holds no lines of an image.")
        lines = _Lines(path, group, header, heads[chosen], chosen)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise InputError(f"{path} is damaged: the heads of its lines are not those of ISMRMRD.") from error
    depth, axes = (1, 3) if reading.volumes else (lines.shape[2], 2)

    def read(chosen: Sequence[int]) -> Iterator[RawSample]:
        return cut_volumes(lines.sample, chosen, depth, reading.volumes, encoded=True)

    region = tuple(min(n, wanted or n) for n, wanted in zip(lines.shape, header.image, strict=True))[:axes]
    space = lines.shape[:axes]
    return SampleFile(
        files=(path,),
        shape=(lines.coils, *space),
        numbers=reading.choose_slices(len(lines.samples) * depth),
        read=read,
        holds_kspace=True,
        geometry=Geometry(lines.extent[:axes], region if region != space else ()),
        variant="ismrmrd",
    )


class _Lines:
    """The lines of a measurement, and their places on the grid (readout, phase encoding 1, phase encoding 2)."""

    def __init__(self, path: Path, group: str, header: MrdHeader, heads: Array, rows: Array) -> None:
        self.path, self.group, self.rows, self.heads = path, group, rows, heads
        self.reversed = _has_flag(heads["flags"], (REVERSE,))
        counters = heads["idx"]
        keys = np.stack([counters[name] for name in SAMPLE], axis=1)
        self.samples, inverse = np.unique(keys, axis=0, return_inverse=True)
        self.sample_of = inverse.reshape(-1)
        self.coils = int(heads["active_channels"].max())
        self.shape = header.matrix
        # A sample is put together in memory, then transformed.
        check_claim(self.coils * math.prod(self.shape) * COMPLEX, path)
        steps = [counters[f"kspace_encode_step_{step}"].astype(int) for step in (1, 2)]
        self.places = np.stack(steps, axis=1) - header.centre + np.array(self.shape[1:]) // 2
        lengths = heads["number_of_samples"].astype(int) - heads["discard_pre"] - heads["discard_post"]
        starts = self.shape[0] // 2 - (heads["center_sample"].astype(int) - heads["discard_pre"])
        fits = (starts == starts[0]) & (lengths == lengths[0]) & (heads["active_channels"] == self.coils)
        low = (int(starts[0]), *self.places.min(0).tolist())
        high = (int(starts[0] + lengths[0]), *(self.places.max(0) + 1).tolist())
        if not fits.all() or min(low) < 0 or any(end > n for end, n in zip(high, self.shape, strict=True)):
            raise InputError(f"The lines of {path} do not fit the matrix {list(self.shape)} of its header.")
        self.extent = tuple(zip(low, high, strict=True))
        self._check_complete()

    def sample(self, index: int) -> Array:
        """The k-space of a sample, (coil, readout, phase encoding 1, phase encoding 2), averages averaged."""
        kspace = np.zeros((self.coils, *self.shape), np.complex64)
        count = np.zeros(self.shape[1:], np.float32)
        (start, stop), *_ = self.extent
        with open_hdf5(self.path, f"{self.group}/data") as file:
            data = file[self.group]["data"]
            for line in np.flatnonzero(self.sample_of == index):
                head = self.heads[line]
                values = np.asarray(data[self.rows[line]]["data"], np.float32).view(np.complex64)
                values = values.reshape(self.coils, -1)
                values = values[:, head["discard_pre"] : values.shape[1] - head["discard_post"]]
                if self.reversed[line]:
                    values = values[:, ::-1]
                place = tuple(self.places[line])
                kspace[:, start:stop, place[0], place[1]] += values
                count[place] += 1
        return kspace / np.maximum(count, 1)

    def _check_complete(self) -> None:
        _, (first, last), (bottom, top) = self.extent
        wanted = (last - first) * (top - bottom)
        for index in range(len(self.samples)):
            found = np.unique(self.places[self.sample_of == index], axis=0)
            if len(found) != wanted:
                raise InputError(
                    f"{self.path} is undersampled: its image {index} has {len(found)} of {wanted} lines; "
                    f"masks need full k-space."
                )


def _is_measurement(item: Any) -> bool:
    return hasattr(item, "keys") and {"xml", "data"} <= set(item.keys())


def _has_flag(flags: Array, numbers: Sequence[int]) -> Array:
    wanted = sum(1 << (number - 1) for number in numbers)
    return (flags.astype(np.uint64) & np.uint64(wanted)) != 0
