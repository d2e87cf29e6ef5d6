"""Data from wherever a user has them: built-in names, arrays, files and folders, loaded and prepared.

A new format or built-in data set is one file, and one line in a table here.
"""

import dataclasses
import functools
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from promask.data.arrays import apply_reading, from_array, from_dataset, from_images
from promask.data.axes import FRAME
from promask.data.builtin.brain import brain, head
from promask.data.builtin.cardiac import cardiac
from promask.data.builtin.knee import knee
from promask.data.builtin.phantom import Anatomy
from promask.data.description import DataDescription, describe_data
from promask.data.file_set import FileSet, OnFile, prepare, read_headers
from promask.data.readers.acdc import read_acdc
from promask.data.readers.bart import find_bart_file, read_bart
from promask.data.readers.brats import read_brats
from promask.data.readers.dicom import find_dicom_series, is_dicom, read_dicom
from promask.data.readers.fastmri import read_fastmri, read_fastmri_plus
from promask.data.readers.hdf5 import read_hdf5
from promask.data.readers.matlab import read_mat
from promask.data.readers.nifti import is_label, read_nifti, split_name
from promask.data.readers.numpy import read_npy, read_npz
from promask.data.readers.twix import read_twix
from promask.data.reading import Reading
from promask.data.sample_file import ReadHeader, SampleFile
from promask.data.sample_sets import ArraySet, Subset, choose_part, reading_of, resolve_subset
from promask.data.sensitivities import CalibratedSet, calibrate
from promask.errors import InputError, InputWarning
from promask.recon.base import Reconstruction
from promask.types import SampleSet

logger = logging.getLogger("promask")
"""Says in one line what was understood of data, at the level INFO."""
FileReader = Callable[[Path, Reading], SampleFile]
"""Describes the samples of a file by its header."""


@functools.cache
def _make_anatomy(anatomy: Callable[..., Anatomy], phase: bool) -> Anatomy:
    """A procedural anatomy, which takes seconds to make, and is made once."""
    return anatomy(phase=phase)


def _procedural(anatomy: Callable[..., Anatomy], name: str) -> Callable[..., ArraySet]:
    def build(volumes: bool = False, phase: bool = False) -> ArraySet:
        if volumes:
            raise InputError(f"The built-in {name} has slices only: leave out the volumes.")
        made = _make_anatomy(anatomy, phase)
        return from_images(made.image.copy(), made.label.copy(), made.subject, name=name)

    return build


BUILT_IN: Mapping[str, Callable[..., ArraySet]] = {
    "brain": brain,
    "head": head,
    "cardiac": _procedural(cardiac, "cardiac"),
    "knee": _procedural(knee, "knee"),
}
"""Data sets by name."""
COLLECTIONS: Mapping[str, Callable[[Path, Reading], list[ReadHeader]]] = {
    "acdc": read_acdc,
    "brats": read_brats,
    "fastmri": read_fastmri,
    "fastmri+": read_fastmri_plus,
}
"""Data sets with a layout of their own, `acdc:ROOT` and so on: a reader of all their headers."""
READERS: Mapping[str, FileReader] = {
    ".npz": read_npz,
    ".npy": read_npy,
    ".mat": read_mat,
    ".h5": read_hdf5,
    ".hdf5": read_hdf5,
    ".mrd": read_hdf5,
    ".nii": read_nifti,
    ".nii.gz": read_nifti,
    ".cfl": read_bart,
    ".dcm": read_dicom,
    ".ima": read_dicom,
    ".dat": read_twix,
}
"""Readers by the ending of the file."""


def load(data: Any, reading: Reading = Reading()) -> SampleSet:
    """Make a data set from whatever a user has.

    >>> load(torch.rand(3, 16, 16)).shape
    (1, 16, 16)

    Args:
        data: The name of a built-in data set, perhaps followed by `+phase`; a file or folder; `acdc:ROOT`, ...; an
            array or tensor; a torch Dataset; or a data set that is loaded already.
        reading: What is read, and how.

    Returns:
        The data set. Of files only the headers have been read: see `read_part`.
    """
    if isinstance(data, str | Path):
        return _from_text(str(data), reading)
    if isinstance(data, SampleSet):
        _check_same_reading(data, reading)
        return data
    if isinstance(data, torch.Tensor) or hasattr(data, "__array__"):
        return from_array(data, reading)
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return from_dataset(data, reading)
    raise InputError(f"Cannot load data from a {type(data).__name__}: give an array, a Dataset, a file or a name.")


def _from_text(text: str, reading: Reading) -> SampleSet:
    name, _, option = text.partition("+")
    if name in BUILT_IN and option in ("", "phase"):
        if reading.array or reading.holds or reading.plane:
            raise InputError(f"{text} is built in: leave out `array`, `holds` and `plane`.")
        return apply_reading(BUILT_IN[name](volumes=reading.volumes, phase=option == "phase"), reading)
    collection, _, root = text.partition(":")
    if collection in COLLECTIONS and root:
        if not Path(root).is_dir():
            raise InputError(f"{root} is not a folder: {collection}:ROOT needs the folder of the data set.")
        headers = COLLECTIONS[collection](Path(root), reading)
    else:
        headers = _headers(text, reading)
    return FileSet(read_headers(headers, reading), reading, text)


def _headers(text: str, reading: Reading) -> list[ReadHeader]:
    """The headers of a file, or of the files in a folder."""
    path = find_bart_file(text)
    if not path.exists():
        collections = ", ".join(f"{name}:ROOT" for name in COLLECTIONS)
        raise InputError(
            f"{text} is neither a file nor a built-in data set ({', '.join(BUILT_IN)}); promask reads folders and "
            f"{collections}, too."
        )
    if path.is_dir():
        return read_folder(path, reading, READERS)
    if not path.is_file():  # a pipe, from which nothing may ever come
        raise InputError(f"{text} is neither a file nor a folder: promask cannot read data from there.")
    suffix = ".dcm" if is_dicom(path) else split_name(path)[1].lower()
    if suffix not in READERS:
        raise InputError(f"{text} cannot be read: promask reads {', '.join(READERS)} files, and folders of them.")
    return [functools.partial(READERS[suffix], path, reading)]


def _check_same_reading(data: SampleSet, reading: Reading) -> None:
    """Refuse settings that would have no effect, because the data were loaded before."""
    loaded, default = reading_of(data), Reading()
    for name in (name for name in Reading.CHECKS if name != "volumes"):
        wanted, used = getattr(reading, name), getattr(loaded, name)
        if wanted not in (getattr(default, name), used):
            raise InputError(
                f"{data.name} was loaded with `{name}` {used}, and cannot be read with {wanted} now: give the "
                f"settings to promask.data.load."
            )


class DataPart(NamedTuple):
    """A part of a data set, ready to be learned from or measured on."""

    whole: SampleSet
    """All samples of the data set; those in files have not been read."""
    samples: SampleSet
    """The samples of the part, prepared, with coil sensitivities if the reconstruction uses them."""
    part: str
    """The name of the part: `train`, `test` or `all`."""
    description: DataDescription
    """What was understood of the data."""


def read_part(
    data: Any,
    reading: Reading = Reading(),
    part: str | None = None,
    default: str = "train",
    recon: Reconstruction | None = None,
    on_file: OnFile | None = None,
) -> DataPart:
    """Load data, choose a part of them, and prepare its samples: the one way in which data are read.

    Args:
        data: Whatever `load` takes; a data set that is loaded already is used as it is.
        reading: How the data are read.
        part: `train`, `test` or `all`. None: `default` if the data tell their subjects; otherwise all of them.
        default: The part to use if none is chosen.
        recon: The reconstruction that the samples are for. If it uses coil sensitivities, samples that have none
            get those of ESPIRiT.
        on_file: Called with the number of files prepared and their total; then with those of calibrated samples.

    Returns:
        The data set, the prepared samples of the part, and the name of the part.
    """
    whole = load(data, reading)
    check_roles(whole)
    chosen, part = choose_part(whole, part, default)
    samples = prepare(chosen, on_file)
    description = describe_data(samples, recon, whole)
    samples = samples if recon is None else calibrate(samples, recon, on_file)
    if not isinstance(whole, Subset | CalibratedSet):
        logger.info(description.sentence())
    return DataPart(whole, samples, part, description)


def check_roles(data: SampleSet) -> None:
    """Refuse data whose axes have a role that cannot be used.

    Frames are separate samples only if the user says so: over time, they are not independent.

    Args:
        data: A data set of `load`.

    Raises:
        InputError: If there are frames, and `each_frame` was not set.
    """
    frames = getattr(resolve_subset(data)[0], "counts", {}).get(FRAME, 1)
    if frames > 1 and not reading_of(data).each_frame:
        raise InputError(
            f"{data.name} has {frames} frames, and patterns over time are not learned yet: with `each_frame`, "
            f"each frame is an image of its own, and all share one mask."
        )


def absolute_source(data: Any) -> Any:
    """The same data for a process in another folder: files and folders by absolute path, all else unchanged.

    >>> absolute_source("brain"), absolute_source("acdc:/scans")
    ('brain', 'acdc:/scans')
    """
    if not isinstance(data, str | Path) or str(data).partition("+")[0] in BUILT_IN:
        return data
    collection, _, root = str(data).partition(":")
    if collection in COLLECTIONS and root:
        return f"{collection}:{Path(root).absolute()}"
    return str(Path(data).absolute())


PART_FOLDERS = {"train": False, "training": False} | dict.fromkeys(("val", "validation", "test", "testing"), True)
"""Folders of these names, if there are no others beside them, tell which samples are held out."""
BIDS_SUBJECT = re.compile(r"sub-[A-Za-z0-9]+")


def read_folder(root: Path, reading: Reading, readers: Mapping[str, FileReader]) -> list[ReadHeader]:
    """The headers of all files below a folder that promask reads; files of labels belong to those of images."""
    paths = [path for path in _files(root) if not _holds_labels(path.relative_to(root))]
    slices = [path for path in paths if is_dicom(path)]
    headers: list[tuple[Path, ReadHeader]] = [
        (path, partial(readers[split_name(path)[1].lower()], path, reading))
        for path in paths
        if split_name(path)[1].lower() in readers and not is_dicom(path)
    ]
    in_parts = _are_parts([*(path for path, _ in headers), *slices], root)
    series_of = [slices]
    if in_parts:  # a series is not joined across the parts
        series_of = [[path for path in slices if _part(path, root) == part] for part in PART_FOLDERS]
    headers += [series for paths in series_of for series in find_dicom_series(paths, reading)]
    if not headers:
        raise InputError(f"{root} holds no file that promask reads ({', '.join(readers)}, or DICOM).")
    places = [path.relative_to(root) for path, _ in headers]
    held_out: list[bool | None] = [None] * len(headers)
    if in_parts:
        parts = [_part(path, root) for path, _ in headers]
        held_out = [PART_FOLDERS[part] for part in parts]
        below = subject_names([Path(*place.parts[1:]) for place in places])
        # Numbers may begin anew in each part; names of BIDS do not.
        subjects = [
            name if BIDS_SUBJECT.fullmatch(name) else f"{part}/{name}"
            for part, name in zip(parts, below, strict=True)
        ]
    else:
        subjects = subject_names(places)
    return [
        partial(_read_with_subject, read_header, subject, is_held_out)
        for (_, read_header), subject, is_held_out in zip(headers, subjects, held_out, strict=True)
    ]


def subject_names(places: Sequence[Path]) -> list[str]:
    """The subject of each file: BIDS' sub-X, the folder that it lies in, or its name up to the first _.

    Folders that all files share are ignored.

    >>> subject_names([Path("a_1.npy"), Path("a_2.npy"), Path("b_1.npy")])
    ['a', 'a', 'b']
    >>> subject_names([Path("scan_1.npy"), Path("scan_2.npy")])
    ['scan_1', 'scan_2']
    >>> subject_names([Path("anna/1.npy"), Path("anna/2.npy"), Path("otto/1.npy")])
    ['anna', 'anna', 'otto']
    """
    bids = [BIDS_SUBJECT.search(str(place)) for place in places]
    if all(bids):
        return [found[0] for found in bids if found]
    shared = os.path.commonpath([place.parent for place in places]) if places else ""
    places = [place.relative_to(shared) for place in places]
    folders = [place.parts[0] if len(place.parts) > 1 else "" for place in places]
    stems = [split_name(place)[0] for place in places]
    alone = [stem for stem, folder in zip(stems, folders, strict=True) if not folder]
    tells = len({stem.partition("_")[0] for stem in alone}) > 1
    _warn_of_folders(folders, [Path(*place.parts[1:]) for place in places])
    return [
        folder or (stem.partition("_")[0] if tells else stem) for folder, stem in zip(folders, stems, strict=True)
    ]


def _warn_of_folders(folders: Sequence[str], names: Sequence[Path]) -> None:
    """Warn if folders are perhaps not subjects: few of them, with the same names in each."""
    known = sorted(set(folders) - {""})
    if 1 < len(known) < len(set(names)) < len(names):
        warnings.warn(
            f"The folders {', '.join(known[:3])}{', ...' if len(known) > 3 else ''} are taken for subjects; if a "
            f"patient is in several of them, name the files sub-1_..., sub-2_... as BIDS does.",
            InputWarning,
            stacklevel=2,
        )


def _read_with_subject(read_header: ReadHeader, subject: str, held_out: bool | None) -> SampleFile:
    file = read_header()
    subjects = file.subjects if file.subjects is not None else [subject] * len(file.numbers)
    return dataclasses.replace(file, subjects=subjects, held_out=held_out)


def _holds_labels(place: Path) -> bool:
    """Whether a file holds labels by its name or folder, or lies among the derivatives of BIDS."""
    folders = [part.lower() for part in place.parts[:-1]]
    return is_label(place) or any(part.startswith("labels") or part == "derivatives" for part in folders)


def _are_parts(paths: Sequence[Path], root: Path) -> bool:
    """Whether all files lie in folders such as train and test."""
    found = {_part(path, root) for path in paths}
    if found <= set(PART_FOLDERS):
        return True
    if {PART_FOLDERS[part] for part in found & set(PART_FOLDERS)} == {True, False}:
        other = next(path for path in paths if _part(path, root) not in PART_FOLDERS)
        raise InputError(f"{root} has folders for training and testing, but {other} lies beside them: move it.")
    return False


def _part(path: Path, root: Path) -> str:
    return path.relative_to(root).parts[0].lower()


def _files(root: Path) -> Iterator[Path]:
    """The files below a folder in the order of their names, links followed, hidden ones left out."""
    seen = set()
    for folder, inner, names in os.walk(root, followlinks=True):
        true_folder = Path(folder).resolve()
        if true_folder in seen:
            inner.clear()
            continue
        seen.add(true_folder)
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        paths = (Path(folder, name) for name in sorted(names) if not name.startswith("."))
        yield from (path for path in paths if path.is_file())
