"""Figures of runs, masks and reconstructions, each a function that returns a matplotlib figure.

They are numbered in the paper: 1 `film`, 2 `histograms`, 3 `curves`, 4 `probabilities`, 5 to 7 `variance`,
8 `reconstructions`, 10 `contours`.
"""

from promask.figures.contours import contour_figure as contours
from promask.figures.curves import curves
from promask.figures.film import film
from promask.figures.histograms import histograms
from promask.figures.overview import overview
from promask.figures.probabilities import probabilities
from promask.figures.reconstructions import reconstructions
from promask.figures.saving import save_as_both as save
from promask.figures.variance import variance
from promask.held_out import held_out

__all__ = [
    "contours",
    "curves",
    "film",
    "held_out",
    "histograms",
    "overview",
    "probabilities",
    "reconstructions",
    "save",
    "variance",
]
