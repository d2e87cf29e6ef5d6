"""A comparison as figures, each a function that returns a matplotlib figure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from promask.conventions import CONVENTIONS, Measured
from promask.evaluation import achieved_acceleration, full_images, reconstruct
from promask.experiments.entries import factor
from promask.experiments.scores import Comparison, Scores
from promask.fourier import space_axes, to_kspace
from promask.headings import Metric
from promask.recon import ZERO_FILLED, Reconstruction
from promask.report.figures import picture
from promask.types import Mask, SampleSet, Targets

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEARNED_COLOURS = ("#c8102e", "#f28e2b", "#7b2d8b", "#e377c2")
OTHER_COLOURS = (
    "#4e79a7",
    "#59a14f",
    "#8c6d4f",
    "#76b7b2",
    "#9c89b8",
    "#b0a23c",
    "#6b6b6b",
    "#5b8c8a",
    "#a0cbe8",
    "#b5b5b5",
)
MARKERS = "osD^vP<X>pd"
FULL_LINE: Mapping[str, Any] = {"color": "0.15", "linestyle": (0, (6, 3)), "linewidth": 1.2, "zorder": 1.5}


def quality_over_acceleration(comparison: Comparison) -> "Figure":
    """A panel for each metric that is defined: a line for each method, with one standard deviation over masks.

    Metrics of a group share a row; the fully sampled images, if they have a quality, are a dashed line.
    """
    from matplotlib.figure import Figure

    told = {name: metric for name, metric in comparison.measure.own.items() if comparison.is_told(name)}
    groups = list(dict.fromkeys(metric.group for metric in told.values()))
    rows = [[name for name, metric in told.items() if metric.group == group] for group in groups]
    columns = max(map(len, rows))
    height = max(3.6 * len(rows), 0.8 + 0.21 * len(comparison.methods))
    figure = Figure(figsize=(3.7 * columns + 1.8, height), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    styles = line_styles(comparison)
    for row, names in zip(grid, rows, strict=True):
        for axes, name in zip(row, names, strict=False):
            _panel(axes, comparison, name, told[name], styles)
        for axes in row[len(names) :]:
            axes.remove()
    lines = {line.get_label(): line for axes in figure.axes for line in axes.lines}
    first = [comparison.full.method] if comparison.full else []
    handles = [lines[method] for method in (*first, *comparison.methods) if method in lines]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9, handlelength=3)
    return figure


def _panel(
    axes: "Axes", comparison: Comparison, name: str, metric: Metric, styles: Mapping[str, Mapping[str, Any]]
) -> None:
    if comparison.full is not None:
        axes.axhline(comparison.full.mean(name), label=comparison.full.method, **FULL_LINE)
    for method, style in styles.items():
        _line(axes, [row for row in comparison.scores if row.method == method], name, style)
    more = metric.sign > 0
    axes.set_title(f"{metric.title} {'↑' if more else '↓'}", fontsize=11)
    axes.set_yscale("linear" if more else "log")
    _acceleration_axis(axes, comparison.accelerations)


def line_styles(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """Of each method: promask strong and on top, others muted; dashed if only one axis is free."""
    styles: dict[str, dict[str, Any]] = {}
    free = {row.method: row.free for row in comparison.scores}
    for learned in (True, False):
        names = dict.fromkeys(row.method for row in comparison.scores if row.is_promask == learned)
        colours = LEARNED_COLOURS if learned else OTHER_COLOURS
        for place, method in enumerate(sorted(names, key="promask".__ne__)):
            styles[method] = {
                "color": colours[place % len(colours)],
                "marker": MARKERS[place % len(MARKERS)],
                "linestyle": "--" if free[method] == 1 else "-",
                "linewidth": 2.6 if learned else 1.3,
                "markersize": 6 if learned else 4.5,
                "zorder": 3 + learned + (method == "promask"),
            }
    return {method: styles[method] for method in comparison.methods}


def _line(axes: "Axes", rows: list[Scores], metric: str, style: Mapping[str, Any]) -> None:
    rows = sorted((row for row in rows if np.isfinite(row.mean(metric))), key=lambda row: np.mean(row.achieved))
    if not rows:
        return
    at = np.array([np.mean(row.achieved) for row in rows])
    means = np.array([row.mean(metric) for row in rows])
    spreads = np.array([row.spread(metric) for row in rows])
    axes.plot(at, means, label=rows[0].method, **style)
    if spreads.any():
        low, high = means - spreads, means + spreads
        axes.fill_between(at, low, high, color=style["color"], alpha=0.15, linewidth=0, zorder=style["zorder"] - 2)
        if len(rows) == 1:
            axes.vlines(at, low, high, color=style["color"])


def _acceleration_axis(axes: "Axes", accelerations: list[float]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(accelerations, [factor(acceleration) for acceleration in accelerations])
    axes.set_xticks([], minor=True)
    if len(accelerations) == 1:
        axes.set_xlim(accelerations[0] / 2, accelerations[0] * 2)
    axes.set_xlabel("achieved acceleration")
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


PICTURE = 1.5
"""The height of a picture, in inches, as all lengths below."""
CAPTION = 0.24
MARGIN = 0.34
GAP = 0.05
BETWEEN = 0.22
"""Between two accelerations."""
LONGEST = 16
"""Letters of a heading that fit beside a picture; longer ones are made smaller."""
BRIGHTEST = 0.995
"""The part of the pixels that are not brighter than white."""


def picture_grid(
    masks: Mapping[str, Mapping[float, Mask]],
    data: SampleSet,
    index: int,
    convention: str = "paper",
    recon: Reconstruction = ZERO_FILLED,
) -> "Figure":
    """One image reconstructed with every mask, and the mask beside it, as in Figure 7 of the paper.

    `masks` holds those of each method by acceleration. Methods are rows, below the fully sampled image and its
    k-space; accelerations are columns. The quality is that of this image alone.
    """
    accelerations = sorted({acceleration for of_method in masks.values() for acceleration in of_method})
    any_mask = next(mask for of_method in masks.values() for mask in of_method.values())
    target = full_images(data, range(index, index + 1), recon)
    kspace = to_kspace(data[index].image[0], space_axes(any_mask.ndim)).abs()
    white, brightest = np.quantile(target[0, 0].numpy(), [BRIGHTEST, 1])
    window = {"cmap": "gray", "vmin": 0, "vmax": float(white or brightest)}
    grid = _Grid.of(1 + len(masks), len(accelerations), target[0, 0], any_mask)
    for column, acceleration in enumerate(accelerations):
        grid.write(factor(acceleration), 0, column)
        grid.show(target[0, 0], "fully sampled", 0, column, 0, **window)
        grid.show(kspace.clamp_min(kspace.max() * 1e-5).log(), "its k-space (log)", 0, column, 1, cmap="gray")
        for row, of_method in enumerate(masks.values(), start=1):
            if acceleration in of_method:
                mask = of_method[acceleration]
                image, _ = reconstruct(mask, data, range(index, index + 1), recon)
                grid.show(image[0, 0], _quality(image, target, convention), row, column, 0, **window)
                achieved = f"x{achieved_acceleration(mask, data.geometry.extent):.4g}"
                grid.show(mask, achieved, row, column, 1, cmap="gray", vmin=0, vmax=1)
    for row, method in enumerate(masks, start=1):
        grid.write(method, row)
    return grid.figure


@dataclass(frozen=True)
class _Grid:
    """Pairs of pictures on a figure, all of one height."""

    figure: "Figure"
    widths: tuple[float, float]

    @staticmethod
    def of(rows: int, columns: int, *pair: torch.Tensor) -> "_Grid":
        from matplotlib.figure import Figure

        # Very long pictures are made smaller.
        left, right = (PICTURE * min(max(each.shape[-1] / each.shape[-2], 0.4), 2.5) for each in pair)
        size = (MARGIN + columns * (left + GAP + right + BETWEEN), MARGIN + rows * (PICTURE + CAPTION))
        return _Grid(Figure(figsize=size), (left, right))

    def show(self, values: torch.Tensor, caption: str, row: int, column: int, part: int, **style: Any) -> None:
        """One picture of a pair: part 0 or 1."""
        left, top = self._corner(row, column)
        width, height = self.figure.get_size_inches()
        left += (self.widths[0] + GAP) * part
        box = (left / width, (top - PICTURE) / height, self.widths[part] / width, PICTURE / height)
        axes = self.figure.add_axes(box)
        picture(axes, values, "", interpolation="antialiased", **style)  # lines must not fall between pixels
        axes.set_xlabel(caption, fontsize=8, labelpad=2, color="0.25")

    def write(self, text: str, row: int, column: int | None = None) -> None:
        """A heading above a pair, or beside a row."""
        left, top = self._corner(row, column or 0)
        width, height = self.figure.get_size_inches()
        if column is None:
            at, turned = (MARGIN / 2 / width, (top - PICTURE / 2) / height), 90
        else:
            at, turned = ((left + (sum(self.widths) + GAP) / 2) / width, (top + MARGIN / 2) / height), 0
        size = min(10, LONGEST * 10 / len(text))
        self.figure.text(*at, text, rotation=turned, ha="center", va="center", fontsize=size, fontweight="bold")

    def _corner(self, row: int, column: int) -> tuple[float, float]:
        """Left and top of a pair."""
        left = MARGIN + column * (sum(self.widths) + GAP + BETWEEN)
        return left, self.figure.get_size_inches()[1] - MARGIN - row * (PICTURE + CAPTION)


def _quality(image: Targets, target: Targets, convention: str) -> str:
    alone = Measured([range(1)], ["shown"], targets=lambda _: target, pairs=lambda _: (image, target))
    quality = CONVENTIONS[convention].measure(alone)
    similarity = "" if np.isnan(quality.ssim[0]) else f"   SSIM {quality.ssim[0]:.3f}"
    return f"{quality.psnr[0]:.1f} dB{similarity}"
