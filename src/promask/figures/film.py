"""Learning as a strip of film, as in Figure 1 of the paper."""

from typing import TYPE_CHECKING, Any

from promask.figures.grid import Grid, height_for, width_of
from promask.figures.moments import moments, spread_out, told_of
from promask.figures.picture import MAGNITUDE, PROBABILITY, white
from promask.figures.quality import reconstructed
from promask.held_out import check_index, check_shape, held_out
from promask.learning.run import Run
from promask.recon import Reconstruction
from promask.types import SampleSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRAMES = 6


def film(
    run: Run,
    data: SampleSet | None = None,
    index: int | None = None,
    frames: int = FRAMES,
    recon: Reconstruction | None = None,
) -> "Figure":
    """Moments of the first member, from the start to the end; at the right, the fully sampled image.

    Above, one image reconstructed with the most probable mask of the moment: of as many units as the probabilities
    sum to. Below, the probabilities. The image is by default the middle one of those that the run did not see.
    """
    shown = spread_out(moments(run), max(frames, 2))
    recon = recon or run.reconstruction()
    data = held_out(run, recon=recon) if data is None else data
    check_shape(run, data)
    index = check_index(len(data) // 2 if index is None else index, data)
    pattern = run.distribution.pattern
    padding = pattern.expand(pattern.padding())
    found = [reconstructed(moment.mask, data, index, recon) for moment in shown]
    target = found[0].target[0, 0]
    window: dict[str, Any] = {"cmap": MAGNITUDE, "vmin": 0, "vmax": white(target)}
    width, notes = width_of(len(shown) + 1), told_of(run)
    heights = [height_for(width, target.shape), height_for(width, pattern.shape)]
    grid = Grid.of([width] * (len(shown) + 1), heights, lines=[2, 2], notes=1 if notes else 0)
    for column, (moment, result) in enumerate(zip(shown, found, strict=True)):
        grid.name_column(column, f"step {moment.step}" if moment.step else "start")
        grid.show(0, column, result.image[0, 0], result.caption(), **window)
        budget = f"{moment.units} units\nx{moment.acceleration:.4g}"
        theta = pattern.expand(moment.probabilities)
        last = grid.show(1, column, theta, budget, padding, cmap=PROBABILITY, vmin=0, vmax=1)
    grid.name_row(0, "reconstruction")
    grid.name_row(1, "probabilities")
    grid.name_column(len(shown), "fully sampled")
    grid.show(0, len(shown), target, **window)
    grid.bar(last, 1, len(shown), "probability")
    grid.note(notes)
    return grid.figure
