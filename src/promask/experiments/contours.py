"""What the network of a comparison finds with each mask, as contours (the paper's Figure 10)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from promask.experiments.entries import factor
from promask.figures.contours import Outlined, outline_grid, outlined
from promask.recon import ZERO_FILLED, Reconstruction
from promask.tasks import Segmentation
from promask.types import Mask, SampleSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def contour_grid(
    masks: Mapping[str, Mapping[float, Mask]],
    task: Segmentation,
    data: SampleSet,
    index: int,
    recon: Reconstruction = ZERO_FILLED,
) -> "Figure":
    """One image: methods are rows, below the fully sampled image, and accelerations are columns.

    `masks` holds those of each method by acceleration. The Dice is that of this image alone.
    """
    accelerations = sorted({acceleration for of_method in masks.values() for acceleration in of_method})
    full = outlined(task, data, index, None, recon)
    rows: dict[str, dict[str, Outlined]] = {"fully sampled": {factor(x): full for x in accelerations}}
    for method, of_method in masks.items():
        rows[method] = {factor(x): outlined(task, data, index, mask, recon) for x, mask in of_method.items()}
    return outline_grid(rows, task)
