"""Series of frames: profiles over time through what moves, the error of every frame, and animated pictures."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from promask.data.atomic import check_writable, replace_file
from promask.data.axes import FRAME
from promask.data.device import find_device
from promask.errors import InputError
from promask.evaluation.images import ReconstructedImage, reconstruct_one
from promask.evaluation.matching import check_mask
from promask.evaluation.temporal import moving_region, psnr_over_time
from promask.figures.images import check_index, factor_for, quality_caption
from promask.figures.layout import ERROR, TEXT, Grid, grey_window, height_for, hide_spines, width_of
from promask.losses import metrics
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED
from promask.types import Mask, SampleSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDEST = 1.7
"""Of a picture, in inches."""
PROFILE = 1.1
"""The height of a profile over time, relative to its width."""
CURVE = 1.3
"""The height of the curve of errors, in inches, and the room below it."""
COLOURS = ("#c8102e", "#4e79a7", "#59a14f", "#8c6d4f", "#9c89b8", "#76b7b2", "#b0a23c", "#6b6b6b")
ENDINGS = (".gif", ".webp")
"""Of animated pictures."""
SECONDS = 1.5
"""That a series lasts in an animated picture: a slow heartbeat."""
LENGTH = 110
"""Dots per inch of animated pictures."""


@dataclass(frozen=True)
class Series:
    """One series with several masks: magnitudes (frame, y, x), and the fully sampled one.

    Args:
        target: Fully sampled.
        images: Reconstructed, by the name of the mask.
        captions: The quality of each.
        over_time: The PSNR of every frame of each.
    """

    target: Float[Tensor, "frame height width"]
    images: Mapping[str, Float[Tensor, "frame height width"]]
    captions: Mapping[str, str]
    over_time: Mapping[str, Sequence[float]]

    @staticmethod
    def of(found: Mapping[str, ReconstructedImage]) -> "Series":
        """From reconstructions, (1, channel, frame, *space); of volumes, the slice in the middle."""
        target = next(iter(found.values())).target
        over_time = {}
        for name, each in found.items():
            image, truth = metrics.clipped(each.image, each.target)
            over_time[name] = psnr_over_time(image, truth)[0].tolist()
        images = {name: _of_slice(each.image) for name, each in found.items()}
        captions = {name: quality_caption(each) for name, each in found.items()}
        return Series(_of_slice(target), images, captions, over_time)

    @property
    def column(self) -> int:
        """The column of pixels through the middle of what moves."""
        moving = moving_region(self.target[None, None])[0, 0]
        weights = (self.target.std(0, correction=0) * moving).sum(0)
        if not weights.any():
            return len(weights) // 2
        return round(float((weights * torch.arange(len(weights))).sum() / weights.sum()))

    @property
    def frame(self) -> int:
        """The frame that differs most from the first one: of a heart, the end of systole."""
        return int((self.target - self.target[0]).square().flatten(1).sum(1).argmax())


def _of_slice(image: Float[Tensor, "..."]) -> Float[Tensor, "frame height width"]:
    series = image[0, 0]
    return series if series.ndim == 3 else series[:, series.shape[1] // 2]


def reconstruct_series(
    masks: Mapping[str, Mask],
    data: SampleSet,
    index: int | None = None,
    recon: Reconstruction = ZERO_FILLED,
    device: str | torch.device = "cpu",
) -> Series:
    """Reconstruct one series with each of the masks.

    Args:
        masks: Centred masks (frame, *space), by name.
        data: Series of frames, as `held_out` gives them.
        index: The number of the series; None: the one in the middle.
        recon: How it is reconstructed.
        device: Where PyTorch computes, such as `cpu` or `cuda`.

    Returns:
        The series, ready to be shown.
    """
    if data.geometry.indexed != FRAME:
        raise InputError(f"{data.name} has no frames: profiles over time and films need series of frames.")
    index, device = check_index(index, data), find_device(device)
    masks = {name: check_mask(mask, data) for name, mask in masks.items()}
    found = {name: reconstruct_one(mask, data, index, recon, device=device) for name, mask in masks.items()}
    return Series.of(found)


def xt(
    masks: Mapping[str, Mask],
    data: SampleSet,
    index: int | None = None,
    recon: Reconstruction = ZERO_FILLED,
    device: str | torch.device = "cpu",
) -> "Figure":
    """Profiles over time through what moves, with each of the masks, and the PSNR of every frame.

    Args:
        masks: Centred masks (frame, *space), by the names that are written above them.
        data: Series of frames, as `held_out` gives them.
        index: The number of the series; None: the one in the middle.
        recon: How it is reconstructed.
        device: Where PyTorch computes, such as `cpu` or `cuda`.

    Returns:
        A matplotlib figure.
    """
    return profile_figure(reconstruct_series(masks, data, index, recon, device))


def movie(
    masks: Mapping[str, Mask],
    data: SampleSet,
    out: str | Path,
    index: int | None = None,
    recon: Reconstruction = ZERO_FILLED,
    device: str | torch.device = "cpu",
    resolution: int = LENGTH,
) -> Path:
    """Write an animated picture of a series with each of the masks, and of their errors.

    Args:
        masks: Centred masks (frame, *space), by the names that are written above them.
        data: Series of frames, as `held_out` gives them.
        out: The file, .gif or .webp; without an ending, .gif.
        index: The number of the series; None: the one in the middle.
        recon: How it is reconstructed.
        device: Where PyTorch computes, such as `cpu` or `cuda`.
        resolution: Dots per inch.

    Returns:
        The file that was written.
    """
    film_file(Path(out))  # before any work, see that it can be written
    return save_film(reconstruct_series(masks, data, index, recon, device), Path(out), resolution)


def profile_figure(series: Series, curve: bool = True) -> "Figure":
    """A frame, the profile over time through what moves, its error, and the PSNR of every frame.

    Masks are columns, beside the fully sampled series. The profile is along the column of pixels through the
    middle of what moves, which is marked in the frame above it; time runs to the right.

    Args:
        series: The series with each of the masks.
        curve: Whether the PSNR of every frame is shown as well.

    Returns:
        A matplotlib figure.
    """
    target, column, frame = series.target, series.column, series.frame
    window, highest = grey_window(target.flatten(0, 1)), float(target.max())
    brightest = window["vmax"]
    profiles = {name: image[:, :, column].T for name, image in series.images.items()}
    full = target[:, :, column].T
    errors = {name: (profile - full).abs() for name, profile in profiles.items()}
    factor = factor_for(torch.stack(list(errors.values())), brightest)
    columns = 1 + len(series.images)
    width = min(width_of(columns), WIDEST)
    names = ["frame", "profile", f"error x {factor}", "PSNR (dB)"][: 3 + curve]
    heights = [height_for(width, target.shape), PROFILE * width, PROFILE * width, CURVE][: 3 + curve]
    grid = Grid.of([width] * columns, heights, lines=[2, 0, 1, 3][: 3 + curve])
    for row, name in enumerate(names):
        grid.name_row(row, name)
    grid.name_column(0, "fully sampled")
    _marked(grid.show(0, 0, target[frame], f"frame {frame + 1} of {len(target)}", **window), column)
    grid.show(1, 0, full, aspect="auto", **window)
    of_errors: dict[str, Any] = {"cmap": ERROR, "vmin": 0, "vmax": 100 * brightest / factor / highest}
    for place, (name, image) in enumerate(series.images.items(), start=1):
        grid.name_column(place, name)
        _marked(grid.show(0, place, image[frame], series.captions[name], **window), column)
        grid.show(1, place, profiles[name], aspect="auto", **window)
        last = grid.show(2, place, 100 * errors[name] / highest, "time →", aspect="auto", **of_errors)
    grid.bar(last, 2, 0, "error\n(% of maximum)", mirrored=True)
    if curve:
        _over_time(grid.panel(3), series.over_time)
    return grid.figure


def _marked(axes: "Axes", column: int) -> None:
    """Where the profile is."""
    axes.axvline(column, color="tab:cyan", linewidth=0.8, linestyle=(0, (4, 3)))


def _over_time(axes: "Axes", curves: Mapping[str, Sequence[float]]) -> None:
    """A curve for each mask."""
    for place, (name, values) in enumerate(curves.items()):
        style: dict[str, Any] = {"linewidth": 1.6 if place == 0 else 1.0, "zorder": 3 - (place > 0)}
        axes.plot(range(1, len(values) + 1), values, color=COLOURS[place % len(COLOURS)], label=name, **style)
    axes.set_xlabel("frame", fontsize=TEXT, labelpad=1)
    axes.set_xlim(1, max(len(values) for values in curves.values()))
    axes.locator_params(axis="x", integer=True)
    axes.tick_params(labelsize=TEXT, length=2)
    axes.grid(axis="y", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    hide_spines(axes)
    axes.legend(fontsize=TEXT, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.4)


def film_file(out: Path) -> Path:
    """The file of an animated picture, `film.gif` unless it is named otherwise; refused if it cannot be written.

    >>> film_file(Path("film"))
    PosixPath('film.gif')
    """
    if out.suffix.lower() not in ("", *ENDINGS):
        raise InputError(f"Films are written as {' or '.join(ENDINGS)}, not as {out.suffix}: choose one of them.")
    path = out if out.suffix else out.with_name(f"{out.name}.gif")
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file for the film.")
    check_writable(path.parent)
    return path


def save_film(series: Series, out: Path, resolution: int = LENGTH) -> Path:
    """Write an animated picture: the fully sampled series and each of the masks side by side, and their errors.

    Args:
        series: The series with each of the masks.
        out: The file, .gif or .webp; without an ending, .gif.
        resolution: Dots per inch.

    Returns:
        The file that was written.
    """
    path = film_file(out)
    pictures = list(film_pictures(series, resolution))
    duration = max(20, round(1000 * SECONDS / len(pictures)))
    kind, settings = path.suffix[1:].lower(), dict[str, Any]()
    if kind == "gif":
        colours = pictures[len(pictures) // 2].quantize(256)
        pictures = [each.quantize(palette=colours, dither=0) for each in pictures]
    else:
        settings = {"quality": 90}
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as temporary:
        first, *others = pictures
        first.save(temporary, kind, save_all=True, append_images=others, duration=duration, loop=0, **settings)
    return path


def film_pictures(series: Series, resolution: int = LENGTH) -> list[Any]:
    """The pictures of a film, one for each frame, as Pillow has them."""
    from PIL import Image

    target = series.target
    window = grey_window(target.flatten(0, 1))
    errors = torch.stack([(image - target).abs() for image in series.images.values()])
    factor = factor_for(errors, window["vmax"])
    columns = 1 + len(series.images)
    width = max(min(width_of(columns), 2 * WIDEST), 1.3)
    height = height_for(width, target.shape)
    grid = Grid.of([width] * columns, [height, height], lines=[1, 1])
    grid.name_row(0, "image")
    grid.name_row(1, f"error x {factor}")
    grid.name_column(0, "fully sampled")
    shown = [(grid.show(0, 0, target[0], **window), target)]
    clock = shown[0][0]
    of_errors: dict[str, Any] = {"cmap": ERROR, "vmin": 0, "vmax": window["vmax"] / factor}
    for place, (name, image) in enumerate(series.images.items(), start=1):
        grid.name_column(place, name)
        caption = series.captions[name].replace("\n", ", ")
        shown.append((grid.show(0, place, image[0], caption, **window), image))
        error = errors[place - 1]
        shown.append((grid.show(1, place, error[0], **of_errors), error))
    pictures = []
    for frame in range(len(target)):
        for axes, values in shown:
            axes.images[0].set_data(values[frame].numpy())
        clock.set_xlabel(f"frame {frame + 1} of {len(target)}")
        file = io.BytesIO()
        grid.figure.savefig(file, format="png", dpi=resolution)
        pictures.append(Image.open(file).convert("RGB"))
    return pictures
