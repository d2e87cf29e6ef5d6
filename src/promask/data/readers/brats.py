"""BraTS (Menze et al. 2015): brains with tumours in four contrasts, as in the paper.

Read from the Medical Segmentation Decathlon (Task01, `dataset.json`) or from folders of one patient each.
Labels are nested: 1 the whole tumour, 2 its core, 3 what enhances in it; the region r is where the label is >= r.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from promask.data.atomic import Array, as_tensor
from promask.data.axes import CONTRAST, SLICE
from promask.data.preprocess import crop_or_pad
from promask.data.readers.nifti import SUFFIXES, read_volumes, split_name
from promask.data.reading import Reading
from promask.data.sample_file import RawSample, ReadHeader, SampleFile
from promask.errors import InputError, one_line
from promask.types import Geometry

SIZE = 256
SLICES = slice(60, 110)
PERCENTILES = (0.1, 99.9)
CONTRASTS = (("flair", "t2f"), ("t1", "t1n"), ("t1ce", "t1c"), ("t2", "t2w"))
NAMES = ("FLAIR", "T1", "T1ce", "T2")
"""The ends of the files' names, before and since 2023, in the order of the Decathlon."""
DECATHLON: Mapping[int, int] = {0: 0, 1: 1, 2: 2, 3: 3}
"""Oedema, core that does not enhance, core that does: already nested."""
CHALLENGE: Mapping[int, int] = {0: 0, 2: 1, 1: 2, 3: 3, 4: 3}
"""In the challenge 1 is the core, 2 oedema, and 4, since 2023 3, what enhances."""
LONGEST_NAME = 255
"""Letters in the name of a file or folder."""
LATER_SCAN = re.compile(r"(?<=-\d{5})-\d{3}$")
"""The end of the names since 2023, BraTS-GLI-00008-001: it counts the scans of a patient."""


def read_brats(root: Path, reading: Reading) -> list[ReadHeader]:
    """One stack for each subject."""
    indices = (root / "dataset.json", *sorted(root.glob("*/dataset.json")))
    index = next((path for path in indices if path.exists()), None)
    if index is not None:
        return [
            partial(_read_subject, [image], label, split_name(image)[0], reading, DECATHLON)
            for image, label in _decathlon(index)
        ]
    folders = sorted({path.parent for path in root.rglob("*.nii*") if path.name.startswith(path.parent.name)})
    if not folders:
        raise InputError(
            f"{root} holds neither dataset.json nor folders such as BraTS20_001 with BraTS20_001_t1.nii.gz."
        )
    return [partial(_read_challenge, folder, reading) for folder in folders]


def _decathlon(index: Path) -> list[tuple[Path, Path]]:
    root = index.parent.absolute()  # links may lead elsewhere
    try:
        entries = json.loads(index.read_text(encoding="utf-8"))["training"]
        pairs = [(root / entry["image"], root / entry["label"]) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{index} is damaged: it should list the training images and their labels.") from error
    if not pairs:
        raise InputError(f"{index} lists no training images.")
    for path in (path for pair in pairs for path in pair):
        if max(map(len, path.parts)) > LONGEST_NAME or not str(path).isprintable():
            raise InputError(f"{index} names {one_line(path)}, which no file can be called.")
        if not Path(os.path.normpath(path)).is_relative_to(os.path.normpath(root)):
            raise InputError(f"{index} names {path}, which is not in its folder.")
    return pairs


def _read_challenge(folder: Path, reading: Reading) -> SampleFile:
    *images, label = (_find(folder, names) for names in (*CONTRASTS, ("seg",)))
    return _read_subject(images, label, LATER_SCAN.sub("", folder.name), reading, CHALLENGE)


def _read_subject(
    images: Sequence[Path], label: Path, subject: str, reading: Reading, nested: Mapping[int, int]
) -> SampleFile:
    if reading.volumes:
        raise InputError("BraTS is read slice by slice: leave out the volumes.")
    for path in (*images, label):
        if not path.exists():
            raise InputError(f"{path} is missing.")
    volume = read_volumes(images, Reading(volumes=True), label, through=2, fourth=CONTRAST)
    contrasts, depth = volume.shape[:2]
    numbers = reading.choose_slices(depth, SLICES)
    if not len(numbers):
        first, end = reading.slices or (SLICES.start, SLICES.stop)
        raise InputError(f"{images[0]} has {depth} slices, but those of {first}:{end} are to be taken.")

    def read(chosen: Sequence[int]) -> Iterator[RawSample]:
        (values, labels), *_ = volume.read(range(1))
        assert labels is not None
        low, high = np.percentile(values, PERCENTILES, axis=(1, 2, 3))[..., None, None]
        regions = _nest(labels, nested, label)
        for number in chosen:
            # From 0 to 1 between the percentiles of each contrast.
            scaled = (values[:, number] - low) / np.maximum(high - low, np.finfo(np.float32).tiny)
            yield _pad(np.clip(scaled, 0, 1)), _pad(regions[number])

    return replace(
        volume,
        shape=(contrasts, SIZE, SIZE),
        numbers=numbers,
        read=read,
        subjects=[subject] * len(numbers),
        geometry=Geometry(
            axes=volume.geometry.axes[1:], channels=CONTRAST, voxel=volume.geometry.voxel[1:], contrasts=NAMES
        ),
        counts={SLICE: depth},
        variant=f"brats {volume.variant}, {dict(nested)}",
    )


def _nest(labels: Array, nested: Mapping[int, int], path: Path) -> Array:
    unknown = sorted(set(np.unique(labels).tolist()) - set(nested))
    if unknown:
        raise InputError(f"{path} holds the label {unknown[0]:g}, but {sorted(nested)} are expected.")
    result = np.zeros(labels.shape, np.uint8)
    for stored, region in nested.items():
        result[labels == stored] = region
    return result


def _pad(values: Array) -> Array:
    return crop_or_pad(as_tensor(np.ascontiguousarray(values)), (SIZE, SIZE)).numpy()


def _find(folder: Path, ends: Sequence[str]) -> Path:
    """The file of one of these ends; if there is none, the one that there should be."""
    names = [f"{folder.name}{join}{end}{suffix}" for end in ends for join in "_-" for suffix in SUFFIXES]
    later = any(path.name.startswith(f"{folder.name}-") for path in folder.iterdir())
    usual = f"{folder.name}-{ends[-1]}{SUFFIXES[0]}" if later else names[0]
    return next((folder / name for name in names if (folder / name).exists()), folder / usual)
