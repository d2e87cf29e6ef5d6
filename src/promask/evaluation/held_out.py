"""The images that a run is measured and shown on: those that it did not see."""

import os
import warnings
from pathlib import Path
from typing import Any

from promask.data.file_set import OnFile
from promask.data.reading import Reading
from promask.data.sample_sets import OTHER_PART
from promask.data.sources import load, read_part
from promask.errors import InputError, InputWarning
from promask.learning.run import NETWORK, Run
from promask.recon.base import Reconstruction
from promask.segmentation.network import is_network
from promask.types import SampleSet


def held_out(
    run: Run,
    data: str | None = None,
    part: str | None = None,
    recon: Reconstruction | None = None,
    on_file: OnFile | None = None,
    **reading: Any,
) -> SampleSet:
    """What a run did not see of its data, or of others, read as they were when it was learned.

    Coil maps are made ready for the reconstruction, by default that of the run.
    """
    whole, part = read(run, data, part, reading)
    recon = recon or run.reconstruction()
    return read_part(whole, part=part, default="test", recon=recon, on_file=on_file).samples


def unseen(run: Run, data: str, part: str | None) -> tuple[str | None, dict[str, Any]]:
    """What a run did not see of its data, if no part was asked for, and how they were read when it was learned."""
    settings = run.config.reading_settings()
    if not same_data(run.record.data.source, data):
        as_then = {name: settings[name] for name in ("kspace", "volumes", "size")}
        simulated = ("coils", "noise") if load(data, Reading(**as_then)).shape[0] == 1 else ("noise",)
        return part, as_then | {name: settings[name] for name in simulated}
    return part or OTHER_PART[run.record.data.part], settings


def check_shape(run: Run, data: SampleSet) -> None:
    """Refuse images of another size than the run was learned for."""
    wanted, found = run.distribution.pattern.shape, data.shape[1:]
    if wanted != found:
        raise InputError(
            f"The run is for images of shape {list(wanted)}, but those of {data.name} have shape {list(found)}: "
            f"crop or pad them with --size {' '.join(map(str, wanted))}."
        )


def check_index(index: int, data: SampleSet) -> int:
    """Refuse the number of an image that is not there."""
    if not 0 <= index < len(data):
        raise InputError(f"{data.name} has images 0 to {len(data) - 1} to show, but number {index} was asked for.")
    return index


def read(run: Run, data: str | None, part: str | None, reading: dict[str, Any]) -> tuple[SampleSet, str | None]:
    """All data, by default those of the run, read as when it was learned; and the part that it did not see."""
    source = data or run.record.data.source
    if not source:
        raise InputError("The run does not say what it was learned from: choose data with --data.")
    try:
        part, as_then = unseen(run, source, part)
        whole = load(source, Reading(**as_then | reading))
    except InputError as error:
        if data is not None:
            raise
        raise InputError(f"The data of the run cannot be read, choose others with --data: {error}") from error
    check_shape(run, whole)
    return whole, part


def same_data(one: str, other: str) -> bool:
    """Whether two DATA strings mean the same, however their paths are written."""
    places = [
        (kind, os.path.realpath(place)) for kind, _, place in (text.rpartition(":") for text in (one, other))
    ]
    return places[0] == places[1]


def own_network(run: Run, folder: Path) -> Path | None:
    """The network that a run was learned for: beside it, or where it was then; a warning if it is gone."""
    found, gone = search_network(run, folder)
    if gone:
        warnings.warn(
            f"The network that {folder} was learned for {gone}: without --network FILE, only the images are "
            f"measured.",
            InputWarning,
            stacklevel=2,
        )
    return found


def search_network(run: Run, folder: Path) -> tuple[Path | None, str]:
    """The file of the network that a run was learned for, if there was one; and where it is not any more."""
    about = run.record.network
    if about is None:
        return None, ""
    beside, then = folder / NETWORK, Path(about.file) if about.file else None
    if beside.is_file() and is_network(beside):
        return beside, ""
    if then is not None and then.is_file():
        return then, ""
    return None, "is not in a file" if then is None else f"is not at {then} any more"
