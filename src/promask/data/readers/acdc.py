"""ACDC (Bernard et al. 2018): short-axis hearts at the end of diastole, as in the paper."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import interpolate

from promask.data.atomic import Array
from promask.data.preprocess import crop_or_pad
from promask.data.readers.nifti import SUFFIXES, read_volumes
from promask.data.reading import Reading
from promask.data.sample_file import RawSample, ReadHeader, SampleFile
from promask.errors import InputError

NAME = re.compile(r"patient\d+")
SIZE = 256
SLICES = (2, -2)
"""The slices of the paper: without the two at either end."""


def read_acdc(root: Path, reading: Reading) -> list[ReadHeader]:
    """One stack for each patient; what lies in a folder `testing` is held out."""
    patients = sorted(path for path in root.glob("**/patient*") if NAME.fullmatch(path.name) and path.is_dir())
    if not patients:
        raise InputError(f"{root} holds no folders patient001, patient002, ... as ACDC has them.")
    testing = {patient: "testing" in patient.relative_to(root).parts for patient in patients}
    labelled = {testing[patient] for patient in patients if any(patient.glob("*_gt.nii*"))}
    return [
        partial(_read_patient, patient, reading, held if any(testing.values()) else None, held in labelled)
        for patient, held in testing.items()
    ]


def _read_patient(folder: Path, reading: Reading, held_out: bool | None, labelled: bool) -> SampleFile:
    """The slices, whose shorter side becomes `SIZE` pixels, and of which the centre is cut out."""
    if reading.volumes:
        raise InputError("ACDC is read slice by slice: leave out the volumes.")
    stem = f"{folder.name}_frame{_end_of_diastole(folder):02d}"
    image, labels = _find(folder, stem), _find(folder, f"{stem}_gt") if labelled else None
    stack = read_volumes([image], Reading(slices=reading.slices or SLICES), labels, through=2)

    def read(chosen: Sequence[int]) -> Iterator[RawSample]:
        for values, label in stack.read(chosen):
            yield _resize(values, "bilinear"), None if label is None else _resize(label, "nearest-exact")

    return replace(
        stack,
        shape=(stack.shape[0], SIZE, SIZE),
        read=read,
        subjects=[folder.name] * len(stack.numbers),
        held_out=held_out,
        variant=f"{stack.variant}, resized to {SIZE}",
    )


def _resize(values: Array, mode: str) -> Array:
    image = torch.from_numpy(np.ascontiguousarray(values, np.float32))
    height, width = image.shape[-2:]
    scale = SIZE / min(height, width)
    wanted = [max(SIZE, round(n * scale)) for n in (height, width)]
    planes = image.reshape(1, -1, height, width)
    smooth = {"antialias": True, "align_corners": False} if mode == "bilinear" else {}
    result = interpolate(planes, wanted, mode=mode, **smooth)
    return crop_or_pad(result, (SIZE, SIZE)).reshape(*image.shape[:-2], SIZE, SIZE).numpy()


def _end_of_diastole(folder: Path) -> int:
    path = folder / "Info.cfg"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    found = re.search(r"^ED\s*:\s*(\d{1,9})\b", text, re.MULTILINE)
    if found is None:
        raise InputError(f"{path} does not tell the frame at the end of diastole (a line such as ED: 1).")
    return int(found[1])


def _find(folder: Path, stem: str) -> Path:
    for suffix in SUFFIXES:
        file = folder / f"{stem}{suffix}"
        if file.is_dir():  # as some copies have it: the file in a folder of its name
            file = next(iter(sorted(file.glob("*.nii*"))), file)
        if file.is_file():
            return file
    raise InputError(f"{folder / stem}.nii.gz is missing.")
