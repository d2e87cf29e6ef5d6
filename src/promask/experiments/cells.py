"""One cell of the table for one seed: its mask and the quality of every held-out image, kept in files."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from promask.baselines import Problem
from promask.errors import InputError
from promask.evaluation import achieved_acceleration
from promask.experiments.measurement import Measurement
from promask.experiments.methods import Method
from promask.files import read_array, save_array, save_text
from promask.recon import ZERO_FILLED, Reconstruction, make_reconstruction
from promask.tasks import Segmentation, make_task
from promask.types import Mask, SampleSet


@dataclass(frozen=True)
class Cell:
    """A method at an acceleration, with a seed."""

    method: Method
    acceleration: float
    seed: int

    @property
    def name(self) -> str:
        """Where its files lie, without an ending."""
        return f"x{repr(self.acceleration).removesuffix('.0')}/{self.method.label.replace(':', '-')}-{self.seed}"


@dataclass(frozen=True)
class Bench:
    """What all cells have in common: the data and the conditions under which masks are compared."""

    learning: SampleSet
    held_out: SampleSet
    seen: bool
    """Whether masks are measured on the images that they are learned from: there is but one."""
    axis: Sequence[int] | None
    centre: int | None
    measurement: Measurement
    segmentation: Segmentation | None = None
    """The network, if it is its segmentation that masks are compared by."""
    recon: Reconstruction = ZERO_FILLED
    """How images are reconstructed; methods that learn do so for it unless they name another one."""

    def problem(self, cell: Cell) -> Problem:
        """What is asked of a method."""
        data = self.learning
        pattern = cell.method.on(data.shape[1:], self.axis, data.geometry.extent)
        task = make_task(cell.method.loss, self.segmentation)
        named = cell.method.recon
        recon = self.recon if named is None else make_reconstruction(named)
        return Problem(pattern, cell.acceleration, data, cell.seed, self.centre, task, recon)


@dataclass(frozen=True)
class Begun:
    """A cell and what there is of it; neither mask nor record, at first."""

    cell: Cell
    record: Mapping[str, Any] = field(default_factory=dict)
    mask: Mask | None = None

    def is_measured(self, bench: Bench) -> bool:
        """Whether nothing is left to do."""
        return bench.measurement.measure.name in self.record["quality"]


def made(cell: Cell, bench: Bench) -> Begun:
    """A cell with its mask."""
    began = time.perf_counter()
    mask, plain = cell.method.mask(bench.problem(cell))
    mask = mask.contiguous()
    record = {
        "method": cell.method.label,
        "acceleration": cell.acceleration,
        "seed": cell.seed,
        "seconds": round(time.perf_counter() - began, 3),
        "plain": plain,
        "threads": torch.get_num_threads(),
        "achieved": achieved_acceleration(mask, bench.learning.geometry.extent),
        "quality": {},
    }
    return Begun(cell, record, mask)


def measured(begun: Begun, bench: Bench) -> Begun:
    """A cell with the quality of its mask, beside what was measured before."""
    assert begun.mask is not None
    values = bench.measurement.of_mask(begun.mask, bench.held_out)
    quality = {name: list(map(_known, each)) for name, each in values.items()}
    together = {**begun.record["quality"], bench.measurement.measure.name: quality}
    return replace(begun, record={**begun.record, "quality": together})


@dataclass(frozen=True)
class Store:
    """The folder that keeps cells: a mask and a record for each of them."""

    folder: Path

    def record(self, cell: Cell) -> dict[str, Any]:
        """What is known of a cell; nothing if it was not begun, or cannot be read."""
        try:
            content = json.loads(self._record_path(cell).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) and isinstance(content.get("quality"), dict) else {}

    def mask(self, cell: Cell) -> Mask:
        """The mask of a cell that has one."""
        return read_array(self._mask_path(cell), "b", "a mask")

    def finished(self, cell: Cell, measure: str) -> bool:
        """Whether nothing is left to do."""
        return measure in self.record(cell).get("quality", {}) and self._mask_path(cell).is_file()

    def begun(self, cell: Cell) -> Begun:
        """What there is of a cell: a mask with its record, or neither."""
        record = self.record(cell)
        try:
            return Begun(cell, record, self.mask(cell)) if record else Begun(cell)
        except InputError:
            return Begun(cell)

    def complete(self, cell: Cell, bench: Bench) -> None:
        """Make the mask and measure it, unless one or both were done before."""
        begun = self.begun(cell)
        if begun.mask is None:
            begun = made(cell, bench)
            self.save(begun)  # before anything else can go wrong
        if not begun.is_measured(bench):
            self.save(measured(begun, bench), with_mask=False)

    def save(self, begun: Begun, with_mask: bool = True) -> None:
        """Keep the record, and the mask if it is a new one."""
        for path in (self._record_path(begun.cell), self._mask_path(begun.cell)):
            path.parent.mkdir(parents=True, exist_ok=True)
        if with_mask and begun.mask is not None:
            save_array(self._mask_path(begun.cell), begun.mask)
        save_text(self._record_path(begun.cell), json.dumps(begun.record))

    def _record_path(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.name}.json"

    def _mask_path(self, cell: Cell) -> Path:
        return self.folder / "masks" / f"{cell.name}.npy"


def _known(value: float) -> float | None:
    """None, which JSON knows, for a value that is not there."""
    return None if math.isnan(value) else value
