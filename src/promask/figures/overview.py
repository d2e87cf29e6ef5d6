"""The picture of a run: probabilities, mask and learning curves."""

from typing import TYPE_CHECKING

from promask.config import SHAPE
from promask.figures.picture import MASK, PROBABILITY, SPREAD, picture
from promask.learning.run import Run
from promask.types import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDE = 3
"""Losses that differ by more than this factor are shown on a logarithmic scale."""


def overview(run: Run) -> "Figure":
    """Probabilities, mask and learning curves of a run, and where its members disagree if there are several.

    Probabilities that are 0 or 1 only are those of the mask, which is shown alone.
    """
    from matplotlib.figure import Figure

    distribution, members = run.distribution, run.config.members
    theta, pattern = distribution.probabilities, distribution.pattern
    decided = bool(((theta == 0) | (theta == 1)).all())
    maps: dict[str, tuple[Units, str, float | None]] = (
        {} if decided else {"Probabilities": (theta, PROBABILITY, 1.0)}
    )
    if members > 1 and run.variance.any():
        maps[f"Standard deviation over {members} members"] = (run.variance.sqrt(), SPREAD, None)
    columns = len(maps) + 2
    figure = Figure(figsize=(4.4 * columns, 4), layout="constrained")
    grid = figure.subplots(1, columns)
    padding = pattern.expand(pattern.padding())
    for axes, (title, (values, colours, most)) in zip(grid, maps.items(), strict=False):
        picture(axes, pattern.expand(values), title, padding, cmap=colours, vmin=0, vmax=most)
        figure.colorbar(axes.images[0], ax=axes)
    title = f"Mask: {distribution.budget} of {pattern.units} units, x{run.acceleration:.4g}"
    picture(grid[-2], run.mask, title, padding, cmap=MASK, vmin=0, vmax=1)
    notes = ["probabilities are 0 or 1 only"] if decided else []
    notes += ["the plane through the centre"] if run.mask.ndim > 2 else []
    notes += ["grey: padding, never acquired"] if padding.any() else []
    grid[-2].set_xlabel("\n".join(notes))
    learning_curves(grid[-1], run)
    return figure


def learning_curves(axes: "Axes", run: Run) -> None:
    """The loss of every step, and the budget."""
    steps = range(1, len(run.history["loss"]) + 1)
    race = run.config.rule == SHAPE
    of = "the best shape in each round" if race else "each batch"
    axes.plot(steps, run.history["loss"], color="tab:blue", marker="o" if race else None)
    axes.set(title=f"Learning: the loss of {of}", xlabel="round" if race else "step")
    if max(run.history["loss"]) > WIDE * min(run.history["loss"]) > 0:
        axes.set_yscale("log")
    else:
        axes.ticklabel_format(axis="y", useOffset=False)
    if race:
        axes.set_xticks(steps)
    axes.set_ylabel(f"loss ({run.config.loss})", color="tab:blue", parse_math=False)
    of_budget = axes.twinx()
    of_budget.plot(steps, run.history["budget"], color="tab:orange", linestyle="--")
    of_budget.set(ylim=(0, None))
    of_budget.set_ylabel("budget (units, dashed)", color="tab:orange")
