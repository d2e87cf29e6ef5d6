"""The folder of a comparison: known by its data and conditions, and for one comparison at a time."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from torch import nn

from promask.errors import InputError
from promask.experiments.cells import Bench
from promask.files import check_writable, save_text
from promask.recon import Network, Reconstruction, ZeroFilled
from promask.tasks import Segmentation
from promask.types import SampleSet
from promask.version import __version__

FORMAT = 1
"""The version of the folder's layout."""


def check_place(folder: Path, data: Any) -> None:
    """Masks among the data would be taken for data."""
    place = Path(data.rpartition(":")[2]) if isinstance(data, str) else None
    if place is not None and place.is_dir() and folder.resolve().is_relative_to(place.resolve()):
        raise InputError(f"{folder} lies among the data: choose a folder elsewhere for the result.")


@contextmanager
def alone_in(folder: Path, bench: Bench) -> Iterator[None]:
    """The folder is ours alone, until the process ends."""
    _claim(folder, bench)
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout as error:
        raise InputError(f"Another comparison is at work in {folder}: wait until it has ended.") from error


def _claim(folder: Path, bench: Bench) -> None:
    """Refuse a folder that holds something else, or a comparison under other conditions."""
    task = bench.segmentation
    conditions = {
        "format": FORMAT,
        "version": __version__,
        "data": {"learned from": _known_by(bench.learning, task), "measured on": _known_by(bench.held_out, task)},
        "centre": bench.centre,
        "axis": bench.axis,
        "network": None if task is None else _network_known_by(task),
        "reconstruction": None if bench.recon.name == ZeroFilled.name else _recon_known_by(bench.recon),
    }
    conditions = json.loads(json.dumps(conditions))
    path = folder / "compare.json"
    if path.is_file():
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path} is damaged: choose another folder for the result.") from error
        before = before if isinstance(before, dict) else {}
        if (before.get("network") is None) != (task is None):
            other = "reconstructions" if task else "segmentations"
            raise InputError(f"{folder} holds a comparison of {other}: choose another folder.")
        for name, value in conditions.items():
            found = before.get(name)
            if found != value:
                short = {
                    "data": "of other data",
                    "network": "with another network",
                    "reconstruction": "with another reconstruction",
                }
                detail = short.get(name, f"with another {name}, {found!r} and not {value!r}")
                raise InputError(f"{folder} holds a comparison {detail}: choose another folder.")
        check_writable(folder)
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not a comparison: choose another folder for the result.")
    check_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_text(path, json.dumps(conditions, indent=1))


def _known_by(data: SampleSet, task: Segmentation | None) -> dict[str, Any]:
    """By what data are known again: size, subjects, what of them counts, all images, and labels if of use."""
    digest = hashlib.sha256(json.dumps([list(data.groups), asdict(data.geometry)]).encode())
    for index in range(len(data)):
        sample = data[index]
        digest.update(sample.image.contiguous().numpy().tobytes())
        if task is not None:
            digest.update(task.label(sample).contiguous().numpy().tobytes())
    return {"samples": len(data), "shape": list(data.shape), "sha256": digest.hexdigest()}


def _recon_known_by(recon: Reconstruction) -> dict[str, Any]:
    """By what a reconstruction is known again: its kind, its settings, and the weights of a network."""
    kind = f"{type(recon).__module__}.{type(recon).__qualname__}"
    if isinstance(recon, Network):
        return {"kind": kind, "consistent": recon.data_consistency, "sha256": _weights_known_by(recon.module)}
    return {"kind": kind, "settings": repr(sorted(vars(recon).items()))}


def _weights_known_by(network: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _network_known_by(task: Segmentation) -> dict[str, Any]:
    """By what a network is known again: its kind, its classes and its weights, wherever its file lies."""
    loss = task.loss
    return {
        "kind": type(task.network).__name__,
        "loss": None if loss is None else getattr(loss, "__name__", type(loss).__name__),
        "classes": None if task.classes is None else asdict(task.classes),
        "sha256": _weights_known_by(task.network),
    }
