"""How an array is shown, the same in all figures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from promask.patterns import Pattern
from promask.types import AnyArray, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAGNITUDE = MASK = "gray"
PROBABILITY = "viridis"
ERROR = SPREAD = "magma"
"""Colour maps that also grow lighter from end to end, so that a figure can be read in grey."""
PADDING = "0.35"
"""The grey of what is never acquired."""
BRIGHTEST = 0.995
"""The part of the pixels that are not brighter than white."""


def picture(axes: "Axes", values: AnyArray, title: str = "", padding: Mask | None = None, **style: Any) -> None:
    """Show two axes of an array, without ticks; of a volume, the plane through the middle. Padding is grey."""
    from matplotlib import colormaps

    shown = plane(values).float().numpy()
    if padding is not None and padding.any():
        shown = np.ma.masked_array(shown, plane(padding).numpy())
        style["cmap"] = colormaps[style["cmap"]].with_extremes(bad=PADDING)
    # Neither lines of a mask nor edges may fall between the pixels of the figure.
    axes.imshow(shown, **{"interpolation": "antialiased", **style})
    if title:
        axes.set_title(title, fontsize=11, parse_math=False)
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_color("lightgray")


def plane(values: AnyArray) -> AnyArray:
    """Two axes of an array, of whatever kind its numbers are; of a volume, the plane through the middle.

    >>> plane(torch.arange(12).reshape(3, 2, 2))
    tensor([[4, 5],
            [6, 7]])
    """
    while values.ndim > 2:
        values = values[len(values) // 2]
    return values


def white(image: AnyArray) -> float:
    """The brightness that is shown as white: few pixels are brighter. The maximum if that is 0, and 1 if all are.

    >>> white(torch.eye(3)), white(torch.zeros(2, 2))
    (1.0, 1.0)
    """
    shown = plane(image).float().numpy()
    return float(np.quantile(shown, BRIGHTEST)) or float(shown.max()) or 1.0


def padding_of(shape: Sequence[int], extent: Sequence[tuple[int, int]]) -> Mask:
    """The part of k-space that the scanner does not cover.

    >>> padding_of((2, 3), [(0, 2), (1, 3)])
    tensor([[ True, False, False],
            [ True, False, False]])
    """
    return Pattern(tuple(shape), tuple(range(len(shape))), tuple(extent)).padding()


def in_decibels(kspace: AnyArray) -> AnyArray:
    """Magnitudes of k-space on a logarithmic scale, from 0 for the largest, and no less than -100."""
    magnitudes = kspace.abs()
    return 20 * torch.log10((magnitudes / magnitudes.max()).clamp_min(1e-5))
