"""ACDC (Bernard et al. 2018): short-axis hearts at the end of diastole, as in the paper."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import interpolate

from promask.data.atomic import Array
from promask.data.preprocess import crop_or_pad
from promask.data.readers.nifti import SUFFIXES, nifti_stack
from promask.data.reading import Reading
from promask.data.sample_file import RawSample, ReadHeader, SampleFile
from promask.errors import InputError

NAME = re.compile(r"patient\d+")
SIZE = 256
SLICES = slice(2, -2)
"""The slices of the paper: without the two at either end."""
THROUGH = 2
"""The axis of the files across the slices."""


def acdc(root: Path, reading: Reading) -> list[ReadHeader]:
    """One stack for each patient; what lies in a folder `testing` is held out."""
    patients = sorted(path for path in root.glob("**/patient*") if NAME.fullmatch(path.name) and path.is_dir())
    if not patients:
        raise InputError(f"{root} holds no folders patient001, patient002, ... as ACDC has them.")
    testing = {patient: "testing" in patient.relative_to(root).parts for patient in patients}
    labelled = {testing[patient] for patient in patients if any(patient.glob("*_gt.nii*"))}
    return [
        partial(
            _patient,
            patient,
            reading,
            testing[patient] if True in testing.values() else None,
            testing[patient] in labelled,
        )
        for patient in patients
    ]


def _patient(folder: Path, reading: Reading, held_out: bool | None, labelled: bool) -> SampleFile:
    if reading.volumes:
        raise InputError("ACDC is read slice by slice: leave out the volumes.")
    frame = _end_of_diastole(folder)
    image = _file(folder, f"{folder.name}_frame{frame:02d}")
    labels = _file(folder, f"{folder.name}_frame{frame:02d}_gt") if labelled else None
    slices = reading.slices or (SLICES.start, SLICES.stop)
    whole = Reading(slices=slices)
    stack = nifti_stack([image], whole, labels, through=THROUGH)
    return resized(stack, SIZE, [folder.name] * len(stack.numbers), held_out)


def resized(stack: SampleFile, size: int, subjects: Sequence[str], held_out: bool | None) -> SampleFile:
    """The shorter side of every slice brought to `size` pixels, and the centre cut out; labels stay whole."""

    def read(chosen: Sequence[int]) -> Iterator[RawSample]:
        for values, label in stack.read(chosen):
            yield (
                _resize(values, size, "bilinear"),
                None if label is None else _resize(label, size, "nearest-exact"),
            )

    return SampleFile(
        files=stack.files,
        shape=(stack.shape[0], size, size),
        numbers=stack.numbers,
        read=read,
        subjects=subjects,
        held_out=held_out,
        variant=f"{stack.variant}, resized to {size}",
    )


def _resize(values: Array, size: int, mode: str) -> Array:
    image = torch.from_numpy(np.ascontiguousarray(values, np.float32))
    height, width = image.shape[-2:]
    scale = size / min(height, width)
    wanted = [max(size, round(n * scale)) for n in (height, width)]
    planes = image.reshape(1, -1, height, width)
    smooth = {"antialias": True, "align_corners": False} if mode == "bilinear" else {}
    result = interpolate(planes, wanted, mode=mode, **smooth)
    return crop_or_pad(result, (size, size)).reshape(*image.shape[:-2], size, size).numpy()


def _end_of_diastole(folder: Path) -> int:
    path = folder / "Info.cfg"
    try:
        found = re.search(
            r"^ED\s*:\s*(\d{1,9})\b", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE
        )
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    if found is None:
        raise InputError(f"{path} does not tell the frame at the end of diastole (a line such as ED: 1).")
    return int(found[1])


def _file(folder: Path, stem: str) -> Path:
    for suffix in SUFFIXES:
        file = folder / f"{stem}{suffix}"
        if file.is_dir():  # as some copies have it: the file in a folder of its name
            file = next(iter(sorted(file.glob("*.nii*"))), file)
        if file.is_file():
            return file
    raise InputError(f"{folder / stem}.nii.gz is missing.")
