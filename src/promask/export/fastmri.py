"""HDF5 with a data set `mask`, as in fastMRI's test files."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from promask.data.hdf5_arrays import opened
from promask.errors import InputError
from promask.export.mask_file import ExportedMask
from promask.files import Array, replacing
from promask.limits import check_claim


def write_fastmri(mask: ExportedMask, path: Path) -> None:
    """Lines as fastMRI has them, (W,), other masks as they are; the facts are attributes."""
    import h5py

    values = mask.mask[(0,) * (mask.mask.ndim - 1)] if mask.lines else mask.mask
    facts = mask.facts()
    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        file.create_dataset("mask", data=values.numpy().astype(np.uint8))
        file.attrs.update(facts)
        file.attrs["acceleration"] = facts.get("acceleration_asked", facts["acceleration_achieved"])


def read_fastmri(path: Path) -> tuple[Array, dict[str, Any]]:
    """The data set `mask`: in promask's own files of the full shape, in others as it is."""
    import h5py

    with opened(path, "mask") as file:
        if not isinstance(file.get("mask"), h5py.Dataset):
            raise InputError(f"{path} holds no data set called mask.")
        values, facts = np.asarray(file["mask"]), dict(file.attrs)
    if "centring" in facts and values.ndim == 1:
        check_claim(math.prod(facts["shape"].tolist()), path)
        values = np.broadcast_to(values, tuple(facts["shape"]))
    return values, facts
