"""What a report shows of spokes and interleaves: pictures that follow the theme, a table, and how to read both."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from promask.evaluation.noise import NoiseMap
from promask.evaluation.physics import MaskPhysics
from promask.evaluation.rotations import unit_rows
from promask.figures.rotations import REACH, candidate_marks, rotation_curves, rows_name, several_rows
from promask.operators.trajectory import Trajectory
from promask.report.measurements import LEARNED
from promask.sampling.pattern import Pattern
from promask.types import UnitMask

SIDE = 480
"""Of a picture, in its own units."""
ROW = (4.0, 24.0)
"""The height of a row of angles, at least and at most."""
FEW = 60
"""Spokes, up to which lines have their full width."""


def pictures(units: UnitMask, pattern: Pattern) -> list[dict[str, str]]:
    """What is acquired, in k-space, and, if frames or partitions have their own, as rows of angles: SVG.

    Args:
        units: (*unit_shape).
        pattern: With a trajectory.

    Returns:
        The pictures, each with its caption; their colours are those of the page.
    """
    assert pattern.trajectory is not None
    rows, trajectory = unit_rows(units, pattern), pattern.trajectory
    shown = rows.any(0).nonzero().flatten()
    several = several_rows(pattern)
    place = SIDE / (2 * REACH)
    width = 1.6 * min(1.0, math.sqrt(FEW / max(len(shown), 1)))
    corner = _number((REACH - 0.5) * place)
    parts = [
        f'<rect class="square" x="{corner}" y="{corner}" width="{_number(place)}" height="{_number(place)}"/>',
        _path("candidates", (candidate_marks(trajectory) + REACH) * place),
        _path("acquired", (rotation_curves(trajectory)[shown] + REACH) * place, width),
    ]
    whole = "k-space" if not several else f"k-space, all {rows_name(pattern)} together"
    found = [_picture(parts, SIDE, f"Acquired {trajectory.noun}", f"{trajectory.noun.capitalize()} in {whole}")]
    if several:
        name = f"Angles, 0 to {math.degrees(trajectory.period):.0f} degrees across; {rows_name(pattern)} downwards"
        found.append(_rows_picture(rows.nonzero().tolist(), len(rows), trajectory, name))
    return found


def _rows_picture(
    acquired: Iterable[Sequence[int]], rows: int, trajectory: Trajectory, name: str
) -> dict[str, str]:
    height = min(max(SIDE / rows, ROW[0]), ROW[1])
    step = SIDE / trajectory.candidates
    marks = "".join(
        f"M{_number((place + 0.5) * step)} {_number((row + 0.1) * height)}v{_number(0.8 * height)}"
        for row, place in acquired
    )
    frame = f'<rect class="square" x="0" y="0" width="{SIDE}" height="{_number(rows * height)}"/>'
    return _picture([frame, f'<path class="acquired" d="{marks}"/>'], rows * height, "Acquired angles", name)


def _picture(parts: Sequence[str], height: float, label: str, caption: str) -> dict[str, str]:
    box = f'class="rotations" viewBox="0 0 {SIDE} {_number(height)}" role="img" aria-label="{label}"'
    return {"svg": f"<svg {box}>{''.join(parts)}</svg>", "caption": caption}


def _path(kind: str, curves: Float[Tensor, "curves points 2"], width: float = 1.0) -> str:
    lines = "".join("M" + "L".join(f"{_number(x)} {_number(y)}" for y, x in curve) for curve in curves.tolist())
    return f'<path class="{kind}" stroke-width="{_number(width)}" d="{lines}"/>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def about(pattern: Pattern, acquired: str) -> str:
    """How to read the pictures.

    Args:
        pattern: With a trajectory.
        acquired: How many are acquired, in words.

    Returns:
        Sentences.
    """
    assert pattern.trajectory is not None
    trajectory = pattern.trajectory
    step = math.degrees(trajectory.period) / trajectory.candidates
    rows = ""
    if several_rows(pattern):
        row = "frame" if pattern.varies else "partition"
        rows = f" Beside it, each row is a {row}, and each mark one of its {trajectory.noun}."
    return (
        f"Acquired: {acquired}. The ring has a mark at each of the {trajectory.candidates} angles to choose from, "
        f"{step:.3g} degrees apart.{rows}"
    )


def table(physics: Mapping[str, MaskPhysics], noise: Mapping[str, NoiseMap], noun: str) -> dict[str, Any]:
    """What physicists ask of masks of spokes or interleaves.

    Args:
        physics: Of each mask.
        noise: Of those where it is known.
        noun: `spokes` or `interleaves`.

    Returns:
        A row for each mask, the names of the columns, and how to read them.
    """
    first = next(iter(physics.values())).point_spread
    unit = "pixels" if first.width_mm is None else "mm"
    headings = ["mask", noun]
    headings += [f"width {', '.join(name.removeprefix('k') for name in first.directions)} ({unit})"]
    headings += ["side lobe", "energy outside", "gaps", "Nyquist up to"]
    headings += ["noise", "95 %"] if noise else []
    rows = []
    for name, of in physics.items():
        spread, density, angles = of.point_spread, of.density, of.density.angles
        assert angles is not None
        widths = spread.width if spread.width_mm is None else spread.width_mm
        cells = [str(density.samples)]
        cells += [" x ".join(f"{width:.3g}" for width in widths)]
        cells += [f"{spread.side_lobe:.1%}", f"{spread.energy_outside:.0%}"]
        cells += [_span(angles.smallest_gap, angles.largest_gap)]
        cells += [f"{angles.nyquist_radius:.0%}"]
        if noise:
            found = noise[name].summary()["amplification"] if name in noise else {}
            of_noise = (found.get("mean"), found.get("percentile_95"))
            cells += ["-" if each is None else f"{each:.3g}" for each in of_noise]
        rows.append({"name": name, "cells": cells, "learned": name == LEARNED})
    return {"headings": headings, "rows": rows, "about": _about_table(noise, noun)}


def _span(smallest: float, largest: float) -> str:
    """Angles in degrees, from the smallest to the largest."""
    low, high = f"{smallest:.3g}", f"{largest:.3g}"
    return f"{low}\N{DEGREE SIGN}" if low == high else f"{low} to {high}\N{DEGREE SIGN}"


def _about_table(noise: Mapping[str, NoiseMap], noun: str) -> str:
    text = (
        "Width: full width at half maximum of the point-spread function, the effective resolution; a complete "
        "disc of k-space has 1.41 pixels. Side lobe: relative to the peak, at whole pixels up to a field of view "
        "away; a complete scan has 10 %, the ring around the peak. Energy outside: of the main lobe, which ends "
        f"at the first minimum. Gaps: between neighbouring {noun} of one frame or partition. Nyquist up to: the "
        "part of the radius of k-space within which neighbours in the largest gap are as near as the samples of a "
        "Cartesian scan. Where each frame has its own, side lobes and energies are those in x-f space. In the "
        f"pictures: how densely {noun} lie at each angle, relative to evenly spread ones, and in red, relative to "
        "its mean, the energy of the images in that direction of k-space."
    )
    if not noise:
        return text
    found = next(iter(noise.values()))
    return (
        f"{text} Noise: the standard deviation of a pixel over that of the fully sampled Cartesian scan, the mean "
        f"over the object and what 95 % of it are below, by {found.replicas} pseudo-replicas of {found.where} "
        f"with {found.recon}."
    )
