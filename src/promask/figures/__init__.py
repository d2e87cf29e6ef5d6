"""Figures of runs, masks and reconstructions, each a function that returns a matplotlib figure.

They are numbered in the paper: 1 `film`, 2 `histograms`, 3 `curves`, 4 `probabilities`, 5 to 7 `variance`,
8 `reconstructions`, 10 `contours`. What physicists look at is not among them: `psf`, `noise` and `density`; nor
are series of frames: `xt`, and `movie`, which writes an animated picture.
"""

from promask.evaluation.matching import held_out
from promask.figures.contours import contour_figure as contours
from promask.figures.images import reconstructions
from promask.figures.layout import save_as_both as save
from promask.figures.learning import curves, film, histograms, overview
from promask.figures.masks import probabilities, variance
from promask.figures.physics import density_figure as density
from promask.figures.physics import noise_figure as noise
from promask.figures.physics import point_spread_figure as psf
from promask.figures.series import movie, xt

__all__ = [
    "contours",
    "curves",
    "density",
    "film",
    "held_out",
    "histograms",
    "movie",
    "noise",
    "overview",
    "probabilities",
    "psf",
    "reconstructions",
    "save",
    "variance",
    "xt",
]
