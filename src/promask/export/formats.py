"""The formats of mask files. A new one is one file and one line in the table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from promask.errors import InputError, one_line
from promask.export.bart import read_bart, write_bart
from promask.export.fastmri import read_fastmri, write_fastmri
from promask.export.mask_file import ExportedMask
from promask.export.matlab import read_mat, write_mat
from promask.export.phase_encodes import read_csv, write_csv
from promask.export.png import read_png, write_png
from promask.files import NUMBERS, Array, check_writable, read_array, save_array
from promask.learning.run import CONTENT, Run
from promask.limits import check_claim


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
