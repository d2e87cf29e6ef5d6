"""Data from wherever a user has them: built-in names, arrays, files and folders, loaded and prepared.

A new format or built-in data set is one file, and one line in a table here.
"""

import functools
import logging
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import torch

from promask.data.arrays import apply_reading, from_array, from_dataset, from_images
from promask.data.axes import FRAME, SLICE
from promask.data.builtin.brain import brain, head
from promask.data.builtin.cardiac import cardiac
from promask.data.builtin.cine import cine
from promask.data.builtin.knee import knee
from promask.data.builtin.phantom import Anatomy
from promask.data.description import DataDescription, describe_data
from promask.data.file_set import FileSet, OnFile, prepare, read_headers
from promask.data.folders import FileReader, expand, is_glob, read_files, shorten
from promask.data.readers.acdc import read_acdc
from promask.data.readers.bart import read_bart
from promask.data.readers.brats import read_brats
from promask.data.readers.dicom import read_dicom
from promask.data.readers.fastmri import read_fastmri, read_fastmri_plus
from promask.data.readers.hdf5 import read_hdf5
from promask.data.readers.matlab import read_mat
from promask.data.readers.nifti import read_nifti, split_name
from promask.data.readers.numpy import read_npy, read_npz
from promask.data.readers.twix import read_twix
from promask.data.reading import Reading
from promask.data.sample_file import ReadHeader
from promask.data.sample_sets import ArraySet, Subset, choose_part, reading_of
from promask.data.sensitivities import CalibratedSet, calibrate
from promask.data.series import as_series
from promask.errors import InputError
from promask.recon.base import Reconstruction, check_trajectory, is_temporal
from promask.types import Geometry, SampleSet

logger = logging.getLogger("promask")
"""Says in one line what was understood of data, at the level INFO."""
Source = str | Path | Sequence[str | Path]
"""What names data: a data set, a file, a folder or a glob, or several of the last three."""


VOLUMES = {"subjects": 30, "slices": 12, "size": 96}
"""How many procedural volumes there are, and their size: (slices, size, size)."""


@functools.cache
def _make_anatomy(anatomy: Callable[..., Anatomy], phase: bool, volumes: bool) -> Anatomy:
    """A procedural anatomy, which takes seconds to make, and is made once."""
    return anatomy(phase=phase, **(VOLUMES if volumes else {}))


def _procedural(anatomy: Callable[..., Anatomy], name: str) -> Callable[..., ArraySet]:
    def build(volumes: bool = False, phase: bool = False) -> ArraySet:
        made = _make_anatomy(anatomy, phase, volumes)
        slices = VOLUMES["slices"] if volumes else 1
        shape = (len(made.image) // slices, *([slices] if volumes else []), *made.image.shape[1:])
        image, label = made.image.copy().reshape(shape), made.label.copy().reshape(shape)
        return from_images(image, label, made.subject[::slices], name=name, volumes=volumes)

    return build


def _beating_heart(volumes: bool = False, phase: bool = False) -> ArraySet:
    """Procedural series of frames, one by one, as readers give them."""
    if volumes:
        raise InputError("cine has series of slices and no volumes: leave out `volumes`.")
    made = _make_anatomy(cine, phase, volumes)
    series, frames, *space = made.image.shape
    images, labels = (each.reshape(series * frames, *space).copy() for each in (made.image, made.label))
    data = from_images(images, labels, [name for name in made.subject for _ in range(frames)], name="cine")
    return replace(data, geometry=Geometry(axes=("ky", "kx")), counts={SLICE: series, FRAME: frames})


BUILT_IN: Mapping[str, Callable[..., ArraySet]] = {
    "brain": brain,
    "head": head,
    "cardiac": _procedural(cardiac, "cardiac"),
    "knee": _procedural(knee, "knee"),
    "cine": _beating_heart,
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
        data: The name of a built-in data set, perhaps followed by `+phase`; a file, a folder or a glob, or a list
            of these; `acdc:ROOT`, ...; an array or tensor; a torch Dataset; or a data set that is loaded already.
        reading: What is read, and how.

    Returns:
        The data set. Of files only the headers have been read: see `read_part`.
    """
    if is_source(data):
        return as_series(_from_words(source_words(data), reading))
    if isinstance(data, SampleSet):
        _check_same_reading(data, reading)
        return data
    if isinstance(data, torch.Tensor) or hasattr(data, "__array__"):
        return as_series(from_array(data, reading))
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        if reading.per is not None:
            raise InputError(
                "Contrasts with patterns of their own must be given as an array with `axes`, or a file."
            )
        return from_dataset(data, reading)
    raise InputError(f"Cannot load data from a {type(data).__name__}: give an array, a Dataset, a file or a name.")


def _from_words(words: Sequence[str], reading: Reading) -> SampleSet:
    text = words[0]
    for word in words:
        if len(words) > 1 and _is_data_set(word):
            other = words[1] if word == text else text
            raise InputError(
                f"{word} cannot be read together with {other}: give one data set, or files, folders and globs."
            )
    if _is_built_in(text):
        for setting in ("array", "holds", "axes", "plane", "select"):
            if getattr(reading, setting) is not None:
                raise InputError(f"{text} is built in: leave out `{setting}`.")
        name, _, option = text.partition("+")
        return apply_reading(BUILT_IN[name](volumes=reading.volumes, phase=option == "phase"), reading)
    collection, root = split_collection(text)
    if collection:
        if not Path(root).is_dir():
            raise InputError(f"{root} is not a folder: {collection}ROOT needs the folder of the data set.")
        if reading.select:
            raise InputError(f"{collection}ROOT has a layout of its own: leave out `select`.")
        headers = COLLECTIONS[collection.removesuffix(":")](Path(root), reading)
    else:
        for word in words:
            _check_there(word)
        headers = read_files(words, reading, READERS)
    return FileSet(read_headers(headers, reading), reading, source_text(words))


def _check_there(word: str) -> None:
    if expand(word):
        return
    if is_glob(word):
        raise InputError(f"No file matches {word}: check its folder and its ending.")
    collections = ", ".join(f"{name}:ROOT" for name in COLLECTIONS)
    raise InputError(
        f"{word} is neither a file nor a built-in data set ({', '.join(BUILT_IN)}); promask reads folders, globs "
        f"and {collections}, too."
    )


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
    if recon is not None:
        check_frames(recon, whole.geometry, whole.name)
        if whole.geometry.trajectory is not None:
            check_trajectory(recon, whole.geometry.trajectory)
    chosen, part = choose_part(whole, part, default)
    samples = prepare(chosen, on_file)
    description = describe_data(samples, recon, whole)
    samples = samples if recon is None else calibrate(samples, recon, on_file)
    if not isinstance(whole, Subset | CalibratedSet):
        logger.info(description.sentence())
    return DataPart(whole, samples, part, description)


def check_frames(recon: Reconstruction, geometry: Geometry, name: str) -> None:
    """Refuse a reconstruction that reconstructs frames together, if there are none.

    Args:
        recon: Any reconstruction.
        geometry: What is known of the axes of the data.
        name: What the data are called in the message.

    Raises:
        InputError: If it needs frames, and the data have none.
    """
    if is_temporal(recon) and geometry.indexed != FRAME:
        raise InputError(
            f"{recon.name} reconstructs series of frames, but {name} has none: name their axis with `axes`, "
            f"such as 'slice frame y x', or choose another reconstruction."
        )


def refuse_series(data: SampleSet, what: str) -> None:
    """Refuse series of frames where single images are needed.

    Args:
        data: A data set of `load`.
        what: Who needs single images, for the message.

    Raises:
        InputError: If its samples are series.
    """
    if data.geometry.indexed:
        in_time = data.geometry.indexed == FRAME
        way_out = "with `each_frame`, each frame is an image of its own" if in_time else "leave out `per`"
        raise InputError(
            f"{data.name} has series of {data.shape[1]} {data.geometry.indexed}s, but {what} needs single images: "
            f"{way_out}."
        )


def is_source(data: Any) -> TypeGuard[Source]:
    """Whether data are given by name, and not as an object that holds them."""
    if isinstance(data, list | tuple) and data:
        return all(isinstance(each, str | Path) for each in data)
    return isinstance(data, str | Path)


def source_words(source: Source) -> list[str]:
    """The names in a source; one text may hold several, as `source_text` joins them.

    A text that is a file, a folder or a glob as a whole is one name, whatever letters it has.

    >>> source_words("brain"), source_words("scans/a.h5 'my scans/*.h5'"), source_words("my scan.h5")
    (['brain'], ['scans/a.h5', 'my scans/*.h5'], ['my scan.h5'])
    """
    if not isinstance(source, str):
        return [str(source)] if isinstance(source, Path) else [str(each) for each in source]
    words = []
    with suppress(ValueError):  # a quotation mark in a name
        words = shlex.split(source)
    if len(words) < 2 or _is_there(source):
        return [source]
    are_files = all(split_name(Path(word))[1].lower() in READERS for word in words)
    return words if are_files or any(map(_is_there, words)) else [source]


def source_text(source: Source) -> str:
    """A source as one text, from which `load` gets the same data.

    >>> source_text(["scans/a.h5", "my scans/*.h5"])
    "scans/a.h5 'my scans/*.h5'"
    """
    words = source_words(source)
    return words[0] if len(words) == 1 else shlex.join(words)


def short_source(source: Source) -> str:
    """A source without the place where its files lie.

    >>> short_source("scans/knee.npz"), short_source("acdc:data/ACDC/"), short_source("brain")
    ('knee.npz', 'acdc:ACDC', 'brain')
    >>> short_source("scans/a.h5 scans/b.h5 scans/c.h5"), short_source("scans/*.h5")
    ('a.h5 and 2 more', 'scans/*.h5')
    """
    words = source_words(source)
    collection, place = split_collection(words[0])
    name = place if is_glob(place) else Path(place).name or place
    return shorten([collection + name, *words[1:]])


def absolute_source(data: Any) -> Any:
    """The same data for a process in another folder: files and folders by absolute path, all else unchanged.

    >>> absolute_source("brain"), absolute_source("acdc:/scans"), absolute_source(["/a.h5", "/b.h5"])
    ('brain', 'acdc:/scans', '/a.h5 /b.h5')
    """
    return source_text([_absolute(word) for word in source_words(data)]) if is_source(data) else data


def _absolute(word: str) -> str:
    collection, place = split_collection(word)
    return word if _is_built_in(word) else f"{collection}{Path(place).absolute()}"


def same_data(one: str, other: str) -> bool:
    """Whether two texts name the same data, however their paths are written."""
    return _true_places(one) == _true_places(other)


def _true_places(text: str) -> set[tuple[str, str]]:
    return {
        (collection, os.path.realpath(path))
        for collection, place in map(split_collection, source_words(text))
        for path in (expand(place) if is_glob(place) else None) or [Path(place)]
    }


def split_collection(word: str) -> tuple[str, str]:
    """The name of a collection with its colon, and its folder; of another word nothing, and the word.

    >>> split_collection("acdc:data/ACDC"), split_collection("scans/a.h5")
    (('acdc:', 'data/ACDC'), ('', 'scans/a.h5'))
    """
    collection, colon, root = word.partition(":")
    return (collection + colon, root) if collection in COLLECTIONS and root else ("", word)


def _is_built_in(word: str) -> bool:
    name, _, option = word.partition("+")
    return name in BUILT_IN and option in ("", "phase")


def _is_data_set(word: str) -> bool:
    return _is_built_in(word) or split_collection(word)[0] != ""


def _is_there(word: str) -> bool:
    with suppress(OSError):  # many names are too long for one
        return _is_data_set(word) or bool(expand(word))
    return False
