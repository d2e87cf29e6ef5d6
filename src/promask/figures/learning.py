"""How a run was learned: a strip of film, histograms and curves (Figures 1 to 3 of the paper), and an overview."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from promask.data.device import find_device
from promask.data.sample_sets import Subset
from promask.errors import InputError
from promask.evaluation.evaluate import evaluate
from promask.evaluation.images import reconstruct_one
from promask.evaluation.matching import check_shape, held_out
from promask.figures.images import check_index, quality_caption
from promask.figures.layout import (
    MASK,
    NAME,
    PAGE,
    PROBABILITY,
    SPREAD,
    TEXT,
    Grid,
    grey_window,
    height_for,
    hide_spines,
    image_axes,
    kspace_height,
    plane,
    plane_note,
    units_picture,
    width_of,
)
from promask.learners import describe
from promask.learners.base import ROTATIONS
from promask.learning.phrases import unit_noun, units_acquired
from promask.learning.run import Run
from promask.recon.base import Reconstruction
from promask.sampling.distribution import MaskDistribution
from promask.sampling.feasible import without_coupling
from promask.sampling.pattern import Pattern
from promask.types import Mask, SampleSet, Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Item = TypeVar("Item")


@dataclass(frozen=True)
class TrajectoryStep:
    """The probabilities of the first member after a step; step 0 is the start."""

    step: int
    probabilities: Units
    pattern: Pattern
    allowed: float
    """What the probabilities may sum to: the annealed budget."""

    @property
    def units(self) -> int:
        """How many units the mask has: what the probabilities sum to, within the budget."""
        wanted = round(float(self.probabilities.double().sum()))
        return max(1, min(wanted, math.floor(self.allowed + 1e-6)))

    @property
    def mask(self) -> Mask:
        """The most probable mask of so many units; on the way, neither gaps nor equal numbers are kept."""
        return self.pattern.expand(without_coupling(self.pattern).largest(self.probabilities, self.units))

    @property
    def acceleration(self) -> float:
        """All units, or those of a complete scan, over those of the mask."""
        return self.pattern.full / self.units


def trajectory_steps(run: Run) -> list[TrajectoryStep]:
    """All steps that the run kept the probabilities of, from the start to the end."""
    if run.trajectory is None:
        raise InputError(
            "The run kept no probabilities of its steps (trajectory.npy), as older versions did not, and very "
            "large volumes do not: learn it again."
        )
    budgets, pattern = run.history.budget, run.distribution.pattern
    kept = zip(run.trajectory.steps, run.trajectory.probabilities, strict=True)
    # A learner for spokes alone starts from uniform ones, and not from probabilities.
    first = int(describe(run.config.learner).patterns == (ROTATIONS,))
    return [
        TrajectoryStep(
            step, theta, pattern, budgets[max(step, 1) - 1]
        )  # the start: within the budget of the first step
        for step, theta in kept
        if step >= first
    ]


def spread_out(items: Sequence[Item], count: int) -> list[Item]:
    """At most so many of the items, the first and the last among them, at nearly equal distances.

    >>> spread_out(range(10), 4)
    [0, 3, 6, 9]
    """
    places = np.linspace(0, len(items) - 1, min(count, len(items))).round().astype(int)
    return [items[place] for place in places]


def phases(run: Run) -> dict[str, tuple[float, float]]:
    """First and last step of each phase, by its name, as in Figure 3; none where nothing is annealed."""
    config = run.config
    if config.annealing == "none":
        return {}
    first, last = config.exploration * config.steps, (1 - config.exploitation) * config.steps
    return {
        "exploration": (0.0, first),
        "constraining": (first, last),
        "exploitation": (last, float(config.steps)),
    }


def trajectory_notes(run: Run) -> str:
    """What one must know of the steps of a run: whose they are, and whether its mask came from them."""
    members, reference = run.config.members, run.record.reference
    notes = [f"The first of {members} members."] if members > 1 else []
    if reference and run.distribution.pattern.trajectory is not None:
        notes += [f"The run ended with {reference} {unit_noun(run.distribution.pattern)}."]
    elif reference:
        notes += [f"The run ended with the reference mask {reference!r}, which was better."]
    return " ".join(notes)


FRAMES = 6


def film(
    run: Run,
    data: SampleSet | None = None,
    index: int | None = None,
    frames: int = FRAMES,
    recon: Reconstruction | None = None,
    device: str | torch.device = "cpu",
) -> "Figure":
    """Steps of the first member, from the start to the end; at the right, the fully sampled image.

    Above, one image reconstructed with the most probable mask of the step, of as many samples as the probabilities
    sum to. Below, the probabilities.

    Args:
        run: The run.
        data: Images, as `held_out` gives them; None: those that the run was not learned from.
        index: The number of the image; None: the middle one.
        frames: Steps to show, at most.
        recon: How the image is reconstructed; None: as the run was learned for.
        device: Where PyTorch computes, such as `cpu` or `cuda`.

    Returns:
        A matplotlib figure.
    """
    device, steps = find_device(device), spread_out(trajectory_steps(run), max(frames, 2))
    recon = recon or run.reconstruction()
    data = held_out(run, recon=recon) if data is None else data
    check_shape(run, data)
    index = check_index(index, data)
    pattern = run.distribution.pattern
    results = [reconstruct_one(step.mask, data, index, recon, device=device) for step in steps]
    images = [plane(result.image[0, 0], image_axes(pattern)) for result in results]
    target = plane(results[0].target[0, 0], image_axes(pattern))
    window = grey_window(target)
    width, notes = width_of(len(steps) + 1), trajectory_notes(run)
    heights = [height_for(width, target.shape), kspace_height(width, pattern)]
    grid = Grid.of([width] * (len(steps) + 1), heights, lines=[2, 2], notes=1 if notes else 0)
    for column, (step, result) in enumerate(zip(steps, results, strict=True)):
        grid.name_column(column, f"step {step.step}" if step.step else "start")
        grid.show(0, column, images[column], quality_caption(result), **window)
        caption = f"{step.units} {unit_noun(pattern)}\nx{step.acceleration:.4g}"
        last = grid.show_units(1, column, step.probabilities, pattern, caption, cmap=PROBABILITY, vmax=1)
    grid.name_row(0, "reconstruction")
    grid.name_row(1, "probabilities")
    grid.name_column(len(steps), "fully sampled")
    grid.show(0, len(steps), target, **window)
    grid.bar(last, 1, len(steps), "probability")
    grid.note(notes)
    return grid.figure


BINS = 25
DECIDED = 0.01
"""Probabilities this close to 0 or 1 are as good as decided."""


def histograms(run: Run) -> "Figure":
    """Histograms of the probabilities of the first member: start, exploration, middle of annealing, end.

    Counts are on a logarithmic scale; padding is not counted. Where nothing is annealed, the steps are at equal
    distances.

    Args:
        run: The run.

    Returns:
        A matplotlib figure.
    """
    from matplotlib.figure import Figure

    steps, notes = steps_of_phases(run), trajectory_notes(run)
    size = (PAGE, 1.9 + (0.15 if notes else 0))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(1, len(steps), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (title, step) in zip(grid, steps, strict=True):
        theta = step.probabilities[~step.pattern.never()].double().numpy()
        axes.hist(theta, bins=BINS, range=(0, 1), log=True, color="0.35", edgecolor="white", linewidth=0.3)
        undecided = np.mean((theta > DECIDED) & (theta < 1 - DECIDED))
        axes.set_title(f"{title}\n{100 * undecided:.3g} % undecided", fontsize=NAME)
        axes.set_xlabel("probability", fontsize=NAME)
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes.tick_params(labelsize=TEXT)
        hide_spines(axes)
    grid[0].set_ylabel(unit_noun(run.distribution.pattern), fontsize=NAME)
    grid[0].set_ylim(bottom=0.7)  # a single one is seen, too
    if notes:
        figure.supxlabel(notes, fontsize=TEXT, color="0.3", x=0.01, ha="left", parse_math=False)
    return figure


def steps_of_phases(run: Run) -> list[tuple[str, TrajectoryStep]]:
    """The steps of the histograms, with their names; each of them once."""
    kept, ends = trajectory_steps(run), phases(run)
    if ends:
        wanted = {"exploration": ends["exploration"][1], "annealing": sum(ends["constraining"]) / 2}
        named = {name: min(kept, key=lambda each: abs(each.step - step)) for name, step in wanted.items()}
        chosen = [kept[0], *named.values(), kept[-1]]
        names = {step.step: f"{name}, step {step.step}" for name, step in named.items()}
    else:
        chosen, names = spread_out(kept, 4), {}
    names |= {0: "start", kept[-1].step: f"end, step {kept[-1].step}"}
    unique = {step.step: step for step in chosen}
    return [(names.get(number, f"step {number}"), unique[number]) for number in sorted(unique)]


IMAGES, DRAWS = 4, 3
"""How many images are measured, and how many random masks at each step."""


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
    device: str | torch.device = "cpu",
) -> "Figure":
    """Above, the mean SSIM of a few images at each step that the run kept the probabilities of.

    It is that of the most probable mask and of random masks of the first member. Below, the dense rate S/D that
    the probabilities may reach and what they do reach, and the loss of each step.

    Args:
        run: The run.
        data: Images, as `held_out` gives them; None: those that the run was not learned from.
        images: How many of them are measured, at most.
        draws: Random masks at each step.
        seed: The same seed gives the same masks.
        recon: How images are reconstructed; None: as the run was learned for.
        device: Where PyTorch computes, such as `cpu` or `cuda`.

    Returns:
        A matplotlib figure.
    """
    from matplotlib.figure import Figure

    kept = trajectory_steps(run)
    recon = recon or run.reconstruction()
    data = held_out(run, recon=recon) if data is None else data
    check_shape(run, data)
    found = similarities(kept, data, images, draws, seed, recon, device)
    figure = Figure(figsize=(3.5, 4.2), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True, height_ratios=[3, 2.4, 1.6])
    _quality(panels[0], found)
    _sparsity(panels[1], run, kept)
    _loss(panels[2], run)
    for axes in panels:
        axes.tick_params(labelsize=TEXT)
        hide_spines(axes)
        for first, _ in list(phases(run).values())[1:]:
            axes.axvline(first, color="0.7", linewidth=0.6, zorder=0)
    for name, ends in phases(run).items():
        place = panels[0].get_xaxis_transform()
        panels[0].text(sum(ends) / 2, 1.03, name, transform=place, ha="center", fontsize=TEXT)
    note = trajectory_notes(run)
    panels[2].set_xlabel(f"step\n{note}" if note else "step", fontsize=NAME, parse_math=False)
    return figure


def similarities(
    kept: Sequence[TrajectoryStep],
    data: SampleSet,
    images: int,
    draws: int,
    seed: int,
    recon: Reconstruction,
    device: str | torch.device,
) -> list[Similarity]:
    """The mean SSIM at each step, of images at equal distances."""
    chosen = Subset(data, spread_out(range(len(data)), images))

    def mean(mask: Mask) -> float:
        value = evaluate(mask, chosen, "all", recon=recon, device=device).summary()["ssim"]
        if value is None:
            raise InputError(f"The images of {data.name} are too small for SSIM, which needs 7 pixels each way.")
        return float(value)

    found = []
    for step in kept:
        distribution = MaskDistribution(step.probabilities, step.pattern, step.units)
        drawn = distribution.sample(max(draws, 1), seed)[:draws]
        found.append(Similarity(step.step, mean(step.mask), [mean(mask) for mask in drawn if mask.any()]))
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


def _sparsity(axes: "Axes", run: Run, kept: Sequence[TrajectoryStep]) -> None:
    units, budgets = run.distribution.pattern.units, np.array(run.history.budget)
    steps = range(1, len(budgets) + 1)
    axes.plot(steps, budgets / units, color="tab:blue", linewidth=1.6, label="allowed, S/D")
    reached = [float(step.probabilities.double().sum()) / units for step in kept]
    style: dict[str, Any] = {"marker": "^", "markersize": 3, "label": "mean probability"}
    axes.plot([step.step for step in kept], reached, ":", color="black", **style)
    axes.set_ylabel("dense rate", fontsize=NAME)
    axes.set_ylim(0, None)
    _legend(axes)


def _loss(axes: "Axes", run: Run) -> None:
    losses = run.history.loss
    axes.plot(range(1, len(losses) + 1), losses, color="0.4", linewidth=0.7)
    axes.set_yscale("log")
    axes.set_ylabel(f"loss ({run.config.loss})", fontsize=NAME, parse_math=False)


def _legend(axes: "Axes") -> None:
    axes.legend(fontsize=TEXT, edgecolor="none", framealpha=0.9, borderpad=0.1)


FEW_STEPS = 8
"""Steps, up to which each of them is marked in the learning curve."""
WIDE = 3
"""Losses that differ by more than this factor are shown on a logarithmic scale."""


def overview(run: Run) -> "Figure":
    """Probabilities, mask and learning curves of a run, and where its members disagree if there are several.

    Probabilities that are 0 or 1 only are those of the mask, which is shown alone.

    Args:
        run: The run.

    Returns:
        A matplotlib figure.
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
    for axes, (title, (values, colours, most)) in zip(grid, maps.items(), strict=False):
        units_picture(axes, values, pattern, title, cmap=colours, vmax=most)
        figure.colorbar((*axes.images, *axes.collections)[0], ax=axes)
    title = f"Mask: {units_acquired(pattern, distribution.budget)}, x{run.acceleration:.4g}"
    title = title if pattern.trajectory is None else title.removeprefix("Mask: ").replace(" (", "\n(")
    units_picture(grid[-2], pattern.restrict(run.mask).float(), pattern, title, cmap=MASK, vmax=1)
    notes = ["probabilities are 0 or 1 only"] if decided else []
    notes += [plane_note(pattern)] if run.mask.ndim > 2 or pattern.trajectory is not None else []
    notes += ["grey: padding, never acquired"] if pattern.never().any() else []
    grid[-2].set_xlabel("\n".join(notes))
    learning_curves(grid[-1], run)
    return figure


def learning_curves(axes: "Axes", run: Run) -> None:
    """The loss of every step, and the budget."""
    steps = range(1, len(run.history.loss) + 1)
    noun, few = describe(run.config.learner).noun, len(steps) <= FEW_STEPS
    axes.plot(steps, run.history.loss, color="tab:blue", marker="o" if few else None)
    axes.set(title=f"Learning: the loss of each {noun}", xlabel=noun)
    if max(run.history.loss) > WIDE * min(run.history.loss) > 0:
        axes.set_yscale("log")
    else:
        axes.ticklabel_format(axis="y", useOffset=False)
    if few:
        axes.set_xticks(steps)
    axes.set_ylabel(f"loss ({run.config.loss})", color="tab:blue", parse_math=False)
    of_budget = axes.twinx()
    of_budget.plot(steps, run.history.budget, color="tab:orange", linestyle="--")
    of_budget.set(ylim=(0, None))
    of_budget.set_ylabel(f"{unit_noun(run.distribution.pattern)} (dashed)", color="tab:orange")
