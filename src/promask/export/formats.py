"""The formats of mask files. A new one is two functions and one line in the table."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from promask.data.atomic import NUMBERS, Array, read_array, replace_file, save_array, save_text
from promask.data.readers.matlab import is_hdf5, list_mat_variables
from promask.data.sandbox import check_claim, open_hdf5
from promask.errors import InputError, one_line
from promask.export.bart import read_bart, write_bart
from promask.export.mask_file import ExportedMask, MaskRecord
from promask.export.mrd import read_mrd, write_mrd
from promask.export.trajectories import Shots
from promask.sampling.pattern import Pattern

Content = tuple[Array, Mapping[str, Any]]
"""The values of a mask file, and what stands beside them: texts, attributes or variables."""

GREY = ("1", "L", "I", "I;16", "I;16B")
"""The modes of Pillow that have one channel of grey."""

MASK_PIXEL = 16
"""Bytes that a pixel takes while the mask is found in the picture."""


def write_png(mask: ExportedMask, path: Path) -> None:
    """A picture in which white is acquired: 8 bits; the record is in text chunks.

    Of a volume it shows the undersampled plane, of a series the lines of each frame, frames downwards. The first
    of the two axes goes downwards.
    """
    if mask.mask.ndim < 2 or len(mask.free) > 2:
        raise InputError(
            f"{path} cannot hold a mask of shape {list(mask.mask.shape)}, undersampled along the axes "
            f"{list(mask.free)}: a picture has two axes; choose another format."
        )
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    chunks = PngInfo()
    for name, text in mask.record().texts().items():
        chunks.add_text(name, text)
    rows, columns = (axis % mask.mask.ndim for axis in mask.pattern.pictured)
    if mask.directions:
        chunks.add_text("down", mask.directions[rows])
        chunks.add_text("across", mask.directions[columns])
    shown = mask.mask[tuple(slice(None) if axis in (rows, columns) else 0 for axis in range(mask.mask.ndim))]
    with replace_file(path) as temporary:
        picture = Image.fromarray(shown.numpy().astype(np.uint8) * 255)
        picture.save(temporary, format="PNG", pnginfo=chunks)


def read_png(path: Path) -> Content:
    """Black is not acquired; everything acquired has one other grey."""
    from PIL import Image

    with Image.open(path, formats=["PNG"]) as picture:
        if picture.mode not in GREY:
            raise InputError(f"{path} is not a mask: it has colours; save it with two levels of grey.")
        check_claim(MASK_PIXEL * math.prod(picture.size), path)
        values = np.asarray(picture)
        texts = {str(name): text for name, text in picture.info.items() if isinstance(text, str)}
    if len(np.unique(values[values != 0])) > 1:
        raise InputError(f"{path} is not a mask: it has more than two levels of grey.")
    return _whole(values != 0, MaskRecord.parse(texts), path), texts


def _whole(picture: Array, record: MaskRecord | None, path: Path) -> Array:
    """The mask of a volume, of which the picture is the undersampled plane; any other as it is."""
    if record is None or len(record.shape) == picture.ndim:
        return picture
    check_claim(math.prod(record.shape), path)
    shown = record.pattern.pictured
    beside = [n if axis - len(record.shape) in shown else 1 for axis, n in enumerate(record.shape)]
    return np.broadcast_to(picture.reshape(beside), record.shape)


def write_csv(mask: ExportedMask, path: Path) -> None:
    """A table for sequence programmers: the record as comments, a header, and one row for each sample or line.

    `order` counts the rows, the last undersampled direction fastest; `index_A` is the index along axis A, and
    `k_A` the same from the centre of k-space; `centric` is the place when acquiring from the centre outwards.
    Where each frame has its own lines, a first column has the number of the frame, and both orders begin anew in
    each frame. Of spokes and interleaves, there is an index among the candidates, and an angle.
    """
    if mask.trajectory is not None:
        return _write_shots(mask, path)
    index = mask.pattern.restrict(mask.mask).nonzero().numpy()
    k = index - np.array(mask.pattern.unit_shape) // 2
    directions = mask.free[mask.pattern.varies :]
    frames, index, k = index[:, : -len(directions)], index[:, -len(directions) :], k[:, -len(directions) :]
    order, centric = np.zeros((2, len(index)), int)
    for frame in np.unique(frames, axis=0):
        rows = (frames == frame).all(1)
        order[rows] = np.arange(rows.sum())
        centric[rows] = np.argsort(np.argsort((k[rows] ** 2).sum(1), kind="stable"))
    table = np.column_stack([frames, order, index, k, centric])
    names = [*[f"index_{axis}" for axis in directions], *[f"k_{axis}" for axis in directions]]
    names = [*([mask.indexed] if mask.pattern.varies else []), "order", *names, "centric"]
    _save_table(mask, path, names, table.tolist())
    return None


def _write_shots(mask: ExportedMask, path: Path) -> None:
    """The same of spokes and interleaves: for each its index among the candidates, its angle, its frame or kz."""
    shots = Shots.of(mask)
    frame = torch.zeros(len(shots), dtype=torch.int64) if shots.frame is None else shots.frame
    order = torch.cat([torch.arange(n) for n in torch.bincount(frame, minlength=shots.frames).tolist()])
    columns: dict[str, list[float]] = {} if shots.frame is None else {mask.indexed: frame.tolist()}
    columns |= {"order": order.tolist(), "index": shots.index.tolist()}
    columns |= {"angle_degrees": [round(angle, 9) for angle in shots.angles.rad2deg().tolist()]}
    if shots.kz is not None:
        columns |= {"index_kz": shots.kz.tolist(), "kz": (shots.kz - shots.partitions // 2).tolist()}
    _save_table(mask, path, list(columns), zip(*columns.values(), strict=True))


def _save_table(mask: ExportedMask, path: Path, names: Sequence[str], rows: Iterable[Sequence[float]]) -> None:
    text = io.StringIO()
    text.writelines(f"# {name}: {value}\n" for name, value in mask.record().texts().items())
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    save_text(path, text.getvalue())


def _column(axis: int, pattern: Pattern) -> str:
    """The name of the column with the index along an undersampled axis."""
    if pattern.indexed and axis == 0:
        return pattern.indexed
    if pattern.trajectory is None:
        return f"index_{axis}"
    return "index" if axis == int(bool(pattern.indexed)) else "index_kz"


def read_csv(path: Path) -> Content:
    """The mask from the indices of the rows and the shape in the comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line.removeprefix("#").partition(":") for line in lines if line.startswith("#")]
    texts = {name.strip(): text.strip() for name, _, text in comments}
    record = MaskRecord.parse(texts)
    if record is None:
        raise InputError(f"{path} does not state its shape and axes: keep the comments that promask wrote.")
    shape, free = record.shape, record.free_axes
    check_claim(math.prod(shape), path)
    pattern = record.pattern
    names = [_column(axis, pattern) for axis in free]
    units = np.zeros([shape[axis] for axis in free], bool)
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    for row in rows:
        if None in row.values():
            raise InputError(f"{path} is damaged: the row {one_line(row['order'])} is not complete.")
        index = tuple(int(row[name]) for name in names)
        if any(not 0 <= i < n for i, n in zip(index, units.shape, strict=True)):
            raise InputError(f"{path} has the index {list(index)} outside of a grid of {list(units.shape)}.")
        units[index] = True
    if units.sum() != len(rows):
        raise InputError(f"{path} has a row twice: take out one of them.")
    mask = np.broadcast_to(units.reshape([n if axis in free else 1 for axis, n in enumerate(shape)]), shape)
    # A file that lost its last rows would be a mask of a higher acceleration.
    stated = record.acceleration_achieved
    covered = mask[tuple(slice(*ends) for ends in record.extent)]
    acquired, full = (covered.sum(), covered.size) if pattern.trajectory is None else (units.sum(), pattern.full)
    if stated is not None and not math.isclose(stated * acquired, full, rel_tol=1e-9):
        raise InputError(
            f"{path} is damaged: its rows do not give the acceleration_achieved of {stated:g} that it states; "
            f"take out this comment if you changed the rows."
        )
    return mask, texts


def write_fastmri(mask: ExportedMask, path: Path) -> None:
    """HDF5 as in fastMRI's test files: lines as (W,), other masks as they are; the record is in the attributes."""
    import h5py

    if mask.trajectory is not None:
        raise InputError(
            f"{path} cannot hold {mask.trajectory.noun}: fastMRI's masks are Cartesian; choose mrd, mri-nufft, "
            f"bart, mat, csv or npy."
        )
    if mask.indexed:
        raise InputError(
            f"{path} cannot hold a mask of {mask.mask.shape[0]} {mask.indexed}s: fastMRI's masks are for slices; "
            f"choose npy, mat, bart or csv."
        )
    values = mask.mask[(0,) * (mask.mask.ndim - 1)] if mask.lines else mask.mask
    with replace_file(path) as temporary, h5py.File(temporary, "w") as file:
        file.create_dataset("mask", data=values.numpy().astype(np.uint8))
        file.attrs.update(mask.record().values())
        file.attrs["acceleration"] = mask.achieved if mask.asked is None else mask.asked


def read_fastmri(path: Path) -> Content:
    """The data set `mask`: in promask's own files of the full shape, in others as it is."""
    import h5py

    with open_hdf5(path, "mask") as file:
        if not isinstance(file.get("mask"), h5py.Dataset):
            raise InputError(f"{path} holds no data set called mask.")
        values, attributes = np.asarray(file["mask"]), dict(file.attrs)
    if "centring" in attributes and values.ndim == 1:
        check_claim(math.prod(attributes["shape"].tolist()), path)
        values = np.broadcast_to(values, tuple(attributes["shape"]))
    return values, attributes


def write_mat(mask: ExportedMask, path: Path) -> None:
    """MATLAB 5: a logical array `mask`, and a variable for each field of the record.

    Of spokes and interleaves also `angles` in radians, `indices` among the candidates, from 0, `trajectory`, which
    is kx + i ky in cycles per pixel, (sample, shot), and `frames` (from 0) or `kz` (from the centre) of each.
    """
    from scipy.io import savemat

    variables = {"mask": mask.mask.numpy(), **mask.record().values()}
    if mask.trajectory is not None:
        shots = Shots.of(mask)
        beside = {"frames": shots.frame, "kz": None if shots.kz is None else shots.kz - shots.partitions // 2}
        variables |= {"angles": shots.angles.numpy(), "indices": shots.index.numpy()}
        variables |= {"trajectory": torch.complex(shots.points[..., -1], shots.points[..., -2]).numpy().T}
        variables |= {name: each.numpy() for name, each in beside.items() if each is not None}
    with replace_file(path) as temporary:
        # Compressed for the checksum.
        savemat(temporary, variables, appendmat=False, do_compression=True)


def read_mat(path: Path) -> Content:
    """The variable `mask`, or the only array of numbers, and all the variables."""
    variables = _version_7_3(path) if is_hdf5(path) else _version_5(path)
    return variables[_name_of_mask(path, variables)], variables


def _version_5(path: Path) -> dict[str, Any]:
    found = list_mat_variables(path)
    readable = {name: variable for name, variable in found.items() if variable.dtype.kind in (*NUMBERS, "U")}
    variables = {name: variable.whole().T for name, variable in readable.items()}
    texts = {
        name: value.item() for name, value in variables.items() if value.dtype.kind == "U" and value.size == 1
    }
    return {**variables, **texts}


def _version_7_3(path: Path) -> dict[str, Any]:
    """HDF5, where MATLAB's axes are in the reverse order, and texts are arrays of character codes."""
    import h5py

    with open_hdf5(path) as file:
        names = [
            name
            for name, item in file.items()
            if isinstance(item, h5py.Dataset) and item.attrs.get("MATLAB_class") != b"char"
        ]
    with open_hdf5(path, *names) as file:
        return {name: np.asarray(file[name]).T for name in names}


def _name_of_mask(path: Path, variables: Mapping[str, Any]) -> str:
    if "mask" in variables:
        return "mask"
    numbers = [
        name for name, value in variables.items() if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS
    ]
    if len(numbers) != 1:
        raise InputError(f"{path} holds {len(numbers)} arrays of numbers: call the one that is the mask 'mask'.")
    return numbers[0]


@dataclass(frozen=True)
class Format:
    """How a mask becomes a file and comes back.

    Args:
        suffix: The usual ending of such files.
        write: Writes under a temporary name first, so that the file is whole or not there.
        read: Returns the values, and what stands beside them; may raise anything if the file is damaged. None for
            files that hold no mask, but what a program needs of it.
        other_suffixes: Other endings that are accepted.
        for_trajectories: Whether it is for spokes and interleaves alone.
    """

    suffix: str
    write: Callable[[ExportedMask, Path], None]
    read: Callable[[Path], Content] | None = None
    other_suffixes: tuple[str, ...] = ()
    for_trajectories: bool = False

    @property
    def suffixes(self) -> tuple[str, ...]:
        """All endings."""
        return (self.suffix, *self.other_suffixes)


def _write_npy(mask: ExportedMask, path: Path) -> None:
    save_array(path, mask.mask)


def _read_npy(path: Path) -> Content:
    return read_array(path, NUMBERS, "a mask").numpy(), {}


def _write_angles(mask: ExportedMask, path: Path) -> None:
    """The angles in radians; of frames and stacks, with a second column for the frame, or for kz."""
    save_array(path, Shots.of(mask).table())


def _write_mri_nufft(mask: ExportedMask, path: Path) -> None:
    """(shot, sample, axis), float32, as mri-nufft takes it: the axes are those of the image, from -1/2 to 1/2.

    Of frames, (frame, shot, sample, axis).
    """
    shots = Shots.of(mask)
    points = shots.points if shots.frame is None else shots.by_frame()
    save_array(path, points.float())


FORMATS: Mapping[str, Format] = {
    "npy": Format(".npy", _write_npy, _read_npy),
    "mat": Format(".mat", write_mat, read_mat),
    "bart": Format(".cfl", write_bart, read_bart, (".hdr",)),
    "png": Format(".png", write_png, read_png),
    "csv": Format(".csv", write_csv, read_csv),
    "fastmri": Format(".h5", write_fastmri, read_fastmri, (".hdf5",)),
    "angles": Format(".npy", _write_angles, for_trajectories=True),
    "mri-nufft": Format(".npy", _write_mri_nufft, for_trajectories=True),
    "mrd": Format(".mrd", write_mrd, read_mrd, for_trajectories=True),
}
BY_SUFFIX: Mapping[str, str] = {
    suffix: name for name, format in FORMATS.items() if format.read is not None for suffix in format.suffixes
}
"""The formats that masks can be read from, by the ending of the file."""
