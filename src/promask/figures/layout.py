"""What all figures share: how arrays are shown, grids of pictures with names and colour bars, and files.

Dollars in a text are dollars, not mathematics: names come from users. The same figure gives the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from promask.data.atomic import check_writable, replace_file
from promask.errors import InputError
from promask.evaluation.evaluate import achieved_acceleration
from promask.evaluation.physics import pattern_of
from promask.figures.rotations import draw_rotations, rows_name, several_rows
from promask.operators.fourier import space_axes, to_kspace
from promask.sampling.pattern import Pattern
from promask.types import AnyArray, Geometry, Mask, SampleSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAGNITUDE = MASK = "gray"
PROBABILITY = "viridis"
ERROR = SPREAD = "magma"
"""Colour maps that also grow lighter from end to end, so that a figure can be read in grey."""
PADDING = "0.35"
"""The grey of what is never acquired."""
ROWS = 0.8
"""The height of a picture of angles in all frames, relative to its width."""
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


def plane(values: AnyArray, shown: tuple[int, int] = (-2, -1)) -> AnyArray:
    """Two axes of an array, of whatever kind its numbers are; of a volume, the plane through the middle.

    >>> plane(torch.arange(12).reshape(3, 2, 2))
    tensor([[4, 5],
            [6, 7]])
    >>> plane(torch.arange(12).reshape(3, 2, 2), shown=(0, 1))
    tensor([[ 1,  3],
            [ 5,  7],
            [ 9, 11]])
    """
    rows_and_columns = [axis % values.ndim for axis in shown]
    where = [slice(None) if axis in rows_and_columns else n // 2 for axis, n in enumerate(values.shape)]
    return values[tuple(where)]


def units_picture(axes: "Axes", values: AnyArray, pattern: Pattern, title: str = "", **style: Any) -> None:
    """Show values of the units of a pattern: on their plane of k-space, or as spokes; grey is never acquired.

    Args:
        axes: Of matplotlib.
        values: (*unit_shape), centred; spokes are the darker, the larger they are.
        pattern: The pattern.
        title: Written above.
        **style: That of `imshow`.
    """
    if pattern.trajectory is None:
        style = {"vmin": 0, **frames_style(pattern), **style}
        picture(axes, kspace_plane(values, pattern), title, kspace_plane(pattern.never(), pattern), **style)
        return
    draw_rotations(axes, values, pattern, vmax=style.get("vmax", 1))
    if title:
        axes.set_title(title, fontsize=11, parse_math=False)


def kspace_height(width: float, pattern: Pattern) -> float:
    """The height of such a picture."""
    if pattern.trajectory is not None:
        return ROWS * width if several_rows(pattern) else width
    return height_for(width, pattern.shape, pattern.pictured)


def kspace_axes(pattern: Pattern) -> tuple[int, int]:
    """The two axes of Cartesian k-space that are shown beside a mask: those of the mask, if it is Cartesian."""
    return pattern.pictured if pattern.trajectory is None else (-2, -1)


def kspace_plane(values: AnyArray, pattern: Pattern) -> AnyArray:
    """Values of the units of a pattern, on the plane of k-space that is undersampled."""
    return plane(pattern.expand(values), pattern.pictured)


def image_axes(pattern: Pattern) -> tuple[int, int]:
    """The two axes of images that are shown beside a picture of k-space: the same, but never those of frames.

    >>> image_axes(Pattern((20, 6, 5), free=(0, 1), indexed="frame"))
    (-2, -1)
    """
    if not pattern.indexed or pattern.trajectory is not None:
        return kspace_axes(pattern)
    free = tuple(axis - 1 for axis in pattern.free[pattern.varies :])
    readout = None if pattern.readout is None else pattern.readout - 1
    return Pattern(pattern.shape[1:], free, readout=readout).pictured


def frames_style(pattern: Pattern) -> dict[str, Any]:
    """How k-space is shown: pixels are square, unless rows are frames, which may be higher than they are wide."""
    rows_are_frames = pattern.varies and pattern.pictured[0] == -len(pattern.shape)
    return {"aspect": "auto", "interpolation": "nearest"} if rows_are_frames else {}


def plane_note(pattern: Pattern) -> str:
    """Which plane of a volume is shown.

    >>> plane_note(Pattern((4, 6, 5), free=(1, 2), directions=("kx", "ky", "kz")))
    'ky down, kz across'
    """
    if pattern.trajectory is not None:
        return f"{rows_name(pattern)} down, angles across" if several_rows(pattern) else "ky down, kx across"
    names = list(pattern.directions) or [f"axis {axis}" for axis in range(len(pattern.shape))]
    names[0] = f"{pattern.indexed}s" if pattern.indexed else names[0]
    down, across = (names[axis] for axis in pattern.pictured)
    return f"{down} down, {across} across"


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


def grey_window(image: AnyArray) -> dict[str, Any]:
    """The style that shows an image, and others like it, in grey."""
    return {"cmap": MAGNITUDE, "vmin": 0, "vmax": white(image)}


def kspace_in_decibels(data: SampleSet, index: int) -> AnyArray:
    """The k-space of an image on a logarithmic scale, from 0 for the largest magnitude, and no less than -100."""
    magnitudes = to_kspace(data[index].image[0], space_axes(len(data.shape) - 1 - data.geometry.indexes)).abs()
    return 20 * torch.log10((magnitudes / magnitudes.max()).clamp_min(1e-5))


def hide_spines(axes: "Axes") -> None:
    """Without the lines above and right of a plot."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


PAGE = 7.2
"""The width of a page of two columns, in inches, as all lengths here."""
GAP, SIDE, TOP, LINE = 0.06, 0.24, 0.24, 0.125
"""Beside a picture; left of all pictures and above them, for the names; a line of a caption."""
BAR = 0.09
"""The width of a colour bar."""
INSET = 0.03
"""By how much it is shorter, above and below, than the pictures beside it."""
NARROWEST, WIDEST = 0.9, 1.7
"""Of a picture."""
NAME, TEXT = 8, 7
"""Sizes of letters, in points."""
LETTER = 0.62 * NAME / 72
"""The width of a letter of a name."""


def width_of(columns: int, right: float = 0.0) -> float:
    """How wide pictures may be so that all columns, and something right of them, fit on a page."""
    return min(max((PAGE - SIDE - right) / columns - GAP, NARROWEST), WIDEST)


def height_for(width: float, shape: Sequence[int], shown: tuple[int, int] = (-2, -1)) -> float:
    """The height of pictures of this shape; very long ones are made smaller."""
    rows, columns = shown
    return width * min(max(shape[rows] / shape[columns], 0.4), 2.5)


@dataclass(frozen=True)
class Grid:
    """Places for pictures on a figure; nothing is drawn where nothing is shown."""

    figure: "Figure"
    widths: Sequence[float]
    """Of the columns."""
    heights: Sequence[float]
    """Of the rows."""
    lines: Sequence[int]
    """Of the captions below each row."""
    gaps: Sequence[float]
    """Right of each column."""

    @staticmethod
    def of(
        widths: Sequence[float],
        heights: Sequence[float],
        lines: Sequence[int],
        gaps: Sequence[float] | None = None,
        right: float = 0.0,
        notes: int = 0,
    ) -> "Grid":
        """A grid on a figure of its own, with room at the right, and for lines of notes at the bottom."""
        from matplotlib.figure import Figure

        gaps = [GAP] * len(widths) if gaps is None else gaps
        width = SIDE + sum(widths) + sum(gaps) + right
        height = TOP + sum(heights) + sum(_below(number) for number in lines) + LINE * notes
        return Grid(Figure(figsize=(width, height)), widths, heights, lines, gaps)

    def show(
        self, row: int, column: int, values: AnyArray, caption: str = "", padding: Mask | None = None, **style: Any
    ) -> "Axes":
        """A picture, with what is to be said of it below."""
        left, top = self._corner(row, column)
        axes = self._axes(left, top, self.widths[column], self.heights[row])
        picture(axes, values, padding=padding, **style)
        _caption(axes, caption)
        return axes

    def show_units(
        self, row: int, column: int, values: AnyArray, pattern: Pattern, caption: str = "", **style: Any
    ) -> "Axes":
        """Values of the units of a pattern, as `units_picture` has them, with what is to be said of them below."""
        left, top = self._corner(row, column)
        axes = self._axes(left, top, self.widths[column], self.heights[row])
        units_picture(axes, values, pattern, **style)
        _caption(axes, caption)
        return axes

    def show_mask(self, row: int, column: int, mask: Mask, geometry: Geometry) -> None:
        """A mask, with the acceleration that it achieves; of series, the lines of each frame are a row."""
        achieved, pattern = f"x{achieved_acceleration(mask, geometry):.4g}", pattern_of(mask, geometry)
        if pattern.trajectory is not None:
            achieved = f"{int(pattern.restrict(mask).sum())} {pattern.trajectory.noun}, {achieved}"
        self.show_units(row, column, pattern.restrict(mask), pattern, achieved, cmap=MASK, vmax=1)

    def panel(self, row: int) -> "Axes":
        """Axes for a plot that takes a row, but for its ends: what is written left and right of it."""
        left, top = self._corner(row, 0)
        width = self._corner(row, len(self.widths))[0] - left
        return self._axes(left + 1.5 * SIDE, top, 0.72 * width, self.heights[row])

    def name_column(self, column: int, text: str, span: int = 1) -> None:
        """A name above a column, or above several of them."""
        left, top = self._corner(0, column)
        width = self._corner(0, column + span)[0] - self.gaps[column + span - 1] - left
        self._write(text, left + width / 2, top + 0.5 * TOP, width)

    def name_row(self, row: int, text: str) -> None:
        """A name beside a row."""
        top = self._corner(row, 0)[1]
        self._write(text, 0.45 * SIDE, top - self.heights[row] / 2, self.heights[row], rotation=90)

    def bar(self, of: "Axes", row: int, column: int, label: str, mirrored: bool = False) -> None:
        """The colours of a picture, in the place of another one; mirrored: at the right of that place."""
        left, top = self._corner(row, column)
        if mirrored:
            left += self.widths[column] - BAR
        self._bar(of, left, top, self.heights[row], label, mirrored)

    def bar_beside(self, of: "Axes", label: str) -> None:
        """The colours that all pictures share, right of them."""
        left, top = self._corner(0, len(self.widths))
        bottom = self._corner(len(self.heights) - 1, 0)[1] - self.heights[-1]
        self._bar(of, left + GAP, top, top - bottom, label)

    def note(self, text: str) -> None:
        """What holds for the whole figure, at its bottom."""
        width, height = self.figure.get_size_inches()
        at = SIDE / width, 0.4 * LINE / height
        self.figure.text(*at, text, fontsize=TEXT, color="0.3", va="bottom", linespacing=1.15, parse_math=False)

    def _bar(self, of: "Axes", left: float, top: float, height: float, label: str, mirrored: bool = False) -> None:
        axes = self._axes(left, top - INSET, BAR, height - 2 * INSET)  # numbers at its ends reach beyond it
        bar = add_colour_bar(of, axes, label, TEXT, TEXT, labelpad=3, parse_math=False)
        bar.ax.tick_params(length=2, pad=2)
        if mirrored:
            bar.ax.yaxis.set_ticks_position("left")
            bar.ax.yaxis.set_label_position("left")

    def _axes(self, left: float, top: float, width: float, height: float) -> "Axes":
        across, down = self.figure.get_size_inches()
        return self.figure.add_axes((left / across, (top - height) / down, width / across, height / down))

    def _write(self, text: str, x: float, y: float, room: float, **style: Any) -> None:
        """A name; one that is too long for its room is made smaller."""
        width, height = self.figure.get_size_inches()
        size = min(NAME, NAME * room / (LETTER * max(map(len, text.split("\n")), default=1) or 1))
        place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": size, "fontweight": "bold"}
        self.figure.text(x / width, y / height, text, parse_math=False, **place, **style)

    def _corner(self, row: int, column: int) -> tuple[float, float]:
        """Left and top of a picture, from the left and from the bottom of the figure."""
        left = SIDE + sum(self.widths[:column]) + sum(self.gaps[:column])
        above = sum(self.heights[:row]) + sum(_below(number) for number in self.lines[:row])
        return left, self.figure.get_size_inches()[1] - TOP - above


def add_colour_bar(of: "Axes", axes: "Axes", label: str, size: float, tick_size: float, **style: Any) -> Any:
    """The colours of a picture on axes of their own."""
    bar = of.figure.colorbar((*of.images, *of.collections)[0], cax=axes)
    bar.set_label(label, fontsize=size, **style)
    bar.ax.tick_params(labelsize=tick_size)
    bar.outline.set_edgecolor("lightgray")
    return bar


def _caption(axes: "Axes", text: str) -> None:
    axes.set_xlabel(text, fontsize=TEXT, labelpad=2, color="0.15", linespacing=1.15, parse_math=False)


def _below(lines: int) -> float:
    """The space below a picture whose caption has so many lines."""
    return GAP + LINE * lines if lines else GAP


ENDINGS = (".png", ".svg")
OTHER_PICTURES = (".pdf", ".jpg", ".jpeg", ".gif", ".eps", ".tif", ".tiff", ".webp")
RESOLUTION = 200
"""Dots per inch: of the PNG, and of the pictures in the SVG."""


def figure_files(out: Path) -> tuple[Path, Path]:
    """The two files of a figure, `film.png` and `film.svg`, however it was named; refused if they cannot be.

    >>> figure_files(Path("film.svg"))
    (PosixPath('film.png'), PosixPath('film.svg'))
    """
    if out.suffix.lower() in OTHER_PICTURES:
        raise InputError(f"Figures are written as .png and .svg, not as {out.suffix}: leave out the ending.")
    name = out.name.removesuffix(out.suffix) if out.suffix.lower() in ENDINGS else out.name
    files = out.with_name(f"{name}.png"), out.with_name(f"{name}.svg")
    for path in (out, *files):
        if path.is_dir():
            raise InputError(f"{path} is a folder: name a file for the figure.")
    check_writable(out.parent)
    return files


def save_as_both(figure: "Figure", out: Path, resolution: int = RESOLUTION) -> tuple[Path, Path]:
    """Write a figure as PNG and as SVG.

    Args:
        figure: A figure of this package, or another one of matplotlib.
        out: The name of the files, with an ending or without.
        resolution: Dots per inch of the PNG, and of the pictures in the SVG.

    Returns:
        The paths of the PNG and of the SVG.
    """
    from matplotlib import rc_context

    files = figure_files(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    for path in files:
        kind = path.suffix[1:]
        with replace_file(path) as temporary, rc_context({"svg.hashsalt": "promask"}):
            metadata = {"Date": None} if kind == "svg" else None  # nor any other trace of the moment
            figure.savefig(temporary, format=kind, dpi=resolution, metadata=metadata)
    return files


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


Box = tuple[slice, slice]
SHARE = 0.28
"""The side of the box, of the shorter side of the image."""


def most_detail(image: Float[Tensor, "height width"], side: int | None = None) -> Box:
    """The square in which the image changes most from pixel to pixel.

    >>> image = torch.zeros(20, 30)
    >>> image[4:9, 20:25] = torch.eye(5)
    >>> most_detail(image, side=6)
    (slice(3, 9, None), slice(19, 25, None))
    """
    height, width = image.shape
    side = max(4, round(SHARE * min(height, width))) if side is None else side
    side = min(side, height, width)
    steps = torch.zeros_like(image, dtype=torch.float64)
    steps[:-1] += image.diff(dim=0).abs()
    steps[:, :-1] += image.diff(dim=1).abs()
    # By their roots, many edges are more than a strong one.
    sums = torch.nn.functional.pad(steps.sqrt().cumsum(0).cumsum(1), (1, 0, 1, 0))
    inside = sums[side:, side:] - sums[:-side, side:] - sums[side:, :-side] + sums[:-side, :-side]
    top, left = divmod(int(inside.argmax()), inside.shape[1])
    return slice(top, top + side), slice(left, left + side)


def parse_box(text: str) -> Box:
    """Rows and columns as text.

    >>> parse_box("60:110,40:90")
    (slice(60, 110, None), slice(40, 90, None))
    """
    try:
        (top, bottom), (left, right) = ([int(end) for end in part.split(":")] for part in text.split(","))
    except ValueError as error:
        raise InputError(f"A zoom is rows and columns, such as 60:110,40:90, but is {text!r}.") from error
    return slice(top, bottom), slice(left, right)


def check_box(box: Box, image: Float[Tensor, "height width"]) -> Box:
    """Refuse a box that does not lie in the image."""
    for part, length in zip(box, image.shape, strict=True):
        if not 0 <= part.start < part.stop <= length:
            ends = ",".join(f"{part.start}:{part.stop}" for part in box)
            raise InputError(f"The zoom {ends} does not lie in the image, which is {list(image.shape)}.")
    return box
