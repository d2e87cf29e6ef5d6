"""The formats of mask files. A new one is two functions and one line in the table."""

import csv
import io
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from promask import __version__
from promask.data.atomic import NUMBERS, Array, read_array, replace_file, save_array, save_text
from promask.data.readers.matlab import is_hdf5, list_mat_variables
from promask.data.sandbox import check_claim, open_hdf5
from promask.errors import InputError, one_line
from promask.export.mask_file import ExportedMask, MaskRecord
from promask.operators.fourier import space_axes, to_kspace
from promask.sampling.pattern import Pattern
from promask.types import Geometry, Sample

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
    _, readout = record.named_axes
    shown = Pattern(tuple(record.shape), tuple(record.free_axes), readout=readout, indexed=record.indexed).pictured
    beside = [n if axis - len(record.shape) in shown else 1 for axis, n in enumerate(record.shape)]
    return np.broadcast_to(picture.reshape(beside), record.shape)


def write_csv(mask: ExportedMask, path: Path) -> None:
    """A table for sequence programmers: the record as comments, a header, and one row for each sample or line.

    `order` counts the rows, the last undersampled direction fastest; `index_A` is the index along axis A, and
    `k_A` the same from the centre of k-space; `centric` is the place when acquiring from the centre outwards.
    Where each frame has its own lines, a first column has the number of the frame, and both orders begin anew in
    each frame.
    """
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
    text = io.StringIO()
    text.writelines(f"# {name}: {value}\n" for name, value in mask.record().texts().items())
    writer = csv.writer(text, lineterminator="\n")
    names = [*[f"index_{axis}" for axis in directions], *[f"k_{axis}" for axis in directions]]
    writer.writerow([*([mask.indexed] if mask.pattern.varies else []), "order", *names, "centric"])
    writer.writerows(table.tolist())
    save_text(path, text.getvalue())


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
    units = np.zeros([shape[axis] for axis in free], bool)
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    for row in rows:
        if None in row.values():
            raise InputError(f"{path} is damaged: the row {one_line(row['order'])} is not complete.")
        index = tuple(
            int(row[record.indexed if record.indexed and axis == 0 else f"index_{axis}"]) for axis in free
        )
        if any(not 0 <= i < n for i, n in zip(index, units.shape, strict=True)):
            raise InputError(f"{path} has the index {list(index)} outside of a grid of {list(units.shape)}.")
        units[index] = True
    if units.sum() != len(rows):
        raise InputError(f"{path} has a row twice: take out one of them.")
    mask = np.broadcast_to(units.reshape([n if axis in free else 1 for axis, n in enumerate(shape)]), shape)
    # A file that lost its last rows would be a mask of a higher acceleration.
    stated = record.acceleration_achieved
    covered = mask[tuple(slice(*ends) for ends in record.extent)]
    if stated is not None and not math.isclose(stated * covered.sum(), covered.size, rel_tol=1e-9):
        raise InputError(
            f"{path} is damaged: its rows do not give the acceleration_achieved of {stated:g} that it states; "
            f"take out this comment if you changed the rows."
        )
    return mask, texts


def write_fastmri(mask: ExportedMask, path: Path) -> None:
    """HDF5 as in fastMRI's test files: lines as (W,), other masks as they are; the record is in the attributes."""
    import h5py

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
    """MATLAB 5: a logical array `mask`, and a variable for each field of the record."""
    from scipy.io import savemat

    with replace_file(path) as temporary:
        # Compressed for the checksum.
        variables = {"mask": mask.mask.numpy(), **mask.record().values()}
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
        read: Returns the values, and what stands beside them; may raise anything if the file is damaged.
        other_suffixes: Other endings that are accepted.
    """

    suffix: str
    write: Callable[[ExportedMask, Path], None]
    read: Callable[[Path], Content]
    other_suffixes: tuple[str, ...] = ()


def _write_npy(mask: ExportedMask, path: Path) -> None:
    save_array(path, mask.mask)


def _read_npy(path: Path) -> Content:
    return read_array(path, NUMBERS, "a mask").numpy(), {}


DIMENSIONS = 16
"""BART pads the shape of every array with ones to this many axes."""


BART_INDEXED = {"frame": 10, "contrast": 5}
"""The dimensions of BART that count times and echoes."""
BART_DIRECTIONS = ("kx", "ky", "kz")
"""Those that are the readout and the two phase encodings."""


def write_bart(mask: ExportedMask, path: Path) -> None:
    """Write both files; the axes of the mask are the first dimensions of BART.

    Of series, frames are dimension 10, and directions that are known are where BART has them: kx, ky, kz.
    """
    values = (
        _series_to_bart(mask.mask.numpy(), mask.indexed, mask.directions) if mask.indexed else mask.mask.numpy()
    )
    sections = {
        "Dimensions": " ".join(map(str, [*values.shape, *[1] * (DIMENSIONS - values.ndim)])),
        "Command": "promask export",
        "Creator": f"promask {__version__}",
        **mask.record().texts(),
    }
    write_pair(values, path, sections)


def _series_to_bart(values: Array, indexed: str, directions: Sequence[str]) -> Array:
    """(frame, *space) with BART's dimensions: space first, coils of length 1, ..., and the frames."""
    places = _bart_places(values.ndim - 1, directions)
    last = BART_INDEXED[indexed]
    shape = [1] * (last + 1)
    for axis, place in enumerate(places, start=1):
        shape[place] = values.shape[axis]
    shape[last] = values.shape[0]
    order = [1 + axis for axis in np.argsort(places)]
    return values.transpose(*order, 0).reshape(shape)


def _series_from_bart(values: Array, record: MaskRecord) -> Array:
    """The inverse, for the shape that the record of a mask states."""
    directions, _ = record.named_axes
    places = _bart_places(len(record.shape) - 1, directions)
    whole = values.reshape([*values.shape, *[1] * (DIMENSIONS - values.ndim)])
    wanted = (BART_INDEXED[record.indexed], *places)
    if whole.size != math.prod(whole.shape[place] for place in wanted):
        return values
    others = [place for place in range(DIMENSIONS) if place not in wanted]
    return whole.transpose(*wanted, *others).reshape([whole.shape[place] for place in wanted])


def _bart_places(count: int, directions: Sequence[str]) -> list[int]:
    """Where the axes of space are: by their directions if all are known, otherwise in their order."""
    names = list(directions[1:])
    if len(names) == count and set(names) <= set(BART_DIRECTIONS) and len(set(names)) == count:
        return [BART_DIRECTIONS.index(name) for name in names]
    return list(range(count))


def write_pair(values: Array, path: Path, sections: Mapping[str, str]) -> None:
    """Write numbers, and a header of named sections."""
    with replace_file(path.with_suffix(".hdr")) as header, replace_file(path.with_suffix(".cfl")) as data:
        header.write_text("".join(f"# {name}\n{text}\n" for name, text in sections.items()), encoding="utf-8")
        data.write_bytes(values.astype("<c8").tobytes(order="F"))


def read_bart(path: Path) -> tuple[Array, Mapping[str, str]]:
    """The numbers without the trailing axes of length 1, two axes at least, and the sections of the header."""
    header, data = path.with_suffix(".hdr"), path.with_suffix(".cfl")
    for file in (header, data):
        if not file.is_file():
            raise InputError(f"{path} needs {file.name} beside it: BART keeps an array in two files.")
    lines = header.read_text(encoding="utf-8").splitlines()
    sections = {
        line.removeprefix("#").strip(): text.strip()
        for line, text in itertools.pairwise(lines)
        if line.startswith("#") and not text.startswith("#")
    }
    if "Dimensions" not in sections:
        raise InputError(f"{header} is damaged: it states no dimensions.")
    shape = [int(n) for n in sections["Dimensions"].split()]
    while len(shape) > 2 and shape[-1] == 1:
        shape.pop()
    wanted, size = math.prod(shape) * 8, data.stat().st_size
    if size != wanted:
        raise InputError(f"{data} is damaged: its header asks for {wanted} bytes, but it has {size}.")
    values = np.fromfile(data, dtype="<c8").reshape(shape, order="F")
    record = MaskRecord.parse(sections)
    if record is not None and record.indexed in BART_INDEXED:
        return _series_from_bart(values, record), sections
    frames = BART_INDEXED["frame"]
    if record is None and len(shape) == frames + 1 and math.prod(shape) == math.prod(shape[:3]) * shape[frames]:
        space = shape[:2] if shape[2] == 1 else shape[:3]
        return np.moveaxis(values.reshape([*space, shape[frames]]), -1, 0), {**sections, "indexed": "frame"}
    return values, sections


def write_scan(sample: Sample, folder: str | Path, geometry: Geometry = Geometry()) -> tuple[Path, Path | None]:
    """Write a fully sampled scan as `bart pics` takes it; a mask goes to `pics -p`.

    Args:
        sample: The image, (coil, *space), and its coil sensitivities if they are known.
        folder: Where kspace.cfl and maps.cfl are written, each with its .hdr: the axes of space, then the coils.
        geometry: That of the data, which tells series from volumes; frames are dimension 10.

    Returns:
        The file of the centred k-space, and that of the sensitivities or None.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: make it first.")
    kspace = to_kspace(sample.image, space_axes(sample.image.ndim - 1 - geometry.indexes))
    written = _write(kspace.numpy(), folder / "kspace.cfl", geometry)
    return written, None if sample.maps is None else _write(sample.maps.numpy(), folder / "maps.cfl", geometry)


def _write(values: Array, path: Path, geometry: Geometry) -> Path:
    """(coil, *space) as BART has it: up to three axes of space, then the coils; frames are dimension 10."""
    if geometry.indexed:
        coils = [_series_to_bart(each, geometry.indexed, geometry.axes) for each in values]
        in_order = np.concatenate(coils, 3)
    else:
        in_order = values.transpose(*range(1, values.ndim), 0)
        space = in_order.shape[:-1]
        in_order = in_order.reshape([*space, *[1] * (3 - len(space)), len(values)])
    dimensions = [*in_order.shape, *[1] * (DIMENSIONS - in_order.ndim)]
    write_pair(in_order, path, {"Dimensions": " ".join(map(str, dimensions))})
    return path


FORMATS: Mapping[str, Format] = {
    "npy": Format(".npy", _write_npy, _read_npy),
    "mat": Format(".mat", write_mat, read_mat),
    "bart": Format(".cfl", write_bart, read_bart, (".hdr",)),
    "png": Format(".png", write_png, read_png),
    "csv": Format(".csv", write_csv, read_csv),
    "fastmri": Format(".h5", write_fastmri, read_fastmri, (".hdf5",)),
}
BY_SUFFIX: Mapping[str, str] = {
    suffix: name for name, format in FORMATS.items() for suffix in (format.suffix, *format.other_suffixes)
}
