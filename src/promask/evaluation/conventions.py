"""What is measured: metrics, how they are written, and the conventions in which image quality is measured.

A new convention is one function and one line in the table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from promask.data.axes import CONTRAST, FRAME
from promask.errors import InputError
from promask.evaluation.contrasts import ContrastQuality, t2_errors
from promask.evaluation.temporal import TemporalQuality, similarity_of_frames
from promask.losses import metrics
from promask.losses.metrics import GAUSSIAN, UNIFORM, PerImage, Window
from promask.types import AnyArray, Images


@dataclass(frozen=True)
class Metric:
    """The heading of its column, the digits, and the good direction."""

    heading: str
    style: str
    sign: int
    """1 if more is better, -1 if less is."""
    group: str = ""
    """The class that it is of, empty for the whole image; metrics of a group share a table."""
    share_of: str | None = None
    """The metric that this one is relative to: its value for the fully sampled images."""

    @property
    def title(self) -> str:
        """The heading with what it is of.

        >>> Metric("Dice", ".4f", 1, group="ventricle").title
        'Dice, ventricle'
        """
        return f"{self.heading}, {self.group}" if self.group else self.heading


METRICS: Mapping[str, Metric] = {
    "psnr": Metric("PSNR (dB)", ".2f", 1),
    "ssim": Metric("SSIM", ".4f", 1),
    "nmse": Metric("NMSE", ".5f", -1),
}
"""Of images."""
SERIES_METRICS: Mapping[str, Metric] = {
    "psnr": METRICS["psnr"],
    "psnr_moving": Metric("PSNR moving (dB)", ".2f", 1),
    "ssim": METRICS["ssim"],
    "nmse": METRICS["nmse"],
    "nmse_differences": Metric("NMSE differences", ".4f", -1),
}
"""Of series of frames: over all of it, within what moves, and of frame-to-frame differences."""

CONTRAST_METRICS: Mapping[str, Metric] = {
    "psnr": METRICS["psnr"],
    "psnr_worst": Metric("worst PSNR (dB)", ".2f", 1),
    "ssim": METRICS["ssim"],
    "nmse": METRICS["nmse"],
}
"""Of series of contrasts: means over the contrasts, and that of the worst one."""
ECHO_METRICS: Mapping[str, Metric] = {**CONTRAST_METRICS, "t2_error": Metric("T2 error (ms)", ".3f", -1)}
"""Of series of echoes whose times are known, also the error of the map of T2."""

_MOVING = (
    "PSNR moving is that of the pixels whose standard deviation over time is above 30 % of the largest; NMSE "
    "differences is that of frame-to-frame differences. A frozen heart, the temporal mean of the fully sampled "
    "frames, is what a mask must surpass."
)


_CONTRASTS = "Each contrast counts as an image of its own, and metrics are means over contrasts."
_T2 = "T2 is fitted to the echoes of each pixel; its error is the median of the differences over tissue."


def metrics_of(indexed: str, echoes: bool = False) -> Mapping[str, Metric]:
    """The metrics of images, or of series.

    Args:
        indexed: Of series, what their first axis counts: `frame` or `contrast`; otherwise empty.
        echoes: Whether contrasts are echoes whose times are known.

    Returns:
        By name.
    """
    of_contrasts = ECHO_METRICS if echoes else CONTRAST_METRICS
    return {FRAME: SERIES_METRICS, CONTRAST: of_contrasts}.get(indexed, METRICS)


def overlap_metrics(classes: Sequence[str]) -> dict[str, Metric]:
    """Of segmentations: over all classes, and for each of them if there are several.

    >>> list(overlap_metrics(["lesion"]))
    ['dice', 'dice_kept', 'iou']
    >>> list(overlap_metrics(["wall", "cavity"]))[3:6]
    ['wall_dice', 'wall_dice_kept', 'wall_iou']
    """
    metrics: dict[str, Metric] = {}
    for group in ("", *(classes if len(classes) > 1 else ())):
        name = f"{group}_" if group else ""
        metrics[f"{name}dice"] = Metric("Dice", ".4f", 1, group)
        metrics[f"{name}dice_kept"] = Metric("Dice kept", ".1%", 1, group, share_of=f"{name}dice")
        metrics[f"{name}iou"] = Metric("IoU", ".4f", 1, group)
    return metrics


@dataclass(frozen=True)
class Measure:
    """A set of metrics, and how they are described."""

    name: str
    """Under which its numbers are stored: `paper`, `fastmri` or `segmentation`."""
    wanted: str
    """What they are the quality of: the reconstruction, or the segmentation."""
    of: str
    """What each value belongs to: `image`, `volume` or `series`."""
    sentence: str
    """To be printed beside the numbers."""
    metrics: Mapping[str, Metric]

    @property
    def own(self) -> dict[str, Metric]:
        """The metrics that are not merely a share of another one."""
        return {name: metric for name, metric in self.metrics.items() if metric.share_of is None}

    def groups(self) -> Iterator[tuple[str, dict[str, Metric]]]:
        """The metrics that share a table: those of the whole first, then those of each part."""
        for group in dict.fromkeys(metric.group for metric in self.metrics.values()):
            yield group, {name: metric for name, metric in self.metrics.items() if metric.group == group}


@dataclass(frozen=True)
class ImagePairs:
    """Reconstructed images and their targets, which are computed a chunk at a time."""

    chunks: Sequence[range]
    """All of them, in order."""
    volumes: Sequence[str]
    """The name of the volume of each image; those of a volume need not be neighbours."""
    targets: Callable[[range], Images]
    """The fully sampled magnitude images of a chunk."""
    both: Callable[[range], tuple[Images, Images]]
    """The reconstructed magnitude images of a chunk, and its targets."""
    indexed: str = ""
    """Of series, what their first axis of space counts: `frame` or `contrast`; otherwise empty."""
    echo_times: Sequence[float] = ()
    """In ms, if contrasts are echoes and their times are known."""


@dataclass(frozen=True)
class ImageQuality:
    """The metrics of every image, volume or series; SSIM is NaN where the window does not fit."""

    psnr: list[float]
    ssim: list[float]
    nmse: list[float]
    temporal: TemporalQuality = field(default_factory=TemporalQuality)
    """Empty unless they are series of frames."""
    contrasts: ContrastQuality = field(default_factory=ContrastQuality)
    """Empty unless they are series of contrasts."""


@dataclass(frozen=True)
class Convention:
    """A way to measure image quality, and the sentence that describes it."""

    rule: Callable[[ImagePairs], ImageQuality]
    """Measures images, or series of frames."""
    of: str
    """What each value belongs to, unless it is a series: `image` or `volume`."""
    sentence: str
    """To be printed beside the numbers."""
    of_series: str
    """The same for series of frames."""

    def measure(self, pairs: ImagePairs) -> ImageQuality:
        """Measure images, volumes or series.

        Args:
            pairs: The reconstructed ones, and their targets.

        Returns:
            The metrics of each.
        """
        return measure_contrasts(self.rule, pairs) if pairs.indexed == CONTRAST else self.rule(pairs)

    def described(self, indexed: str = "", echoes: bool = False) -> str:
        """The sentence to be printed beside the numbers.

        Args:
            indexed: Of series, what their first axis counts: `frame` or `contrast`; otherwise empty.
            echoes: Whether contrasts are echoes whose times are known.

        Returns:
            How images, volumes or series are measured.
        """
        if indexed == CONTRAST:
            return " ".join([self.sentence, _CONTRASTS, *([_T2] if echoes else [])])
        return f"{self.of_series} {_MOVING}" if indexed else self.sentence

    def measured(self, name: str, indexed: str = "", echoes: bool = False) -> Measure:
        """The metrics of images or of series in this convention, and how they are described.

        Args:
            name: Of the convention.
            indexed: As in `described`.
            echoes: As in `described`.

        Returns:
            The measure of a comparison.
        """
        of = "series" if indexed else self.of
        sentence = self.described(indexed, echoes)
        return Measure(name, "reconstruction", of, sentence, metrics_of(indexed, echoes))


def measure_contrasts(rule: Callable[[ImagePairs], ImageQuality], pairs: ImagePairs) -> ImageQuality:
    """Measure series of contrasts: each contrast as an image of its own; means over the contrasts of each series.

    Args:
        rule: How images are measured.
        pairs: Series, (batch, channel, contrast, *space).

    Returns:
        The metrics of each series.
    """
    count, contrasts = sum(map(len, pairs.chunks)), pairs.targets(pairs.chunks[0]).shape[2]
    t2_error: list[float] = []

    def apart(series: Images) -> AnyArray:  # as a larger batch
        return series.transpose(1, 2).flatten(0, 1)

    def whole(chunk: range) -> range:
        return range(chunk.start // contrasts, chunk.stop // contrasts)

    def both(chunk: range) -> tuple[Images, Images]:
        images, targets = pairs.both(whole(chunk))
        if pairs.echo_times:
            t2_error.extend(t2_errors(images, targets, pairs.echo_times))
        return apart(images), apart(targets)

    quality = rule(
        ImagePairs(
            chunks=[range(chunk.start * contrasts, chunk.stop * contrasts) for chunk in pairs.chunks],
            volumes=list(map(str, range(count * contrasts))),
            targets=lambda chunk: apart(pairs.targets(whole(chunk))),
            both=both,
        )
    )
    psnr, ssim, nmse = (
        torch.tensor(values, dtype=torch.float64).reshape(count, contrasts)
        for values in (quality.psnr, quality.ssim, quality.nmse)
    )
    of_contrasts = ContrastQuality(psnr.tolist(), t2_error)
    psnr, ssim, nmse = (values.mean(1) for values in (psnr, ssim, nmse))
    return ImageQuality(psnr.tolist(), ssim.tolist(), nmse.tolist(), contrasts=of_contrasts)


def paper(pairs: ImagePairs) -> ImageQuality:
    """Each image or series by itself."""
    quality = ImageQuality([], [], [])
    for chunk in pairs.chunks:
        images, targets = metrics.clipped(*pairs.both(chunk))
        error = metrics.energy(images - targets)
        quality.psnr.extend(metrics.decibels(error / targets[0].numel()).tolist())
        similarity = similarity_of_frames if pairs.indexed == FRAME else _similarity
        quality.ssim.extend(similarity(images, targets, GAUSSIAN).tolist())
        quality.nmse.extend((error / metrics.energy(targets)).tolist())
        if pairs.indexed == FRAME:
            quality.temporal.add(images, targets)
    return quality


def fastmri(pairs: ImagePairs) -> ImageQuality:
    """Each volume by itself, relative to the maximum of its target."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(pairs.volumes))}
    volume_of = torch.tensor([numbers[name] for name in pairs.volumes])
    highest = torch.zeros(len(numbers))
    for chunk in pairs.chunks:
        volumes = volume_of[chunk.start : chunk.stop]
        highest.scatter_reduce_(0, volumes, pairs.targets(chunk).flatten(1).amax(1).cpu(), "amax")

    temporal = TemporalQuality()
    error, energy, similarity = torch.zeros(3, len(numbers), dtype=torch.float64)
    for chunk in pairs.chunks:
        volumes = volume_of[chunk.start : chunk.stop]
        images, targets = pairs.both(chunk)
        scale = highest[volumes].reshape(-1, *[1] * (targets.ndim - 1)).to(targets.device)
        images, targets = images / scale, targets / scale
        error.index_add_(0, volumes, metrics.energy(images - targets).cpu() / targets[0].numel())
        energy.index_add_(0, volumes, metrics.energy(targets).cpu() / targets[0].numel())
        # Slices of a sample that is a volume are averaged over like channels.
        slices = _similarity(images.flatten(1, -3), targets.flatten(1, -3), UNIFORM)
        similarity.index_add_(0, volumes, slices.cpu().double())
        if pairs.indexed == FRAME:
            temporal.add(images, targets, UNIFORM)
    count = volume_of.bincount()
    return ImageQuality(
        psnr=metrics.decibels(error / count).tolist(),
        ssim=(similarity / count).tolist(),
        nmse=(error / energy).tolist(),
        temporal=temporal,
    )


CONVENTIONS: Mapping[str, Convention] = {
    "paper": Convention(
        paper,
        of="image",
        sentence="Each image is scaled by the range of its target and clipped to it; SSIM has a Gaussian "
        "window of 7 pixels along each axis.",
        of_series="Each series is scaled by the range of its target and clipped to it; SSIM is the mean over its "
        "images, with a Gaussian window of 7 pixels along each axis.",
    ),
    "fastmri": Convention(
        fastmri,
        of="volume",
        sentence="As in fastMRI, each volume is measured as a whole, relative to the maximum of its target, and "
        "nothing is clipped; SSIM is that of its slices, with a 7 x 7 uniform window.",
        of_series="As in fastMRI, each series is measured as a whole, relative to the maximum of its target, and "
        "nothing is clipped; SSIM is the mean over its images, with a 7 x 7 uniform window.",
    ),
}


def find_convention(name: str) -> Convention:
    """A convention of the table."""
    if name not in CONVENTIONS:
        raise InputError(f"Unknown convention {name!r}: choose one of {', '.join(CONVENTIONS)}.")
    return CONVENTIONS[name]


def _similarity(images: Images, targets: Images, window: Window) -> PerImage:
    if not window.fits(targets):
        return torch.full((len(targets),), torch.nan)
    return metrics.structural_similarity(images, targets, window)
