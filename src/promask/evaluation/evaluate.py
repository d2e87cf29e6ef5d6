"""How good a mask or a run is, measured on fully sampled images that it was not learned from."""

import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import torch

from promask.data.axes import CONTRAST, FRAME
from promask.data.description import DataDescription
from promask.data.device import CPU, find_device
from promask.data.file_set import OnFile
from promask.data.hybrid import join_slices, largest_magnitude, slice_at
from promask.data.preprocess import collate, move, reconstructed_channels
from promask.data.reading import Reading, ReadingSettings
from promask.data.sample_sets import OTHER_PART
from promask.data.sources import is_source, load, read_part, same_data, source_text
from promask.errors import InputError, InputWarning, check_keywords
from promask.evaluation.contrasts import ContrastQuality
from promask.evaluation.conventions import ImagePairs, find_convention
from promask.evaluation.noise import NoiseMap, measure_noise
from promask.evaluation.physics import MaskPhysics, mask_physics, pattern_of
from promask.evaluation.temporal import TemporalQuality
from promask.learning.records import DataRecord
from promask.learning.run import Run
from promask.losses import freeze_networks
from promask.losses.segmentation import Segmentation, freeze, make_segmentation
from promask.operators.fourier import fft_order, magnitude, space_axes, spectrum
from promask.recon import make_reconstruction, with_settings
from promask.recon.base import Reconstruction, reconstruct_batch
from promask.recon.zero_filled import ZERO_FILLED, ZeroFilled
from promask.sampling.pattern import PER_FRAME, Pattern
from promask.segmentation.classes import Overlap, overlap_of
from promask.segmentation.network import SegmentationNetwork
from promask.types import AnyArray, AnyImages, Batch, Geometry, Images, Logits, Mask, Sample, SampleSet, Targets

CHUNK = 8
"""Images reconstructed at a time; with more of them, their intermediate results leave the cache."""
LARGEST_CHUNK = 2**22
"""The numbers of all coils that are reconstructed at a time: volumes come one by one."""
NetworkLike = str | Path | SegmentationNetwork | Segmentation
"""A segmentation network: its file, the network itself, or the task that it is part of."""


@dataclass(frozen=True)
class SegmentationScores:
    """How well a network segments each class in every image: with the mask, and fully sampled."""

    classes: tuple[str, ...]
    with_mask: Overlap
    full: Overlap

    def summary(self) -> dict[str, Any]:
        """Means over the classes of an image, and then over the images; and those of each class."""
        result: dict[str, Any] = {}
        by_class: dict[str, dict[str, float | None]] = {name: {} for name in self.classes}
        for metric in ("dice", "iou"):
            for name, overlap in ((metric, self.with_mask), (f"{metric}_full", self.full)):
                values: torch.Tensor = getattr(overlap, metric)
                result[name] = _finite(values.nanmean(1).nanmean())
                for of_class, mean in zip(by_class.values(), values.nanmean(0), strict=True):
                    of_class[name] = _finite(mean)
            full = result[f"{metric}_full"]
            result[f"{metric}_kept"] = result[metric] / full if full else None
        return {**result, "classes": by_class}


@dataclass(frozen=True)
class Evaluation:
    """The quality of every image, volume or series, and the part of the data that they belong to.

    Args:
        psnr: Peak signal-to-noise ratio in dB, a value for each image, volume or series.
        ssim: Structural similarity; NaN for images that are too small.
        nmse: Squared error relative to the energy of the fully sampled image.
        acceleration: The acceleration that the mask achieves.
        data: The images that were measured: their source, part, number, shape and subjects.
        convention: How quality was measured: `paper` or `fastmri`.
        of: What each value belongs to: `image`, `volume` or `series`.
        segmented: Dice and IoU of each image, if there is a network.
        recon: The name of the reconstruction.
        network: The file of the network, or another name for it; None without a network.
        physics: The point-spread function and the sampling density of the mask.
        noise: The noise amplification of one image, if it was asked for and coils are combined.
        acceleration_within: The acceleration within the shutter and what partial Fourier acquires, of a run that
            has such limits.
        temporal: Of series of frames, the quality of what moves.
        contrasts: Of series of contrasts, the quality of each of them; of echoes also that of T2.
    """

    psnr: list[float]
    ssim: list[float]
    nmse: list[float]
    acceleration: float
    data: DataRecord
    convention: str
    of: str
    segmented: SegmentationScores | None = None
    recon: str = ZeroFilled.name
    network: str | None = None
    physics: MaskPhysics | None = None
    noise: NoiseMap | None = None
    acceleration_within: float | None = None
    temporal: TemporalQuality | None = None
    contrasts: ContrastQuality | None = None

    def values(self, metric: str) -> list[float]:
        """A metric of every image, volume or series.

        Args:
            metric: Such as `psnr`; of series of frames also `psnr_moving` and `nmse_differences`, of contrasts
                `psnr_worst` and `t2_error`.

        Returns:
            NaN where it is not defined.
        """
        parts = (self, self.temporal, self.contrasts)
        found: list[float] = getattr(next(part for part in parts if hasattr(part, metric)), metric)
        return found

    @property
    def indexed(self) -> str:
        """Of series, what was counted: `frame` or `contrast`; otherwise empty."""
        return FRAME if self.temporal else CONTRAST if self.contrasts else ""

    @property
    def images(self) -> int:
        """How many were measured."""
        return self.data.images

    @property
    def part(self) -> str:
        """The part of the data: `train`, `test` or `all`."""
        return self.data.part

    def of_part(self, part: str, read: DataDescription) -> "Evaluation":
        """The same for images that were given by themselves.

        Args:
            part: The part of the data that they are.
            read: What was understood of the whole.

        Returns:
            A new evaluation; this one is not changed.
        """
        return replace(self, data=replace(self.data, part=part, read=read))

    def summary(self) -> dict[str, Any]:
        """Means over what was measured; None where a metric is not defined (SSIM of images below 7 pixels)."""
        count = len(self.psnr)
        means = {name: _finite(sum(getattr(self, name)) / count) for name in ("psnr", "ssim", "nmse")}
        about = {name: getattr(self, name) for name in ("acceleration", "images", "part", "convention", "recon")}
        within = {"acceleration_within": self.acceleration_within} if self.acceleration_within is not None else {}
        volumes = {"volumes": count} if self.of == "volume" else {}
        temporal = self.temporal.summary() if self.temporal else {}
        contrasts = self.contrasts.summary() if self.contrasts else {}
        segmented = self.segmented.summary() if self.segmented else {}
        physics = self.physics.summary() if self.physics else {}
        noise = {"noise": self.noise.summary()} if self.noise else {}
        parts = (means, temporal, contrasts, segmented, about, within, volumes, physics, noise)
        return {**{name: value for part in parts for name, value in part.items()}, "data": self.data.summary()}


def mean_and_spread(evaluations: Sequence[Evaluation], metrics: Sequence[str]) -> dict[str, Any]:
    """The mean of each metric over several masks, and the standard deviation over them under `<metric>_spread`.

    None where a metric is not defined for one of the masks; a single mask has no spread.
    """
    summaries = [evaluation.summary() for evaluation in evaluations]
    result: dict[str, Any] = {}
    for name in metrics:
        values = [summary[name] for summary in summaries]
        defined = None not in values
        result[name] = statistics.mean(values) if defined and len(values) > 1 else values[0] if defined else None
        if len(values) > 1:
            result[f"{name}_spread"] = statistics.stdev(values) if defined else None
    return result


def evaluate(
    mask: Any,
    data: Any,
    part: str | None = None,
    on_file: OnFile | None = None,
    convention: str = "paper",
    network: NetworkLike | None = None,
    recon: str | Reconstruction | None = None,
    iterations: int | None = None,
    regularisation: float | None = None,
    device: str | torch.device = "cpu",
    noise_replicas: int = 0,
    **reading: Unpack[ReadingSettings],
) -> Evaluation:
    """Measure the images that a mask gives against the fully sampled ones.

    A run is measured as it was learned: with its reconstruction and its network, on data that are read as its own
    were, and, if they are its own, on the part that it was not learned from.

    >>> evaluate(torch.arange(64) % 4 == 0, torch.rand(2, 64, 64)).acceleration
    4.0

    Args:
        mask: A `Run`, an `ExportedMask`, or a centred mask (*space) of 0 and 1 as an array or a tensor; lines, and
            axes of length 1, broadcast along the other axes.
        data: As for `learn`: a name, files, folders, globs, an array (N, *space), a torch `Dataset`, ...
        part: `train`, `test` or `all`. None: for the data of the run, what it was not learned from; for others,
            the held-out subjects, or everything if nothing is known of subjects.
        on_file: Called with the number of files that were read, and how many there are.
        convention: `paper`: each image by itself; `fastmri`: each volume (all slices of a subject, or a sample
            with three axes) relative to its maximum. Of series of frames, each as a whole in both.
        network: A segmentation network, or its file: the Dice and the IoU of what it finds are measured, too.
            None: that of the run, if it was learned for one.
        recon: How images are reconstructed: a name, as for `learn`, or an object of `promask.recon`. None: that
            of the run, or zero-filled.
        iterations: Of an iterative reconstruction; None: its own.
        regularisation: Of an iterative reconstruction; None: its own.
        device: Where PyTorch computes, such as `cpu` or `cuda`; not that of the run.
        noise_replicas: With how many pseudo-replicas of the middle image the noise amplification is measured,
            where the reconstruction combines coils by their sensitivities; 0: not at all.
        **reading: How files are read, as for `learn`: `volumes`, `kspace`, `array`, `holds`, `plane`, `slices`,
            `size`, `select`, `skip_bad`, `coils`, `phase`, `noise`, `maps`. None of them: for a run, as its data
            were read.

    Returns:
        The metrics of every image, volume or series; `summary()` gives their means.

    Raises:
        InputError: If the mask does not fit the data, or an argument is unknown or wrong.
    """
    check_keywords(reading, (*Reading.CHECKS, *evaluate.__annotations__))
    rule, device = find_convention(convention), find_device(device)
    values = mask_values(mask)
    settings: dict[str, Any] = {}
    if isinstance(mask, Run):
        part, as_learned = unseen_part(mask, data, part, dict(reading))
        settings = as_learned
        network = find_network(mask) if network is None else network
        if recon is None:
            given = {"iterations": iterations, "regularisation": regularisation}
            given = {name: value for name, value in given.items() if value is not None}
            recon = with_settings(mask.reconstruction(), given)
            iterations = regularisation = None
    recon = make_reconstruction(ZeroFilled.name if recon is None else recon, iterations, regularisation)
    task = None if network is None else measurable(network, device)
    whole = load_for_mask(data, values, settings | dict(reading))
    values = check_mask(values, whole)
    indexed = whole.geometry.indexed
    _, chosen, part, read = read_part(whole, part=part, default="test", recon=recon, on_file=on_file)
    if task is not None:
        task.check(chosen, reconstructed_channels(chosen, recon))
    quality = rule.measure(
        ImagePairs(
            chunks=_chunks(chosen),
            volumes=chosen.groups if values.ndim == 2 else list(map(str, range(len(chosen)))),
            targets=lambda chunk: full_images(chosen, chunk, recon, device),
            both=lambda chunk: reconstruct(values, chosen, chunk, recon, device),
            indexed=indexed,
            echo_times=whole.geometry.echo_times,
        )
    )
    cost = mask.distribution.pattern.limits.cost if isinstance(mask, Run) else ()
    acceleration = achieved_acceleration(values, whole.geometry.extent, cost)
    free = mask.distribution.pattern.free if isinstance(mask, Run) else ()
    pattern = pattern_of(values, whole.geometry, free)
    return Evaluation(
        quality.psnr,
        quality.ssim,
        quality.nmse,
        acceleration=acceleration,
        data=DataRecord.of(chosen, part, read),
        convention=convention,
        of="series" if indexed else rule.of,
        segmented=None if task is None else _segmentation_scores(task, chosen, values, recon, device),
        recon=recon.name,
        network=None if network is None else str(network) if isinstance(network, str | Path) else "the network",
        physics=mask_physics(values, pattern, whole.geometry.voxel),
        noise=noise_of_middle(values, chosen, recon, acceleration, noise_replicas, device),
        acceleration_within=mask.acceleration_within if isinstance(mask, Run) else None,
        temporal=quality.temporal if indexed == FRAME else None,
        contrasts=quality.contrasts if indexed == CONTRAST else None,
    )


def noise_of_middle(
    mask: Mask,
    data: SampleSet,
    recon: Reconstruction,
    acceleration: float,
    replicas: int,
    device: torch.device = CPU,
) -> NoiseMap | None:
    """The noise amplification of the middle image of a data set.

    None without replicas, or where coils are not combined by their sensitivities.
    """
    if not (replicas and recon.uses_maps):
        return None
    index = len(data) // 2
    sample = data[index]
    if sample.maps is None:
        return None
    indexed = data.geometry.indexed
    found = measure_noise(sample, mask, recon, acceleration, replicas, device=device, indexed=indexed)
    which = f"{'series' if indexed else 'image'} {index}"
    return replace(found, where=", ".join(filter(None, (which, found.where))))


def achieved_acceleration(mask: Mask, extent: Sequence[tuple[int, int]] = (), cost: Sequence[float] = ()) -> float:
    """Locations over acquired locations; padding, outside the extent, is neither.

    Where contrasts, the first axis of the mask, have costs, it is the scan time over the time that is spent.

    >>> lines = torch.tensor([[True, True], [True, False]])
    >>> achieved_acceleration(lines), achieved_acceleration(lines, cost=(1, 2))
    (1.3333333333333333, 1.5)
    """
    covered = mask[tuple(slice(*ends) for ends in extent)]
    if not cost:
        return covered.numel() / int(covered.sum())
    spent = sum(each * int(own.sum()) for each, own in zip(cost, covered, strict=True))
    return sum(cost) * covered[0].numel() / spent


@torch.no_grad()
def reconstruct(
    mask: Mask, data: SampleSet, indices: range, recon: Reconstruction = ZERO_FILLED, device: torch.device = CPU
) -> tuple[Targets, Targets]:
    """Reconstructed magnitude images and their fully sampled targets, the part of them that is judged.

    They are on the device that they were computed on.
    """
    samples, along = (data[index] for index in indices), _slicing_axis(mask, data, recon)
    if along is None:
        images, targets = _reconstruct(mask, list(samples), data.geometry, recon, device)
    else:
        geometry = data.geometry.without(along)
        pairs = [_reconstruct_slices(mask, volume, along, geometry, recon, device) for volume in samples]
        images, targets = (torch.cat(each) for each in zip(*pairs, strict=True))
    return _judged(images, data), _judged(targets, data)


def _reconstruct(
    mask: Mask, samples: Sequence[Sample], geometry: Geometry, recon: Reconstruction, device: torch.device
) -> tuple[AnyImages, AnyImages]:
    """Reconstructed images, and what the reconstruction aims at, (batch, channel, *space)."""
    images, clean, maps, cut = move(collate(samples, recon.uses_maps), device)
    dimensions = mask.ndim - geometry.indexes
    reference = recon.reference(clean, maps)
    batch = Batch(spectrum(images, space_axes(dimensions)), reference, geometry, maps=maps, cut=cut)
    with freeze_networks(recon=recon):
        made = reconstruct_batch(recon, batch, fft_order(mask, dimensions).to(images.real))
    return made, reference


def _reconstruct_slices(
    mask: Mask, volume: Sample, along: int, geometry: Geometry, recon: Reconstruction, device: torch.device
) -> tuple[Images, Images]:
    """The same for a volume that is taken apart into slices along an axis: magnitudes, (1, channel, *space)."""
    plane, count = mask.select(along, 0), mask.shape[along]
    at_a_time, scale = _chunk_length(volume.image.shape[:1] + plane.shape), largest_magnitude(volume)
    pairs = []
    for start in range(0, count, at_a_time):
        positions = range(start, min(start + at_a_time, count))
        slices = [slice_at(volume, along, position, scale) for position in positions]
        pairs.append([each.abs().cpu() for each in _reconstruct(plane, slices, geometry, recon, device)])
    images, targets = (join_slices(each, along).to(device) for each in zip(*pairs, strict=True))
    return images, targets


def _slicing_axis(mask: Mask, data: SampleSet, recon: Reconstruction) -> int | None:
    """The axis along which volumes are reconstructed slice by slice: one along which the mask does not vary."""
    if mask.ndim < 3 or not getattr(recon, "slicewise", False) or data.geometry.indexed == CONTRAST:
        return None
    free = [axis for axis in range(mask.ndim) if not (mask == mask.narrow(axis, 0, 1)).all()]
    geometry = data.geometry
    if not set(free) - set(range(geometry.indexes)):
        return geometry.indexes
    return Pattern(tuple(mask.shape), tuple(free), readout=geometry.readout, indexed=geometry.indexed).slicing_axis


def full_images(
    data: SampleSet, indices: range, recon: Reconstruction = ZERO_FILLED, device: torch.device = CPU
) -> Targets:
    """Fully sampled magnitude images, as the reconstruction would have them: the part of them that is judged."""
    _, clean, maps, _ = move(collate([data[index] for index in indices], recon.uses_maps), device)
    return _judged(recon.reference(clean, maps), data)


def frozen_quality(
    data: SampleSet,
    convention: str = "paper",
    recon: Reconstruction = ZERO_FILLED,
    device: torch.device = CPU,
) -> dict[str, list[float]]:
    """The metrics of the fully sampled temporal mean of every series, as if it were a reconstruction.

    Args:
        data: Series of frames.
        convention: `paper` or `fastmri`.
        recon: What the coils are combined by.
        device: Where PyTorch computes.

    Returns:
        By the name of the metric, a value for each series.
    """

    def both(chunk: range) -> tuple[Targets, Targets]:
        targets = full_images(data, chunk, recon, device)
        return targets, targets

    numbers = list(map(str, range(len(data))))
    pairs = ImagePairs(_chunks(data), numbers, lambda chunk: both(chunk)[1], both, data.geometry.indexed)
    return vars(find_convention(convention).measure(pairs).temporal.frozen)


@dataclass(frozen=True)
class ReconstructedImage:
    """One image with a mask, (1, channel, *space), its fully sampled target, and its quality."""

    image: Targets
    target: Targets
    psnr: float
    ssim: float
    """NaN for images that are too small."""


def reconstruct_one(
    mask: Mask,
    data: SampleSet,
    index: int,
    recon: Reconstruction = ZERO_FILLED,
    convention: str = "paper",
    device: torch.device = CPU,
) -> ReconstructedImage:
    """Reconstruct one image of a data set, and measure it as `evaluate` would."""
    image, target = (each.cpu() for each in reconstruct(mask, data, range(index, index + 1), recon, device))
    alone = ImagePairs(
        [range(1)], ["alone"], lambda _: target, lambda _: (image, target), indexed=data.geometry.indexed
    )
    quality = find_convention(convention).measure(alone)
    return ReconstructedImage(image, target, quality.psnr[0], quality.ssim[0])


def measurable(network: NetworkLike, device: str | torch.device = CPU) -> Segmentation:
    """The task of a network, which is a file or an object; its classes must be known."""
    task = make_segmentation(network, device)
    if task.classes is None:
        raise InputError("To be measured, a network needs classes: give Segmentation the classes of its outputs.")
    return task


def segment(
    task: Segmentation,
    data: SampleSet,
    mask: Mask | None,
    recon: Reconstruction = ZERO_FILLED,
    device: torch.device = CPU,
) -> Overlap:
    """How well a network segments the images of a mask, or, without a mask, the fully sampled ones."""
    classes = task.classes
    assert classes is not None
    overlaps = []
    for indices in _chunks(data):
        labels = torch.stack([data.geometry.crop(classes.label(data[index])) for index in indices])
        images = images_with(mask, data, indices, recon, device)
        overlaps.append(overlap_of(network_outputs(task, images), labels, classes))
    return Overlap(torch.cat([each.dice for each in overlaps]), torch.cat([each.iou for each in overlaps]))


def images_with(
    mask: Mask | None,
    data: SampleSet,
    indices: range,
    recon: Reconstruction = ZERO_FILLED,
    device: torch.device = CPU,
) -> Targets:
    """Reconstructed magnitude images, or, without a mask, the fully sampled ones: the part that is judged."""
    if mask is None:
        return full_images(data, indices, recon, device)
    return reconstruct(mask, data, indices, recon, device)[0]


def network_outputs(task: Segmentation, images: Targets) -> Logits:
    """What the network of a task makes of magnitude images, in evaluation mode; it is as it was afterwards."""
    with freeze(task.network), torch.no_grad():
        return task.outputs(images).cpu()


def check_mask(values: AnyArray, data: SampleSet) -> Mask:
    """A mask for the k-space of a data set, as booleans; lines broadcast along the other axes.

    Axes of length 1 that are too many are dropped: BART writes a mask of slices as (1, ky, kz).
    """
    space, given = data.shape[1:], list(values.shape)
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
    if not data.geometry.indexed or values.ndim != 2 or tuple(values.shape) == space[1:]:
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
        as_learned = {name: settings[name] for name in ("kspace", "volumes", "size")}
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
    wanted, found = run.distribution.pattern.shape, data.shape[1:]
    if wanted != found:
        raise InputError(
            f"The run is for images of shape {list(wanted)}, but those of {data.name} have shape {list(found)}: "
            f"crop or pad them with `size` {' '.join(map(str, wanted))}."
        )


def find_network(run: Run) -> NetworkLike | None:
    """The network that a run was learned for; a warning if it is gone."""
    network, gone = search_network(run)
    if gone:
        warnings.warn(
            f"The network that the run was learned for {gone}: only the images are measured, unless you give it "
            f"with `network`.",
            InputWarning,
            stacklevel=2,
        )
    return network


def search_network(run: Run) -> tuple[NetworkLike | None, str]:
    """The network that a run was learned for, if there was one: its own, or the file; or where it is no longer."""
    if isinstance(run.network, SegmentationNetwork):
        return run.network, ""
    if run.record.network is None:
        return None, ""
    path = Path(run.record.network.file) if run.record.network.file else None
    if path is not None and path.is_file():
        return path, ""
    return None, "is not in a file" if path is None else f"is not at {path} any more"


def mask_values(mask: Any) -> AnyArray:
    """The mask of a run or an exported mask, or the array itself, which may be a masked one of NumPy."""
    try:
        return torch.as_tensor(mask if hasattr(mask, "__array__") else getattr(mask, "mask", mask))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"A mask is a run, an exported mask or an array of 0 and 1, but not a {type(mask).__name__}: read "
            f"files with promask.Run.load or promask.export.read_mask."
        ) from error


def _segmentation_scores(
    task: Segmentation, data: SampleSet, mask: Mask, recon: Reconstruction, device: torch.device
) -> SegmentationScores:
    assert task.classes is not None
    with_mask, full = (segment(task, data, each, recon, device) for each in (mask, None))
    return SegmentationScores(task.classes.names, with_mask, full)


def _chunks(data: SampleSet) -> list[range]:
    indices, length = range(len(data)), _chunk_length(data.shape)
    return [indices[start : start + length] for start in indices[::length]]


def _chunk_length(shape: Sequence[int]) -> int:
    return max(1, min(CHUNK, LARGEST_CHUNK // math.prod(shape)))


def _finite(mean: float | torch.Tensor) -> float | None:
    return float(mean) if math.isfinite(mean) else None


def _judged(images: AnyArray, data: SampleSet) -> Targets:
    part = data.geometry.crop(images)
    return magnitude(part) if part.is_complex() else part.abs()
