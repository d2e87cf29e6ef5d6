"""What is measured: how metrics are written, which way is better, and which of them belong together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """The heading of its column, the digits, and the good direction."""

    heading: str
    style: str
    sign: int
    """1 if more is better, -1 if less is."""
    group: str = ""
    """What it is of, if that is a part of the whole: a class; metrics of a group share a table."""
    share_of: str | None = None
    """The metric that it is the share of, relative to the fully sampled images: it tells the same."""

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
    """A set of metrics, and how they are told."""

    name: str
    """By which its numbers are kept: `paper`, `fastmri` or `segmentation`."""
    wanted: str
    """What is good if they are: the reconstruction, or the segmentation."""
    of: str
    """What each value belongs to: `image` or `volume`."""
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
