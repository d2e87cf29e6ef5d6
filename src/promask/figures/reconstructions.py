"""One image reconstructed with several masks, as in Figure 8 of the paper."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from promask.evaluation import achieved_acceleration, check_mask
from promask.figures.grid import Grid, height_for, width_of
from promask.figures.picture import BRIGHTEST, ERROR, MAGNITUDE, MASK, in_decibels, padding_of, plane, white
from promask.figures.quality import Reconstructed, reconstructed
from promask.figures.zoom import Box, check_box, most_detail
from promask.fourier import space_axes, to_kspace
from promask.held_out import check_index
from promask.recon import ZERO_FILLED, Reconstruction
from promask.types import AnyArray, Mask, SampleSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FACTORS = (1, 2, 5, 10, 20, 50, 100)
"""What errors are multiplied by to be seen."""
WIDEST = 1.35
"""Of a picture, in inches: there are four below each other."""


def reconstructions(
    masks: Mapping[str, Mask],
    data: SampleSet,
    index: int | None = None,
    recon: Reconstruction = ZERO_FILLED,
    zoom: Box | None = None,
) -> "Figure":
    """One image with each of the masks, which have names: image, zoom, error and mask below each other.

    The zoom is by default where the fully sampled image has most detail. The window of the errors is that of the
    images divided by a factor, the same for all masks, which is written beside them.
    """
    index = check_index(len(data) // 2 if index is None else index, data)
    masks = {name: check_mask(mask, data) for name, mask in masks.items()}
    found = {name: reconstructed(mask, data, index, recon) for name, mask in masks.items()}
    target = _first(next(iter(found.values())).target)
    box = most_detail(target) if zoom is None else check_box(zoom, target)
    brightest, highest = white(target), float(target.max())
    window: dict[str, Any] = {"cmap": MAGNITUDE, "vmin": 0, "vmax": brightest}
    extent, shape = data.geometry.extent, data.shape[1:]
    padding = padding_of(shape, extent)
    factor = error_factor(list(found.values()), brightest)

    columns = 1 + len(masks)
    width = min(width_of(columns), WIDEST)
    closer = target[box]
    heights = [height_for(width, each.shape) for each in (target, closer, target)] + [height_for(width, shape)]
    grid = Grid.of([width] * columns, heights, lines=[2, 0, 0, 1])
    for row, name in enumerate(("image", "zoom", f"error x {factor}", "mask")):
        grid.name_row(row, name)
    grid.name_column(0, "fully sampled")
    _boxed(grid.show(0, 0, target, **window), box)
    grid.show(1, 0, closer, **window)
    kspace = in_decibels(to_kspace(data[index].image[0], space_axes(len(shape))))
    grid.show(3, 0, kspace, "its k-space (log)", padding, cmap=MAGNITUDE)
    for column, (name, mask) in enumerate(masks.items(), start=1):
        image = _first(found[name].image)
        grid.name_column(column, name)
        _boxed(grid.show(0, column, image, found[name].caption(), **window), box)
        grid.show(1, column, image[box], **window)
        error = 100 * (image - target).abs() / highest
        of_errors: dict[str, Any] = {"cmap": ERROR, "vmin": 0, "vmax": 100 * brightest / factor / highest}
        last = grid.show(2, column, error, **of_errors)
        achieved = f"x{achieved_acceleration(mask, extent):.4g}"
        grid.show(3, column, mask, achieved, padding, cmap=MASK, vmin=0, vmax=1)
    grid.bar(last, 2, 0, "error\n(% of maximum)", mirrored=True)
    return grid.figure


def error_factor(found: Sequence[Reconstructed], brightest: float) -> int:
    """The largest factor at which nearly all errors are within the window of the images."""
    errors = torch.stack([(_first(each.image) - _first(each.target)).abs() for each in found])
    seen = float(np.quantile(errors.numpy(), BRIGHTEST))
    return max(factor for factor in FACTORS if factor == 1 or factor * seen <= brightest)


def _first(images: AnyArray) -> AnyArray:
    """The plane of the first channel of the first image that is shown."""
    return plane(images[0, 0])


def _boxed(axes: Any, box: Box) -> None:
    """A frame around the part that is shown larger, half a pixel outside of it."""
    from matplotlib.patches import Rectangle

    rows, columns = box
    corner = columns.start - 0.5, rows.start - 0.5
    size = columns.stop - columns.start, rows.stop - rows.start
    axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor="white", linewidth=0.9))
