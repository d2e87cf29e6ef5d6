"""Read and write masks: of a run or its folder, of a mask file, of a layer of a network, or of an array."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any

import torch

from promask.data.atomic import check_writable, read_array
from promask.data.readers.bart import find_bart_file
from promask.data.sandbox import check_claim
from promask.errors import InputError, one_line
from promask.export.formats import BY_SUFFIX, FORMATS
from promask.export.mask_file import ExportedMask
from promask.operators.trajectory import Trajectory
from promask.sampling.distribution import MaskDistribution
from promask.sampling.limits import Limits
from promask.sampling.pattern import Pattern

RUN_FORMAT = 2
"""The version of run folders that is read."""
RUN_ARRAYS = ("mask.npy", "probabilities.npy", "variance.npy", "trajectory.npy")
"""Files of a run folder that no mask may replace."""


def write_mask(source: Any, path: str | Path, to: str | None = None) -> Path:
    """Write a mask to a file.

    Args:
        source: A run (or anything with a `distribution`), an `ExportedMask`, a boolean array, centred, of shape
            (*space), or the path of a run folder or of a mask file.
        path: The file; without a suffix, it gets that of the format.
        to: The name of the format, such as `bart`; None for that of the suffix.

    Returns:
        The file that was written.

    Raises:
        InputError: If this is no mask, or the file cannot be written.
    """
    file = check_mask_file(path, to)
    mask, _ = load_mask(source)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        FORMATS[to or BY_SUFFIX[file.suffix.lower()]].write(mask, file)
    except OSError as error:
        raise InputError(f"Cannot write {file}: {error.strerror or error}.") from error
    return file


def check_mask_file(path: str | Path, to: str | None = None) -> Path:
    """Refuse a file that `write_mask` could not write, before any work is done.

    Args:
        path: The file, or its name without a suffix.
        to: The name of the format; None for that of the suffix.

    Returns:
        The file that `write_mask` would write.
    """
    path = Path(path)
    name = to or BY_SUFFIX.get(path.suffix.lower(), "")
    suffix = FORMATS[name].suffix if name in FORMATS else ""
    file = path if path.suffix else Path(f"{path}{suffix}")
    for place in (path, file):
        if place.is_dir():
            raise InputError(f"{place} is a folder: choose a file for the mask.")
    if name not in FORMATS:
        problem = f"Unknown format {to!r}" if to else f"The name of {path} does not say in which format to write"
        raise InputError(f"{problem}: choose one of {', '.join(FORMATS)} with `to`.")
    if file.suffix.lower() not in FORMATS[name].suffixes:
        raise InputError(f"{path} cannot be of the format {name}: let its name end with {suffix}.")
    if file.name in RUN_ARRAYS and (file.parent / "run.json").exists():
        raise InputError(f"{file} belongs to the run {file.parent}: choose another name for the mask.")
    check_writable(file.parent)
    return file


def read_mask(path: str | Path) -> ExportedMask:
    """Read the mask of a run folder, or of a file in any of the formats.

    Args:
        path: The folder or the file.

    Returns:
        The mask, centred, with what is known of it.
    """
    return load_mask(Path(path))[0]


@dataclass(frozen=True)
class Learned:
    """What is known of a mask that was learned, beside the mask itself."""

    distribution: MaskDistribution
    acceleration: float | None
    """As it was asked for."""
    centre: int
    """The width of the calibration region."""

    @staticmethod
    def of(source: Any) -> "Learned | None":
        """Of a run, or of anything else with a `distribution`; None of what has none."""
        distribution = getattr(source, "distribution", None)
        if not isinstance(distribution, MaskDistribution):
            return None
        settings = getattr(source, "config", source)  # of a run; a layer has its settings itself
        return Learned(distribution, getattr(settings, "acceleration", None), getattr(settings, "centre", 0))

    @staticmethod
    def read(folder: Path) -> "Learned":
        """From the record and the probabilities of a run folder."""
        path, record = folder / "run.json", read_record(folder)
        try:
            pattern = parse_pattern(record["pattern"])
            check_size(pattern, path)
            probabilities = read_array(folder / "probabilities.npy", "f", "real numbers").to(torch.float32)
            distribution = MaskDistribution(probabilities, pattern, record["budget"])
            return Learned(
                distribution, float(record["config"]["acceleration"]), index(record["config"]["centre"])
            )
        except InputError as error:
            raise InputError(f"{folder} is damaged: {error}") from error
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise InputError(
                f"{path} is not the record of a run: {one_line(error)} is missing or wrong."
            ) from error


def load_mask(source: Any) -> tuple[ExportedMask, Learned | None]:
    """The mask of any source, and what else is known of it if it was learned."""
    if isinstance(source, ExportedMask):
        return source, None
    if isinstance(source, str | Path):
        path = find_bart_file(str(source))
        return _load_folder(path) if path.is_dir() else (_read_file(path), None)
    learned = Learned.of(source)
    if learned is not None:
        return ExportedMask.of_distribution(learned.distribution, learned.acceleration), learned
    return ExportedMask.of_mask(source), None


def _load_folder(folder: Path) -> tuple[ExportedMask, Learned | None]:
    file = folder / "mask.npy"
    if not file.is_file():
        raise InputError(f"{folder} is not a run: it holds no mask.npy.")
    mask = _read_file(file)
    if not (folder / "run.json").exists():
        return mask, None
    learned = Learned.read(folder)
    pattern = learned.distribution.pattern
    try:
        return ExportedMask.of_pattern(mask.mask, pattern, learned.acceleration), learned
    except InputError as error:
        raise InputError(f"{file} does not fit its run: {error}") from error


def _read_file(path: Path) -> ExportedMask:
    if not path.is_file():
        raise InputError(f"{path} is neither a run folder nor a mask file.")
    if path.suffix.lower() not in BY_SUFFIX:
        raise InputError(f"{path} is not a mask file: promask reads run folders and {', '.join(BY_SUFFIX)} files.")
    name = BY_SUFFIX[path.suffix.lower()]
    read = FORMATS[name].read
    assert read is not None
    try:
        values, beside = read(path)
    except InputError:
        raise
    except Exception as error:  # the libraries raise whatever the bytes lead them to
        reason = one_line(error) or type(error).__name__
        raise InputError(f"{path} is damaged or not of the format {name}: {reason}.") from error
    if not values.size:  # other axes may have any length
        raise InputError(f"{path} is not a mask: it is empty, of shape {list(values.shape)}.")
    check_claim(values.size, path)  # what is repeated along an axis takes no memory until now
    try:
        mask = ExportedMask.of_file(values, beside)
        pattern = mask.pattern
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        raise InputError(f"{path} is not a mask: {one_line(error)}.") from error
    check_size(pattern, path)
    return mask


def read_record(folder: Path) -> dict[str, Any]:
    """The content of run.json, of a version that is read here."""
    record = read_any_record(folder)
    if record.get("format") != RUN_FORMAT:
        raise InputError(
            f"{folder / 'run.json'} is not the record of a run that this version of promask reads; its mask.npy "
            f"and probabilities.npy can be used by themselves."
        )
    return record


def read_any_record(folder: Path) -> dict[str, Any]:
    """The content of run.json, of whatever version."""
    path = folder / "run.json"
    if not path.is_file():
        raise InputError(f"{folder} is not a run: it holds no run.json.")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {one_line(error)}.") from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    if not isinstance(record, dict) or "format" not in record:
        raise InputError(f"{path} is not the record of a run.")
    return record


def parse_pattern(record: Mapping[str, Any]) -> Pattern:
    """The pattern that a run.json describes."""
    extent = tuple((index(start), index(stop)) for start, stop in record.get("extent", ()))
    directions, readout = tuple(map(str, record.get("directions", ()))), record.get("readout")
    return Pattern(
        tuple(map(index, record["shape"])),
        tuple(map(index, record["free"])),
        extent,
        directions,
        None if readout is None else index(readout),
        Limits.from_json(record.get("limits", {})),
        str(record.get("indexed", "")),
        index(record.get("period", 0)),
        tuple(map(str, record.get("contrasts", ()))),
        _parse_trajectory(record.get("trajectory")),
    )


def _parse_trajectory(record: Mapping[str, Any] | None) -> Trajectory | None:
    if record is None:
        return None
    height, width = map(index, record["matrix"])
    numbers = (index(record["candidates"]), index(record["samples"]))
    return Trajectory(str(record["kind"]), *numbers, (height, width))


def check_size(pattern: Pattern, path: Path) -> None:
    """Refuse k-space or images, as a file describes them, that are larger than is plausible."""
    check_claim(max(math.prod(pattern.shape), math.prod(pattern.image_shape)), path)
