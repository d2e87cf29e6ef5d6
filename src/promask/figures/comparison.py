"""Figures of a comparison and of a run's stability, each a function that returns a matplotlib figure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from promask.data.device import CPU
from promask.evaluation.cells import Comparison, Scores
from promask.evaluation.conventions import Metric
from promask.evaluation.images import full_images, reconstruct_one
from promask.evaluation.physics import pattern_of
from promask.evaluation.stability import Stability
from promask.evaluation.tables import factor, heading
from promask.figures.contours import SegmentedSlice, contour_grid_of, segment_slice
from promask.figures.images import quality_caption
from promask.figures.layout import (
    GAP,
    MAGNITUDE,
    Grid,
    add_colour_bar,
    frames_style,
    grey_window,
    height_for,
    hide_spines,
    image_axes,
    kspace_axes,
    kspace_in_decibels,
    padding_of,
    picture,
    plane,
    plane_note,
    units_picture,
)
from promask.learning.phrases import units_acquired
from promask.losses.segmentation import Segmentation
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED
from promask.sampling.pattern import Pattern
from promask.types import Mask, SampleSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEARNED_COLOURS = ("#c8102e", "#f28e2b", "#7b2d8b", "#e377c2")
OTHER_COLOURS = tuple(
    "#4e79a7 #59a14f #8c6d4f #76b7b2 #9c89b8 #b0a23c #6b6b6b #5b8c8a #a0cbe8 #b5b5b5".split()  # noqa: SIM905
)
MARKERS = "osD^vP<X>pd"
FULL_LINE: dict[str, Any] = {"color": "0.15", "linestyle": (0, (6, 3)), "linewidth": 1.2, "zorder": 1.5}


def quality_over_acceleration(comparison: Comparison) -> "Figure":
    """A panel for each metric that is defined: a line for each method, with one standard deviation over masks.

    Metrics of a group share a row; the fully sampled images, if they have a quality, are a dashed line,
    and their temporal mean is a dotted one.
    """
    from matplotlib.figure import Figure

    defined = {name: metric for name, metric in comparison.measure.own.items() if comparison.is_defined(name)}
    groups = list(dict.fromkeys(metric.group for metric in defined.values()))
    rows = [[name for name, metric in defined.items() if metric.group == group] for group in groups]
    columns = max(map(len, rows))
    height = max(3.6 * len(rows), 0.8 + 0.21 * len(comparison.methods))
    figure = Figure(figsize=(3.7 * columns + 1.8, height), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    styles = line_styles(comparison)
    for row, names in zip(grid, rows, strict=True):
        for axes, name in zip(row, names, strict=False):
            _panel(axes, comparison, name, defined[name], styles)
        for axes in row[len(names) :]:
            axes.remove()
    lines = {line.get_label(): line for axes in figure.axes for line in axes.lines}
    first = [row.method for row in comparison.above]
    handles = [lines[method] for method in (*first, *comparison.methods) if method in lines]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9, handlelength=3)
    return figure


def _panel(
    axes: "Axes", comparison: Comparison, name: str, metric: Metric, styles: Mapping[str, Mapping[str, Any]]
) -> None:
    for row in comparison.above:
        dotted = {"linestyle": ":"} if row is comparison.frozen else {}
        axes.axhline(row.mean(name), label=row.method, **FULL_LINE | dotted)
    for method, style in styles.items():
        _line(axes, [row for row in comparison.scores if row.method == method], name, style)
    more = metric.sign > 0
    axes.set_title(f"{metric.title} {'↑' if more else '↓'}", fontsize=11)
    axes.set_yscale("linear" if more else "log")
    read = comparison.images.read
    names = [heading(each, read.complete, read.rotations).replace(", ", "\n") for each in comparison.accelerations]
    _acceleration_axis(
        axes, comparison.accelerations, names, [x for row in comparison.scores for x in row.achieved]
    )


def line_styles(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """Of each method: promask strong and on top, others muted; dashed if it has lines, and no spokes."""
    styles: dict[str, dict[str, Any]] = {}
    lines = {row.method: row.free == 1 and not comparison.images.read.rotations for row in comparison.scores}
    for learned in (True, False):
        names = dict.fromkeys(row.method for row in comparison.scores if row.is_promask == learned)
        colours = LEARNED_COLOURS if learned else OTHER_COLOURS
        for place, method in enumerate(sorted(names, key="promask".__ne__)):
            styles[method] = {
                "color": colours[place % len(colours)],
                "marker": MARKERS[place % len(MARKERS)],
                "linestyle": "--" if lines[method] else "-",
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


def _acceleration_axis(axes: "Axes", accelerations: list[float], names: list[str], achieved: list[float]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(accelerations, names)
    axes.set_xticks([], minor=True)
    if len(accelerations) == 1:
        axes.set_xlim(min(accelerations[0] / 2, *achieved), max(accelerations[0] * 2, *achieved))
    axes.set_xlabel("achieved acceleration")
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    hide_spines(axes)


PICTURE = 1.5
"""The height of a picture, in inches."""
BETWEEN = 0.22
"""Between two accelerations."""


def picture_grid(
    masks: Mapping[str, Mapping[float, Mask]],
    data: SampleSet,
    index: int,
    convention: str = "paper",
    recon: Reconstruction = ZERO_FILLED,
    device: torch.device = CPU,
) -> "Figure":
    """One image reconstructed with every mask, and the mask beside it, as in Figure 8 of the paper.

    `masks` holds those of each method by acceleration. Methods are rows, below the fully sampled image and its
    k-space; accelerations are columns. The quality is that of this image alone.
    """
    accelerations = sorted({acceleration for of_method in masks.values() for acceleration in of_method})
    space, extent = data.shape[1:], data.geometry.extent
    first = next(mask for of_method in masks.values() for mask in of_method.values())
    pattern = pattern_of(first, data.geometry)
    shown, of_image = kspace_axes(pattern), image_axes(pattern)
    target = full_images(data, range(index, index + 1), recon)[0, 0]
    target = plane(target, of_image) if data.geometry.indexed else target
    kspace, padding = (plane(each, shown) for each in (kspace_in_decibels(data, index), padding_of(space, extent)))
    window = grey_window(target)
    pair = [PICTURE**2 / height_for(PICTURE, shape) for shape in (target.shape, kspace.shape)]
    along = data.geometry.trajectory
    complete, noun = (0, "") if along is None else (along.full, along.noun)
    rows = 1 + len(masks)
    grid = Grid.of(
        pair * len(accelerations), [PICTURE] * rows, [1] * rows, gaps=[GAP, BETWEEN] * len(accelerations)
    )
    for place, acceleration in enumerate(accelerations):
        column = 2 * place
        grid.name_column(column, heading(acceleration, complete, noun), span=2)
        grid.show(0, column, target, "fully sampled", **window)
        grid.show(0, column + 1, kspace, "its k-space (log)", padding, cmap=MAGNITUDE, **frames_style(pattern))
        for row, of_method in enumerate(masks.values(), start=1):
            if acceleration in of_method:
                mask = of_method[acceleration]
                result = reconstruct_one(mask, data, index, recon, convention, device)
                grid.show(row, column, result.image[0, 0], quality_caption(result, "   "), **window)
                grid.show_mask(row, column + 1, mask, data.geometry)
    for row, method in enumerate(masks, start=1):
        grid.name_row(row, method)
    return grid.figure


def contour_grid(
    masks: Mapping[str, Mapping[float, Mask]],
    task: Segmentation,
    data: SampleSet,
    index: int,
    recon: Reconstruction = ZERO_FILLED,
    device: torch.device = CPU,
) -> "Figure":
    """One image: methods are rows, below the fully sampled image, and accelerations are columns.

    `masks` holds those of each method by acceleration. The Dice is that of this image alone.
    """
    accelerations = sorted({acceleration for of_method in masks.values() for acceleration in of_method})
    full = segment_slice(task, data, index, None, recon, device)
    rows: dict[str, dict[str, SegmentedSlice]] = {"fully sampled": {factor(x): full for x in accelerations}}
    for method, of_method in masks.items():
        rows[method] = {
            factor(x): segment_slice(task, data, index, mask, recon, device) for x, mask in of_method.items()
        }
    return contour_grid_of(rows, task)


def stability_figure(result: Stability) -> "Figure":
    """The truth, the mode, a random mask of the same budget, and what varies: four columns."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    example, run = result.example, result.run
    target = example.mode.target[0, 0]
    height, width = target.shape[-2:]
    size = 14.5, 1 + 2 * 3.3 * min(max(height / width, 0.5), 1.6)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
    images, kspace = figure.subplots(2, 4)
    window: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": float(target.max())}
    picture(images[0], target, "Fully sampled", **window)
    picture(images[1], example.mode.image[0, 0], f"With the mode: {example.mode.psnr:.2f} dB", **window)
    picture(images[2], example.random.image[0, 0], f"With a random mask: {example.random.psnr:.2f} dB", **window)
    _spread(
        images[3], 100 * example.pixel_std[0], f"Pixels over {result.draws} random masks", " (% of the maximum)"
    )

    if run.mask.ndim > 2:
        images[0].set_xlabel("the plane through the centre")
        kspace[0].set_xlabel(plane_note(run.distribution.pattern))

    distribution, pattern = run.distribution, run.distribution.pattern
    units = units_acquired(pattern, distribution.budget)
    units = units if pattern.trajectory is None else f"{distribution.budget} {pattern.trajectory.noun}"
    probabilities = distribution.probabilities
    units_picture(kspace[0], probabilities, pattern, "Probabilities, from 0 to 1", cmap="viridis", vmax=1)
    for axes, (title, mask) in zip(
        kspace[1:], {"Mode": run.mask, "Random mask": example.random_mask}.items(), strict=False
    ):
        units_picture(axes, pattern.restrict(mask).float(), pattern, f"{title}: {units}", cmap="gray", vmax=1)
    if result.agreement is None:
        kspace[3].set_axis_off()
        of = "" if pattern.trajectory is None else f" {pattern.trajectory.noun}"
        note = (
            f"The mask of {run.record.reference}{of}:\nnothing to disagree on"
            if run.record.reference
            else "One member:\nlearn several\nto see how far they agree"
        )
        kspace[3].text(0.5, 0.5, note, ha="center", va="center", fontsize=11, color="gray")
    else:
        over_members = f"Probabilities over {result.agreement.members} members"
        _spread(kspace[3], run.variance.sqrt(), over_members, "", pattern)
    return figure


def _spread(axes: "Axes", values: torch.Tensor, of: str, unit: str, pattern: Pattern | None = None) -> None:
    """A map of standard deviations, or one for each unit, with its scale; what never varies is dark."""
    style: dict[str, Any] = {"cmap": "magma", "vmax": float(values.max()) or 1}
    if pattern is None:
        picture(axes, values, of, vmin=0, **style)
    else:
        units_picture(axes, values, pattern, of, **style)
    add_colour_bar(axes, axes.inset_axes((1.03, 0, 0.04, 1)), f"standard deviation{unit}", 9, 8)
