"""A folder of files: each is read as by itself, and their places tell the subjects."""

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
from promask.data.stack import Describe, Stack
from promask.errors import InputError, InputWarning

FileReader = Callable[[Path, Reading], Stack]
PART_FOLDERS = {"train": False, "training": False} | dict.fromkeys(("val", "validation", "test", "testing"), True)
"""Folders of these names, if there is nothing beside them, tell what is held out."""
BIDS_SUBJECT = re.compile(r"sub-[A-Za-z0-9]+")


def read_folder(root: Path, reading: Reading, readers: Mapping[str, FileReader]) -> list[Describe]:
    """All files below a folder that promask reads; files of labels go with their images."""
    files = [path for path in _files(root) if not _of_labels(path.relative_to(root))]
    slices = [path for path in files if is_dicom(path)]
    images: list[tuple[Path, Describe]] = [
        (path, partial(readers[split_name(path)[1].lower()], path, reading))
        for path in files
        if split_name(path)[1].lower() in readers and not is_dicom(path)
    ]
    in_parts = _are_parts([*(path for path, _ in images), *slices], root)
    if in_parts:  # a series is not joined across the parts
        by_part = [[path for path in slices if _part(path, root) == part] for part in PART_FOLDERS]
    else:
        by_part = [slices]
    stacks = [*images, *(series for paths in by_part for series in find_dicom_series(paths, reading))]
    if not stacks:
        endings = ", ".join(readers)
        raise InputError(f"{root} holds no file that promask reads ({endings}, or DICOM).")
    places = [path.relative_to(root) for path, _ in stacks]
    if not in_parts:
        subjects = subject_names(places)
        return [
            partial(_placed, describe, subject, None)
            for (_, describe), subject in zip(stacks, subjects, strict=True)
        ]
    below = subject_names([Path(*place.parts[1:]) for place in places])
    parts = [_part(path, root) for path, _ in stacks]
    # Numbers may begin anew in each part; names of BIDS do not.
    subjects = [
        name if BIDS_SUBJECT.fullmatch(name) else f"{part}/{name}" for part, name in zip(parts, below, strict=True)
    ]
    return [
        partial(_placed, describe, subject, PART_FOLDERS[part])
        for (_, describe), subject, part in zip(stacks, subjects, parts, strict=True)
    ]


def subject_names(places: Sequence[Path]) -> list[str]:
    """The subject of each file: BIDS' sub-X, the folder that it lies in, or what comes before _ in its name.

    Folders that all files share tell nothing.

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
    _doubt_folders(folders, [Path(*place.parts[1:]) for place in places])
    return [
        folder or (stem.partition("_")[0] if tells else stem) for folder, stem in zip(folders, stems, strict=True)
    ]


def _doubt_folders(folders: Sequence[str], names: Sequence[Path]) -> None:
    """Say so if folders may be something else than subjects: few of them, and the same names in each."""
    known = sorted(set(folders) - {""})
    if 1 < len(known) < len(set(names)) < len(names):
        warnings.warn(
            f"The folders {', '.join(known[:3])}{', ...' if len(known) > 3 else ''} are taken for subjects; if a "
            f"patient is in several of them, name the files sub-1_..., sub-2_... as BIDS does.",
            InputWarning,
            stacklevel=2,
        )


def _placed(describe: Describe, subject: str, held_out: bool | None) -> Stack:
    stack = describe()
    subjects = stack.subjects if stack.subjects is not None else [subject] * len(stack.numbers)
    return dataclasses.replace(stack, subjects=subjects, held_out=held_out)


def _of_labels(place: Path) -> bool:
    """Whether a file holds labels by its name, or lies among labels or what BIDS keeps of earlier work."""
    folders = [part.lower() for part in place.parts[:-1]]
    return is_label(place) or any(part.startswith("labels") or part == "derivatives" for part in folders)


def _are_parts(paths: Sequence[Path], root: Path) -> bool:
    """Whether all files lie in folders such as train and test."""
    found = {_part(path, root) for path in paths}
    if found <= set(PART_FOLDERS):
        return True
    if {PART_FOLDERS[part] for part in found & set(PART_FOLDERS)} == {True, False}:
        other = next(path for path in paths if _part(path, root) not in PART_FOLDERS)
        raise InputError(f"{root} has folders for learning and testing, but {other} lies beside them: move it.")
    return False


def _part(path: Path, root: Path) -> str:
    return path.relative_to(root).parts[0].lower()


def _files(root: Path) -> Iterator[Path]:
    """The files below a folder in the order of their names, links followed, hidden ones left out."""
    seen = set()
    for folder, inner, names in os.walk(root, followlinks=True):
        true_folder = Path(folder).resolve()
        inner[:] = sorted(name for name in inner if not name.startswith(".")) if true_folder not in seen else []
        if true_folder not in seen:
            paths = (Path(folder, name) for name in sorted(names) if not name.startswith("."))
            yield from (path for path in paths if path.is_file())
        seen.add(true_folder)
