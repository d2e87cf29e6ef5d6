"""Spokes and spiral interleaves as an ISMRMRD file without data (Inati et al. 2017): heads and coordinates."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from promask.data.atomic import Array, replace_file
from promask.data.sandbox import check_claim, open_hdf5
from promask.errors import InputError
from promask.export.mask_file import ExportedMask, MaskRecord
from promask.export.trajectories import Shots, find_units

GROUP = "dataset"
"""The usual name of a measurement."""
MOST = 0xFFFF
"""Counters and lengths have 16 bits."""
COUNTERS = np.dtype(
    [
        *((f"kspace_encode_step_{step}", "<u2") for step in (1, 2)),
        *((name, "<u2") for name in ("average", "slice", "contrast", "phase", "repetition", "set", "segment")),
        ("user", "<u2", (8,)),
    ]
)
HEAD = np.dtype(
    [
        *(("version", "<u2"), ("flags", "<u8"), ("measurement_uid", "<u4"), ("scan_counter", "<u4")),
        *(("acquisition_time_stamp", "<u4"), ("physiology_time_stamp", "<u4", (3,))),
        *((name, "<u2") for name in ("number_of_samples", "available_channels", "active_channels")),
        ("channel_mask", "<u8", (16,)),
        *((name, "<u2") for name in ("discard_pre", "discard_post", "center_sample", "encoding_space_ref")),
        *(("trajectory_dimensions", "<u2"), ("sample_time_us", "<f4")),
        *((name, "<f4", (3,)) for name in ("position", "read_dir", "phase_dir", "slice_dir")),
        *(("patient_table_position", "<f4", (3,)), ("idx", COUNTERS)),
        *(("user_int", "<i4", (8,)), ("user_float", "<f4", (8,))),
    ]
)
"""The head of a shot, as the format has it."""
HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD">
<experimentalConditions><H1resonanceFrequency_Hz>0</H1resonanceFrequency_Hz></experimentalConditions>
<encoding>
<encodedSpace>{space}</encodedSpace>
<reconSpace>{space}</reconSpace>
<encodingLimits>{limits}</encodingLimits>
<trajectory>{kind}</trajectory>
</encoding>
</ismrmrdHeader>
"""


def write_mrd(mask: ExportedMask, path: Path) -> None:
    """ISMRMRD: an acquisition for each shot, with its coordinates (x, y, z) from -1/2 to 1/2, and data of zeros.

    Encoding step 1 is the index among the candidates, step 2 that of kz, and the repetition that of the frame. The
    record is in the attributes of the measurement. The field of view is not known: a pixel is said to have 1 mm.
    """
    import h5py

    shots = Shots.of(mask)
    if max(mask.mask.shape) > MOST:
        raise InputError(f"{path} cannot hold a mask of shape {list(mask.mask.shape)}: ISMRMRD counts to {MOST}.")
    samples = shots.trajectory.samples
    rows = np.zeros(len(shots), np.dtype([("head", HEAD), *((name, h5py.vlen_dtype("<f4")) for name in BESIDE)]))
    head = rows["head"]
    head["version"], head["scan_counter"] = 1, np.arange(len(shots))
    head["number_of_samples"], head["available_channels"], head["active_channels"] = samples, 1, 1
    head["channel_mask"][:, 0] = 1
    head["center_sample"] = int(torch.linalg.vector_norm(shots.trajectory.interleaf, dim=1).argmin())
    head["trajectory_dimensions"] = len(shots.matrix)
    head["read_dir"], head["phase_dir"], head["slice_dir"] = np.eye(3)
    head["idx"]["kspace_encode_step_1"] = shots.index
    head["idx"]["kspace_encode_step_2"] = 0 if shots.kz is None else shots.kz
    head["idx"]["repetition"] = 0 if shots.frame is None else shots.frame
    for row, points in zip(rows, shots.points.flip(-1).float().numpy(), strict=True):
        row["traj"], row["data"] = points.reshape(-1), np.zeros(2 * samples, np.float32)
    with replace_file(path) as temporary, h5py.File(temporary, "w") as file:
        group = file.create_group(GROUP)
        group.create_dataset("xml", (1,), h5py.string_dtype())[0] = _header(shots)
        group.create_dataset("data", data=rows, maxshape=(None,), chunks=(max(len(rows), 1),))
        group.attrs.update(mask.record().values())


BESIDE = ("traj", "data")
"""What each shot has beside its head."""


def _header(shots: Shots) -> str:
    z, y, x = (1, *shots.matrix)[-3:]
    size = f"<x>{x}</x><y>{y}</y><z>{z}</z>"
    limits = {
        "kspace_encoding_step_1": (shots.trajectory.candidates, 0),
        "kspace_encoding_step_2": (shots.partitions, shots.partitions // 2),
        "repetition": (shots.frames, 0),
    }
    return HEADER.format(
        space=f"<matrixSize>{size}</matrixSize><fieldOfView_mm>{size}</fieldOfView_mm>",
        limits="".join(
            f"<{name}><minimum>0</minimum><maximum>{count - 1}</maximum><center>{centre}</center></{name}>"
            for name, (count, centre) in limits.items()
        ),
        kind=shots.trajectory.kind,
    )


def read_mrd(path: Path) -> tuple[Array, Mapping[str, Any]]:
    """The mask, from the coordinates and the repetitions of a file that promask wrote."""
    with open_hdf5(path, (f"{GROUP}/data", "head"), (f"{GROUP}/data", "traj")) as file:
        group = file.get(GROUP)
        record = None if group is None else MaskRecord.parse(dict(group.attrs))
        if group is None or record is None or not record.trajectory_kind:
            raise InputError(f"{path} is no mask: promask did not write it.")
        attributes, heads, coordinates = dict(group.attrs), group["data"]["head"], group["data"]["traj"]
    check_claim(int(np.prod(record.shape)), path)
    pattern = record.pattern
    dimensions = 2 + (len(record.shape) - bool(record.indexed) == 3)
    points = np.stack([each.reshape(-1, dimensions) for each in coordinates]).astype(np.float64)
    frame = torch.from_numpy(heads["idx"]["repetition"].astype(np.int64))
    return find_units(torch.from_numpy(points).flip(-1), frame, pattern).numpy(), attributes
