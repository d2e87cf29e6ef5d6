"""Figures, each a function that returns a matplotlib figure."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from promask import metrics
from promask.evaluation import reconstruct
from promask.files import replacing
from promask.learning.run import Run
from promask.types import Mask, SampleSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def overview(run: Run) -> "Figure":
    """Probabilities, mask and learning curves of a run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    probabilities = _shown(run.distribution.mean())
    picture = left.imshow(probabilities, cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
    figure.colorbar(picture, ax=left, label="probability")
    left.set_title("Probabilities")
    middle.imshow(_shown(run.mask), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    middle.set_title(
        f"Mask: {run.distribution.budget} of {run.distribution.pattern.units} units, x{run.acceleration:.4g}"
    )
    for axes in (left, middle):
        axes.set_axis_off()

    steps = range(1, len(run.history["loss"]) + 1)
    right.plot(steps, run.history["loss"], color="tab:blue")
    right.set(title="Learning", xlabel="step", ylabel=f"loss ({run.config.loss})", yscale="log")
    right.yaxis.label.set_color("tab:blue")
    of_budget = right.twinx()
    of_budget.plot(steps, run.history["budget"], color="tab:orange", linestyle="--")
    of_budget.set(ylabel="budget (units)", ylim=(0, None))
    of_budget.yaxis.label.set_color("tab:orange")
    return figure


def comparison(masks: Mapping[str, Mask], data: SampleSet, index: int) -> "Figure":
    """One held-out image reconstructed with several masks: image and error above, mask below (cf. Figure 7)."""
    from matplotlib.figure import Figure

    columns = len(masks) + 1
    figure = Figure(figsize=(2.6 * columns, 8.3), layout="constrained")
    grid = figure.subplots(3, columns)
    _, target = reconstruct(torch.ones_like(next(iter(masks.values()))), data, range(index, index + 1))
    window = {"cmap": "gray", "vmin": 0, "vmax": float(target.max())}
    _picture(grid[0, 0], target[0, 0], "Fully sampled", **window)
    for row in (1, 2):
        grid[row, 0].set_axis_off()
    grid[1, 0].text(1, 0.5, "error x 5", ha="right", va="center", fontsize=12)
    grid[2, 0].text(1, 0.5, "mask", ha="right", va="center", fontsize=12)
    for column, (name, mask) in enumerate(masks.items(), start=1):
        image, _ = reconstruct(mask, data, range(index, index + 1))
        quality = f"{float(metrics.psnr(image, target)):.1f} dB, SSIM {float(metrics.ssim(image, target)):.3f}"
        _picture(grid[0, column], image[0, 0], f"{name}\n{quality}", **window)
        _picture(grid[1, column], 5 * (image - target)[0, 0].abs(), "", **{**window, "cmap": "magma"})
        acceleration = mask.numel() / int(mask.sum())
        _picture(grid[2, column], mask, f"x{acceleration:.4g}", cmap="gray", vmin=0, vmax=1)
    return figure


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def _picture(axes: "Axes", values: torch.Tensor, title: str, **style: Any) -> None:
    axes.imshow(_shown(values), interpolation="nearest", **style)
    axes.set_title(title, fontsize=11)
    axes.set_axis_off()


def _shown(values: torch.Tensor) -> np.ndarray:
    """Two axes of an array; of a volume, the slice through the middle."""
    while values.ndim > 2:
        values = values[len(values) // 2]
    return values.float().numpy()
