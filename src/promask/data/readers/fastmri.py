"""The fastMRI data set (Zbontar et al. 2018): HDF5 files of raw k-space, single- and multi-coil.

Columns of k-space outside of what was measured are padding: they are never acquired, and not counted. Images are
judged on the matrix of the reconstruction, 320 x 320 for knees, as fastMRI does. The annotations of fastMRI+ (Zhao
et al. 2022), boxes around findings, become label masks.
"""

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from promask.data.atomic import Array, as_tensor
from promask.data.axes import COIL, SLICE
from promask.data.preprocess import crop_or_pad
from promask.data.readers.ismrmrd import MrdHeader
from promask.data.reading import Reading
from promask.data.sample_file import RawSample, ReadHeader, SampleFile, refuse_array_settings
from promask.data.sandbox import open_hdf5, private_name
from promask.errors import InputError
from promask.types import Geometry

if TYPE_CHECKING:
    import h5py

CROP = 320
"""The usual size of the judged part, where the header does not say."""
FOLDERS = {"train": False, "val": True}
"""The folders end in these; test folders of the challenge are undersampled, and not read."""
HEADER = "ismrmrd_header"
RECONSTRUCTIONS = {3: "reconstruction_esc", 4: "reconstruction_rss"}
"""The reference image of single- and of multi-coil k-space, by its number of axes."""
COLUMNS = ("file", "slice", "study_level", "x", "y", "width", "height", "label")
"""Those of a table of fastMRI+."""


@dataclass(frozen=True)
class Box:
    """A finding on a slice.

    The images were turned upside down before they were annotated: x counts columns from the left, y counts rows
    from the bottom of the image as it lies in the file.
    """

    file: str
    number: int
    x: int
    y: int
    width: int
    height: int
    label: str

    def place(self, rows: int) -> tuple[slice, slice]:
        """Rows and columns of the box in an image with this many rows, as it lies in the file.

        >>> Box("file1", 0, x=10, y=0, width=5, height=20, label="Meniscus Tear").place(rows=320)
        (slice(300, 320, None), slice(10, 15, None))
        """
        bottom = rows - self.y
        right = self.x + self.width
        return slice(max(0, bottom - self.height), max(0, bottom)), slice(max(0, self.x), max(0, right))


def read_boxes(path: Path) -> list[Box] | None:
    """The boxes of a table; None if it is another table. Findings about the whole study have no box."""
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            table = csv.DictReader(file)
            if not set(COLUMNS) <= set(table.fieldnames or ()):
                return None
            return [_box(row, path, table.line_num) for row in table if row["x"] != ""]
    except (OSError, csv.Error) as error:
        raise InputError(f"Cannot read {path}: {error}.") from error


def draw_labels(boxes: Sequence[Box], size: tuple[int, ...], numbers: Mapping[str, int]) -> Array:
    """The number of the label at each pixel, 0 where there is no finding; smaller boxes lie on top."""
    mask = np.zeros(size, np.uint8 if len(numbers) < 256 else np.int32)
    for box in sorted(boxes, key=lambda box: -box.width * box.height):
        mask[box.place(size[0])] = numbers[box.label]
    return mask


def _box(row: dict[str, str], path: Path, line: int) -> Box:
    try:
        number, x, y, width, height = (int(float(row[name])) for name in ("slice", "x", "y", "width", "height"))
        return Box(row["file"].removesuffix(".h5"), number, x, y, width, height, row["label"].strip())
    except (TypeError, ValueError, OverflowError, AttributeError) as error:  # None where the line is too short
        raise InputError(f"Line {line} of {path} is not an annotation of fastMRI+.") from error


@dataclass(frozen=True)
class Annotations:
    """The boxes of fastMRI+ by file and slice, and the number of each label, from 1."""

    boxes: Mapping[str, Mapping[int, Sequence[Box]]] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    source: Path | None = None


def is_fastmri(file: "h5py.File") -> bool:
    """Whether a file has the layout of fastMRI, as those of M4Raw have: the header, or the images beside."""
    return "kspace" in file and any(name in file for name in (HEADER, *RECONSTRUCTIONS.values()))


def read_fastmri(root: Path, reading: Reading, annotated: bool = False) -> list[ReadHeader]:
    """The files of `*_train` and `*_val` folders, or of the root itself; `annotated`: slices of fastMRI+ only."""
    files: list[tuple[Path, bool | None]] = [
        (file, held_out)
        for folder in sorted(root.iterdir())
        for end, held_out in FOLDERS.items()
        if folder.is_dir() and folder.name.rpartition("_")[2] == end
        for file in sorted(folder.glob("*.h5"))
    ]
    files = files or [(file, None) for file in sorted(root.glob("*.h5"))]
    if not files:
        raise InputError(f"{root} holds no folder such as singlecoil_train or multicoil_val with .h5 files.")
    annotations = find_annotations(root, [file.stem for file, _ in files])
    if annotated and annotations.source is None:
        raise InputError(f"{root} holds no annotations of fastMRI+: put its knee.csv or brain.csv there.")
    chosen = [(file, held) for file, held in files if not annotated or file.stem in annotations.boxes]
    if not chosen:
        raise InputError(f"{annotations.source} annotates none of the {len(files)} files in {root}.")
    return [
        partial(read_fastmri_file, file, reading, annotations, held_out, annotated, file.stem)
        for file, held_out in chosen
    ]


def read_fastmri_plus(root: Path, reading: Reading) -> list[ReadHeader]:
    """The slices that fastMRI+ annotates, which the paper uses."""
    return read_fastmri(root, reading, annotated=True)


def read_fastmri_file(
    path: Path,
    reading: Reading,
    annotations: Annotations = Annotations(),
    held_out: bool | None = None,
    annotated: bool = False,
    subject: str | None = None,
) -> SampleFile:
    """One scan: k-space (slice, H, W) or (slice, coil, H, W); emulated: its reference image."""
    refuse_array_settings(path, reading)
    if reading.volumes:
        raise InputError(f"{path} holds slices that were measured one by one: leave out the volumes.")
    with open_hdf5(path, HEADER) as file:
        if "kspace" not in file:
            raise InputError(f"{path} holds no array 'kspace', so it is not a file of fastMRI.")
        kspace = file["kspace"]
        if kspace.ndim not in RECONSTRUCTIONS or kspace.dtype.kind != "c":
            raise InputError(
                f"The k-space of {path} has shape {list(kspace.shape)} and type {kspace.dtype}, but complex "
                f"(slice, H, W) or (slice, coil, H, W) is expected."
            )
        if "mask" in file:
            raise InputError(f"{path} is undersampled, as the test files of fastMRI are: masks need full k-space.")
        shape, reference = tuple(kspace.shape), RECONSTRUCTIONS[kspace.ndim]
        header = MrdHeader.parse(file[HEADER][()], path) if HEADER in file else None
        patient = private_name(str(file.attrs["patient_id"])) if "patient_id" in file.attrs else subject
        has_reference = reference in file
        matrix = header.image[:2] if header is not None and all(header.image[:2]) else (CROP, CROP)
        stored = tuple(file[reference].shape) if has_reference else (shape[0], *matrix)
    count, space, size = shape[0], shape[-2:], stored[1:]
    if len(stored) != 3 or stored[0] != count:
        raise InputError(
            f"The {reference} of {path} has shape {list(stored)}, but {count} images are expected, one per slice."
        )
    region = tuple(map(min, space, size))
    geometry = Geometry(
        extent=((0, space[0]), _columns(header, space[1], path)),
        region=region if region != space else (),
        axes=("kx", "ky"),
        readout=0,
        channels=COIL if len(shape) == 4 else "",
        voxel=() if header is None else header.voxel[:2],
    )
    boxes = annotations.boxes.get(path.stem, {})
    numbers = [number for number in reading.choose_slices(count) if not annotated or number in boxes]
    from_reference = reading.kspace == "emulated" and has_reference

    def read(chosen: Sequence[int]) -> Iterator[RawSample]:
        name = reference if from_reference else "kspace"
        with open_hdf5(path, name) as file:
            source = file[name]
            for number in chosen:
                values = source[number].reshape(-1, *source.shape[-2:])
                label = None
                if annotations.source is not None:
                    drawn = draw_labels(boxes.get(number, []), size, annotations.numbers)
                    label = crop_or_pad(as_tensor(drawn), values.shape[1:]).numpy()
                yield values, label

    coils = 1 if len(shape) == 3 or from_reference else shape[1]
    return SampleFile(
        files=(path, annotations.source) if annotations.source else (path,),
        shape=(coils, *(size if from_reference else space)),
        numbers=numbers,
        read=read,
        holds_kspace=not from_reference,
        subjects=None if patient is None else [patient] * len(numbers),
        geometry=geometry.emulated() if from_reference else geometry,
        counts={SLICE: count},
        held_out=held_out,
        variant=f"fastmri {path.stem}" if annotations.source else "fastmri",
    )


def find_annotations(root: Path, names: Collection[str]) -> Annotations:
    """The table of fastMRI+ in a folder, or in `Annotations` below it, that annotates most of these files."""
    found = []
    for path in sorted([*root.glob("*.csv"), *root.glob("Annotations/*.csv")]):
        boxes = read_boxes(path)
        if boxes is not None:
            by_slice: dict[str, dict[int, list[Box]]] = {}
            for box in boxes:
                by_slice.setdefault(box.file, {}).setdefault(box.number, []).append(box)
            labels = sorted({box.label for box in boxes})
            numbers = {label: number for number, label in enumerate(labels, start=1)}
            found.append(Annotations(by_slice, numbers, path))
    return max(found, key=lambda table: len(table.boxes.keys() & set(names)), default=Annotations())


def _columns(header: MrdHeader | None, width: int, path: Path) -> tuple[int, int]:
    """The columns that were measured, of all columns of k-space."""
    if header is None:
        return 0, width
    if not header.matrix[1] or header.maximum[0] is None:
        raise InputError(
            f"The header of {path} does not tell which columns were measured (encodedSpace and encodingLimits)."
        )
    first = header.matrix[1] // 2 - header.centre[0]
    last = first + header.maximum[0] + 1
    if not 0 <= first < last <= width:
        raise InputError(
            f"The header of {path} puts the measured columns at {first} to {last}, but there are {width}."
        )
    return first, last
