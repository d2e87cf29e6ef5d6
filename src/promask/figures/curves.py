"""Sparsity and quality over the steps of learning, as in Figure 3 of the paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from promask.data import Subset
from promask.distribution import MaskDistribution
from promask.errors import InputError
from promask.evaluation import evaluate
from promask.figures.grid import NAME, TEXT
from promask.figures.moments import Moment, moments, phases, spread_out, told_of
from promask.held_out import check_shape, held_out
from promask.learning.run import Run
from promask.recon import Reconstruction
from promask.types import Mask, SampleSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IMAGES, DRAWS = 4, 3
"""How many images are looked at, and how many random masks at each moment."""


@dataclass(frozen=True)
class Similarity:
    """The mean SSIM of some images after a step."""

    step: int
    mode: float
    """With the most probable mask."""
    drawn: Sequence[float]
    """With each of the random masks."""


def curves(
    run: Run,
    data: SampleSet | None = None,
    images: int = IMAGES,
    draws: int = DRAWS,
    seed: int = 0,
    recon: Reconstruction | None = None,
) -> "Figure":
    """Above, the mean SSIM of a few images that the run did not see, at each moment that it kept.

    It is that of the most probable mask and of random masks of the first member. Below, the dense rate S/D that
    the probabilities may reach and what they do reach, and the loss of each step.
    """
    from matplotlib.figure import Figure

    kept = moments(run)
    recon = recon or run.reconstruction()
    data = held_out(run, recon=recon) if data is None else data
    check_shape(run, data)
    found = similarities(kept, data, images, draws, seed, recon)
    figure = Figure(figsize=(3.5, 4.2), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True, height_ratios=[3, 2.4, 1.6])
    _quality(panels[0], found)
    _sparsity(panels[1], run, kept)
    _loss(panels[2], run)
    for axes in panels:
        axes.tick_params(labelsize=TEXT)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for first, _ in list(phases(run).values())[1:]:
            axes.axvline(first, color="0.7", linewidth=0.6, zorder=0)
    for name, ends in phases(run).items():
        place = panels[0].get_xaxis_transform()
        panels[0].text(sum(ends) / 2, 1.03, name, transform=place, ha="center", fontsize=TEXT)
    note = told_of(run)
    panels[2].set_xlabel(f"step\n{note}" if note else "step", fontsize=NAME, parse_math=False)
    return figure


def similarities(
    kept: Sequence[Moment], data: SampleSet, images: int, draws: int, seed: int, recon: Reconstruction
) -> list[Similarity]:
    """The mean SSIM at each moment, of images at equal distances."""
    chosen = Subset(data, spread_out(range(len(data)), images))

    def mean(mask: Mask) -> float:
        value = evaluate(mask, chosen, "all", recon=recon).summary()["ssim"]
        if value is None:
            raise InputError(f"The images of {data.name} are too small for SSIM, which needs 7 pixels each way.")
        return float(value)

    found = []
    for moment in kept:
        distribution = MaskDistribution(moment.probabilities, moment.pattern, moment.units)
        drawn = distribution.sample(max(draws, 1), seed)[:draws]
        found.append(Similarity(moment.step, mean(moment.mask), [mean(mask) for mask in drawn if mask.any()]))
    return found


def _quality(axes: "Axes", found: Sequence[Similarity]) -> None:
    steps, of_modes = [each.step for each in found], [each.mode for each in found]
    axes.plot(steps, of_modes, color="black", marker="o", markersize=3, label="most probable mask")
    drawn = [each for each in found if each.drawn]
    if drawn:
        steps = [each.step for each in drawn]
        means, spreads = (np.array([of(each.drawn) for each in drawn]) for of in (np.mean, np.std))
        label = f"{max(len(each.drawn) for each in drawn)} random masks"
        style: dict[str, Any] = {"marker": "s", "markersize": 3, "markerfacecolor": "white", "label": label}
        axes.plot(steps, means, "--", color="tab:red", **style)
        axes.fill_between(steps, means - spreads, means + spreads, color="tab:red", alpha=0.2, linewidth=0)
    axes.set_ylabel("mean SSIM", fontsize=NAME)
    _legend(axes)


def _sparsity(axes: "Axes", run: Run, kept: Sequence[Moment]) -> None:
    units, budgets = run.distribution.pattern.units, np.array(run.history["budget"])
    steps = range(1, len(budgets) + 1)
    axes.plot(steps, budgets / units, color="tab:blue", linewidth=1.6, label="allowed, S/D")
    reached = [float(moment.probabilities.double().sum()) / units for moment in kept]
    style: dict[str, Any] = {"marker": "^", "markersize": 3, "label": "mean probability"}
    axes.plot([moment.step for moment in kept], reached, ":", color="black", **style)
    axes.set_ylabel("dense rate", fontsize=NAME)
    axes.set_ylim(0, None)
    _legend(axes)


def _loss(axes: "Axes", run: Run) -> None:
    losses = run.history["loss"]
    axes.plot(range(1, len(losses) + 1), losses, color="0.4", linewidth=0.7)
    axes.set_yscale("log")
    axes.set_ylabel(f"loss ({run.config.loss})", fontsize=NAME, parse_math=False)


def _legend(axes: "Axes") -> None:
    axes.legend(fontsize=TEXT, edgecolor="none", framealpha=0.9, borderpad=0.1)
