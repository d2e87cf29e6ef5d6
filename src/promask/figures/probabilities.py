"""What is learned for different data and accelerations, as in Figure 4 of the paper."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from promask.data import OnFile
from promask.errors import InputError, InputWarning
from promask.evaluation import full_images
from promask.figures.grid import Grid, height_for, width_of
from promask.figures.picture import MAGNITUDE, PROBABILITY, white
from promask.held_out import held_out
from promask.learning.run import Run
from promask.types import Image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAR = 0.55
"""Room for the colour bar."""


def probabilities(runs: Sequence[Run], examples: Mapping[str, Image] | None = None) -> "Figure":
    """Probabilities of several runs: data are rows, accelerations are columns.

    Runs on the same data that differ in their pattern, loss or reconstruction have rows of their own. `examples`
    are magnitude images by the name of the data, shown at the right.
    """
    rows = rows_of(runs)
    accelerations = sorted({run.config.acceleration for run in runs})
    columns = len(accelerations) + bool(examples)
    width = width_of(columns, BAR)
    heights = [height_for(width, next(iter(row.values())).mask.shape) for row in rows.values()]
    grid = Grid.of([width] * columns, heights, lines=[0] * len(rows), right=BAR)
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
    return str(run.about.get("data", {}).get("source", ""))


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
