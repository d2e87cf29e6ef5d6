"""Data sets: built-in names, arrays, files and folders. A new kind is one file and one line in a table here."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from promask.data.acdc import acdc
from promask.data.acquired import Acquired, acquired, channels_seen, stacked
from promask.data.arrays import from_images, from_kspace
from promask.data.bart import bart_file, read_bart
from promask.data.brain import brain
from promask.data.brats import brats
from promask.data.cardiac import cardiac
from promask.data.coils import simulated_maps
from promask.data.dicom import is_dicom, read_dicom
from promask.data.espirit import calibrated, espirit_maps, with_maps
from promask.data.fastmri import fastmri, fastmri_plus
from promask.data.file_set import FileSet, OnFile, prepared, usable
from promask.data.folder import FileReader, read_folder
from promask.data.hdf5 import read_hdf5
from promask.data.head import head
from promask.data.knee import knee
from promask.data.maps_file import maps_of_file
from promask.data.matlab import read_mat
from promask.data.nifti import read_nifti, split_name
from promask.data.numpy_files import read_npy, read_npz
from promask.data.phantom import Anatomy
from promask.data.scan import scanned_shape
from promask.data.sets import ArraySet, Subset, reading_of
from promask.data.split import OTHER_PART, PARTS, choose_part
from promask.data.stack import Describe, fitted
from promask.errors import InputError
from promask.reading import Reading
from promask.types import Sample, SampleSet

__all__ = [
    "BUILT_IN",
    "COLLECTIONS",
    "OTHER_PART",
    "PARTS",
    "READERS",
    "Acquired",
    "ArraySet",
    "OnFile",
    "Subset",
    "absolute",
    "acquired",
    "calibrated",
    "channels_seen",
    "choose_part",
    "espirit_maps",
    "from_images",
    "from_kspace",
    "load",
    "prepared",
    "reading_of",
    "simulated_maps",
    "stacked",
    "with_maps",
]


@functools.cache
def _made(anatomy: Callable[..., Anatomy], phase: bool) -> Anatomy:
    """A procedural anatomy, which takes seconds to make, and is made once."""
    return anatomy(phase=phase)


def _procedural(anatomy: Callable[..., Anatomy], name: str) -> Callable[..., ArraySet]:
    def build(volumes: bool = False, phase: bool = False) -> ArraySet:
        if volumes:
            raise InputError(f"The built-in {name} has slices only: leave out the volumes.")
        made = _made(anatomy, phase)
        return from_images(made.image.copy(), made.label.copy(), made.subject, name=name)

    return build


BUILT_IN: Mapping[str, Callable[..., ArraySet]] = {
    "brain": brain,
    "head": head,
    "cardiac": _procedural(cardiac, "cardiac"),
    "knee": _procedural(knee, "knee"),
}
COLLECTIONS: Mapping[str, Callable[[Path, Reading], list[Describe]]] = {
    "acdc": acdc,
    "brats": brats,
    "fastmri": fastmri,
    "fastmri+": fastmri_plus,
}
"""Data sets with a layout of their own: `acdc:ROOT` and so on."""
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
}


def load(data: Any, reading: Reading = Reading()) -> SampleSet:
    """A data set from whatever a user has: a DATA string, a path, an array, a tensor or a torch Dataset.

    A built-in name may be followed by `+phase`. Of files only the headers are read; see `prepared`.

    >>> load(torch.rand(3, 16, 16)).shape
    (1, 16, 16)
    """
    if isinstance(data, str | Path):
        return _from_text(str(data), reading)
    if isinstance(data, SampleSet):
        _check_same_reading(data, reading)
        return data
    if isinstance(data, torch.Tensor) or hasattr(data, "__array__"):
        if reading.holds != "kspace":
            return _adapted(from_images(data, volumes=reading.volumes), reading)
        made = from_kspace(data, volumes=reading.volumes)
        if reading.kspace == "emulated":
            made = replace(made, images=torch.linalg.vector_norm(made.images, dim=1, keepdim=True))
        return _adapted(made, reading)
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return _adapted(_from_dataset(data, reading.volumes), reading)
    raise InputError(f"Cannot take data from a {type(data).__name__}: give an array, a Dataset, a file or a name.")


def _from_text(text: str, reading: Reading) -> SampleSet:
    name, _, option = text.partition("+")
    if name in BUILT_IN and option in ("", "phase"):
        if reading.array or reading.holds or reading.plane:
            raise InputError(f"{text} is built in: leave out --array, --holds and --plane.")
        return _adapted(BUILT_IN[name](volumes=reading.volumes, phase=option == "phase"), reading)
    collection, _, root = text.partition(":")
    if collection in COLLECTIONS and root:
        if not Path(root).is_dir():
            raise InputError(f"{root} is not a folder: {collection}:ROOT needs the folder of the data set.")
        return FileSet(usable(COLLECTIONS[collection](Path(root), reading), reading), reading, text)
    path = bart_file(text)
    if not path.exists():
        collections = ", ".join(f"{name}:ROOT" for name in COLLECTIONS)
        raise InputError(
            f"{text} is neither a file nor a built-in data set ({', '.join(BUILT_IN)}); folders and {collections} "
            f"are read, too."
        )
    if path.is_dir():
        return FileSet(usable(read_folder(path, reading, READERS), reading), reading, text)
    suffix = ".dcm" if is_dicom(path) else split_name(path)[1].lower()
    if suffix not in READERS:
        raise InputError(f"{text} cannot be read: promask reads {', '.join(READERS)} files, and folders of them.")
    return FileSet([READERS[suffix](path, reading)], reading, text)


def absolute(data: Any) -> Any:
    """The same data for a process in another folder: a file or folder by its whole path, all else as it is.

    >>> absolute("brain"), absolute("acdc:/scans")
    ('brain', 'acdc:/scans')
    """
    if not isinstance(data, str | Path) or str(data).partition("+")[0] in BUILT_IN:
        return data
    collection, _, root = str(data).partition(":")
    if collection in COLLECTIONS and root:
        return f"{collection}:{Path(root).absolute()}"
    return str(Path(data).absolute())


def _check_same_reading(data: SampleSet, reading: Reading) -> None:
    """Refuse settings that would have no effect, because the data were loaded before."""
    loaded, usual = reading_of(data), Reading()
    for name in ("kspace", "array", "holds", "plane", "slices", "size", "skip_bad", *Reading.SCAN):
        wanted = getattr(reading, name)
        if wanted not in (getattr(usual, name), getattr(loaded, name)):
            raise InputError(
                f"{data.name} was loaded with {name} {getattr(loaded, name)}, and cannot be read with {wanted} "
                f"now: give the settings to promask.data.load."
            )


def _adapted(data: ArraySet, reading: Reading) -> ArraySet:
    """Samples in memory, taken as a user of files would have them."""
    chosen = list(reading.chosen(len(data)))
    size = reading.wanted_size(data.shape[1:])
    if not chosen:
        raise InputError(f"{data.name} holds no slices to take.")

    def taken(values: torch.Tensor) -> torch.Tensor:
        return fitted(values if len(chosen) == len(data) else values[chosen], size)

    images, clean, maps = data.images, data.clean, data.maps
    if reading.kspace == "emulated":
        images, clean, maps = images.abs(), None if clean is None else clean.abs(), None
    if maps is not None:
        maps = taken(maps) if maps.ndim == images.ndim else fitted(maps, size)
    shape = scanned_shape((images.shape[1], *size), reading, data.name)
    given = maps_of_file(reading, data.name, shape, [data.shape[1:]], [chosen])
    if given is not None:
        maps = given[0] if given.rows is None else torch.stack([given[index] for index in range(len(chosen))])
    return replace(
        data,
        images=taken(images),
        labels=None if data.labels is None else taken(data.labels),
        subjects=None if data.subjects is None else [data.subjects[index] for index in chosen],
        unlabelled=None if data.unlabelled is None else [data.unlabelled[index] for index in chosen],
        maps=maps,
        clean=None if clean is None else taken(clean),
        reading=reading,
    )


def _from_dataset(data: Any, volumes: bool) -> ArraySet:
    """A torch Dataset whose items are samples, images, or (image, label) pairs."""
    items = [data[index] for index in range(len(data))]
    if not items:
        raise InputError("The data set is empty.")
    name = type(data).__name__
    of_samples = isinstance(items[0], Sample)
    if of_samples:
        images = [item.image for item in items]
        labels = [item.label for item in items]
    else:
        pairs = [item if isinstance(item, tuple | list) else (item, None) for item in items]
        if not all(isinstance(pair[0], torch.Tensor) or hasattr(pair[0], "__array__") for pair in pairs):
            raise InputError(f"The items of the {name} must be images, (image, label) pairs or promask samples.")
        images = [torch.as_tensor(pair[0]) for pair in pairs]
        labels = [pair[1] for pair in pairs]
    if len({image.shape for image in images}) > 1:
        raise InputError(f"The images of the {name} differ in shape: they must be alike.")
    stacked_labels = None
    if all(label is not None for label in labels):
        stacked_labels = torch.stack([torch.as_tensor(label) for label in labels])
    made = from_images(torch.stack(images), stacked_labels, None, volumes, f"the {name}")
    return _as_the_samples_say(made, items) if of_samples else made


def _as_the_samples_say(data: ArraySet, samples: Sequence[Sample]) -> ArraySet:
    """What samples tell beside images and labels; maps are kept if all of them have some."""
    maps = [sample.maps for sample in samples if sample.maps is not None]
    clean = [sample.image if sample.clean is None else sample.clean for sample in samples]
    noisy = any(sample.clean is not None for sample in samples)
    if max(len({values.shape for values in kind}) for kind in (maps, clean)) > 1:
        raise InputError(f"The coil maps, or the images without noise, of {data.name} differ in shape.")
    return replace(
        data,
        subjects=[sample.group for sample in samples],
        unlabelled=[sample.unlabelled for sample in samples],
        maps=torch.stack(maps) if len(maps) == len(samples) else None,
        clean=torch.stack(clean).to(data.images.dtype) if noisy else None,
    )
