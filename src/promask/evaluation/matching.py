"""Which data a mask is for, and which of them a run was not learned from."""

from typing import Any, Unpack

import torch

from promask.data.file_set import OnFile
from promask.data.reading import Reading, ReadingSettings
from promask.data.sample_sets import OTHER_PART
from promask.data.sources import is_source, load, read_part, same_data, source_text
from promask.errors import InputError, check_keywords
from promask.learning.run import Run
from promask.recon.base import Reconstruction
from promask.sampling.free_axes import PER_FRAME
from promask.sampling.pattern import Pattern
from promask.types import AnyArray, Mask, SampleSet


def mask_values(mask: Any) -> AnyArray:
    """The mask of a run or an exported mask, or the array itself, which may be a masked one of NumPy."""
    try:
        return torch.as_tensor(mask if hasattr(mask, "__array__") else getattr(mask, "mask", mask))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"A mask is a run, an exported mask or an array of 0 and 1, but not a {type(mask).__name__}: read "
            f"files with promask.Run.load or promask.export.read_mask."
        ) from error


def check_mask(values: AnyArray, data: SampleSet) -> Mask:
    """A mask for the k-space of a data set, as booleans; lines broadcast along the other axes.

    Axes of length 1 that are too many are dropped: BART writes a mask of slices as (1, ky, kz).
    """
    space, given = data.geometry.kspace_shape(data.shape[1:]), list(values.shape)
    if values.dtype != torch.bool:
        if not ((values == 0) | (values == 1)).all():
            raise InputError("A mask must hold only 0 and 1, or false and true.")
        values = values == 1
    while values.ndim > len(space) and 1 in values.shape:
        values = values.squeeze(values.shape.index(1))
    values = _lines_of_frames(values, data)
    try:
        values = values.expand(space)
    except RuntimeError as error:
        way_out = (
            "promask.export.resized carries it there"
            if len(given) == len(space) and 1 not in (*given, *space)
            else "let each axis be as long as k-space, or of length 1 where all places along it are alike"
        )
        raise InputError(
            f"The mask has shape {given}, but the k-space of the data has shape {list(space)}: {way_out}."
        ) from error
    if not values[tuple(slice(*ends) for ends in data.geometry.extent)].any():
        raise InputError("The mask acquires nothing.")
    return values


def _lines_of_frames(values: AnyArray, data: SampleSet) -> AnyArray:
    """A mask (frame, line) with an axis for every one of k-space; any other mask as it is."""
    space = data.shape[1:]
    if (
        not data.geometry.indexed
        or data.geometry.trajectory is not None
        or values.ndim != 2
        or tuple(values.shape) == space[1:]
    ):
        return values
    _, axis = Pattern.on(space, data.geometry, next(iter(PER_FRAME))).free
    fits = tuple(values.shape) == (space[0], space[axis])
    return values.reshape([n if place in (0, axis) else 1 for place, n in enumerate(space)]) if fits else values


def is_for_volumes(mask: AnyArray) -> bool:
    """Whether a mask has the three axes of a volume; one of length 1 may belong to slices as well."""
    return mask.ndim == 3 and 1 not in mask.shape


def load_for_mask(data: Any, mask: AnyArray, reading: dict[str, Any]) -> SampleSet:
    """Load what a mask is for: three axes are those of volumes, or a frame and two directions.

    Args:
        data: As for `evaluate`.
        mask: (*space), or with axes of length 1.
        reading: How the data are read; `volumes` in it settles the question.

    Returns:
        Volumes or series for a mask of three axes, slices otherwise.
    """
    if "volumes" in reading or not (is_for_volumes(mask) or mask.ndim == 4):
        return load(data, Reading(**reading))
    try:
        volumes = load(data, Reading(**{**reading, "volumes": True}))
    except InputError:
        series = _load_series(data, reading)
        if series is None:
            raise
        return series
    if not volumes.geometry.indexed or len(volumes.shape) - 1 == mask.ndim:
        return volumes
    series = _load_series(data, reading)  # a mask of three axes may be for slices, or for all frames of volumes
    fits = series is not None and all(n in (1, m) for n, m in zip(mask.shape, series.shape[1:], strict=False))
    return series if series is not None and fits else volumes


def _load_series(data: Any, reading: dict[str, Any]) -> SampleSet | None:
    """The series of slices, if data have frames; otherwise None."""
    try:
        series = load(data, Reading(**reading))
    except InputError:
        return None
    return series if series.geometry.indexed and len(series.shape) == 4 else None


def held_out(
    run: Run,
    data: Any = None,
    part: str | None = None,
    recon: Reconstruction | None = None,
    on_file: OnFile | None = None,
    **reading: Unpack[ReadingSettings],
) -> SampleSet:
    """The images that a run was not learned from, read as its data were.

    Args:
        run: The run.
        data: As for `evaluate`; None: the data of the run.
        part: `train`, `test` or `all`; None: what the run was not learned from.
        recon: The reconstruction that needs coil sensitivities; None: that of the run.
        on_file: Called with the number of files that were read, and how many there are.
        **reading: How files are read, as for `evaluate`.

    Returns:
        The samples, ready to be reconstructed.
    """
    check_keywords(reading, (*Reading.CHECKS, *held_out.__annotations__))
    whole, part = read_for_run(run, data, part, dict(reading))
    recon = recon or run.reconstruction()
    return read_part(whole, part=part, default="test", recon=recon, on_file=on_file).samples


def read_for_run(run: Run, data: Any, part: str | None, reading: dict[str, Any]) -> tuple[SampleSet, str | None]:
    """All data, by default those of the run, read as when it was learned; and the part that it did not see."""
    source = data if data is not None else run.record.data.source
    if isinstance(source, str) and not source:
        raise InputError("The run does not say what it was learned from: choose some with `data`.")
    try:
        part, as_learned = unseen_part(run, source, part, reading)
        whole = load(source, Reading(**as_learned | reading))
    except InputError as error:
        if data is not None:
            raise
        raise InputError(f"The data of the run cannot be read, choose others with `data`: {error}") from error
    check_shape(run, whole)
    return whole, part


def unseen_part(
    run: Run, data: Any, part: str | None, reading: dict[str, Any]
) -> tuple[str | None, dict[str, Any]]:
    """The part of its data that a run did not see, if none was asked for; and how else to read them."""
    settings: dict[str, Any] = {}
    if isinstance(data, SampleSet):
        own = same_data(run.record.data.source, data.name)
    else:
        pattern = run.distribution.pattern
        settings = {**run.config.reading_settings(), "volumes": len(pattern.shape) - bool(pattern.indexed) == 3}
        as_learned = {name: settings[name] for name in ("kspace", "volumes", "size", "trajectory", "candidates")}
        name = source_text(data) if is_source(data) else _name_of(data, settings, reading)
        own = same_data(run.record.data.source, name)
        if not own:
            channels = load(data, Reading(**as_learned | reading)).shape[0]
            simulated = ("coils", "phase", "noise") if channels == 1 else ("phase", "noise")
            settings = as_learned | {name: settings[name] for name in simulated}
    return part or (OTHER_PART[run.record.data.part] if own else None), settings


def _name_of(data: Any, settings: dict[str, Any], reading: dict[str, Any]) -> str:
    """The name of data that are no files, with the axes of the run if no others are given and they fit."""
    volumes = {"volumes": settings["volumes"], **reading}
    try:
        return load(data, Reading(**{"axes": settings["axes"], **volumes})).name
    except InputError:
        return load(data, Reading(**volumes)).name


def check_shape(run: Run, data: SampleSet) -> None:
    """Refuse images of another size than the run was learned for."""
    wanted, found = run.distribution.pattern.image_shape, data.shape[1:]
    if wanted != found:
        raise InputError(
            f"The run is for images of shape {list(wanted)}, but those of {data.name} have shape {list(found)}: "
            f"crop or pad them with `size` {' '.join(map(str, wanted))}."
        )
