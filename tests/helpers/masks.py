"""Masks and runs of every kind for the tests of export."""

from dataclasses import replace

import torch

from helpers import seeded
from promask import Config, MaskDistribution, Pattern, Run
from promask.export import FORMATS
from promask.export.files import load_mask
from promask.learning.records import RunHistory
from promask.sampling.limits import Limits
from promask.types import Geometry

PATTERNS = {
    "locations": Pattern((16, 12), (0, 1)),
    "columns": Pattern((16, 12), (1,)),
    "rows": Pattern((16, 12), (0,)),
    "odd": Pattern((9, 15), (0, 1)),
    "padded lines": Pattern((10, 13), (1,), ((0, 10), (2, 11))),
    "padded locations": Pattern((11, 14), (0, 1), ((1, 9), (0, 13))),
    "one axis": Pattern((13,), (0,)),
    "thin": Pattern((8, 1), (0,)),
    "volume": Pattern((6, 7, 5), (1, 2)),
    "lines in a volume": Pattern((3, 4, 9), (2,)),
    "flat volume": Pattern((6, 7, 1), (0, 1)),
}

ALONG = {
    "spokes": Pattern.on((16, 14), Geometry(), "radial"),
    "interleaves": Pattern.on((16, 16), Geometry(), "spiral"),
    "spokes of frames": replace(
        Pattern.on((3, 16, 16), Geometry().series("frame", 3), "kt-radial"), limits=Limits(equal_per=0)
    ),
    "spokes shared by frames": Pattern.on((3, 16, 16), Geometry().series("frame", 3), "radial"),
    "stack of stars": Pattern.on((6, 16, 16), Geometry(axes=("kz", "ky", "kx")), "stack-of-stars"),
}
"""Patterns along trajectories."""
CARTESIAN = [name for name, format in FORMATS.items() if not format.for_trajectories]
"""The formats of Cartesian masks."""


def run_on(pattern, acceleration=2.5, centre=0, seed=0):
    """A run as learning would give it, with the largest probabilities near the centre."""
    noise = torch.rand(pattern.unit_shape, generator=seeded(seed))
    probabilities = (noise * torch.exp(-2 * pattern.distance())).float()
    probabilities[pattern.padding()] = 0
    probabilities[pattern.centre(centre)] = 1
    distribution = MaskDistribution(probabilities, pattern, pattern.budget(acceleration))
    config = Config.preset("default", acceleration=acceleration, centre=centre)
    return Run(distribution, config, RunHistory(), torch.zeros(pattern.unit_shape))


def exported(name="locations"):
    return load_mask(run_on({**PATTERNS, **ALONG}[name]))[0]
