"""The picture of a run's stability: images above, k-space below (cf. the paper's Figures 5 to 7)."""

from typing import TYPE_CHECKING, Any

import torch

from promask.experiments.stability import Stability
from promask.figures.picture import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def stability_figure(result: Stability) -> "Figure":
    """The truth, the mode, a random mask of the same budget, and what varies: four columns."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    shown, run = result.shown, result.run
    height, width = shown.target.shape[-2:]
    size = 14.5, 1 + 2 * 3.3 * min(max(height / width, 0.5), 1.6)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
    images, kspace = figure.subplots(2, 4)
    window: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": float(shown.target[0].max())}
    of_mode, of_random = (f"{value:.2f} dB" for value in shown.psnr)
    picture(images[0], shown.target[0], "Fully sampled", **window)
    picture(images[1], shown.of_mode[0], f"With the mode: {of_mode}", **window)
    picture(images[2], shown.of_random[0], f"With a random mask: {of_random}", **window)
    _spread(images[3], 100 * shown.pixel_std[0], f"Pixels over {result.draws} random masks", " (% of the maximum)")

    if run.mask.ndim > 2:
        images[0].set_xlabel("the plane through the centre")

    distribution = run.distribution
    units = f"{distribution.budget} of {distribution.pattern.units} units"
    picture(kspace[0], distribution.mean(), "Probabilities, from 0 to 1", cmap="viridis", vmin=0, vmax=1)
    picture(kspace[1], run.mask, f"Mode: {units}", cmap="gray", vmin=0, vmax=1)
    picture(kspace[2], shown.random_mask, f"Random mask: {units}", cmap="gray", vmin=0, vmax=1)
    if result.agreement is None:
        kspace[3].set_axis_off()
        note = (
            f"The mask of {run.about['plain']}:\nnothing to disagree on"
            if run.about.get("plain")
            else "One member:\nlearn with --members 10\nto see how far they agree"
        )
        kspace[3].text(0.5, 0.5, note, ha="center", va="center", fontsize=11, color="gray")
    else:
        over_members = distribution.pattern.expand(run.variance.sqrt())
        _spread(kspace[3], over_members, f"Probabilities over {result.agreement.members} members", "")
    return figure


def _spread(axes: "Axes", values: torch.Tensor, of: str, unit: str) -> None:
    """A map of standard deviations, with its scale; what never varies is dark."""
    picture(axes, values, of, cmap="magma", vmin=0, vmax=float(values.max()) or 1)
    bar = axes.figure.colorbar(axes.images[0], cax=axes.inset_axes((1.03, 0, 0.04, 1)))
    bar.set_label(f"standard deviation{unit}", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_edgecolor("lightgray")
