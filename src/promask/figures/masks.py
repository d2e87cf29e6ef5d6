"""What was learned for different data and accelerations, and how far it varies (Figures 4 to 7 of the paper)."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from promask.data.device import find_device
from promask.data.file_set import OnFile
from promask.data.sources import short_source
from promask.errors import InputError, InputWarning
from promask.evaluation.images import full_images
from promask.evaluation.matching import held_out
from promask.evaluation.stability import ImageVariation, vary_image
from promask.figures.images import check_index, quality_caption
from promask.figures.layout import (
    PAGE,
    PROBABILITY,
    SPREAD,
    Grid,
    grey_window,
    height_for,
    image_axes,
    kspace_height,
    plane,
    width_of,
)
from promask.learning.run import Run
from promask.types import Image, SampleSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PROBABILITY_BAR = 0.55
"""Room for the colour bar."""


def probabilities(runs: Sequence[Run], examples: Mapping[str, Image] | None = None) -> "Figure":
    """Probabilities of several runs: data are rows, accelerations are columns.

    Runs on the same data that differ in their pattern, loss or reconstruction have rows of their own.

    Args:
        runs: The runs.
        examples: Magnitude images (channel, *space) by the name of the data, shown at the right.

    Returns:
        A matplotlib figure.
    """
    rows = group_runs(runs)
    accelerations = sorted({run.config.acceleration for run in runs})
    columns = len(accelerations) + bool(examples)
    width = width_of(columns, PROBABILITY_BAR)
    heights = [_height(width, next(iter(row.values()))) for row in rows.values()]
    grid = Grid.of([width] * columns, heights, lines=[0] * len(rows), right=PROBABILITY_BAR)
    for column, acceleration in enumerate(accelerations):
        grid.name_column(column, f"x{acceleration:.4g}")
    if examples:
        grid.name_column(columns - 1, "example")
    for place, (name, row) in enumerate(rows.items()):
        grid.name_row(place, name)
        for acceleration, run in row.items():
            pattern, column = run.distribution.pattern, accelerations.index(acceleration)
            last = grid.show_units(place, column, run.probabilities, pattern, cmap=PROBABILITY, vmax=1)
        first = next(iter(row.values()))
        example = (examples or {}).get(first.record.data.source)
        if example is not None:
            shown = plane(example[0], image_axes(first.distribution.pattern))
            grid.show(place, columns - 1, shown, **grey_window(shown))
    grid.bar_beside(last, "probability")
    return grid.figure


def _height(width: float, run: Run) -> float:
    return kspace_height(width, run.distribution.pattern)


def examples_of(runs: Sequence[Run], on_file: OnFile | None = None) -> dict[str, Image]:
    """The middle one of the images that the runs did not see, by the name of their data.

    Data that cannot be read have none, with a warning: those of a run may have been an array in Python.
    """
    examples: dict[str, Image] = {}
    sources = {run.record.data.source: run for run in reversed(runs) if run.record.data.source}
    for source, run in sources.items():
        try:
            # Named, as a user would: so what is wrong with them is told without the advice to name others.
            data = held_out(run, source, None, None, on_file)
            middle = len(data) // 2
            examples[source] = full_images(data, range(middle, middle + 1), run.reconstruction())[0]
        except InputError as error:
            warnings.warn(f"There is no example of {source}: {error}", InputWarning, stacklevel=2)
    return examples


def group_runs(runs: Sequence[Run]) -> dict[str, dict[float, Run]]:
    """Runs by row and acceleration; rows are named by what they differ in."""
    features = [
        (short_source(run.record.data.source), run.distribution.pattern.name, run.config.loss, run.config.recon)
        for run in runs
    ]
    differing = [0, *(place for place in (1, 2, 3) if len({each[place] for each in features}) > 1)]
    rows: dict[str, dict[float, Run]] = {}
    for run, feature in zip(runs, features, strict=True):
        name = ", ".join(feature[place] for place in differing if feature[place])
        number = 1
        while run.config.acceleration in rows.get(_numbered(name, number), {}):
            number += 1
        rows.setdefault(_numbered(name, number), {})[run.config.acceleration] = run
    return rows


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name} ({number})"


DRAWS = 20
BAR = 0.7
"""Room for a colour bar without a picture above it."""
WIDEST = 1.35
"""Of a picture, in inches, if there are several below each other."""


def variance(
    runs: Sequence[Run],
    data: SampleSet | Sequence[SampleSet] | None = None,
    index: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> "Figure":
    """Where the members of runs disagree, and how far an image varies over random masks; runs are columns.

    The first row is the standard deviation of the probabilities over the members. With data, further rows show an
    image: with the mode, with a random mask of the same size, and the standard deviation of its pixels over such
    masks. The fully sampled image is at the right, or above each column where these are different images.

    Args:
        runs: The runs.
        data: Images, as `held_out` gives them: one data set for all runs, or one for each. None: no images.
        index: The number of the image; None: the middle one.
        draws: Random masks of each run, at least 2.
        seed: The same seed gives the same masks.
        device: Where PyTorch computes, such as `cpu` or `cuda`.

    Returns:
        A matplotlib figure.
    """
    device = find_device(device)
    if data is None:
        found: list[ImageVariation] = []
    else:
        sets = list(data) if isinstance(data, Sequence) and not isinstance(data, SampleSet) else [data] * len(runs)
        chosen = [check_index(index, each) for each in sets]
        found = [vary_image(*each, draws, seed, device) for each in zip(runs, sets, chosen, strict=True)]
    several = [run.config.members > 1 and bool(run.variance.any()) for run in runs]
    if not any(several) and not found:
        raise InputError("No run has several members that differ: learn several members, or show images, too.")
    alike = all(np.array_equal(each.mode.target, found[0].mode.target) for each in found)
    beside = bool(found) and alike
    columns, right = len(runs) + beside, 0 if beside else BAR
    width = min(width_of(columns, right), WIDEST if found else PAGE)
    height = max(_height(width, run) for run in runs)
    of_image = max((height_for(width, each.mode.target.shape) for each in found), default=0)
    of_images = [] if not found else [2, 2, 0] if alike else [0, 2, 2, 0]
    rows = ([height] if any(several) else []) + [of_image] * len(of_images)
    lines = ([1] if any(several) else []) + of_images
    grid = Grid.of([width] * columns, rows, lines, right=right)
    for column, name in enumerate(column_names(runs)):
        grid.name_column(column, name)
    if any(several):
        _members(grid, runs, several)
    if found:
        _images(grid, found, len(rows) - 3, draws)
        _targets(grid, found, len(rows) - len(of_images), alike)
    return grid.figure


def column_names(runs: Sequence[Run]) -> list[str]:
    """What columns are called: the accelerations, and, where these are alike or the data are not, the data."""
    accelerations = [f"x{run.config.acceleration:.4g}" for run in runs]
    sources = [short_source(run.record.data.source) for run in runs]
    if len(set(accelerations)) == len(runs) and len(set(sources)) == 1:
        return accelerations
    return [f"{source} {acceleration}" for source, acceleration in zip(sources, accelerations, strict=True)]


def _members(grid: Grid, runs: Sequence[Run], several: Sequence[bool]) -> None:
    highest = max(float(run.variance.max()) for run in runs) ** 0.5
    for column, (run, differs) in enumerate(zip(runs, several, strict=True)):
        if differs:
            style: dict[str, Any] = {"caption": f"{run.config.members} members", "cmap": SPREAD, "vmax": highest}
            last = grid.show_units(0, column, run.variance.sqrt(), run.distribution.pattern, **style)
    grid.name_row(0, "probabilities")
    grid.bar(last, 0, len(runs), "standard deviation")


def _targets(grid: Grid, found: Sequence[ImageVariation], row: int, alike: bool) -> None:
    """The fully sampled image: once, right of the others, or one for each column in a row of their own."""
    if alike:
        target = found[0].mode.target[0, 0]
        grid.show(row, len(found), target, "fully sampled", **grey_window(target))
        return
    grid.name_row(row, "fully sampled")
    for column, each in enumerate(found):
        grid.show(row, column, each.mode.target[0, 0], **grey_window(each.mode.target[0, 0]))


def _images(grid: Grid, found: Sequence[ImageVariation], first: int, draws: int) -> None:
    highest = max(float(plane(each.pixel_std[0]).max()) for each in found) or 1.0
    for column, each in enumerate(found):
        for row, result in enumerate((each.mode, each.random), start=first):
            window = grey_window(each.mode.target[0, 0])
            grid.show(row, column, result.image[0, 0], quality_caption(result), **window)
        spread: dict[str, Any] = {"cmap": SPREAD, "vmin": 0, "vmax": 100 * highest}
        last = grid.show(first + 2, column, 100 * each.pixel_std[0], **spread)
    for row, name in enumerate(("mode", "random mask", f"{draws} random masks"), start=first):
        grid.name_row(row, name)
    grid.bar(last, first + 2, len(found), "standard deviation\n(% of maximum)")
