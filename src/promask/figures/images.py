"""One image reconstructed with several masks, as in Figure 8 of the paper: runs, mask files and baselines."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from promask.baselines import BASELINES, baseline_mask, matching_pattern
from promask.data.device import find_device
from promask.data.file_set import OnFile
from promask.data.sample_sets import OTHER_PART
from promask.data.sources import read_part
from promask.errors import InputError
from promask.evaluation.images import ReconstructedImage, reconstruct_one
from promask.evaluation.matching import check_mask, is_for_volumes, load_for_mask, read_for_run
from promask.evaluation.physics import pattern_of
from promask.evaluation.segmentation import NetworkLike, search_network
from promask.export import read_mask
from promask.export.mask_file import ExportedMask
from promask.figures.layout import (
    BRIGHTEST,
    ERROR,
    MAGNITUDE,
    Box,
    Grid,
    check_box,
    frames_style,
    grey_window,
    height_for,
    image_axes,
    kspace_axes,
    kspace_height,
    kspace_in_decibels,
    most_detail,
    padding_of,
    plane,
    width_of,
)
from promask.learning.run import Run
from promask.recon import make_reconstruction
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED
from promask.sampling.free_axes import FREE_AXES, scannable
from promask.sampling.pattern import Pattern
from promask.types import AnyArray, Mask, SampleSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class MaskSource:
    """Where a mask comes from: a run, a file, or a baseline, perhaps with a pattern: `energy:1d`."""

    name: str
    word: str
    what: Run | ExportedMask | str

    @staticmethod
    def parse(text: str) -> "MaskSource":
        """From a folder, a file or a baseline, perhaps with a name: `ours=runs/brain`.

        >>> MaskSource.parse("lines=energy:1d")
        MaskSource(name='lines', word='energy:1d', what='energy:1d')
        """
        given, equals, word = text.partition("=")
        if not equals or Path(text).exists():
            given, word = "", text
        place = Path(word)
        if (place / "run.json").is_file():
            return MaskSource(given or place.resolve().name, word, Run.load(place))
        if place.is_file() or place.suffix:
            return MaskSource(given or place.stem, word, read_mask(place))
        baseline, colon, pattern = word.partition(":")
        if baseline not in BASELINES:
            raise InputError(
                f"{word} is neither a run, nor a mask file, nor a baseline: choose from {', '.join(BASELINES)}."
            )
        if colon and pattern not in FREE_AXES:
            raise InputError(f"Unknown pattern {pattern!r} of {baseline}: choose one of {', '.join(FREE_AXES)}.")
        return MaskSource(given or word, word, word)


@dataclass(frozen=True)
class MasksAndImages:
    """Masks by name, the images that they are shown on, and how these are reconstructed."""

    masks: dict[str, Mask]
    images: SampleSet
    recon: Reconstruction


def load_masks(
    sources: Sequence[MaskSource],
    data: Any = None,
    acceleration: float | None = None,
    recon: str | None = None,
    seed: int = 0,
    part: str | None = None,
    on_file: OnFile | None = None,
    device: str | torch.device = "cpu",
    **reading: Any,
) -> MasksAndImages:
    """The masks, and images that the first run did not see.

    Baselines are made from the other part of the data, for the acceleration of the first run or file unless one is
    given. Their pattern and their centre are those of the first run, as far as they can be. The reconstruction is
    that of the first run without a choice.
    """
    first = next((each.what for each in sources if isinstance(each.what, Run)), None)
    by = ZERO_FILLED if first is None else first.reconstruction()
    by = by if recon is None else make_reconstruction(recon)
    if first is not None:
        whole, part = read_for_run(first, data, part, reading)
    elif data is None:
        raise InputError(
            "There is no run among the masks that would say which images to show: choose them with `data`."
        )
    else:
        given = [each.what.mask for each in sources if isinstance(each.what, ExportedMask)]
        example = next(filter(is_for_volumes, given), given[0] if given else torch.ones(1, 1))
        whole = load_for_mask(data, example, reading)
    _, images, part, _ = read_part(whole, part=part, default="test", recon=by, on_file=on_file)
    learning = images
    if any(isinstance(each.what, str) for each in sources):
        learning = read_part(whole, part=OTHER_PART[part], recon=by, on_file=on_file).samples
    centre = None if first is None else first.config.centre or None
    masks = {}
    for name, each in zip(unique_names(sources), sources, strict=True):
        if isinstance(each.what, str):
            baseline, units = each.what.partition(":")[0], _pattern(each.what, learning, first)
            wanted = acceleration or _acceleration(sources)
            mask = baseline_mask(baseline, learning, units, wanted, seed, centre, recon=by, device=device)
        else:
            mask = each.what.mask
        masks[name] = check_mask(mask, whole)
    return MasksAndImages(masks, images, by)


def masks_by_name(sources: Sequence[MaskSource]) -> dict[str, Run | ExportedMask]:
    """Runs and mask files by their names; baselines are refused, as there are no data to make them for."""
    masks: dict[str, Run | ExportedMask] = {}
    for name, each in zip(unique_names(sources), sources, strict=True):
        if isinstance(each.what, str):
            raise InputError(f"{each.word} is a baseline, which has no mask yet: write it with promask baseline.")
        masks[name] = each.what
    return masks


def voxel_of(sources: Sequence[MaskSource]) -> tuple[float, ...]:
    """The size of voxels in mm, as the first run knows it; empty if none does."""
    of_runs = (each.what.record.data.read.voxel for each in sources if isinstance(each.what, Run))
    return next(filter(None, of_runs), ())


def unique_names(sources: Sequence[MaskSource]) -> list[str]:
    """Names, all different: where they are not, the words that were given, and numbers in the end."""
    short = [each.name for each in sources]
    result: list[str] = []
    for each in sources:
        name = each.name if short.count(each.name) == 1 else each.word
        number = result.count(name) and sum(known.startswith(name) for known in result) + 1
        result.append(f"{name} ({number})" if number else name)
    return result


def network_of(sources: Sequence[MaskSource]) -> NetworkLike:
    """The network that the first run that has one was learned for: its own, or the file."""
    missing = "no run was learned for one"
    for each in sources:
        if isinstance(each.what, Run):
            found, gone = search_network(each.what)
            if found is not None:
                return found
            missing = f"that of the run {gone}" if gone else missing
    raise InputError(f"There is no network to find anything with, {missing}: choose one with `network`.")


def _pattern(word: str, data: SampleSet, beside: Run | None) -> Pattern:
    """The units of a baseline: those of the run beside it, as far as it can have them and no others are named."""
    name, _, asked = word.partition(":")
    shape, extent = data.shape[1:], data.geometry.extent
    if beside is not None:
        own = replace(beside.distribution.pattern, extent=extent)
        if asked:
            if own.indexed:
                return Pattern.on(shape, data.geometry, asked)
            count = FREE_AXES[asked]
            axes = own.free[-count:] if count <= len(own.free) else None
            return Pattern.named(asked, shape, axes, extent)
        if fitting := matching_pattern(name, own):
            return fitting
    baseline, geometry = BASELINES[name], data.geometry
    usual = scannable(baseline.usual, baseline.free, len(shape) - geometry.indexes, geometry.readout is not None)
    return Pattern.on(shape, geometry, asked or usual)


def _acceleration(sources: Sequence[MaskSource]) -> float:
    for each in sources:
        if isinstance(each.what, Run):
            return each.what.config.acceleration
        if isinstance(each.what, ExportedMask):
            return each.what.asked or each.what.achieved
    raise InputError("No run or file says how many samples a mask may have: give `acceleration`, such as 8.")


def quality_caption(result: ReconstructedImage, separator: str = "\n") -> str:
    """PSNR and SSIM of one image."""
    psnr = "exact" if math.isinf(result.psnr) else f"{result.psnr:.1f} dB"
    return psnr if math.isnan(result.ssim) else f"{psnr}{separator}SSIM {result.ssim:.3f}"


def check_index(index: int | None, data: SampleSet) -> int:
    """The number of an image to show, by default the middle one; refused if it is not there."""
    index = len(data) // 2 if index is None else index
    if not 0 <= index < len(data):
        raise InputError(f"{data.name} has images 0 to {len(data) - 1} to show, but number {index} was asked for.")
    return index


FACTORS = (1, 2, 5, 10, 20, 50, 100)
"""What errors are multiplied by to be seen."""
WIDEST = 1.35
"""Of a picture, in inches: there are four below each other."""


def reconstructions(
    masks: Mapping[str, Mask],
    data: SampleSet,
    index: int | None = None,
    recon: Reconstruction = ZERO_FILLED,
    zoom: Box | None = None,
    device: str | torch.device = "cpu",
) -> "Figure":
    """One image with each of the masks: image, zoom, error and mask below each other.

    The window of the errors is that of the images divided by a factor, the same for all masks, which is written
    beside them.

    Args:
        masks: Centred masks (*space), by the names that are written above them.
        data: Images, as `held_out` gives them.
        index: The number of the image; None: the middle one.
        recon: How the image is reconstructed.
        zoom: Rows and columns that are shown larger; None: where the fully sampled image has most detail.
        device: Where PyTorch computes, such as `cpu` or `cuda`.

    Returns:
        A matplotlib figure.
    """
    index, device = check_index(index, data), find_device(device)
    masks = {name: check_mask(mask, data) for name, mask in masks.items()}
    found = {name: reconstruct_one(mask, data, index, recon, device=device) for name, mask in masks.items()}
    pattern = pattern_of(next(iter(masks.values())), data.geometry)
    shown, of_image = kspace_axes(pattern), image_axes(pattern)
    target = plane(next(iter(found.values())).target[0, 0], of_image)
    box = most_detail(target) if zoom is None else check_box(zoom, target)
    window, highest = grey_window(target), float(target.max())
    extent, shape, brightest = data.geometry.extent, data.shape[1:], window["vmax"]
    factor = error_factor(list(found.values()), brightest, of_image)

    columns = 1 + len(masks)
    width = min(width_of(columns), WIDEST)
    closer = target[box]
    heights = [height_for(width, each.shape) for each in (target, closer, target)]
    heights += [kspace_height(width, pattern)]
    grid = Grid.of([width] * columns, heights, lines=[2, 0, 0, 1])
    for row, name in enumerate(("image", "zoom", f"error x {factor}", "mask")):
        grid.name_row(row, name)
    grid.name_column(0, "fully sampled")
    _boxed(grid.show(0, 0, target, **window), box)
    grid.show(1, 0, closer, **window)
    kspace, padding = (plane(each, shown) for each in (kspace_in_decibels(data, index), padding_of(shape, extent)))
    grid.show(3, 0, kspace, "its k-space (log)", padding, cmap=MAGNITUDE, **frames_style(pattern))
    for column, (name, mask) in enumerate(masks.items(), start=1):
        image = plane(found[name].image[0, 0], of_image)
        grid.name_column(column, name)
        _boxed(grid.show(0, column, image, quality_caption(found[name]), **window), box)
        grid.show(1, column, image[box], **window)
        error = 100 * (image - target).abs() / highest
        of_errors: dict[str, Any] = {"cmap": ERROR, "vmin": 0, "vmax": 100 * brightest / factor / highest}
        last = grid.show(2, column, error, **of_errors)
        grid.show_mask(3, column, mask, data.geometry)
    grid.bar(last, 2, 0, "error\n(% of maximum)", mirrored=True)
    return grid.figure


def error_factor(found: Sequence[ReconstructedImage], brightest: float, shown: tuple[int, int] = (-2, -1)) -> int:
    """The largest factor at which nearly all errors are within the window of the images."""
    errors = [(plane(each.image[0, 0], shown) - plane(each.target[0, 0], shown)).abs() for each in found]
    return factor_for(torch.stack(errors), brightest)


def factor_for(errors: AnyArray, brightest: float) -> int:
    """The same for magnitudes of errors."""
    largest = float(np.quantile(errors.numpy(), BRIGHTEST))
    return max(factor for factor in FACTORS if factor == 1 or factor * largest <= brightest)


def _boxed(axes: Any, box: Box) -> None:
    """A frame around the part that is shown larger, half a pixel outside of it."""
    from matplotlib.patches import Rectangle

    rows, columns = box
    corner = columns.start - 0.5, rows.start - 0.5
    size = columns.stop - columns.start, rows.stop - rows.start
    axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor="white", linewidth=0.9))
