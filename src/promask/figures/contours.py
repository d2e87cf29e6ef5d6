"""Contours of what is there and of what a network finds, as in Figure 10 of the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from promask.data.device import CPU, find_device
from promask.evaluation.images import images_with
from promask.evaluation.segmentation import network_outputs
from promask.figures.layout import picture, white
from promask.losses.segmentation import Segmentation
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED
from promask.segmentation.classes import overlap_of
from promask.types import Mask, SampleSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#ff3b30", "#30d158", "#ffd60a", "#0a9bff", "#ff7ad9", "#ff9f0a")
"""Of the classes."""
MARGIN, SMALLEST = 0.25, 24
"""What is shown around the labels: this share of their size on each side, and at least so many pixels in all."""
PICTURE, CAPTION, GAP, SIDE, TOP = 1.75, 0.26, 0.08, 0.36, 0.3
"""Lengths in inches: a picture, the line below it, the space beside it, row and column headings."""
LINE, LETTER, EXAMPLE = 0.24, 0.07, 0.6
"""Of the legend, in inches: the height of a row, the width of a letter, and an example with its space."""
TRUTH: Mapping[str, Any] = {"color": "white", "linewidth": 1.0, "linestyle": "--"}
MOST_NAMED = 3
"""Classes whose Dice is written below a picture, at most."""


@dataclass(frozen=True)
class SegmentedSlice:
    """A slice with the regions of each class."""

    image: Float[Tensor, "height width"]
    truth: Bool[Tensor, "class height width"]
    found: Bool[Tensor, "class height width"]
    dice: Float[Tensor, " class"]
    """Of the whole sample; NaN for classes that are not there."""

    @property
    def caption(self) -> str:
        """Dice over all classes, and of each of them if they are few."""
        known = self.dice[~self.dice.isnan()]
        if not len(known):
            return "nothing to find"
        text = f"Dice {float(known.mean()):.2f}"
        if not 1 < len(self.dice) <= MOST_NAMED:
            return text
        each = ", ".join("-" if value.isnan() else f"{float(value):.2f}" for value in self.dice)
        return f"{text} ({each})"


def contour_figure(
    task: Segmentation,
    data: SampleSet,
    index: int,
    masks: Mapping[str, Mask],
    recon: Reconstruction = ZERO_FILLED,
    device: str | torch.device = "cpu",
) -> "Figure":
    """One image, fully sampled and with each of the masks: contours of the labels and of what a network finds.

    Args:
        task: The segmentation network, as a task of `promask.losses`.
        data: Labelled images, as `held_out` gives them.
        index: The number of the image.
        masks: Centred masks (*space), by the names that are written above them.
        recon: How the image is reconstructed.
        device: Where PyTorch computes, such as `cpu` or `cuda`; the network does so where it is.

    Returns:
        A matplotlib figure.
    """
    device = find_device(device)
    shown: dict[str, Mask | None] = {"fully sampled": None, **masks}
    row = {name: segment_slice(task, data, index, mask, recon, device) for name, mask in shown.items()}
    return contour_grid_of({"": row}, task)


def middle_image(task: Segmentation, data: SampleSet) -> int:
    """An image to show: near the middle of those that hold the most classes, and not the least of them."""
    assert task.classes is not None
    classes, areas = task.classes, []
    for index in range(len(data)):
        label = data.geometry.crop(task.classes.label(data[index]))
        areas.append(classes.regions(label[None]).flatten(2).sum(2)[0])
    held = torch.stack(areas)
    several = (held > 0).sum(1)
    size = held.sum(1)
    chosen = several == several.max()
    chosen &= size >= size[chosen].median()
    return min(chosen.nonzero().flatten().tolist(), key=lambda index: abs(index - len(data) // 2))


def segment_slice(
    task: Segmentation,
    data: SampleSet,
    index: int,
    mask: Mask | None,
    recon: Reconstruction = ZERO_FILLED,
    device: torch.device = CPU,
) -> SegmentedSlice:
    """The first channel of an image, what is there, and what the network finds; of a volume, the fullest plane."""
    assert task.classes is not None
    images = images_with(mask, data, range(index, index + 1), recon, device)
    labels = data.geometry.crop(task.classes.label(data[index]))[None]
    logits = network_outputs(task, images)
    image = images[0, 0].cpu()
    truth, found = task.classes.regions(labels)[0], task.classes.predicted(logits)[0]
    while image.ndim > 2:
        plane = int(truth.flatten(2).sum((0, 2)).argmax())
        image, truth, found = image[plane], truth[:, plane], found[:, plane]
    return SegmentedSlice(image, truth, found, overlap_of(logits, labels, task.classes).dice[0])


def contour_grid_of(rows: Mapping[str, Mapping[str, SegmentedSlice]], task: Segmentation) -> "Figure":
    """Pictures by the name of their row and of their column, all of one slice, cropped around what is there."""
    from matplotlib.figure import Figure

    assert task.classes is not None
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    shown = next(iter(next(iter(rows.values())).values()))
    part = box_around(shown.truth)
    brightest = white(shown.image[part])
    width = max(SIDE + len(columns) * (PICTURE + GAP), SIDE + 2 * PICTURE)
    legend = _legend_lines(task.classes.names, width)
    size = (width, TOP + len(rows) * (PICTURE + CAPTION) + LINE * (len(legend) + 0.5))
    figure = Figure(figsize=size)
    for place, (name, row) in enumerate(rows.items()):
        top = size[1] - TOP - place * (PICTURE + CAPTION)
        _write(figure, name, (0.5 * SIDE, top - PICTURE / 2), rotation=90)
        for column, heading in enumerate(columns):
            left = SIDE + column * (PICTURE + GAP)
            if place == 0:
                _write(figure, heading, (left + PICTURE / 2, size[1] - TOP / 2))
            if heading in row:
                box = np.array([left, top - PICTURE, PICTURE, PICTURE]) / [*size, *size]
                _show(figure.add_axes(tuple(box)), row[heading], part, brightest)
    _legend(figure, legend)
    return figure


def box_around(truth: Bool[Tensor, "class height width"]) -> tuple[slice, slice]:
    """A square around all classes, with a margin; the whole image if there are none."""
    height, width = truth.shape[1:]
    places = truth.any(0).nonzero()
    if not len(places):
        return slice(0, height), slice(0, width)
    (top, left), (bottom, right) = places.amin(0).tolist(), places.amax(0).tolist()
    side = round((1 + 2 * MARGIN) * (max(bottom - top, right - left) + 1))
    side = min(max(side, SMALLEST), height, width)
    starts = [
        min(max((low + high + 1 - side) // 2, 0), n - side)
        for low, high, n in ((top, bottom, height), (left, right, width))
    ]
    return slice(starts[0], starts[0] + side), slice(starts[1], starts[1] + side)


def _show(axes: "Axes", slice_: SegmentedSlice, part: tuple[slice, slice], brightest: float) -> None:
    picture(axes, slice_.image[part], "", cmap="gray", vmin=0, vmax=brightest, interpolation="bilinear")
    axes.set_xlabel(slice_.caption, fontsize=8, labelpad=3, color="0.2")
    for place, (truth, found) in enumerate(zip(slice_.truth, slice_.found, strict=True)):
        _outline(axes, found[part], colors=COLOURS[place % len(COLOURS)], linewidths=1.3)
        drawn = _outline(axes, truth[part], **{f"{name}s": value for name, value in TRUTH.items()})
        if drawn is not None:
            drawn.set_path_effects(_outlined_dashes())


def _outline(axes: "Axes", region: Bool[Tensor, "height width"], **style: Any) -> Any:
    """The edge of a region, if it has one here."""
    if not region.any() or region.all():
        return None
    return axes.contour(region.numpy().astype(float), levels=[0.5], **style)


def _write(figure: "Figure", text: str, at: tuple[float, float], **style: Any) -> None:
    width, height = figure.get_size_inches()
    place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 10, "fontweight": "bold"}
    figure.text(at[0] / width, at[1] / height, text, parse_math=False, **place, **style)


def _legend_lines(classes: Sequence[str], width: float) -> list[list[tuple[str, str | None]]]:
    """Texts with their colours, None for the labels, in lines that fit into so many inches."""
    entries = [
        ("as labelled", None),
        *((name, COLOURS[place % len(COLOURS)]) for place, name in enumerate(classes)),
    ]
    lines: list[list[tuple[str, str | None]]] = []
    left = 0.0
    for text, colour in entries:
        needs = EXAMPLE + LETTER * len(text)
        if not lines or needs > left:
            lines.append([])
            left = width
        lines[-1].append((text, colour))
        left -= needs
    return lines


def _legend(figure: "Figure", lines: Sequence[Sequence[tuple[str, str | None]]]) -> None:
    """Examples of the lines in the pictures."""
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    for place, line in enumerate(reversed(lines)):
        left = (width - sum(EXAMPLE + LETTER * len(text) for text, _ in line)) / 2
        middle = LINE * (place + 0.6) / height
        for text, colour in line:
            ends = ((left + 0.05) / width, (left + 0.32) / width)
            style = {"color": colour, "linewidth": 2} if colour else {**TRUTH, "path_effects": _outlined_dashes()}
            figure.add_artist(Line2D(ends, (middle, middle), **style))
            figure.text((left + 0.38) / width, middle, text, fontsize=9, va="center", parse_math=False)
            left += EXAMPLE + LETTER * len(text)


def _outlined_dashes() -> list[Any]:
    """So that they can be seen on white, too."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2, foreground="black", alpha=0.6)]
