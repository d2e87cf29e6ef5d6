"""From a figure to files, which are the same bytes for the same figure."""

from pathlib import Path
from typing import TYPE_CHECKING

from promask.errors import InputError
from promask.files import check_writable, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    """Write a figure as PNG and as SVG, and tell where."""
    from matplotlib import rc_context

    files = figure_files(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    for path in files:
        kind = path.suffix[1:]
        with replacing(path) as temporary, rc_context({"svg.hashsalt": "promask"}):
            metadata = {"Date": None} if kind == "svg" else None  # nor any other trace of the moment
            figure.savefig(temporary, format=kind, dpi=resolution, metadata=metadata)
    return files


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)
