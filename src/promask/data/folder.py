"""A folder of files: each is read as it would be alone, and its place tells the subject."""

import dataclasses
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from promask.data.readers.dicom import find_dicom_series, is_dicom
from promask.data.readers.nifti import is_label, split_name
from promask.data.reading import Reading
from promask.data.sample_file import ReadHeader, SampleFile
from promask.errors import InputError, InputWarning

FileReader = Callable[[Path, Reading], SampleFile]
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
