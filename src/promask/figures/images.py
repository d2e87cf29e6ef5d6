"""The masks that a figure compares, by the words of a user: runs, files, and baselines made for the data.

What is written below a reconstruction: how good it is.

One image reconstructed with several masks, as in Figure 8 of the paper.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from promask.baselines import BASELINES, baseline_mask, matching_pattern
from promask.data.file_set import OnFile
from promask.data.reading import Reading
from promask.data.sample_sets import OTHER_PART
from promask.data.sources import load, read_part
from promask.errors import InputError
from promask.evaluation.conventions import Measured, find_convention
from promask.evaluation.evaluate import achieved_acceleration, check_mask, reconstruct
from promask.evaluation.held_out import check_index, read, search_network
from promask.export import read_mask
from promask.export.mask_file import ExportedMask
from promask.figures.layout import (
    BRIGHTEST,
    ERROR,
    MAGNITUDE,
    MASK,
    Box,
    Grid,
    check_box,
    height_for,
    in_decibels,
    most_detail,
    padding_of,
    plane,
    white,
    width_of,
)
from promask.learning.run import Run
from promask.operators.fourier import space_axes, to_kspace
from promask.recon import make_reconstruction
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED
from promask.sampling.pattern import FREE_AXES, Pattern
from promask.types import AnyArray, Mask, SampleSet, Targets

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Entrant:
    """A word: a run, a mask from a file, or the name of a baseline, perhaps with a pattern: `energy:1d`."""

    name: str
    word: str
    what: Run | ExportedMask | str

    @staticmethod
    def parse(text: str) -> "Entrant":
        """From a folder, a file or a baseline, perhaps with a name: `ours=runs/brain`.

        >>> Entrant.parse("lines=energy:1d")
        Entrant(name='lines', word='energy:1d', what='energy:1d')
        """
        given, equals, word = text.partition("=")
        if not equals or Path(text).exists():
            given, word = "", text
        place = Path(word)
        if (place / "run.json").is_file():
            return Entrant(given or place.resolve().name, word, Run.load(place))
        if place.is_file() or place.suffix:
            return Entrant(given or place.stem, word, read_mask(place))
        baseline, colon, pattern = word.partition(":")
        if baseline not in BASELINES:
            raise InputError(
                f"{word} is neither a run, nor a mask file, nor a baseline: choose from {', '.join(BASELINES)}."
            )
        if colon and pattern not in FREE_AXES:
            raise InputError(f"Unknown pattern {pattern!r} of {baseline}: choose one of {', '.join(FREE_AXES)}.")
        return Entrant(given or word, word, word)


@dataclass(frozen=True)
class Entered:
    """Masks by name, the images that they are shown on, and how these are reconstructed."""

    masks: dict[str, Mask]
    images: SampleSet
    recon: Reconstruction


def entered(
    entrants: Sequence[Entrant],
    data: str | None = None,
    accel: float | None = None,
    recon: str | None = None,
    seed: int = 0,
    part: str | None = None,
    on_file: OnFile | None = None,
    **reading: Any,
) -> Entered:
    """The masks, and images that the first run did not see.

    Baselines are made from the other part of the data, for the acceleration of the first run or file unless one is
    given. Their pattern and their centre are those of the first run, as far as they can be. The reconstruction is
    that of the first run without a choice.
    """
    first = next((each.what for each in entrants if isinstance(each.what, Run)), None)
    by = ZERO_FILLED if first is None else first.reconstruction()
    by = by if recon is None else make_reconstruction(recon)
    if first is not None:
        whole, part = read(first, data, part, reading)
    elif data is None:
        raise InputError(
            "There is no run among the masks that would say which images to show: choose with --data."
        )
    else:
        volumes = any(isinstance(each.what, ExportedMask) and each.what.mask.ndim == 3 for each in entrants)
        whole = load(data, Reading(**{"volumes": volumes, **reading}))
    _, images, part = read_part(whole, part=part, default="test", recon=by, on_file=on_file)
    learning = images
    if any(isinstance(each.what, str) for each in entrants):
        _, learning, _ = read_part(whole, part=OTHER_PART[part], recon=by, on_file=on_file)
    centre = None if first is None else first.config.centre or None
    masks = {}
    for name, each in zip(names(entrants), entrants, strict=True):
        if isinstance(each.what, str):
            baseline, units = each.what.partition(":")[0], _pattern(each.what, learning, first)
            wanted = accel or _acceleration(entrants)
            mask = baseline_mask(baseline, learning, units, wanted, seed, centre, recon=by)
        else:
            mask = each.what.mask
        masks[name] = check_mask(mask, whole)
    return Entered(masks, images, by)


def names(entrants: Sequence[Entrant]) -> list[str]:
    """Names, all different: where they are not, the words that were given, and numbers in the end."""
    short = [each.name for each in entrants]
    result: list[str] = []
    for each in entrants:
        name = each.name if short.count(each.name) == 1 else each.word
        number = result.count(name) and sum(known.startswith(name) for known in result) + 1
        result.append(f"{name} ({number})" if number else name)
    return result


def network_of(entrants: Sequence[Entrant]) -> Path:
    """The network that the first run that has one was learned for: beside the run, or where it was then."""
    missing = "no run was learned for one"
    for each in entrants:
        if isinstance(each.what, Run):
            found, gone = search_network(each.what, Path(each.word))
            if found is not None:
                return found
            missing = f"that of the run {gone}" if gone else missing
    raise InputError(f"There is no network to find anything with, {missing}: choose one with --network FILE.")


def _pattern(word: str, data: SampleSet, beside: Run | None) -> Pattern:
    """The units of a baseline: those of the run beside it, as far as it can have them and no others are named."""
    name, _, asked = word.partition(":")
    shape, extent = data.shape[1:], data.geometry.extent
    if beside is not None:
        own = replace(beside.distribution.pattern, extent=extent)
        if asked:
            count = FREE_AXES[asked]
            axes = own.free[-count:] if count <= len(own.free) else None
            return Pattern.named(asked, shape, axes, extent)
        if fitting := matching_pattern(name, own):
            return fitting
    return Pattern.named(asked or BASELINES[name].usual, shape, None, extent)


def _acceleration(entrants: Sequence[Entrant]) -> float:
    for each in entrants:
        if isinstance(each.what, Run):
            return each.what.config.acceleration
        if isinstance(each.what, ExportedMask):
            return each.what.asked or each.what.achieved
    raise InputError("No run or file says how many units a mask may have: give --accel, such as --accel 8.")


@dataclass(frozen=True)
class Reconstructed:
    """One image with a mask, its fully sampled target, and the quality of this image alone."""

    image: Targets
    target: Targets
    psnr: float
    ssim: float
    """NaN for images that are too small."""

    def caption(self, separator: str = "\n") -> str:
        """Both numbers."""
        psnr = "exact" if math.isinf(self.psnr) else f"{self.psnr:.1f} dB"
        return psnr if math.isnan(self.ssim) else f"{psnr}{separator}SSIM {self.ssim:.3f}"


def reconstructed(
    mask: Mask, data: SampleSet, index: int, recon: Reconstruction = ZERO_FILLED, convention: str = "paper"
) -> Reconstructed:
    """Reconstruct one image of a data set, and measure it as `evaluate` would."""
    image, target = reconstruct(mask, data, range(index, index + 1), recon)
    alone = Measured([range(1)], ["shown"], targets=lambda _: target, pairs=lambda _: (image, target))
    quality = find_convention(convention).measure(alone)
    return Reconstructed(image, target, quality.psnr[0], quality.ssim[0])


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
) -> "Figure":
    """One image with each of the masks, which have names: image, zoom, error and mask below each other.

    The zoom is by default where the fully sampled image has most detail. The window of the errors is that of the
    images divided by a factor, the same for all masks, which is written beside them.
    """
    index = check_index(len(data) // 2 if index is None else index, data)
    masks = {name: check_mask(mask, data) for name, mask in masks.items()}
    found = {name: reconstructed(mask, data, index, recon) for name, mask in masks.items()}
    target = _first(next(iter(found.values())).target)
    box = most_detail(target) if zoom is None else check_box(zoom, target)
    brightest, highest = white(target), float(target.max())
    window: dict[str, Any] = {"cmap": MAGNITUDE, "vmin": 0, "vmax": brightest}
    extent, shape = data.geometry.extent, data.shape[1:]
    padding = padding_of(shape, extent)
    factor = error_factor(list(found.values()), brightest)

    columns = 1 + len(masks)
    width = min(width_of(columns), WIDEST)
    closer = target[box]
    heights = [height_for(width, each.shape) for each in (target, closer, target)] + [height_for(width, shape)]
    grid = Grid.of([width] * columns, heights, lines=[2, 0, 0, 1])
    for row, name in enumerate(("image", "zoom", f"error x {factor}", "mask")):
        grid.name_row(row, name)
    grid.name_column(0, "fully sampled")
    _boxed(grid.show(0, 0, target, **window), box)
    grid.show(1, 0, closer, **window)
    kspace = in_decibels(to_kspace(data[index].image[0], space_axes(len(shape))))
    grid.show(3, 0, kspace, "its k-space (log)", padding, cmap=MAGNITUDE)
    for column, (name, mask) in enumerate(masks.items(), start=1):
        image = _first(found[name].image)
        grid.name_column(column, name)
        _boxed(grid.show(0, column, image, found[name].caption(), **window), box)
        grid.show(1, column, image[box], **window)
        error = 100 * (image - target).abs() / highest
        of_errors: dict[str, Any] = {"cmap": ERROR, "vmin": 0, "vmax": 100 * brightest / factor / highest}
        last = grid.show(2, column, error, **of_errors)
        achieved = f"x{achieved_acceleration(mask, extent):.4g}"
        grid.show(3, column, mask, achieved, padding, cmap=MASK, vmin=0, vmax=1)
    grid.bar(last, 2, 0, "error\n(% of maximum)", mirrored=True)
    return grid.figure


def error_factor(found: Sequence[Reconstructed], brightest: float) -> int:
    """The largest factor at which nearly all errors are within the window of the images."""
    errors = torch.stack([(_first(each.image) - _first(each.target)).abs() for each in found])
    seen = float(np.quantile(errors.numpy(), BRIGHTEST))
    return max(factor for factor in FACTORS if factor == 1 or factor * seen <= brightest)


def _first(images: AnyArray) -> AnyArray:
    """The plane of the first channel of the first image that is shown."""
    return plane(images[0, 0])


def _boxed(axes: Any, box: Box) -> None:
    """A frame around the part that is shown larger, half a pixel outside of it."""
    from matplotlib.patches import Rectangle

    rows, columns = box
    corner = columns.start - 0.5, rows.start - 0.5
    size = columns.stop - columns.start, rows.stop - rows.start
    axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor="white", linewidth=0.9))
