"""What physicists look at: point-spread functions, noise amplification and sampling density; masks are columns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from promask.errors import InputError
from promask.evaluation.density import sampling_density
from promask.evaluation.noise import NoiseMap
from promask.evaluation.physics import mask_physics
from promask.evaluation.point_spread import OVERSAMPLING, spread_function, spread_profile
from promask.evaluation.rotations import (
    FIELDS,
    IN_PLANE,
    angular_density,
    rotation_profile,
    rotation_spread,
    unit_rows,
)
from promask.export.files import load_mask
from promask.export.mask_file import ExportedMask
from promask.figures.layout import (
    MASK,
    NAME,
    PAGE,
    SPREAD,
    TEXT,
    Grid,
    add_colour_bar,
    frames_style,
    height_for,
    hide_spines,
    kspace_plane,
    picture,
    plane,
    width_of,
)
from promask.figures.rotations import draw_rotations, rows_name, several_rows
from promask.sampling.limits import CONTRAST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from promask.sampling.pattern import Pattern

REPLICAS = 64
"""Pseudo-replicas of a noise map unless another number is asked for."""
FLOOR = -60
"""Decibels, below which a point-spread function is black."""
REACH = 8
"""Pixels from the peak that profiles show, at least."""
OUTLINE, ELLIPSE, FULL = "tab:red", "tab:cyan", "0.6"
"""The colours of the calibration region, of the ellipse within the ends of the axes, and of a complete scan."""
FIELD = "white"
"""The colour of the box of a field of view."""
FINE = 180
"""Angles at which a density is drawn."""
WIDEST = 2.6
"""Of a column, in inches."""
BAR = 0.7
"""Room for the colour bar."""
LINES = 0.7
"""The height of the picture of a line over time, relative to its width."""


def point_spread_figure(masks: Mapping[str, Any], voxel: Sequence[float] = ()) -> "Figure":
    """The magnitude of the point-spread function on the undersampled plane, and its profile along each direction.

    That of spokes is shown on twice the field of view, of which a box is one; of frames or partitions, for all of
    them together, which is f = 0 or z = 0. Where each frame has its own lines, the plane is x-f space: where a
    point goes, and to which frequencies. Of contrasts, each has a row of its own, and the numbers are those of the
    one with the fewest samples.

    Args:
        masks: By the names written above them: runs, exported masks, or centred arrays (*space) of 0 and 1.
        voxel: The size of a voxel in mm along each axis, for widths in mm; empty if it is not known.

    Returns:
        A matplotlib figure.
    """
    shown = _exported(masks)
    directions = max(_directions(each.pattern) for each in shown.values())
    figure, grid = _columns(shown, [1.0] + [0.62] * directions)
    for column, (name, mask) in enumerate(shown.items()):
        pattern, units = mask.pattern, mask.pattern.restrict(mask.mask)
        found = mask_physics(mask.mask, pattern, voxel).point_spread
        if pattern.trajectory is not None:
            _streaks(grid[0][column], units, pattern)
        elif len(pattern.free) > 1:
            of_contrasts = pattern.varies and pattern.indexed == CONTRAST
            spread = spread_function(units, pattern.encoded if of_contrasts else None)
            decibels = 20 * torch.log10(spread.abs().clamp_min(10 ** (FLOOR / 20)))
            axes = grid[0][column]
            picture(
                axes, kspace_plane(decibels, pattern), cmap=SPREAD, vmin=FLOOR, vmax=0, **frames_style(pattern)
            )
            down, across = (each.removeprefix("k") for each in _pictured_names(pattern))
            down = "temporal frequency" if frames_style(pattern) and not of_contrasts else down
            axes.set_ylabel(down, fontsize=TEXT)
            axes.set_xlabel(across, fontsize=TEXT)
        else:
            _lines(grid[0][column], mask)
        if column == len(shown) - 1 and (len(pattern.free) > 1 or pattern.trajectory is not None):
            axes = grid[0][column]
            add_colour_bar(axes, axes.inset_axes((1.04, 0, 0.05, 1)), "dB", TEXT, TEXT)
        lobes = f"{100 * found.side_lobe:.3g} %"
        if found.average_side_lobe is not None:
            lobes += f" (f = 0: {100 * found.average_side_lobe:.3g} %)"
        note = f"side lobe {lobes}, {100 * found.energy_outside:.3g} % outside"
        grid[0][column].set_xlabel(f"{grid[0][column].get_xlabel()}\n{note}", fontsize=TEXT)
        grid[0][column].set_title(name, fontsize=NAME, fontweight="bold", parse_math=False)
        for position in range(directions):
            axes = grid[1 + position][column]
            if position >= len(found.directions):
                axes.set_axis_off()
                continue
            _profile(axes, _profiles(units, pattern, position), found.directions[position].removeprefix("k"))
            width = f"{found.width[position]:.3g} pixels"
            width += "" if found.width_mm is None else f", {found.width_mm[position]:.3g} mm"
            axes.set_title(f"{found.directions[position].removeprefix('k')}: width {width}", fontsize=TEXT)
    return figure


def density_figure(masks: Mapping[str, Any], energy: torch.Tensor | None = None) -> "Figure":
    """The mask on its undersampled plane, the samples of each k beside it, and the density against the distance.

    The region that is sampled completely is outlined, and so is the ellipse within the ends of the axes. Of spokes
    and interleaves: where they lie, and how densely at each angle, relative to evenly spread ones.

    Args:
        masks: By the names written above them: runs, exported masks, or centred arrays (*space) of 0 and 1.
        energy: Of spokes, the energy of images at the angle of each candidate, relative to the mean; None if it is
            not known.

    Returns:
        A matplotlib figure.
    """
    shown = _exported(masks)
    figure, grid = _columns(shown, [1.15, 0.75])
    for column, (name, mask) in enumerate(shown.items()):
        pattern, units = mask.pattern, mask.pattern.restrict(mask.mask)
        grid[0][column].set_title(name, fontsize=NAME, fontweight="bold", parse_math=False)
        if pattern.trajectory is not None:
            _rotations(grid[0][column], mask)
            _angles(grid[1][column], units, pattern, energy)
            grid[1][column].set_ylabel("density, evenly spread: 1" if column == 0 else "", fontsize=TEXT)
            continue
        found = sampling_density(units, pattern)
        _mask(grid[0][column], mask, found.calibration)
        if pattern.encoded == 2 and not pattern.varies:
            _marginals(grid[0][column], found.per_direction, found.directions)
        elif found.per_frame is not None and pattern.encoded == 1:
            counts = (found.per_frame, found.per_direction[0])
            _marginals(grid[0][column], counts, (pattern.indexed, found.directions[0]))
        block = " x ".join(map(str, found.calibration))
        within = f", x{found.acceleration_in_ellipse:.4g} within the ellipse" if pattern.encoded > 1 else ""
        every = f" in every {pattern.indexed}" if pattern.varies else ""
        note = f"x{found.acceleration:.4g}{within}\nACS {block}{every}"
        grid[0][column].set_xlabel(f"{grid[0][column].get_xlabel()}\n{note}", fontsize=TEXT)
        axes = grid[1][column]
        axes.step(found.radius, found.share, where="mid", color="black", linewidth=1)
        if pattern.encoded > 1:
            axes.axvline(1, color=ELLIPSE, linewidth=0.8, linestyle="--")
        of = f"|{found.directions[0]}|" if pattern.encoded == 1 else "distance from the centre"
        axes.set_xlabel(f"{of}, relative to the end of the axis", fontsize=TEXT)
        axes.set_ylabel("share acquired" if column == 0 else "", fontsize=TEXT)
        axes.set(xlim=(0, None), ylim=(0, 1.05))
        _plain(axes)
    return figure


def noise_figure(maps: Mapping[str, NoiseMap]) -> "Figure":
    """The noise amplification of every pixel of the object, on one scale.

    Args:
        maps: By the names that are written above them, as `evaluate(..., noise_replicas=16).noise` gives them.

    Returns:
        A matplotlib figure.
    """
    if not maps:
        raise InputError("There is no noise to show: it needs coils, and a reconstruction that combines them.")
    values = {name: plane(found.amplification) for name, found in maps.items()}
    known = torch.cat([each[~each.isnan()] for each in values.values()])
    highest = float(np.quantile(known.numpy(), 0.995)) if len(known) else 1.0
    width = min(width_of(len(maps), BAR), WIDEST)
    height = max(height_for(width, each.shape) for each in values.values())
    over_time = {name for name, found in maps.items() if found.indexed and found.amplification.ndim == 2}
    height = max(height, LINES * width) if over_time else height
    lines = 5 if over_time or any(found.sense for found in maps.values()) else 4
    grid = Grid.of([width] * len(maps), [height], [lines], right=BAR)
    for column, (name, found) in enumerate(maps.items()):
        grid.name_column(column, name)
        of = found.summary()
        amplified, g = of["amplification"], of["g_factor"]
        how = f"{found.replicas} replicas" if found.replicas else "exact"
        caption = (
            f"mean {amplified['mean']:.3g}, median {amplified['median']:.3g}\n"
            f"95 % {amplified['percentile_95']:.3g}, max {amplified['maximum']:.3g}\n"
            f"g: mean {g['mean']:.3g}, max {g['maximum']:.3g}\n{found.recon}, {how}"
        )
        if found.sense is not None:
            unfolded = found.sense.summary()["g_factor"]
            caption += f"\nSENSE g: mean {unfolded['mean']:.3g}, max {unfolded['maximum']:.3g}"
        style: dict[str, Any] = {"cmap": SPREAD, "vmin": 0, "vmax": highest}
        if name in over_time:
            caption = f"one line, {found.indexed}s downwards\n{caption}"
            style |= {"aspect": "auto", "interpolation": "nearest"}
        last = grid.show(0, column, values[name], caption, values[name].isnan(), **style)
    grid.bar_beside(last, "noise amplification")
    return grid.figure


def _exported(masks: Mapping[str, Any]) -> dict[str, ExportedMask]:
    if not masks:
        raise InputError("There is no mask to show: name a run or a mask file.")
    found = {name: load_mask(mask)[0] for name, mask in masks.items()}
    series = next((mask for mask in found.values() if mask.indexed and mask.directions), None)
    return found if series is None else {name: _named_like(mask, series) for name, mask in found.items()}


def _named_like(mask: ExportedMask, series: ExportedMask) -> ExportedMask:
    """A mask of whose axes nothing is known, with those of a series of the same shape beside it."""
    if mask.directions or mask.indexed or mask.mask.shape != series.mask.shape or mask.free == (0,):
        return mask
    return replace(mask, indexed=series.indexed, directions=series.directions, readout=series.readout)


def _columns(masks: Mapping[str, ExportedMask], rows: Sequence[float]) -> "tuple[Figure, list[list[Axes]]]":
    """A figure with a column for each mask; rows have these heights, relative to a column's width."""
    from matplotlib.figure import Figure

    width = min(PAGE / len(masks), WIDEST + 0.4)
    figure = Figure(figsize=(width * len(masks), width * sum(rows) + 0.5), layout="constrained")
    grid = figure.subplots(len(rows), len(masks), squeeze=False, gridspec_kw={"height_ratios": rows})
    return figure, [list(row) for row in grid]


def _pictured_names(pattern: "Pattern") -> tuple[str, str]:
    down, across = (
        pattern.directions[axis] if pattern.directions else f"axis {axis % len(pattern.shape)}"
        for axis in pattern.pictured
    )
    return down, across


def _lines(axes: "Axes", mask: ExportedMask) -> None:
    """A mask as a picture, its directions named."""
    pattern = mask.pattern
    units = pattern.restrict(mask.mask).float()
    padding = kspace_plane(pattern.padding(), pattern)
    shown = kspace_plane(units, pattern)
    picture(axes, shown, padding=padding, cmap=MASK, vmin=0, vmax=1, **frames_style(pattern))
    down, across = _pictured_names(pattern)
    axes.set_ylabel(down, fontsize=TEXT)
    axes.set_xlabel(across, fontsize=TEXT)


def _mask(axes: "Axes", mask: ExportedMask, calibration: Sequence[int]) -> None:
    """The same with its calibration region and, where two directions are undersampled, the ellipse."""
    from matplotlib.patches import Ellipse, Rectangle

    _lines(axes, mask)
    pattern = mask.pattern
    shape = [pattern.shape[axis] for axis in pattern.pictured]
    sizes = dict(zip(pattern.free[pattern.varies :], calibration, strict=True))
    block = [sizes.get(axis % len(pattern.shape), n) for axis, n in zip(pattern.pictured, shape, strict=True)]
    if all(calibration):
        top, left = (n // 2 - width // 2 - 0.5 for n, width in zip(shape, block, strict=True))
        style: dict[str, Any] = {"fill": False, "edgecolor": OUTLINE, "linewidth": 1}
        axes.add_patch(Rectangle((left, top), block[1], block[0], **style))
    if pattern.encoded == 2:
        rows, columns = shape
        style = {"fill": False, "edgecolor": ELLIPSE, "linewidth": 0.8, "linestyle": "--"}
        axes.add_patch(Ellipse((columns // 2, rows // 2), 2 * (columns // 2), 2 * (rows // 2), **style))


def _rotations(axes: "Axes", mask: ExportedMask) -> None:
    """Spokes in k-space, or the angles of each frame or partition, and what they amount to."""
    pattern, found = mask.pattern, mask_physics(mask.mask, mask.pattern).density
    assert found.angles is not None
    draw_rotations(axes, pattern.restrict(mask.mask).float(), pattern)
    axes.set_ylabel(rows_name(pattern) if several_rows(pattern) else "", fontsize=TEXT)
    smallest, largest = found.angles.smallest_gap, found.angles.largest_gap
    note = f"{found.samples} {found.angles.noun}, x{found.acceleration:.4g}\n"
    note += (
        f"gaps {smallest:.3g} to {largest:.3g} degrees\n"
        if largest > smallest
        else f"gaps {largest:.3g} degrees\n"
    )
    note += f"Nyquist up to {found.angles.nyquist_radius:.0%} of the radius"
    axes.set_xlabel(note, fontsize=TEXT)


def _angles(axes: "Axes", units: torch.Tensor, pattern: "Pattern", energy: torch.Tensor | None) -> None:
    """The density of angles, a mark at each that is acquired, and the energy of images there."""
    assert pattern.trajectory is not None
    rows, degrees = unit_rows(units, pattern), math.degrees(pattern.trajectory.period)
    places = torch.linspace(0, 1, FINE + 1)
    density = angular_density(rows, places)
    axes.plot(places * degrees, density, color="black", linewidth=1.1, label=pattern.trajectory.noun)
    axes.axhline(1, color=FULL, linewidth=0.7, linestyle="--")
    highest = float(density.max())
    if energy is not None:
        at = torch.arange(len(energy) + 1) * (degrees / len(energy))
        axes.plot(at, torch.cat([energy, energy[:1]]), color=OUTLINE, linewidth=0.9, label="energy of the images")
        highest = max(highest, float(energy.max()))
        axes.legend(fontsize=TEXT - 1, frameon=False, loc="upper right", handlelength=1.2)
    acquired = rows.any(0).nonzero().flatten() * (degrees / rows.shape[1])
    axes.plot(acquired, torch.zeros(len(acquired)), "|", color="0.3", markersize=6, markeredgewidth=0.6)
    axes.set(xlim=(0, degrees), ylim=(-0.05 * highest, 1.25 * highest))
    axes.set_xticks(torch.linspace(0, degrees, 5).tolist())
    axes.set_xlabel("angle from kx to ky (degrees)", fontsize=TEXT)
    _plain(axes)


def _marginals(axes: "Axes", counts: Sequence[Sequence[int]], names: Sequence[str]) -> None:
    """The samples of each k of both directions, beside the mask."""
    rows, columns = (np.array(each) for each in counts)
    above, beside = axes.inset_axes((0, 1.02, 1, 0.16)), axes.inset_axes((1.02, 0, 0.16, 1))
    above.fill_between(np.arange(len(columns)), columns, step="mid", color="0.5", linewidth=0)
    beside.barh(np.arange(len(rows)), rows, height=1, color="0.5", linewidth=0)  # of few rows, too
    above.set(xlim=(-0.5, len(columns) - 0.5), ylim=(0, None), xticks=[])
    beside.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, None), yticks=[])
    above.set_ylabel(f"per {names[1]}", fontsize=TEXT - 1)
    beside.set_title(f"per {names[0]}", fontsize=TEXT - 1)
    for each in (above, beside):
        _plain(each)
        each.tick_params(labelsize=TEXT - 2)
        each.locator_params(nbins=2, axis="y" if each is above else "x")


def _directions(pattern: "Pattern") -> int:
    """Along how many directions the point-spread function has a width: of spokes, in their plane and along z."""
    return pattern.encoded if pattern.trajectory is None else len(IN_PLANE) + pattern.encoded


def _profiles(units: torch.Tensor, pattern: "Pattern", position: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The magnitude along one direction from the peak: of a complete scan, and of a mask."""
    if pattern.trajectory is None:
        place = position + pattern.varies
        return spread_profile(~pattern.padding(), place), spread_profile(units, place)
    axis = position - pattern.encoded
    if axis < 0:
        partitions = unit_rows(units, pattern).any(1)
        return spread_profile(torch.ones_like(partitions), 0), spread_profile(partitions, 0)
    both = (torch.ones_like(units), units)
    complete, of_mask = (rotation_profile(each, pattern, axis) for each in both)
    return complete, of_mask


def _profile(axes: "Axes", profiles: tuple[torch.Tensor, torch.Tensor], name: str) -> None:
    """The magnitude along one direction through the peak, beside that of a complete scan."""
    styles: list[dict[str, Any]] = [
        {"color": FULL, "linestyle": "--", "label": "complete scan"},
        {"color": "black", "label": "mask"},
    ]
    for profile, style in zip(profiles, styles, strict=True):
        half = profile.numpy()
        both = np.concatenate([half[:0:-1], half])
        pixels = (np.arange(len(both)) - len(half) + 1) / OVERSAMPLING
        axes.plot(pixels, both, linewidth=0.9, **style)
    axes.axhline(0.5, color=OUTLINE, linewidth=0.6, linestyle=":")
    axes.set(xlim=(-REACH, REACH), ylim=(0, 1.02))
    axes.set_xlabel(f"{name} (pixels)", fontsize=TEXT)
    axes.legend(fontsize=TEXT - 1, frameon=False, loc="upper right", handlelength=1.2)
    _plain(axes)


def _streaks(axes: "Axes", units: torch.Tensor, pattern: "Pattern") -> None:
    """The point-spread function of spokes in their plane, on twice the field of view, of which a box is one."""
    from matplotlib.patches import Rectangle

    spread = rotation_spread(units, pattern)
    middle = spread[len(spread) // 2].abs()
    decibels = 20 * torch.log10(middle.clamp_min(10 ** (FLOOR / 20)))
    picture(axes, decibels, cmap=SPREAD, vmin=FLOOR, vmax=0)
    rows, columns = (n // FIELDS for n in decibels.shape)
    corner = (columns * (FIELDS - 1) / 2 - 0.5, rows * (FIELDS - 1) / 2 - 0.5)
    axes.add_patch(Rectangle(corner, columns, rows, fill=False, edgecolor=FIELD, linewidth=0.8, linestyle="--"))
    axes.set_ylabel("y", fontsize=TEXT)
    axes.set_xlabel("x", fontsize=TEXT)


def _plain(axes: "Axes") -> None:
    axes.tick_params(labelsize=TEXT, length=2)
    hide_spines(axes)
