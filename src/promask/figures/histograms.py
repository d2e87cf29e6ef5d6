"""How the probabilities spread over the phases of learning, as in Figure 2 of the paper."""

from typing import TYPE_CHECKING

import numpy as np

from promask.figures.grid import NAME, PAGE, TEXT
from promask.figures.moments import Moment, moments, phases, spread_out, told_of
from promask.learning.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 25
DECIDED = 0.01
"""Probabilities this close to 0 or 1 are as good as decided."""


def histograms(run: Run) -> "Figure":
    """Histograms of the probabilities of the first member: start, exploration, middle of annealing, end.

    Counts are on a logarithmic scale; padding is not counted. Where nothing is annealed, the moments are at equal
    distances.
    """
    from matplotlib.figure import Figure

    shown, notes = phases_shown(run), told_of(run)
    size = (PAGE, 1.9 + (0.15 if notes else 0))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(1, len(shown), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (title, moment) in zip(grid, shown, strict=True):
        theta = moment.probabilities[~moment.pattern.padding()].double().numpy()
        axes.hist(theta, bins=BINS, range=(0, 1), log=True, color="0.35", edgecolor="white", linewidth=0.3)
        undecided = np.mean((theta > DECIDED) & (theta < 1 - DECIDED))
        axes.set_title(f"{title}\n{100 * undecided:.3g} % undecided", fontsize=NAME)
        axes.set_xlabel("probability", fontsize=NAME)
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes.tick_params(labelsize=TEXT)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    grid[0].set_ylabel("units", fontsize=NAME)
    grid[0].set_ylim(bottom=0.7)  # a single unit is seen, too
    if notes:
        figure.supxlabel(notes, fontsize=TEXT, color="0.3", x=0.01, ha="left", parse_math=False)
    return figure


def phases_shown(run: Run) -> list[tuple[str, Moment]]:
    """The moments of the histograms, with their names; each moment once."""
    kept, ends = moments(run), phases(run)
    if ends:
        wanted = {"exploration": ends["exploration"][1], "annealing": sum(ends["constraining"]) / 2}
        named = {name: min(kept, key=lambda each: abs(each.step - step)) for name, step in wanted.items()}
        chosen = [kept[0], *named.values(), kept[-1]]
        names = {moment.step: f"{name}, step {moment.step}" for name, moment in named.items()}
    else:
        chosen, names = spread_out(kept, 4), {}
    names |= {kept[0].step: "start", kept[-1].step: f"end, step {kept[-1].step}"}
    unique = {moment.step: moment for moment in chosen}
    return [(names.get(step, f"step {step}"), unique[step]) for step in sorted(unique)]
