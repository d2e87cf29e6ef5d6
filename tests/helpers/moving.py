"""Series of frames for tests: a still image in which a little moves."""

import numpy as np

from helpers import smooth_images
from promask.data import Reading, load

AXES = "slice frame y x"


def moving_images(series, frames=6, size=(24, 16)):
    """Magnitude images, (series, frame, y, x)."""
    still, other = smooth_images(series, size=size), smooth_images(series * frames, size=size, seed=1)
    return (still + 0.1 * other.reshape(series, frames, *size)).abs().float()


def moving(series, frames=6, size=(24, 16), **reading):
    """The same as a data set of series."""
    return load(moving_images(series, frames, size), Reading(axes=AXES, **reading))


def moving_file(path, series=10, **settings):
    """The same in a file, two series of each subject."""
    subjects = [f"subject{number // 2}" for number in range(series)]
    np.savez(path, image=moving_images(series, **settings).numpy(), subject=subjects)
    return str(path)
