"""Pictures in rows and columns, with names, captions and colour bars: a figure to be printed.

Dollars in a text are dollars, not mathematics: names come from users.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from promask.figures.picture import picture
from promask.types import AnyArray, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def height_for(width: float, shape: Sequence[int]) -> float:
    """The height of pictures of this shape; very long ones are made smaller."""
    return width * min(max(shape[-2] / shape[-1], 0.4), 2.5)


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
        axes.set_xlabel(caption, fontsize=TEXT, labelpad=2, color="0.15", linespacing=1.15, parse_math=False)
        return axes

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
        bar = self.figure.colorbar(of.images[0], cax=axes)
        bar.ax.tick_params(labelsize=TEXT, length=2, pad=2)
        bar.outline.set_edgecolor("lightgray")
        bar.set_label(label, fontsize=TEXT, labelpad=3, parse_math=False)
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


def _below(lines: int) -> float:
    """The space below a picture whose caption has so many lines."""
    return GAP + LINE * lines if lines else GAP
