"""DICOM series: the slices of each, in the order of their places in the body, and the frames of each slice."""

import importlib.util
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from promask.data.atomic import Array
from promask.data.axes import FRAME, SLICE
from promask.data.readers.dicom_frames import NEEDED, Moment, find_moments, find_slices, promises_frames
from promask.data.reading import Reading
from promask.data.sample_file import COUNTED, RawSample, ReadHeader, SampleFile, refuse_array_settings
from promask.data.sandbox import check_claim, decompress, private_name, report_damage, silence_libraries
from promask.errors import InputError, count
from promask.types import Geometry

if TYPE_CHECKING:
    from pydicom import Dataset, FileDataset

SUFFIXES = (".dcm", ".ima", ".dicom")
INDEX = "DICOMDIR"
"""The list of the files on a disc, in the same format."""
HEADER = ("SeriesInstanceUID", "PatientID", "Rows", "Columns", "NumberOfFrames", "InstanceNumber")
GEOMETRY = ("ImagePositionPatient", "ImageOrientationPatient", "SamplesPerPixel", "PixelSpacing")
PIXEL = 24
"""Bytes that a pixel takes while it is read and scaled, in double precision."""


def is_dicom(path: Path) -> bool:
    """Whether a file is DICOM: by its ending, or if it has none, or a number as in 1.2.840, by its content."""
    if path.suffix and not path.suffix[1:].isdecimal():
        return path.suffix.lower() in SUFFIXES
    if path.name == INDEX:
        return False
    try:
        with path.open("rb") as file:
            return file.read(132)[128:] == b"DICM"
    except OSError:
        return False


def read_dicom(path: Path, reading: Reading) -> SampleFile:
    """A single file."""
    return _read_series([_header(path)], reading)


def find_dicom_series(paths: Sequence[Path], reading: Reading) -> list[tuple[Path, ReadHeader]]:
    """The series in a list of files, each a stack, with one of its files."""
    series: dict[tuple[str, str | None], list[_Header]] = {}
    result: list[tuple[Path, ReadHeader]] = []
    for path in paths:
        try:
            header = _header(path)
        except InputError as error:
            result.append((path, partial(_raise, error)))
            continue
        series.setdefault((header.series, header.patient), []).append(header)
    return [*((files[0].path, partial(_read_series, files, reading)) for files in series.values()), *result]


def _raise(error: InputError) -> SampleFile:
    raise error


@dataclass(frozen=True)
class _Header:
    """What is to be known of a file."""

    path: Path
    series: str
    patient: str | None
    shape: tuple[int, int]
    frames: int
    grey: bool
    place: tuple[float, float]
    spacing: tuple[float, ...]
    """Of rows and columns in mm; empty if the header does not tell."""
    moments: tuple[Moment, ...]
    """Of each of its frames; empty if the header does not tell."""
    promised: bool
    """Whether slices are said to have several frames."""


def _read_series(files: Sequence[_Header], reading: Reading) -> SampleFile:
    refuse_array_settings(files[0].path, reading)
    files = sorted(files, key=lambda file: (file.place, str(file.path)))
    paths = [file.path for file in files]
    shapes = {file.shape for file in files}
    empty = next((file.path for file in files if 0 in file.shape), None)
    if empty is not None:
        raise InputError(f"{empty} holds no image.")
    if len(shapes) > 1:
        raise InputError(f"The slices of {paths[0]} and of its series have shapes {sorted(shapes)}, not one.")
    if not all(file.grey for file in files):
        raise InputError(f"{paths[0]} is a colour image: promask reads grey values.")
    for file in files:
        check_claim(file.frames * math.prod(file.shape) * PIXEL, file.path)
        check_claim(file.frames * COUNTED, file.path)
    images = [(file.path, frame) for file in files for frame in range(file.frames)]
    slices = _arrange(files, len(images))
    plane = next(iter(shapes))
    depth = reading.choose_slices(len(slices))
    frames = _count_frames(slices, depth, paths[0])
    numbers: Sequence[int] = range(min(1, len(depth)) * frames)
    if not reading.volumes:
        numbers = depth if frames == 1 else [place * frames + frame for place in depth for frame in range(frames)]

    def read(chosen: Sequence[int]) -> Iterator[RawSample]:
        if not reading.volumes:
            wanted = (slices[number // frames][number % frames] for number in chosen)
            yield from ((values[None], None) for values in _planes(images[index] for index in wanted))
            return
        values = _planes(images[slices[place][frame]] for frame in chosen for place in depth)
        yield from ((np.stack(list(islice(values, len(depth))))[None], None) for _ in chosen)

    counts = {FRAME: frames} if frames > 1 else {}
    return SampleFile(
        files=tuple(paths),
        shape=(1, *((len(depth), *plane) if reading.volumes else plane)),
        numbers=numbers,
        read=read,
        subjects=None if files[0].patient is None else [private_name(files[0].patient)] * len(numbers),
        geometry=Geometry(
            axes=("kz", "ky", "kx") if reading.volumes else ("ky", "kx"),
            voxel=() if reading.volumes else files[0].spacing,
        ),
        counts=counts if reading.volumes else {SLICE: len(slices), **counts},
        variant=f"dicom {list(depth)}{f', {frames} frames' if frames > 1 else ''}",
    )


def _arrange(files: Sequence[_Header], images: int) -> Sequence[Sequence[int]]:
    """The images of each slice, by their index in the order of the files: one, or several frames."""
    moments = [moment for file in files for moment in file.moments]
    found = None
    if len(moments) == images:  # where one of them lies nowhere, nothing is known of any
        found = find_slices(moments, promised=any(file.promised for file in files))
    return [[index] for index in range(images)] if found is None else found


def _count_frames(slices: Sequence[Sequence[int]], chosen: Sequence[int], path: Path) -> int:
    """How many frames each of the chosen slices has."""
    lengths = [len(slices[place]) for place in chosen]
    if len(set(lengths)) > 1:
        usual = max(lengths, key=lengths.count)
        other = next(n for n in lengths if n != usual)
        raise InputError(
            f"Slice {chosen[lengths.index(other)]} of {path} and of its series has {count(other, FRAME)}, but "
            f"slice {chosen[lengths.index(usual)]} has {usual}: choose slices that have the same number with "
            f"`slices`, or add the missing images."
        )
    return lengths[0] if lengths else 1


def _header(path: Path) -> _Header:
    with _with_pydicom(path):
        import pydicom

        _check_deflated(path)
        header = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=[*HEADER, *GEOMETRY, *NEEDED])
        frames = int(header.get("NumberOfFrames") or 1)
        return _Header(
            path=path,
            series=str(header.get("SeriesInstanceUID") or path.parent),
            patient=str(header["PatientID"].value) if header.get("PatientID") else None,
            shape=(int(header.get("Rows") or 0), int(header.get("Columns") or 0)),
            frames=frames,
            grey=int(header.get("SamplesPerPixel") or 1) == 1,
            place=_place(header),
            spacing=tuple(float(each) for each in header.get("PixelSpacing") or ()),
            moments=find_moments(header, frames),
            promised=promises_frames(header),
        )


def _check_deflated(path: Path) -> None:
    """Refuse a file, compressed as a whole, whose content is too large: pydicom decompresses it at once."""
    from pydicom.filereader import _read_file_meta_info, read_preamble
    from pydicom.uid import DeflatedExplicitVRLittleEndian

    with path.open("rb") as file:
        read_preamble(file, force=False)
        if _read_file_meta_info(file).get("TransferSyntaxUID") == DeflatedExplicitVRLittleEndian:
            for _ in decompress(file, path, -zlib.MAX_WBITS):
                pass


def _planes(frames: Iterable[tuple[Path, int]]) -> Iterator[Array]:
    """The pixels of frames; those of one file, which follow each other, are read at once."""
    last, pixels = None, np.empty(0)
    for path, frame in frames:
        if path != last:
            last, pixels = path, _pixels(path)
        yield pixels[frame]


def _pixels(path: Path) -> Array:
    """(frame, row, column)."""
    with _with_pydicom(path):
        import pydicom
        from pydicom.pixels.processing import apply_rescale

        _check_deflated(path)
        dataset = pydicom.dcmread(path)
        _check_compression(dataset, path)
        _check_frames(dataset, path)
        pixels: Array = dataset.pixel_array
        pixels = pixels if pixels.ndim == 3 else pixels[None]
        return np.asarray(apply_rescale(pixels, dataset), np.float32)


def _check_frames(dataset: "Dataset", path: Path) -> None:
    """Refuse compressed frames of another size than the header states, before they are decompressed."""
    if not dataset.file_meta.TransferSyntaxUID.is_encapsulated:
        return
    from PIL import Image, UnidentifiedImageError
    from pydicom.encaps import generate_frames

    wanted = (int(dataset.Columns), int(dataset.Rows))
    for frame in generate_frames(dataset.PixelData, number_of_frames=int(dataset.get("NumberOfFrames") or 1)):
        try:
            with Image.open(BytesIO(frame)) as picture:
                found = picture.size
        except UnidentifiedImageError:  # run-length encoded, which cannot grow much, or for another decoder
            continue
        if found != wanted:
            raise InputError(
                f"{path} is damaged: a frame has {found[0]} x {found[1]} pixels, not {wanted[0]} x {wanted[1]}."
            )


def _place(header: "Dataset") -> tuple[float, float]:
    """Where a slice lies across the slices, or, if the header does not tell, its number in the series."""
    number = float(header.get("InstanceNumber") or 0)
    position, orientation = header.get("ImagePositionPatient"), header.get("ImageOrientationPatient")
    if position is None or orientation is None:
        return 0.0, number
    along = np.asarray(orientation, float)
    return round(float(np.cross(along[:3], along[3:]) @ np.asarray(position, float)), 3), number


def _check_compression(dataset: "FileDataset", path: Path) -> None:
    """Say what is missing, if the pixels are compressed in a way that needs another package."""
    from pydicom.pixels.decoders.base import get_decoder

    kind = dataset.file_meta.get("TransferSyntaxUID")
    if kind is None or kind.is_private or not kind.is_transfer_syntax or not kind.is_compressed:
        return
    decoder = get_decoder(kind)
    if not decoder.is_available:
        missing = "; ".join(decoder.missing_dependencies)
        raise InputError(f"The pixels of {path} are compressed ({kind.name}), for which pydicom lacks: {missing}.")


@contextmanager
def _with_pydicom(path: Path) -> Iterator[None]:
    """Read with pydicom; whatever it says of a broken file becomes one sentence."""
    if importlib.util.find_spec("pydicom") is None:
        raise InputError(f"{path} needs pydicom: pip install 'promask[dicom]'.")
    with report_damage(path, "a DICOM file"), silence_libraries():
        yield
