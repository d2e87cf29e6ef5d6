"""Spokes and interleaves as pictures: in k-space, and as marks over the angle, in a row for each frame or kz."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from promask.evaluation.rotations import unit_rows
from promask.operators.trajectory import RADIAL, Trajectory
from promask.sampling.pattern import Pattern

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RING = (0.52, 0.55)
"""The radii between which candidates have their marks, in cycles per pixel."""
REACH = 0.58
"""How far a picture of k-space reaches from its centre."""
FAINT = "0.82"
"""The grey of candidates, and of the square that a Cartesian scan covers."""
ACQUIRED = "Greys"
"""The colour map of probabilities: black is acquired."""
POINTS = 100
"""Of the line that an interleaf is drawn as."""
LARGEST = 0.9
"""The width of a line, in points, if there are few."""


def several_rows(pattern: Pattern) -> bool:
    """Whether frames or partitions have rotations of their own."""
    return pattern.varies or pattern.encoded > 0


def rotation_curves(trajectory: Trajectory) -> Float[Tensor, "candidates points 2"]:
    """Each candidate as a line, (y, x), in cycles per pixel.

    Args:
        trajectory: Spokes, of which the ends are enough, or interleaves.

    Returns:
        Points along them.
    """
    count = trajectory.samples
    places = [0, count - 1] if trajectory.kind == RADIAL else np.linspace(0, count - 1, min(count, POINTS)).round()
    return trajectory.points[:, torch.as_tensor(np.asarray(places, dtype=np.int64))]


def candidate_marks(trajectory: Trajectory) -> Float[Tensor, "marks ends 2"]:
    """A mark outside of k-space where each candidate ends; a spoke has two ends.

    Args:
        trajectory: The candidates.

    Returns:
        Lines, (y, x).
    """
    ends = trajectory.points[:, -1]
    ends = torch.cat([ends, -ends]) if trajectory.kind == RADIAL else ends
    outwards = ends / torch.linalg.vector_norm(ends, dim=1, keepdim=True)
    return torch.stack([radius * outwards for radius in RING], 1)


def draw_kspace(axes: "Axes", values: Shaped[Tensor, " candidates"], trajectory: Trajectory, **style: Any) -> None:
    """The rotations in k-space, those of larger values darker, within the square that a Cartesian scan covers.

    Args:
        axes: Of matplotlib.
        values: Of each candidate, from 0 to 1: acquired or not, or probabilities.
        trajectory: The candidates.
        **style: Of the lines: `cmap`, `vmax`.
    """
    from matplotlib.patches import Rectangle

    shown = values.double().numpy()
    chosen = np.flatnonzero(shown > 0)
    chosen = chosen[np.argsort(shown[chosen], kind="stable")]
    width = LARGEST * min(1.0, math.sqrt(60 / max(len(chosen), 1)))
    curves = rotation_curves(trajectory)[chosen].flip(-1).numpy()
    _lines(axes, curves, shown[chosen], linewidth=width, **style)
    marks = candidate_marks(trajectory).flip(-1).numpy()
    _lines(axes, marks, color=FAINT, linewidth=0.3)
    axes.add_patch(Rectangle((-0.5, -0.5), 1, 1, fill=False, edgecolor=FAINT, linewidth=0.6))
    axes.set(xlim=(-REACH, REACH), ylim=(REACH, -REACH), aspect="equal", xticks=[], yticks=[])
    axes.set_axis_on()
    for spine in axes.spines.values():
        spine.set_visible(False)


def draw_rows(axes: "Axes", rows: Shaped[Tensor, "rows candidates"], trajectory: Trajectory, **style: Any) -> None:
    """A mark at each angle that is acquired, a row for each frame or partition, from the top downwards.

    Args:
        axes: Of matplotlib.
        rows: Of each candidate of each row, from 0 to 1.
        trajectory: The candidates.
        **style: Of the marks: `cmap`, `vmax`.
    """
    shown = rows.double().numpy()
    row, place = np.nonzero(shown > 0)
    degrees = math.degrees(trajectory.period)
    across = place * (degrees / trajectory.candidates)
    ends = [np.stack([across, row + offset], 1) for offset in (-0.4, 0.4)]
    most = len(row) / max(len(rows), 1)
    _lines(axes, np.stack(ends, 1), shown[row, place], linewidth=LARGEST * min(1.0, 40 / max(most, 1)), **style)
    axes.set(xlim=(0, degrees), ylim=(len(rows) - 0.5, -0.5), xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_color("lightgray")


def draw_rotations(axes: "Axes", units: Shaped[Tensor, "*units"], pattern: Pattern, **style: Any) -> None:
    """Values of units as one picture: in k-space, or as rows of angles if frames or partitions have their own.

    Args:
        axes: Of matplotlib.
        units: From 0 to 1, (*unit_shape).
        pattern: With a trajectory.
        **style: Of the lines: `cmap`, `vmax`.
    """
    assert pattern.trajectory is not None
    rows = unit_rows(units, pattern)
    if several_rows(pattern):
        draw_rows(axes, rows, pattern.trajectory, **style)
    else:
        draw_kspace(axes, rows[0], pattern.trajectory, **style)


def rows_name(pattern: Pattern) -> str:
    """What the rows of `draw_rows` are: frames, or the partitions kz."""
    return f"{pattern.indexed}s" if pattern.varies else pattern.directions[pattern.free[-1]]


def _lines(axes: "Axes", lines: Any, values: Any = None, **style: Any) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    of_values = {} if values is None else {"array": values, "norm": Normalize(0, style.pop("vmax", 1) or None)}
    style = {"cmap": style.pop("cmap", ACQUIRED), **style} if values is not None else style
    axes.add_collection(LineCollection(list(lines), **of_values, **style))
