"""ISMRMRD raw data (Inati et al. 2017): the lines of a measurement, with their heads and an XML header.

Files of fastMRI have the same XML header.
"""

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers.expat import ParserCreate

import numpy as np

from promask.data.atomic import Array
from promask.data.axes import CONTRAST, FRAME, SLICE
from promask.data.readers.lines import Lines, refuse_trajectory
from promask.data.reading import Reading
from promask.data.sample_file import SampleFile, refuse_array_settings
from promask.data.sandbox import open_hdf5
from promask.errors import InputError

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
    voxel: tuple[float, ...]
    """The size of a voxel of the encoded matrix in mm along each axis; empty if the header does not tell."""
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

        def length(axis: str) -> float:
            try:
                found = float(words("encodedSpace", "fieldOfView_mm", axis) or 0)
            except ValueError:
                return 0.0
            return found if 0 < found < math.inf else 0.0

        matrix, trajectory = size("encodedSpace"), words("trajectory")
        voxel = tuple(length(axis) / max(n, 1) for axis, n in zip("xyz", matrix, strict=True))
        limits = [("encodingLimits", f"kspace_encoding_step_{step}") for step in (1, 2)]

        def centre(step: int) -> int:
            stated = number(*limits[step], "center")
            return matrix[step + 1] // 2 if stated is None else stated

        return MrdHeader(
            matrix=matrix,
            image=size("reconSpace"),
            voxel=voxel if all(voxel) else (),
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


NOT_IMAGING = (19, 20, 23, 24, 26, 27, 28, 29, 30, 31)
"""Flags of lines that are not part of the image: noise, calibration, navigators and so on."""
REVERSE = 22
"""The flag of lines that were read from right to left."""
COUNTERS = {SLICE: ("slice",), FRAME: ("repetition", "phase"), CONTRAST: ("contrast", "set")}
"""What tells samples from each other; segments are parts of one k-space, and averages are averaged."""


def is_ismrmrd(file: "h5py.File") -> bool:
    """Whether a file holds a measurement."""
    return any(_is_measurement(item) for item in file.values())


def read_ismrmrd(path: Path, reading: Reading) -> SampleFile:
    """Every slice, frame and contrast is a sample with its coils: (coil, readout, phase encoding)."""
    refuse_array_settings(path, reading)
    with open_hdf5(path) as file:
        group = next(name for name, item in file.items() if _is_measurement(item))
    with open_hdf5(path, f"{group}/xml", (f"{group}/data", "head")) as file:
        header = MrdHeader.parse(file[group]["xml"][0], path)
        heads = file[group]["data"]["head"]
    refuse_trajectory(path, header.trajectory or "cartesian")
    try:
        rows = np.flatnonzero(~_has_flag(heads["flags"], NOT_IMAGING))
        if not len(rows):
            raise InputError(f"{path} holds no lines of an image.")
        lines = _lines(path, group, header, heads[rows], rows)
        return lines.describe(reading, header.image, header.voxel)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise InputError(f"{path} is damaged: the heads of its lines are not those of ISMRMRD.") from error


def _lines(path: Path, group: str, header: MrdHeader, heads: Array, rows: Array) -> Lines:
    """The lines of these rows of the file, of which these are the heads."""
    counters = heads["idx"]
    coils, samples = heads["active_channels"].astype(int), heads["number_of_samples"].astype(int)
    steps = np.stack([counters[f"kspace_encode_step_{step}"].astype(int) for step in (1, 2)], axis=1)

    def read(lines: Array) -> Iterator[Array]:
        with open_hdf5(path, f"{group}/data") as file:
            data = file[group]["data"]
            for line in lines:
                values = np.asarray(data[rows[line]]["data"], np.float32).view(np.complex64)
                yield values.reshape(coils[line], samples[line])

    return Lines(
        path=path,
        shape=header.matrix,
        width=header.matrix[0],
        coils=coils,
        samples=samples,
        cut=np.stack([heads["discard_pre"], heads["discard_post"]], axis=1).astype(int),
        centre=heads["center_sample"].astype(int),
        places=steps - header.centre + np.array(header.matrix[1:]) // 2,
        turned=_has_flag(heads["flags"], (REVERSE,)),
        counters={role: np.stack([counters[name] for name in names], 1) for role, names in COUNTERS.items()},
        read=read,
    )


def _is_measurement(item: Any) -> bool:
    return hasattr(item, "keys") and {"xml", "data"} <= set(item.keys())


def _has_flag(flags: Array, numbers: Sequence[int]) -> Array:
    wanted = sum(1 << (number - 1) for number in numbers)
    return (flags.astype(np.uint64) & np.uint64(wanted)) != 0
