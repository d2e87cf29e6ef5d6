"""The picture of `promask inspect`: images of the coils, the combined image, and its k-space."""

from typing import TYPE_CHECKING

import torch

from promask.data.inspection import Inspection
from promask.errors import InputError
from promask.figures.layout import MAGNITUDE, PROBABILITY, picture, plane, white
from promask.operators.fourier import space_axes, to_kspace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CHANNELS = 8
"""That are shown one by one."""
FLOOR = -80.0
"""Decibels below the largest magnitude that are shown as black."""
CELL = 2.3
"""The width of a picture, in inches."""


def inspection_figure(found: Inspection) -> "Figure":
    """Draw the sample in the middle of the data: the combined image, log k-space with its axes, and the channels.

    Args:
        found: What `promask.data.inspection.inspect` found.

    Returns:
        The figure.
    """
    from matplotlib.figure import Figure

    if found.sample is None or found.description is None:
        raise InputError("There is nothing to draw before it is certain how the data are read.")
    image, description = found.sample.image, found.description
    spectrum = to_kspace(image, space_axes(len(description.shape))).abs()
    kspace = plane(torch.linalg.vector_norm(spectrum, dim=0))
    combined = plane(torch.linalg.vector_norm(image, dim=0))
    channels = [plane(each.abs()) for each in image[:MOST_CHANNELS]] if len(image) > 1 else []
    rows = 1 + -(-len(channels) // 4)
    figure = Figure(figsize=(4 * CELL, rows * CELL + 0.9), layout="constrained")
    grid = figure.add_gridspec(rows, 4)
    of_channels = "coils" if description.coils > 1 else "contrasts"
    title = "root sum of squares" if len(image) > 1 else "magnitude"
    picture(figure.add_subplot(grid[0, :2]), combined, title, cmap=MAGNITUDE, vmin=0, vmax=white(combined))
    axes = figure.add_subplot(grid[0, 2:])
    decibels = 20 * torch.log10((kspace / kspace.max()).clamp_min(10 ** (FLOOR / 20)))
    picture(axes, decibels, "k-space, dB", cmap=PROBABILITY, vmin=FLOOR, vmax=0)
    names = [_axis_name(found, axis) for axis in range(len(description.shape))][-2:]
    axes.set_ylabel(names[0], fontsize=9)
    axes.set_xlabel(names[1], fontsize=9)
    for place, channel in enumerate(channels):
        name = f"{of_channels[:-1]} {place + 1} of {len(image)}"
        cell = figure.add_subplot(grid[1 + place // 4, place % 4])
        picture(cell, channel, name, cmap=MAGNITUDE, vmin=0, vmax=white(channel))
    figure.suptitle(found.sample.name.rpartition("/")[2], fontsize=10, parse_math=False)
    return figure


def _axis_name(found: Inspection, axis: int) -> str:
    description = found.description
    assert description is not None
    name = description.axes[axis] if description.axes else f"axis {axis}"
    return f"{name}, readout" if name == description.readout else name
