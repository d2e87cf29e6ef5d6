"""The networks that judge images by what they find in them, and how well they find it."""

import warnings
from pathlib import Path

import torch

from promask.data.device import CPU
from promask.errors import InputError, InputWarning
from promask.evaluation.images import chunks, images_with
from promask.evaluation.result import SegmentationScores
from promask.learning.run import Run
from promask.losses.segmentation import Segmentation, freeze, make_segmentation
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED
from promask.segmentation.classes import Overlap, overlap_of
from promask.segmentation.network import SegmentationNetwork
from promask.types import Logits, Mask, SampleSet, Targets

NetworkLike = str | Path | SegmentationNetwork | Segmentation
"""A segmentation network: its file, the network itself, or the task that it is part of."""


def measurable(network: NetworkLike, device: str | torch.device = CPU) -> Segmentation:
    """The task of a network, which is a file or an object; its classes must be known."""
    task = make_segmentation(network, device)
    if task.classes is None:
        raise InputError("To be measured, a network needs classes: give Segmentation the classes of its outputs.")
    return task


def find_network(run: Run) -> NetworkLike | None:
    """The network that a run was learned for; a warning if it is gone."""
    network, gone = search_network(run)
    if gone:
        warnings.warn(
            f"The network that the run was learned for {gone}: only the images are measured, unless you give it "
            f"with `network`.",
            InputWarning,
            stacklevel=2,
        )
    return network


def search_network(run: Run) -> tuple[NetworkLike | None, str]:
    """The network that a run was learned for, if there was one: its own, or the file; or where it is no longer."""
    if isinstance(run.network, SegmentationNetwork):
        return run.network, ""
    if run.record.network is None:
        return None, ""
    path = Path(run.record.network.file) if run.record.network.file else None
    if path is not None and path.is_file():
        return path, ""
    return None, "is not in a file" if path is None else f"is not at {path} any more"


def segmentation_scores(
    task: Segmentation, data: SampleSet, mask: Mask, recon: Reconstruction, device: torch.device
) -> SegmentationScores:
    """How well a network segments the images of a mask, and the fully sampled ones."""
    assert task.classes is not None
    with_mask, full = (segment(task, data, each, recon, device) for each in (mask, None))
    return SegmentationScores(task.classes.names, with_mask, full)


def segment(
    task: Segmentation,
    data: SampleSet,
    mask: Mask | None,
    recon: Reconstruction = ZERO_FILLED,
    device: torch.device = CPU,
) -> Overlap:
    """How well a network segments the images of a mask, or, without a mask, the fully sampled ones."""
    classes = task.classes
    assert classes is not None
    overlaps = []
    for indices in chunks(data):
        labels = torch.stack([data.geometry.crop(classes.label(data[index])) for index in indices])
        images = images_with(mask, data, indices, recon, device)
        overlaps.append(overlap_of(network_outputs(task, images), labels, classes))
    return Overlap(torch.cat([each.dice for each in overlaps]), torch.cat([each.iou for each in overlaps]))


def network_outputs(task: Segmentation, images: Targets) -> Logits:
    """What the network of a task makes of magnitude images, in evaluation mode; it is as it was afterwards."""
    with freeze(task.network), torch.no_grad():
        return task.outputs(images).cpu()
