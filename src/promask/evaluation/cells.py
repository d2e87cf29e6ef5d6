"""The comparison engine: methods make masks, masks have a quality for each image, and methods have scores.

A cell is a method at an acceleration with a seed. `compare` keeps its cells in files; the report of a run makes
its few reference masks in the same way.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from promask.baselines import matching_pattern
from promask.baselines.problem import BaselineProblem, fitted_to
from promask.data.atomic import read_array, save_array, save_text
from promask.data.description import describe_data
from promask.data.device import CPU
from promask.errors import InputError, count
from promask.evaluation.conventions import Measure, find_convention, overlap_metrics
from promask.evaluation.evaluate import achieved_acceleration, evaluate
from promask.evaluation.images import frozen_quality
from promask.evaluation.methods import EQUAL, FROZEN, FULL, ComparedMethod, Method
from promask.evaluation.segmentation import segment
from promask.learning.records import DataRecord
from promask.losses import make_loss
from promask.losses.segmentation import SEGMENTATION, Segmentation
from promask.recon import make_reconstruction
from promask.recon.base import Reconstruction, is_temporal
from promask.recon.zero_filled import ZERO_FILLED, ZeroFilled
from promask.sampling.limits import FRAME, NONE_ASKED, LimitSettings
from promask.sampling.pattern import Pattern
from promask.types import Mask, SampleSet

QualityPerImage = Mapping[str, list[float]]
"""By metric, a value for each image or volume; NaN where there is none."""
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """A method at an acceleration, with a seed."""

    method: ComparedMethod
    acceleration: float
    seed: int

    @property
    def name(self) -> str:
        """Where its files lie, without an ending."""
        return f"x{repr(self.acceleration).removesuffix('.0')}/{self.method.file_name}-{self.seed}"


@dataclass(frozen=True)
class Conditions:
    """What all cells have in common: the data, and what is asked of masks."""

    learning: SampleSet
    held_out: SampleSet
    convention: str = "paper"
    recon: Reconstruction = ZERO_FILLED
    """How images are reconstructed; methods that learn do so for it unless they name another one."""
    segmentation: Segmentation | None = None
    """The network, if masks are compared by its segmentations."""
    axis: Sequence[int | str] | None = None
    centre: int | None = None
    same_images: bool = False
    """Whether masks are measured on the images that they are learned from, as there is only one."""
    beside: Pattern | None = None
    """The pattern of a learned mask that methods take on as far as they can; None: their own."""
    device: torch.device = CPU
    allow_readout: bool = False
    """Whether masks may undersample the readout."""
    limits: LimitSettings = NONE_ASKED
    """What a protocol demands of all masks, as far as it fits their patterns."""
    fitted: dict[str, Reconstruction] = field(default_factory=dict, compare=False, repr=False)
    """Reconstructions that methods name, with what they know from the learning part."""

    @property
    def measure(self) -> Measure:
        """What is measured: image quality in a convention, or the segmentation."""
        if self.segmentation is None:
            geometry = self.held_out.geometry
            about = (geometry.indexed, bool(geometry.echo_times))
            return find_convention(self.convention).measured(self.convention, *about)
        return segmentation_measure(self._classes)

    @property
    def _classes(self) -> tuple[str, ...]:
        assert self.segmentation is not None
        assert self.segmentation.classes is not None
        return self.segmentation.classes.names

    def problem(self, method: Method, acceleration: float, seed: int = 0) -> BaselineProblem:
        """What is asked of a method."""
        data = self.learning
        pattern = None if self.beside is None else matching_pattern(method.name, self.beside)
        if pattern is None:
            asked = self.limits
            if method.equal:
                asked = replace(asked, equal_per=data.geometry.indexed or None, cost=())
            pattern = asked.on(method.pattern_on(data, self.axis, self.allow_readout), strict=False)
        task = make_loss(method.loss, self.segmentation)
        recon = self.recon if method.recon is None else self._named(method.recon)
        return BaselineProblem(pattern, acceleration, data, seed, self.centre, task, recon, self.device)

    def _named(self, name: str) -> Reconstruction:
        if name not in self.fitted:
            recon = make_reconstruction(name)
            if is_temporal(recon) and self.learning.geometry.indexed != FRAME:
                raise InputError(f"{name} reconstructs series of frames, but {self.learning.name} has none.")
            self.fitted[name] = fitted_to(recon, self.learning)
        return self.fitted[name]

    def acceleration(self, mask: Mask) -> float:
        """The acceleration that a mask achieves; where contrasts have costs, that of the scan time."""
        geometry, cost = self.learning.geometry, LimitSettings(cost=self.limits.cost)
        lines = Pattern((mask.shape[0], 1), (0, 1), indexed=geometry.indexed, contrasts=geometry.contrasts)
        return achieved_acceleration(mask, geometry, cost.on(lines, strict=False).limits.cost)

    def quality(self, mask: Mask | None) -> QualityPerImage | None:
        """The quality of all held-out images with a mask, or of the fully sampled ones; not of relative metrics.

        None for fully sampled images that are themselves what others are measured by.
        """
        if self.segmentation is None:
            if mask is None:
                return None
            by: dict[str, Any] = {"convention": self.convention, "recon": self.recon, "device": self.device}
            evaluation = evaluate(mask, self.held_out, "all", **by)
            return {name: evaluation.values(name) for name in self.measure.metrics}
        overlap = segment(self.segmentation, self.held_out, mask, self.recon, self.device)
        if mask is None and overlap.dice.isnan().all():
            raise InputError(
                f"Nothing can be measured on {self.held_out.name}: in none of the held-out images is there a "
                f"label of what the network finds, {', '.join(self._classes)}."
            )
        result: dict[str, list[float]] = {}
        for metric, values in (("dice", overlap.dice), ("iou", overlap.iou)):
            result[metric] = values.nanmean(1).tolist()
            if len(self._classes) > 1:
                result |= {f"{name}_{metric}": values[:, at].tolist() for at, name in enumerate(self._classes)}
        return result

    def frozen(self) -> QualityPerImage | None:
        """The quality of the fully sampled temporal mean of every held-out series; None if there are no series."""
        if self.segmentation is not None or self.held_out.geometry.indexed != FRAME:
            return None
        return frozen_quality(self.held_out, self.convention, self.recon, self.device)


def segmentation_measure(classes: tuple[str, ...]) -> Measure:
    """The metrics of a segmentation of these classes."""
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


def all_cells(
    methods: Sequence[ComparedMethod],
    accelerations: Sequence[float],
    seeds: int,
    learned_seeds: int,
    conditions: Conditions,
) -> list[Cell]:
    """A cell for every method, each of its accelerations and seeds; one seed where seeds make no difference.

    Every one of them is possible, or an InputError says which is not.
    """
    if not accelerations:
        raise InputError("No acceleration was given: choose some with `acceleration`, such as 4 8 16 32.")
    asked = sorted({float(acceleration) for acceleration in accelerations})
    if wrong := [each for each in asked if not each >= 1]:
        raise InputError(f"`acceleration` must be at least 1, but is {wrong[0]:g}.")
    if min(seeds, learned_seeds) < 1:
        raise InputError(f"There must be at least 1 seed, but {min(seeds, learned_seeds)} were asked for.")
    rows = {method: method.accelerations(asked, conditions) for method in methods}
    return [
        Cell(method, acceleration, seed)
        for acceleration in asked
        for method in methods
        if acceleration in rows[method]
        for seed in range((learned_seeds if method.learns else seeds) if method.draws else 1)
    ]


@dataclass(frozen=True)
class CellResult:
    """A cell, its mask and its record: how the mask was made, and its quality; neither of them at first."""

    cell: Cell
    record: Mapping[str, Any] = field(default_factory=dict)
    mask: Mask | None = None


def make_mask(conditions: Conditions, cell: Cell) -> CellResult:
    """A cell with its mask; nothing is measured yet."""
    mask, about = cell.method.create(conditions, cell.acceleration, cell.seed)
    mask = mask.contiguous()
    record = {
        "method": cell.method.label,
        "acceleration": cell.acceleration,
        "seed": cell.seed,
        **about,
        "threads": torch.get_num_threads(),
        "achieved": conditions.acceleration(mask),
        "quality": {},
    }
    return CellResult(cell, record, mask)


def complete(
    conditions: Conditions, result: CellResult, on_mask: Callable[[CellResult], None] | None = None
) -> CellResult:
    """Make the mask of a cell and measure it, unless one or both were done; `on_mask` gets a new mask at once."""
    if result.mask is None:
        result = make_mask(conditions, result.cell)
        if on_mask is not None:
            on_mask(result)
    measure = conditions.measure.name
    if measure in result.record["quality"]:
        return result
    values = conditions.quality(result.mask) or {}
    quality = {name: [None if math.isnan(value) else value for value in each] for name, each in values.items()}
    together = {**result.record["quality"], measure: quality}
    return replace(result, record={**result.record, "quality": together})


@dataclass(frozen=True)
class CellStore:
    """The folder that keeps cells: a mask and a record for each of them."""

    folder: Path

    def record(self, cell: Cell) -> dict[str, Any]:
        """What is known of a cell; nothing if there is no record, or it cannot be read."""
        try:
            content = json.loads(self._record_path(cell).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) and isinstance(content.get("quality"), dict) else {}

    def mask(self, cell: Cell) -> Mask:
        """The mask of a cell that has one."""
        return read_array(self._mask_path(cell), "b", "a mask")

    def is_complete(self, cell: Cell, measure: str) -> bool:
        """Whether nothing is left to do."""
        return measure in self.record(cell).get("quality", {}) and self._mask_path(cell).is_file()

    def load(self, cell: Cell) -> CellResult:
        """What there is of a cell: a mask with its record, or neither."""
        record = self.record(cell)
        try:
            return CellResult(cell, record, self.mask(cell)) if record else CellResult(cell)
        except InputError:
            return CellResult(cell)

    def complete(self, cell: Cell, conditions: Conditions) -> None:
        """Do what is left to do of a cell; a new mask is saved before anything else can go wrong."""
        before = self.load(cell)
        after = complete(conditions, before, on_mask=self.save)
        if after is not before:
            self.save(after, with_mask=False)

    def save(self, result: CellResult, with_mask: bool = True) -> None:
        """Keep the record, and the mask if it is a new one."""
        for path in (self._record_path(result.cell), self._mask_path(result.cell)):
            path.parent.mkdir(parents=True, exist_ok=True)
        if with_mask and result.mask is not None:
            save_array(self._mask_path(result.cell), result.mask)
        save_text(self._record_path(result.cell), json.dumps(result.record))

    def _record_path(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.name}.json"

    def _mask_path(self, cell: Cell) -> Path:
        return self.folder / "masks" / f"{cell.name}.npy"


@dataclass(frozen=True)
class Scores:
    """One method at one acceleration, over its seeds."""

    method: str
    """As it was asked for, such as `igs:1d`."""
    free: int
    """The number of undersampled directions: 1 for lines."""
    acceleration: float
    """The one that was asked for."""
    achieved: Sequence[float]
    """Of the mask of each seed."""
    seconds: Sequence[float]
    """That each mask took, NaN if it was not made here; none for the fully sampled images, which need no mask."""
    quality: Mapping[str, Values]
    """By metric: (seeds, images); NaN where a metric is not defined, and those images do not count."""
    references: Sequence[str | None] = ()
    """The reference mask that took the place of each learned one, if one did."""
    for_task: bool = True
    """Whether a method that learns did so for what is measured, rather than for something else."""

    @property
    def is_promask(self) -> bool:
        """Whether this is promask itself rather than a baseline."""
        return self.method.partition(":")[0] == "promask"

    @property
    def is_proposed(self) -> bool:
        """Whether this is promask as it is meant to be used, which others are compared with.

        The variant in which all contrasts have equal numbers is one of the others.
        """
        return self.is_promask and self.for_task and EQUAL not in self.method.split(":")

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
    """All methods at all accelerations, on the same images.

    Args:
        data: The name of the data.
        measure: The metrics, and how they were measured.
        measured_on: What each value of a metric belongs to, with its number: `159 held-out slices`.
        subjects: The subject of each value.
        scores: One for each method and acceleration, in the order of the table.
        full: The fully sampled images, if they have a quality; never among the methods.
        images: The images that were measured: their source, part, number, shape and subjects.
        frozen: The fully sampled temporal mean of series, which shows no motion; never among the methods.
    """

    data: str
    measure: Measure
    measured_on: str
    subjects: Sequence[str]
    scores: Sequence[Scores]
    full: Scores | None = None
    images: DataRecord = field(default_factory=DataRecord)
    frozen: Scores | None = None

    @property
    def above(self) -> list[Scores]:
        """What is not compared but stands above the methods: the fully sampled images, the temporal mean."""
        return [row for row in (self.full, self.frozen) if row is not None]

    @property
    def methods(self) -> list[str]:
        """In the order of the table."""
        return list(dict.fromkeys(scores.method for scores in self.scores))

    @property
    def accelerations(self) -> list[float]:
        """In increasing order."""
        return sorted({scores.acceleration for scores in self.scores})

    def at(self, acceleration: float) -> list[Scores]:
        """The methods at one acceleration.

        Args:
            acceleration: One of `accelerations`.

        Returns:
            Their scores, in the order of the table.
        """
        return [scores for scores in self.scores if scores.acceleration == acceleration]

    def is_defined(self, metric: str) -> bool:
        """Whether a metric is defined for any of the methods.

        Args:
            metric: Such as `psnr`, `ssim` or `dice`.

        Returns:
            False if its mean is not finite for each of them.
        """
        return any(np.isfinite(row.mean(metric)) for row in self.scores)


def collect(
    cells: Sequence[Cell], store: CellStore, conditions: Conditions, full: QualityPerImage | None
) -> Comparison:
    """The comparison of cells that are all complete; `full` is the quality of the fully sampled images."""
    measure = conditions.measure
    of_full = {metric: np.array([values]) for metric, values in (full or {}).items()}
    records: dict[tuple[ComparedMethod, float], list[Mapping[str, Any]]] = {}
    for cell in cells:
        records.setdefault((cell.method, cell.acceleration), []).append(store.record(cell))
    scores = []
    for (method, acceleration), of_seeds in records.items():
        quality = {
            metric: np.array([record["quality"][measure.name][metric] for record in of_seeds], dtype=np.float64)
            for metric in measure.own
        }
        scores.append(
            Scores(
                method=method.label,
                free=method.free,
                acceleration=acceleration,
                achieved=[record["achieved"] for record in of_seeds],
                seconds=np.array([record["seconds"] for record in of_seeds], dtype=np.float64).tolist(),
                references=[record.get("plain") for record in of_seeds],
                quality=with_shares(quality, of_full, measure),
                for_task=method.learns_for_task,
            )
        )
    values = next(iter(scores[0].quality.values())).shape[1]
    groups = list(conditions.held_out.groups)
    subjects = groups if len(groups) == values else list(dict.fromkeys(groups))  # a volume each
    full_scores = Scores(FULL, 0, 1.0, [1.0], [], with_shares(of_full, of_full, measure)) if full else None
    read = describe_data(conditions.held_out, conditions.recon)
    images = DataRecord.of(conditions.held_out, "all" if conditions.same_images else "test", read)
    measured_on = _measured_on(values, conditions)
    still = conditions.frozen()
    frozen = None
    if still is not None:
        quality = {metric: np.array([values]) for metric, values in still.items()}
        frozen = Scores(FROZEN, 0, 1.0, [math.nan], [], quality)
    return Comparison(images.source, measure, measured_on, subjects, scores, full_scores, images, frozen)


def _measured_on(values: int, conditions: Conditions) -> str:
    noun, shape, indexed = conditions.measure.of, conditions.held_out.shape, conditions.held_out.geometry.indexed
    size = " x ".join(map(str, shape[1:] if shape[0] == 1 else shape))
    if indexed:
        coils = f"{shape[0]} {conditions.held_out.geometry.channels or 'channel'}s, " if shape[0] > 1 else ""
        size = f"{coils}{count(shape[1], indexed)} of {' x '.join(map(str, shape[2:]))}"
    if conditions.recon.name != ZeroFilled.name:
        size += f", reconstructed by {conditions.recon.name}"
    several = f"{values} {{}}series" if indexed else count(values, f"{{}}{noun}")
    if conditions.same_images:
        return f"{several.format('')}, {size}, the same that masks were learned from"
    subjects = f" of {count(len(set(conditions.held_out.groups)), 'subject')}" if noun != "volume" else ""
    return f"{several.format('held-out ')}{subjects}, {size}"
