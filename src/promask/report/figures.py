"""Figures, each a function that returns a matplotlib figure."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from promask import metrics
from promask.evaluation import full_images, reconstruct
from promask.files import replacing
from promask.learning.run import Run
from promask.types import Mask, SampleSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PADDING_GREY = 0.35


def overview(run: Run) -> "Figure":
    """Probabilities, mask and learning curves of a run, and where its members disagree if there are several."""
    from matplotlib.figure import Figure

    distribution = run.distribution
    maps = {"Probabilities": distribution.mean()}
    if run.config.members > 1:
        maps[f"Standard deviation over {run.config.members} members"] = distribution.pattern.expand(
            run.variance.sqrt()
        )
    columns = len(maps) + 2
    figure = Figure(figsize=(4.4 * columns, 4), layout="constrained")
    grid = figure.subplots(1, columns)
    for axes, (title, values) in zip(grid, maps.items(), strict=False):
        picture(axes, values, title, cmap="viridis", vmin=0, vmax=1 if title == "Probabilities" else None)
        figure.colorbar(axes.images[0], ax=axes)
    title = f"Mask: {distribution.budget} of {distribution.pattern.units} units, x{run.acceleration:.4g}"
    padding = distribution.pattern.expand(distribution.pattern.padding())
    picture(grid[-2], run.mask.float().masked_fill(padding, PADDING_GREY), title, cmap="gray", vmin=0, vmax=1)
    notes = ["the plane through the centre"] if run.mask.ndim > 2 else []
    notes += ["grey: padding, never acquired"] if padding.any() else []
    grid[-2].set_xlabel("; ".join(notes))
    _learning_curves(grid[-1], run)
    return figure


def _learning_curves(axes: "Axes", run: Run) -> None:
    steps = range(1, len(run.history["loss"]) + 1)
    axes.plot(steps, run.history["loss"], color="tab:blue")
    axes.set(
        title="Learning: the loss of each batch", xlabel="step", ylabel=f"loss ({run.config.loss})", yscale="log"
    )
    axes.yaxis.label.set_color("tab:blue")
    of_budget = axes.twinx()
    of_budget.plot(steps, run.history["budget"], color="tab:orange", linestyle="--")
    of_budget.set(ylabel="budget (units)", ylim=(0, None))
    of_budget.yaxis.label.set_color("tab:orange")


def comparison(masks: Mapping[str, Mask], data: SampleSet, index: int) -> "Figure":
    """One held-out image reconstructed with several masks: image and error above, mask below (cf. Figure 7)."""
    from matplotlib.figure import Figure

    columns = len(masks) + 1
    figure = Figure(figsize=(2.6 * columns, 8.3), layout="constrained")
    grid = figure.subplots(3, columns)
    target = full_images(data, range(index, index + 1))
    window = {"cmap": "gray", "vmin": 0, "vmax": float(target.max())}
    picture(grid[0, 0], target[0, 0], "Fully sampled", **window)
    for row in (1, 2):
        grid[row, 0].set_axis_off()
    grid[1, 0].text(1, 0.5, "error x 5", ha="right", va="center", fontsize=12)
    grid[2, 0].text(1, 0.5, "mask", ha="right", va="center", fontsize=12)
    for column, (name, mask) in enumerate(masks.items(), start=1):
        image, _ = reconstruct(mask, data, range(index, index + 1))
        quality = f"{float(metrics.psnr(image, target)):.1f} dB, SSIM {float(metrics.ssim(image, target)):.3f}"
        picture(grid[0, column], image[0, 0], f"{name}\n{quality}", **window)
        picture(grid[1, column], 5 * (image - target)[0, 0].abs(), "", **{**window, "cmap": "magma"})
        acceleration = mask.numel() / int(mask.sum())
        picture(grid[2, column], mask, f"x{acceleration:.4g}", cmap="gray", vmin=0, vmax=1)
    return figure


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def picture(axes: "Axes", values: torch.Tensor, title: str, **style: Any) -> None:
    """Show two axes of an array, without ticks."""
    axes.imshow(_shown(values), **{"interpolation": "nearest", **style})
    axes.set_title(title, fontsize=11)
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_color("lightgray")


def _shown(values: torch.Tensor) -> np.ndarray:
    """Two axes of an array; of a volume, the plane through the middle."""
    while values.ndim > 2:
        values = values[len(values) // 2]
    return values.float().numpy()
