"""How far the pixels of a reconstruction vary from mask to mask (the paper's Figure 7).

What is learned for different data and accelerations, as in Figure 4 of the paper.

Where members disagree, and what random masks do to an image, as in Figures 5 to 7 of the paper.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from promask.data.file_set import OnFile
from promask.data.sample_sets import Subset
from promask.errors import InputError, InputWarning
from promask.evaluation.evaluate import full_images
from promask.evaluation.held_out import check_index, check_shape, held_out
from promask.evaluation.stability import pixel_spread
from promask.figures.images import Reconstructed, reconstructed
from promask.figures.layout import MAGNITUDE, PAGE, PROBABILITY, SPREAD, Grid, height_for, plane, white, width_of
from promask.learning.run import Run
from promask.types import AnyArray, Image, SampleSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PROBABILITY_BAR = 0.55
"""Room for the colour bar."""


def probabilities(runs: Sequence[Run], examples: Mapping[str, Image] | None = None) -> "Figure":
    """Probabilities of several runs: data are rows, accelerations are columns.

    Runs on the same data that differ in their pattern, loss or reconstruction have rows of their own. `examples`
    are magnitude images by the name of the data, shown at the right.
    """
    rows = rows_of(runs)
    accelerations = sorted({run.config.acceleration for run in runs})
    columns = len(accelerations) + bool(examples)
    width = width_of(columns, PROBABILITY_BAR)
    heights = [height_for(width, next(iter(row.values())).mask.shape) for row in rows.values()]
    grid = Grid.of([width] * columns, heights, lines=[0] * len(rows), right=PROBABILITY_BAR)
    for column, acceleration in enumerate(accelerations):
        grid.name_column(column, f"x{acceleration:g}")
    if examples:
        grid.name_column(columns - 1, "example")
    for place, (name, row) in enumerate(rows.items()):
        grid.name_row(place, name)
        for acceleration, run in row.items():
            pattern = run.distribution.pattern
            padding, theta = (pattern.expand(each) for each in (pattern.padding(), run.probabilities))
            column = accelerations.index(acceleration)
            last = grid.show(place, column, theta, "", padding, cmap=PROBABILITY, vmin=0, vmax=1)
        example = (examples or {}).get(source_of(next(iter(row.values()))))
        if example is not None:
            grid.show(place, columns - 1, example[0], cmap=MAGNITUDE, vmin=0, vmax=white(example[0]))
    grid.bar_beside(last, "probability")
    return grid.figure


def examples_of(runs: Sequence[Run], on_file: OnFile | None = None) -> dict[str, Image]:
    """The middle one of the images that the runs did not see, by the name of their data.

    Data that cannot be read have none, with a warning: those of a run may have been an array in Python.
    """
    examples: dict[str, Image] = {}
    sources = {source_of(run): run for run in reversed(runs) if source_of(run)}
    for source, run in sources.items():
        try:
            # Named, as a user would: so what is wrong with them is told without the advice to name others.
            data = held_out(run, source, None, None, on_file)
            middle = len(data) // 2
            examples[source] = full_images(data, range(middle, middle + 1), run.reconstruction())[0]
        except InputError as error:
            warnings.warn(f"There is no example of {source}: {error}", InputWarning, stacklevel=2)
    return examples


def source_of(run: Run) -> str:
    """What a run was learned from."""
    return run.record.data.source


def rows_of(runs: Sequence[Run]) -> dict[str, dict[float, Run]]:
    """Runs by row and acceleration; rows are named by what they differ in."""
    features = [
        (PurePath(source_of(run)).name, run.config.pattern, run.config.loss, run.config.recon) for run in runs
    ]
    telling = [0, *(place for place in (1, 2, 3) if len({each[place] for each in features}) > 1)]
    rows: dict[str, dict[float, Run]] = {}
    for run, feature in zip(runs, features, strict=True):
        name = ", ".join(feature[place] for place in telling if feature[place])
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


@dataclass(frozen=True)
class Varied:
    """One image with the mode of a run and with a random mask of its budget, and how it varies over many."""

    mode: Reconstructed
    random: Reconstructed
    pixel_std: AnyArray
    """Relative to the maximum of the image."""


def varied(run: Run, data: SampleSet, index: int, draws: int = DRAWS, seed: int = 0) -> Varied:
    """Reconstruct an image with random masks of exactly the budget: `run.sample(draws, seed, exact=True)`."""
    if draws < 2:
        raise InputError(f"At least 2 random masks are needed to see how they differ, but draws is {draws}.")
    check_shape(run, data)
    recon, masks = run.reconstruction(), run.sample(draws, seed, exact=True)
    (spread,) = pixel_spread(masks, Subset(data, [index]), recon=recon)
    of_mode, of_random = (reconstructed(mask, data, index, recon) for mask in (run.mask, masks[0]))
    return Varied(of_mode, of_random, spread[0, 0])


def variance(
    runs: Sequence[Run],
    data: SampleSet | Sequence[SampleSet] | None = None,
    index: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> "Figure":
    """Runs are columns. In k-space: the standard deviation of the probabilities over the members.

    With data, one set for all runs or one for each, further rows show an image: with the mode, with a random mask
    of the same budget, and the standard deviation of its pixels over such masks. The fully sampled image is at the
    right, or above each column where these are different images.
    """
    if data is None:
        found: list[Varied] = []
    else:
        sets = list(data) if isinstance(data, Sequence) and not isinstance(data, SampleSet) else [data] * len(runs)
        chosen = [check_index(len(each) // 2 if index is None else index, each) for each in sets]
        found = [varied(*each, draws, seed) for each in zip(runs, sets, chosen, strict=True)]
    several = [run.config.members > 1 and bool(run.variance.any()) for run in runs]
    if not any(several) and not found:
        raise InputError("No run has several members that differ: learn with --members 10, or show images, too.")
    alike = all(np.array_equal(each.mode.target, found[0].mode.target) for each in found)
    beside = bool(found) and alike
    columns, right = len(runs) + beside, 0 if beside else BAR
    width = min(width_of(columns, right), WIDEST if found else PAGE)
    height = max(height_for(width, run.mask.shape) for run in runs)
    of_image = max((height_for(width, each.mode.target.shape) for each in found), default=0)
    of_images = [] if not found else [2, 2, 0] if alike else [0, 2, 2, 0]
    rows = ([height] if any(several) else []) + [of_image] * len(of_images)
    lines = ([1] if any(several) else []) + of_images
    grid = Grid.of([width] * columns, rows, lines, right=right)
    for column, name in enumerate(names(runs)):
        grid.name_column(column, name)
    if any(several):
        _members(grid, runs, several)
    if found:
        _images(grid, found, len(rows) - 3, draws)
        _targets(grid, found, len(rows) - len(of_images), alike)
    return grid.figure


def names(runs: Sequence[Run]) -> list[str]:
    """What columns are called: the accelerations, and, where these are alike or the data are not, the data."""
    accelerations = [f"x{run.config.acceleration:g}" for run in runs]
    sources = [PurePath(source_of(run)).name for run in runs]
    if len(set(accelerations)) == len(runs) and len(set(sources)) == 1:
        return accelerations
    return [f"{source} {acceleration}" for source, acceleration in zip(sources, accelerations, strict=True)]


def _members(grid: Grid, runs: Sequence[Run], several: Sequence[bool]) -> None:
    highest = max(float(run.variance.max()) for run in runs) ** 0.5
    for column, (run, differs) in enumerate(zip(runs, several, strict=True)):
        if differs:
            pattern = run.distribution.pattern
            padding, spread = (pattern.expand(each) for each in (pattern.padding(), run.variance.sqrt()))
            style: dict[str, Any] = {"cmap": SPREAD, "vmin": 0, "vmax": highest}
            last = grid.show(0, column, spread, f"{run.config.members} members", padding, **style)
    grid.name_row(0, "probabilities")
    grid.bar(last, 0, len(runs), "standard deviation")


def _targets(grid: Grid, found: Sequence[Varied], row: int, alike: bool) -> None:
    """The fully sampled image: once, right of the others, or one for each column in a row of their own."""
    if alike:
        grid.show(row, len(found), found[0].mode.target[0, 0], "fully sampled", **_window(found[0]))
        return
    grid.name_row(row, "fully sampled")
    for column, each in enumerate(found):
        grid.show(row, column, each.mode.target[0, 0], **_window(each))


def _window(shown: Varied) -> dict[str, Any]:
    """The greys of all images of a column."""
    return {"cmap": MAGNITUDE, "vmin": 0, "vmax": white(shown.mode.target[0, 0])}


def _images(grid: Grid, found: Sequence[Varied], first: int, draws: int) -> None:
    highest = max(float(plane(each.pixel_std).max()) for each in found) or 1.0
    for column, each in enumerate(found):
        for row, result in enumerate((each.mode, each.random), start=first):
            grid.show(row, column, result.image[0, 0], result.caption(), **_window(each))
        spread: dict[str, Any] = {"cmap": SPREAD, "vmin": 0, "vmax": 100 * highest}
        last = grid.show(first + 2, column, 100 * each.pixel_std, **spread)
    for row, name in enumerate(("mode", "random mask", f"{draws} random masks"), start=first):
        grid.name_row(row, name)
    grid.bar(last, first + 2, len(found), "standard deviation\n(% of maximum)")
