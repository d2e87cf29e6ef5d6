"""A picture of the mask, which is the mask: white is acquired.

A table of the units to acquire, for sequence programmers.

HDF5 with a data set `mask`, as in fastMRI's test files.

MATLAB files: written as version 5, read in every version.

The formats of mask files. A new one is one file and one line in the table.
"""

import csv
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from promask.data.atomic import NUMBERS, Array, check_writable, read_array, replacing, save_array, save_text
from promask.data.readers.matlab import is_hdf5, list_mat_variables
from promask.data.sandbox import check_claim, open_hdf5
from promask.errors import InputError, one_line
from promask.export.bart import read_bart, write_bart
from promask.export.mask_file import ExportedMask, facts_as_text, facts_from_text
from promask.learning.run import CONTENT, Run

GREY = ("1", "L", "I", "I;16", "I;16B")
"""The modes of Pillow that have one channel of grey."""

MASK_PIXEL = 16
"""Bytes that a pixel takes while the mask is found in the picture."""


def write_png(mask: ExportedMask, path: Path) -> None:
    """8 bits, 0 and 255, axis 0 downwards; the facts are in text chunks."""
    if mask.mask.ndim != 2:
        raise InputError(
            f"{path} cannot hold a mask of shape {list(mask.mask.shape)}: a picture has two axes; "
            f"choose another format."
        )
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    chunks = PngInfo()
    for name, text in facts_as_text(mask.facts()).items():
        chunks.add_text(name, text)
    with replacing(path) as temporary:
        picture = Image.fromarray(mask.mask.numpy().astype(np.uint8) * 255)
        picture.save(temporary, format="PNG", pnginfo=chunks)


def read_png(path: Path) -> tuple[Array, dict[str, Any]]:
    """Black is not acquired; all that is acquired has one other grey."""
    from PIL import Image

    with Image.open(path, formats=["PNG"]) as picture:
        if picture.mode not in GREY:
            raise InputError(f"{path} is not a mask: it has colours; save it with two levels of grey.")
        check_claim(MASK_PIXEL * math.prod(picture.size), path)
        values = np.asarray(picture)
        texts = {str(name): text for name, text in picture.info.items() if isinstance(text, str)}
    if len(np.unique(values[values != 0])) > 1:
        raise InputError(f"{path} is not a mask: it has more than two levels of grey.")
    return values != 0, facts_from_text(texts)


def write_csv(mask: ExportedMask, path: Path) -> None:
    """The facts as comments, a header, and one row for each acquired unit.

    `order` counts the rows, the last free axis fastest; `index_A` is the index along axis A, and `k_A` the same
    from the centre of k-space; `centric` is the place of the unit when acquiring from the centre outwards.
    """
    index = mask.pattern.restrict(mask.mask).nonzero().numpy()
    k = index - np.array(mask.pattern.unit_shape) // 2
    centric = np.argsort(np.argsort((k**2).sum(1), kind="stable"))
    table = np.column_stack([np.arange(len(index)), index, k, centric])
    text = io.StringIO()
    text.writelines(f"# {name}: {value}\n" for name, value in facts_as_text(mask.facts()).items())
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(
        ["order", *[f"index_{axis}" for axis in mask.free], *[f"k_{axis}" for axis in mask.free], "centric"]
    )
    rows.writerows(table.tolist())
    save_text(path, text.getvalue())


def read_csv(path: Path) -> tuple[Array, dict[str, Any]]:
    """The mask from the indices of the rows and the shape in the comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line.removeprefix("#").partition(":") for line in lines if line.startswith("#")]
    facts = facts_from_text({name.strip(): text.strip() for name, _, text in comments})
    if not facts:
        raise InputError(f"{path} does not state its shape and axes: keep the comments that promask wrote.")
    shape, free = facts["shape"], facts["free_axes"]
    check_claim(math.prod(shape), path)
    units = np.zeros([shape[axis] for axis in free], bool)
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    for row in rows:
        if None in row.values():
            raise InputError(f"{path} is damaged: the row {one_line(row['order'])} is not complete.")
        index = tuple(int(row[f"index_{axis}"]) for axis in free)
        if any(not 0 <= i < n for i, n in zip(index, units.shape, strict=True)):
            raise InputError(f"{path} has the index {list(index)} outside of units of {list(units.shape)}.")
        units[index] = True
    if units.sum() != len(rows):
        raise InputError(f"{path} has a unit twice: take out one of the rows.")
    mask = np.broadcast_to(units.reshape([n if axis in free else 1 for axis, n in enumerate(shape)]), shape)
    _check_complete(path, mask, facts)
    return mask, facts


def _check_complete(path: Path, mask: Array, facts: dict[str, Any]) -> None:
    """A file that lost its last rows would be a mask of a higher acceleration."""
    stated = facts.get("acceleration_achieved")
    covered = mask[tuple(slice(*ends) for ends in facts.get("extent", ()))]
    if stated is not None and not math.isclose(stated * covered.sum(), covered.size, rel_tol=1e-9):
        raise InputError(
            f"{path} is damaged: its rows do not give the acceleration_achieved of {stated:g} that it states; "
            f"take out this comment if you changed the rows."
        )


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

    with open_hdf5(path, "mask") as file:
        if not isinstance(file.get("mask"), h5py.Dataset):
            raise InputError(f"{path} holds no data set called mask.")
        values, facts = np.asarray(file["mask"]), dict(file.attrs)
    if "centring" in facts and values.ndim == 1:
        check_claim(math.prod(facts["shape"].tolist()), path)
        values = np.broadcast_to(values, tuple(facts["shape"]))
    return values, facts


def write_mat(mask: ExportedMask, path: Path) -> None:
    """A logical array `mask`, and a variable for each fact."""
    from scipy.io import savemat

    with replacing(path) as temporary:
        # Compressed for the checksum.
        variables = {"mask": mask.mask.numpy(), **mask.facts()}
        savemat(temporary, variables, appendmat=False, do_compression=True)


def read_mat(path: Path) -> tuple[Array, dict[str, Any]]:
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
        raise InputError(f"{path} holds {len(numbers)} arrays of numbers: call the one that is the mask `mask`.")
    return numbers[0]


@dataclass(frozen=True)
class Format:
    """How a mask becomes a file and comes back."""

    suffix: str
    write: Callable[[ExportedMask, Path], None]
    """Under a temporary name first, so that the file is whole or not there."""
    read: Callable[[Path], tuple[Array, dict[str, Any]]]
    """Values and facts; may raise anything if the file is damaged."""
    other_suffixes: tuple[str, ...] = ()


def _write_npy(mask: ExportedMask, path: Path) -> None:
    save_array(path, mask.mask)


def _read_npy(path: Path) -> tuple[Array, dict[str, Any]]:
    return read_array(path, NUMBERS, "a mask").numpy(), {}


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


def write_mask(mask: ExportedMask, path: str | Path, to: str | None = None) -> Path:
    """Write a mask in the format `to`, or that of the path's suffix; a path without suffix gets the format's."""
    file = check_mask_file(path, to)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        FORMATS[BY_SUFFIX[file.suffix.lower()]].write(mask, file)
    except OSError as error:
        raise InputError(f"Cannot write {file}: {error.strerror or error}.") from error
    return file


def check_mask_file(path: str | Path, to: str | None = None) -> Path:
    """The file that `write_mask` would write; refuse it before any work is done if that cannot be."""
    path = Path(path)
    _refuse_folder(path)
    name = to or BY_SUFFIX.get(path.suffix.lower(), "")
    if name not in FORMATS:
        problem = f"Unknown format {to!r}" if to else f"The name of {path} does not say in which format to write"
        raise InputError(f"{problem}: choose one of {', '.join(FORMATS)} with --to.")
    suffix = FORMATS[name].suffix
    file = path if path.suffix else path.with_name(path.name + suffix)
    if BY_SUFFIX.get(file.suffix.lower()) != name:
        raise InputError(f"{path} cannot be of the format {name}: let its name end with {suffix}.")
    _refuse_folder(file)
    if file.name in CONTENT and (file.parent / "run.json").exists():
        raise InputError(f"{file} belongs to the run {file.parent}: choose another name for the mask.")
    check_writable(file.parent)
    return file


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder: choose a file for the mask.")


def read_mask(path: str | Path) -> ExportedMask:
    """The mask of a run folder, or of a file in any of the formats."""
    return mask_of(Path(path))[0]


def mask_of(source: Any) -> tuple[ExportedMask, Run | None]:
    """The mask in a run, a run folder, a mask file, an ExportedMask or an array; and the run if there is one."""
    if isinstance(source, ExportedMask):
        return source, None
    if isinstance(source, Run):
        return ExportedMask.of_run(source), source
    if not isinstance(source, str | Path):
        return ExportedMask.of_mask(source), None
    path = Path(source)
    return _read_folder(path) if path.is_dir() else (_read_file(path), None)


def _read_folder(folder: Path) -> tuple[ExportedMask, Run | None]:
    if not (folder / "mask.npy").is_file():
        raise InputError(f"{folder} is not a run: it holds no mask.npy.")
    mask = _read_file(folder / "mask.npy")
    if not (folder / "run.json").exists():
        return mask, None
    run = Run.load(folder)
    pattern = run.distribution.pattern
    try:
        return ExportedMask(mask.mask, pattern.free, pattern.extent, run.config.acceleration), run
    except InputError as error:
        raise InputError(f"{folder / 'mask.npy'} does not fit its run: {error}") from error


def _read_file(path: Path) -> ExportedMask:
    if not path.is_file():
        raise InputError(f"{path} is neither a run folder nor a mask file.")
    if path.suffix.lower() not in BY_SUFFIX:
        raise InputError(f"{path} is not a mask file: promask reads run folders and {', '.join(BY_SUFFIX)} files.")
    name = BY_SUFFIX[path.suffix.lower()]
    try:
        values, facts = FORMATS[name].read(path)
    except InputError:
        raise
    except Exception as error:  # the libraries raise whatever the bytes lead them to
        reason = one_line(error) or type(error).__name__
        raise InputError(f"{path} is damaged or not of the format {name}: {reason}.") from error
    if not values.size:  # other axes may have any length
        raise InputError(f"{path} is not a mask: it is empty, of shape {list(values.shape)}.")
    check_claim(values.size, path)  # what is repeated along an axis takes no memory until now
    try:
        return ExportedMask.of_file(values, facts)
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        raise InputError(f"{path} is not a mask: {one_line(error)}.") from error
