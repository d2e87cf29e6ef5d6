"""Comparisons for tests: data to compare on, and small ones made by hand."""

import numpy as np

from helpers import smooth_images
from promask.experiments.scores import Comparison, Scores


def image_file(path):
    """Ten slices of five subjects, in a file."""
    subjects = [f"subject{number // 2}" for number in range(10)]
    np.savez(path, image=smooth_images(10, size=(24, 20), phase=False)[:, 0].float().numpy(), subject=subjects)
    return str(path)


def row(method, psnr, acceleration=4.0, free=2, ssim=None, nmse=None, achieved=None):
    """Quality by seed and image; SSIM and NMSE follow from PSNR if they are not given."""
    psnr = np.array(psnr, dtype=float)
    quality = {
        "psnr": psnr,
        "ssim": psnr / 100 if ssim is None else np.array(ssim, dtype=float),
        "nmse": 1 / psnr if nmse is None else np.array(nmse, dtype=float),
    }
    seeds = len(psnr)
    achieved = [acceleration] * seeds if achieved is None else achieved
    return Scores(method, free, acceleration, achieved, [0.5 + seed for seed in range(seeds)], quality)


def compared(*scores, convention="paper"):
    subjects = ["one"] * scores[0].quality["psnr"].shape[1]
    return Comparison("my_data", convention, "2 held-out slices", subjects, scores)


def tiny_comparison():
    """Two seeds and two images; means over images 21 and 23, 30 and 30, 29 and 33 at x4."""
    return compared(
        row("lines_1", [[20, 22], [22, 24]], free=1, achieved=[4.0, 4.2]),
        row("energy", [[28, 32]]),
        row("promask", [[28, 30], [32, 34]]),
        row("energy", [[24, 26]], 8.0),
        row("promask", [[24, 26], [24, 26]], 8.0),
    )
