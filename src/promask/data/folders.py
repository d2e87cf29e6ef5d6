"""Which files are data: those of folders, globs and lists; whose each of them is, and which part it belongs to."""

import dataclasses
import functools
import glob
import itertools
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import NamedTuple

from promask.data.readers.bart import find_bart_file
from promask.data.readers.dicom import find_dicom_series, is_dicom
from promask.data.readers.nifti import is_label, split_name
from promask.data.reading import Reading
from promask.data.sample_file import ReadHeader, SampleFile
from promask.errors import InputError, InputWarning, count

FileReader = Callable[[Path, Reading], SampleFile]
"""Describes the samples of a file by its header."""
PART_FOLDERS = {"train": False, "training": False} | dict.fromkeys(("val", "validation", "test", "testing"), True)
"""Folders of these names, if there are no others beside them, tell which samples are held out."""
BIDS_SUBJECT = re.compile(r"sub-[A-Za-z0-9]+")
BIDS_NAME = re.compile(r"sub-.*_([A-Za-z][A-Za-z0-9]*)")
"""A name without its ending: entities such as sub-01 and ses-2, and the suffix, which tells the contrast."""
DICOM = ".dcm"
"""The ending that stands for all files of DICOM, whose names may have none."""


class FoundFile(NamedTuple):
    """A file, and how it was found."""

    path: Path
    below: Path
    """The folder that was searched."""
    word: str
    """The file, folder or glob of DATA that it was found by."""
    ending: str

    @property
    def place(self) -> Path:
        """The path below the folder that was searched."""
        return self.path.relative_to(self.below)

    @property
    def suffix(self) -> str | None:
        """What BIDS has at the end of a name, such as T1w; None if the name is not one of BIDS."""
        found = BIDS_NAME.fullmatch(split_name(self.path)[0])
        return found[1] if found and self.ending != DICOM else None


def is_glob(word: str) -> bool:
    """Whether a word is a pattern of names."""
    return any(sign in word for sign in "*?[")


def shorten(words: Sequence[str]) -> str:
    """The first of several words, and how many more there are.

    >>> shorten(["scans/a.h5"]), shorten(["scans/a.h5", "scans/b.h5", "more/"])
    ('scans/a.h5', 'scans/a.h5 and 2 more')
    """
    return words[0] if len(words) == 1 else f"{words[0]} and {len(words) - 1} more"


def expand(word: str) -> list[Path]:
    """The file or folder of this name, or else the files and folders that it matches as a glob, sorted."""
    path = find_bart_file(word)
    if path.exists():
        return [path]
    # Path.glob would find hidden files, too.
    matches = map(Path, sorted(glob.glob(word, recursive=True)))  # noqa: PTH207
    return [match for match in matches if match.is_file() or match.is_dir()]


def read_files(words: Sequence[str], reading: Reading, readers: Mapping[str, FileReader]) -> list[ReadHeader]:
    """The headers of all files that words name: files, the content of folders, and whatever globs match.

    Files of labels belong to those of images, and what promask has written is left out.
    """
    files = _leave_out_results(_list_files(words, readers))
    if len(words) > 1 or not find_bart_file(words[0]).is_file():  # a single file is read whatever its name is
        files = [file for file in files if not _holds_labels(file.place)]
    if not files:
        hold = "holds" if len(words) == 1 else "hold"
        raise InputError(f"{shorten(words)} {hold} no file that promask reads ({', '.join(readers)}, or DICOM).")
    root = os.path.commonpath([_without_dots(file.below) for file in files])
    files = _select(files, reading.select or (), shorten(words))
    _refuse_mixtures(files)
    places = {file.path: _without_dots(file.path).relative_to(root) for file in files}
    in_parts = _are_parts(places)
    headers: list[tuple[Path, ReadHeader]] = [
        (file.path, partial(readers[file.ending], file.path, reading)) for file in files if file.ending != DICOM
    ]
    slices = [file.path for file in files if file.ending == DICOM]
    series_of = [slices]
    if in_parts:  # a series is not joined across the parts
        series_of = [[path for path in slices if _part(places[path]) == part] for part in PART_FOLDERS]
    headers += [series for paths in series_of for series in find_dicom_series(paths, reading)]
    found = [places[path] for path, _ in headers]
    held_out: list[bool | None] = [None] * len(headers)
    if in_parts:
        parts = [_part(place) for place in found]
        held_out = [PART_FOLDERS[part] for part in parts]
        below = subject_names([Path(*place.parts[1:]) for place in found])
        # Numbers may begin anew in each part; names of BIDS do not.
        subjects = [
            name if BIDS_SUBJECT.fullmatch(name) else f"{part}/{name}"
            for part, name in zip(parts, below, strict=True)
        ]
    else:
        subjects = subject_names(found)
    return [
        partial(_read_with_subject, read_header, subject, is_held_out)
        for (_, read_header), subject, is_held_out in zip(headers, subjects, held_out, strict=True)
    ]


def _list_files(words: Iterable[str], readers: Mapping[str, FileReader]) -> list[FoundFile]:
    """The files that promask reads, each of them once."""
    found: dict[Path, FoundFile] = {}
    true_folder = functools.cache(Path.resolve)
    for word in words:
        paths, below = expand(word), _fixed_part(word)
        named = paths == [find_bart_file(word)]
        if named:
            below = paths[0] if paths[0].is_dir() else paths[0].parent
        for path in paths:
            if not path.is_dir() and not path.is_file():  # a pipe, from which nothing may ever come
                raise InputError(f"{word} is neither a file nor a folder: promask cannot read data from there.")
            for file in _files(path) if path.is_dir() else [path]:
                ending = DICOM if is_dicom(file) else split_name(file)[1].lower()
                if ending in readers:
                    entry = FoundFile(file, below, word, ending)
                    found.setdefault(true_folder(file.parent) / file.name, entry)
                elif named and file is path:
                    known = ", ".join(readers)
                    raise InputError(f"{word} cannot be read: promask reads {known} files, and folders of them.")
    return list(found.values())


def _without_dots(path: Path) -> Path:
    """The absolute path, by the names that were given: links stay."""
    return Path(os.path.normpath(path.absolute()))


def _fixed_part(word: str) -> Path:
    """The folder that a glob searches.

    >>> str(_fixed_part("scans/sub-*/anat/*.nii.gz"))
    'scans'
    """
    return Path(*itertools.takewhile(lambda part: not is_glob(part), Path(word).parts))


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


def _leave_out_results(files: Sequence[FoundFile]) -> list[FoundFile]:
    """The files that do not lie in a run or a comparison of promask; a warning names the first of these."""
    kind_of = functools.cache(_kind_of_result)
    results: dict[Path, str] = {}
    kept = []
    for file in files:
        result = next((folder for folder in reversed(file.path.parents) if kind_of(folder)), None)
        if result is None:
            kept.append(file)
        else:
            results[result] = kind_of(result)
    if results:
        folder, kind = next(iter(results.items()))
        if not kept:
            raise InputError(f"{folder} is a {kind} of promask and holds no data: give images or k-space.")
        more = f", and {len(results) - 1} more like it" if len(results) > 1 else ""
        warnings.warn(f"Left out: {folder} is a {kind} of promask and not data{more}.", InputWarning, stacklevel=2)
    return kept


def _kind_of_result(folder: Path) -> str:
    """What promask has written to a folder; nothing if these are not its files."""
    if (folder / "run.json").is_file() and (folder / "mask.npy").is_file():
        return "run"
    return "comparison" if (folder / "compare.json").is_file() else ""


def _holds_labels(place: Path) -> bool:
    """Whether a file holds labels by its name or folder, or lies among the derivatives of BIDS."""
    folders = [part.lower() for part in place.parts[:-1]]
    return is_label(place) or any(part.startswith("labels") or part == "derivatives" for part in folders)


def _select(files: Sequence[FoundFile], words: Sequence[str], source: str) -> list[FoundFile]:
    """The files whose names fit all words: globs, or parts of a name of BIDS."""

    def fits(file: FoundFile, word: str) -> bool:
        if is_glob(word):
            return any(fnmatchcase(name, word) for name in (file.path.name, file.place.as_posix()))
        return word in split_name(file.path)[0].split("_")

    chosen = [file for file in files if all(fits(file, word) for word in words)]
    if not chosen:
        suffixes = _count_suffixes(files)
        present = f"there are {_listed(suffixes)}" if suffixes else f"one of them is {files[0].place}"
        raise InputError(
            f"`select` {' '.join(words)} fits none of the {count(len(files), 'file')} of {source}: {present}."
        )
    return chosen


def _refuse_mixtures(files: Iterable[FoundFile]) -> None:
    """Refuse a folder or glob in which names of BIDS tell of several contrasts; scan1 and scan2 are one."""
    by_word: dict[str, list[FoundFile]] = {}
    for file in files:
        by_word.setdefault(file.word, []).append(file)
    for word, found in by_word.items():
        suffixes = _count_suffixes(found)
        if len({suffix.rstrip("0123456789") for suffix in suffixes}) > 1:
            first = next(file for file in found if file.suffix == next(iter(suffixes)))
            example = f"*_{first.suffix}{split_name(first.path)[1]}"
            raise InputError(f"{word} mixes {_listed(suffixes)}: choose one with `select`, such as '{example}'.")


def _count_suffixes(files: Iterable[FoundFile]) -> dict[str, int]:
    """How many files have each suffix of BIDS."""
    return dict(sorted(Counter(suffix for file in files if (suffix := file.suffix)).items()))


def _listed(suffixes: Mapping[str, int]) -> str:
    """The suffixes with the numbers of their files.

    >>> _listed({"T1w": 12, "T2w": 12, "bold": 40})
    'T1w (12 files), T2w (12) and bold (40)'
    """
    (first, number), *others = suffixes.items()
    words = [f"{first} ({count(number, 'file')})", *(f"{suffix} ({number})" for suffix, number in others)]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


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
    file.check_size()
    subjects = file.subjects if file.subjects is not None else [subject] * len(file.numbers)
    return dataclasses.replace(file, subjects=subjects, held_out=held_out)


def _are_parts(places: Mapping[Path, Path]) -> bool:
    """Whether all files, given with their places below a common folder, lie in folders such as train and test."""
    found = {_part(place) for place in places.values()}
    if found <= set(PART_FOLDERS):
        return True
    if {PART_FOLDERS[part] for part in found & set(PART_FOLDERS)} == {True, False}:
        other = next(path for path, place in places.items() if _part(place) not in PART_FOLDERS)
        raise InputError(f"There are folders for training and testing, but {other} lies beside them: move it.")
    return False


def _part(place: Path) -> str:
    return place.parts[0].lower() if len(place.parts) > 1 else ""
