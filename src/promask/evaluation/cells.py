"""How cells are measured: the quality of the images, or what a network finds in them.

What a comparison measured: for every method and acceleration, the quality of each image under each mask.

One cell of the table for one seed: its mask and the quality of every held-out image, kept in files.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

from promask.baselines.problem import BaselineProblem
from promask.data.atomic import read_array, save_array, save_text
from promask.errors import InputError
from promask.evaluation.conventions import find_convention
from promask.evaluation.evaluate import achieved_acceleration, evaluate, segmented
from promask.evaluation.measures import METRICS, Measure, overlap_metrics
from promask.evaluation.methods import Method
from promask.losses import make_loss
from promask.losses.segmentation import SEGMENTATION, Segmentation
from promask.recon import make_reconstruction
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED
from promask.segmentation.overlap import Overlap
from promask.types import Mask, SampleSet

PerValue = Mapping[str, list[float]]
"""By metric, a value for each image or volume; NaN where there is none."""


@runtime_checkable
class Measurement(Protocol):
    """What the numbers of a comparison are, and how they are found."""

    @property
    def measure(self) -> Measure:
        """How they are told."""

    def of_mask(self, mask: Mask, data: SampleSet) -> PerValue:
        """Of all samples, reconstructed; not of metrics that are a share of another one."""

    def of_full(self, data: SampleSet) -> PerValue | None:
        """The same of the fully sampled images; None if they are what others are measured by."""


@dataclass(frozen=True)
class ImageQuality:
    """PSNR, SSIM and NMSE in a convention."""

    convention: str
    recon: Reconstruction = ZERO_FILLED

    @property
    def measure(self) -> Measure:
        """That of the convention."""
        rule = find_convention(self.convention)
        return Measure(self.convention, "reconstruction", rule.of, rule.sentence, METRICS)

    def of_mask(self, mask: Mask, data: SampleSet) -> PerValue:
        """The quality of all images or volumes."""
        evaluation = evaluate(mask, data, "all", convention=self.convention, recon=self.recon)
        return {name: getattr(evaluation, name) for name in METRICS}

    def of_full(self, data: SampleSet) -> None:
        """They are what others are measured by."""


@dataclass(frozen=True)
class SegmentationQuality:
    """Dice and IoU of what a network finds."""

    task: Segmentation
    recon: Reconstruction = ZERO_FILLED

    @property
    def measure(self) -> Measure:
        """That of the classes of the network."""
        assert self.task.classes is not None
        return segmentation_measure(self.task.classes.names)

    def of_mask(self, mask: Mask, data: SampleSet) -> PerValue:
        """The scores of all images."""
        return self._values(segmented(self.task, data, mask, self.recon))

    def of_full(self, data: SampleSet) -> PerValue:
        """The scores of all images; some must have one."""
        values = self._values(segmented(self.task, data, None, self.recon))
        if torch.tensor(values["dice"]).isnan().all():
            assert self.task.classes is not None
            raise InputError(
                f"Nothing can be measured on {data.name}: in none of the held-out images is there a label of what "
                f"the network finds, {', '.join(self.task.classes.names)}."
            )
        return values

    def _values(self, scores: Overlap) -> PerValue:
        assert self.task.classes is not None
        names = self.task.classes.names
        result: dict[str, list[float]] = {}
        for metric, values in (("dice", scores.dice), ("iou", scores.iou)):
            result[metric] = values.nanmean(1).tolist()
            if len(names) > 1:
                result |= {f"{name}_{metric}": values[:, place].tolist() for place, name in enumerate(names)}
        return result


def segmentation_measure(classes: tuple[str, ...]) -> Measure:
    """How the segmentation of these classes is told."""
    mean = " The mean over the classes of an image comes first." if len(classes) > 1 else ""
    return Measure(
        SEGMENTATION,
        "segmentation",
        "image",
        f"Dice and intersection over union (IoU) of what the network finds in the reconstructed images, of "
        f"{', '.join(classes)}; an image counts for a class that is in it.{mean} Kept is the share of the mean of "
        f"the fully sampled images.",
        overlap_metrics(classes),
    )


Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """One method at one acceleration, over its seeds."""

    method: str
    """As it was asked for, such as `igs:1d`."""
    free: int
    """How many axes of k-space are free: 1 for lines."""
    acceleration: float
    """The one that was asked for."""
    achieved: Sequence[float]
    """Of the mask of each seed."""
    seconds: Sequence[float]
    """That each mask took; none for the fully sampled images, which need no mask."""
    quality: Mapping[str, Values]
    """By metric: (seeds, images); NaN where a metric is not defined, and those images do not count."""
    plain: Sequence[str | None] = ()
    """The plain mask that took the place of each learned one, if one did."""
    for_this: bool = True
    """Whether a method that learns did so for what is measured, rather than for something else."""

    @property
    def is_promask(self) -> bool:
        """Whether this is promask itself rather than a baseline."""
        return self.method.partition(":")[0] == "promask"

    @property
    def is_proposed(self) -> bool:
        """Whether this is promask as it is meant to be used, which others are compared with."""
        return self.is_promask and self.for_this

    @property
    def masks(self) -> int:
        """One for each seed."""
        return len(self.achieved)

    def mean(self, metric: str) -> float:
        """Over images and seeds."""
        return float(mean_of_known(self.quality[metric].ravel()))

    def spread(self, metric: str) -> float:
        """The standard deviation over seeds of the mean over images; 0 for a single seed."""
        means = mean_of_known(self.quality[metric])
        with np.errstate(invalid="ignore"):  # PSNR is infinite where all of k-space is acquired
            return float(means.std(ddof=1)) if len(means) > 1 else 0.0


def mean_of_known(values: Values) -> Values:
    """The mean over the last axis of the values that are known; NaN if there are none."""
    known = ~np.isnan(values)
    counts = known.sum(-1)
    sums = np.where(known, values, 0).sum(-1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def with_shares(quality: Mapping[str, Values], full: Mapping[str, Values], measure: Measure) -> dict[str, Values]:
    """The quality in all metrics of a measure; shares are relative to the mean of the fully sampled images."""
    result = {}
    for name, metric in measure.metrics.items():
        if metric.share_of is None:
            result[name] = quality[name]
        else:
            whole = float(mean_of_known(full[metric.share_of].ravel()))
            result[name] = quality[metric.share_of] / (whole or np.nan)
    return result


@dataclass(frozen=True)
class Comparison:
    """All methods at all accelerations, on the same images."""

    data: str
    measure: Measure
    measured_on: str
    """What each value of a metric belongs to, with its number: `159 held-out slices`."""
    subjects: Sequence[str]
    """Of whom each value is."""
    scores: Sequence[Scores]
    full: Scores | None = None
    """The fully sampled images, if they have a quality; never among the methods."""

    @property
    def methods(self) -> list[str]:
        """In the order of the table."""
        return list(dict.fromkeys(scores.method for scores in self.scores))

    @property
    def accelerations(self) -> list[float]:
        """In increasing order."""
        return sorted({scores.acceleration for scores in self.scores})

    def at(self, acceleration: float) -> list[Scores]:
        """The methods at one acceleration, in the order of the table."""
        return [scores for scores in self.scores if scores.acceleration == acceleration]

    def is_told(self, metric: str) -> bool:
        """Whether a metric is defined for any of them."""
        return any(np.isfinite(row.mean(metric)) for row in self.scores)


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

    def problem(self, cell: Cell) -> BaselineProblem:
        """What is asked of a method."""
        data = self.learning
        pattern = cell.method.on(data.shape[1:], self.axis, data.geometry.extent)
        task = make_loss(cell.method.loss, self.segmentation)
        named = cell.method.recon
        recon = self.recon if named is None else make_reconstruction(named)
        return BaselineProblem(pattern, cell.acceleration, data, cell.seed, self.centre, task, recon)


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
