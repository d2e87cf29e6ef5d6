"""report.html: one file that opens from disk, needs nothing else, and shows what a run is.

Arrays and pictures are text in the page; its script draws them.
"""

import base64
import io
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from promask.data.atomic import save_text
from promask.evaluation.conventions import ECHO_METRICS, SERIES_METRICS, Metric, metrics_of
from promask.evaluation.methods import FROZEN
from promask.evaluation.noise import NoiseMap
from promask.evaluation.physics import MaskPhysics, mask_physics, pattern_of
from promask.evaluation.tables import number_cell
from promask.export.mask_file import ExportedMask
from promask.figures.layout import frames_style, image_axes, kspace_plane, plane, save_figure, white
from promask.figures.learning import overview
from promask.figures.physics import density_figure, noise_figure, point_spread_figure
from promask.figures.rotations import draw_rotations
from promask.figures.series import profile_figure
from promask.learners import describe
from promask.learning.run import Run
from promask.report import motion, rotations, wording
from promask.report.measurements import LEARNED, ExampleImage, RunMeasurements
from promask.sampling.pattern import Pattern
from promask.types import Geometry, Mask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Bytes = npt.NDArray[np.uint8]


def pack(values: npt.NDArray[Any]) -> dict[str, Any]:
    """An array of whole numbers, deflated and in base64, with its shape."""
    content = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
    return {"shape": list(values.shape), "data": base64.b64encode(zlib.compress(content, 9)).decode()}


def crop_centre(
    values: Shaped[Tensor, "*leading height width"], most: int
) -> Shaped[Tensor, "*leading rows columns"]:
    """The central part of centred arrays, at most so many rows and columns; the centre is at n // 2 again."""
    for axis in (-2, -1):
        n = values.shape[axis]
        kept = min(n, most)
        values = values.narrow(axis, n // 2 - kept // 2, kept)
    return values


def shrink(image: Float[Tensor, "height width"], pixels: int) -> Float[Tensor, "rows columns"]:
    """An image of at most so many pixels: means over blocks."""
    height, width = image.shape
    scale = min(1.0, (pixels / (height * width)) ** 0.5)
    if scale == 1:
        return image
    return adaptive_avg_pool2d(image[None], (max(1, int(height * scale)), max(1, int(width * scale))))[0]


def image_picture(image: Float[Tensor, "height width"], brightest: float, colours: str | None = None) -> str:
    """A picture from 0 to the brightest value: in shades of grey, or in a colour map of matplotlib."""
    levels = (image / brightest).clamp(0, 1).mul(255).round().numpy().astype(np.uint8)
    return _png(levels, colours)


def mask_picture(mask: Shaped[Tensor, "height width"]) -> str:
    """The picture of a mask, in black and white."""
    return _png(mask.numpy().astype(np.uint8) * 255, two_levels=True)


def rotations_picture(mask: Mask, pattern: Pattern) -> str:
    """The picture of a mask of spokes or interleaves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.4, 2.4))
    draw_rotations(figure.add_axes((0, 0, 1, 1)), pattern.restrict(mask).float(), pattern)
    return figure_picture(figure)


def figure_picture(figure: "Figure") -> str:
    """A figure as a picture."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return _data_uri(file.getvalue())


def palette(colours: str) -> Bytes:
    """The 256 colours of a map of matplotlib, as bytes."""
    from matplotlib import colormaps

    table = colormaps[colours](np.arange(256), bytes=True)
    return np.ascontiguousarray(table[:, :3])


def _png(pixels: Bytes, colours: str | None = None, two_levels: bool = False) -> str:
    from PIL import Image

    image = Image.fromarray(pixels, "L")
    if colours is not None:
        image.putpalette(palette(colours).tobytes())
    if two_levels:
        image = image.convert("1", dither=Image.Dither.NONE)
    file = io.BytesIO()
    image.save(file, format="png", optimize=True)
    return _data_uri(file.getvalue())


def _data_uri(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


ERROR_FACTOR = 5
WIDEST = 1024
"""Rows and columns of k-space, at most; of more, the central part is shown."""
FINE = 2**18
"""Places up to which probabilities have 16 bits; of more, 8."""
PIXELS = 1_800_000
"""Of all pictures together: the report has to stay below 5 MB even if nothing in them can be compressed."""
MAPS = ("mask", "probabilities", "spread", "trajectory")
"""Pictures of Cartesian k-space; spokes are drawn beforehand."""
TRAJECTORY = 500_000
"""Values of all steps of the trajectory together."""
MOST_ROWS = 5000
"""Images in the table; of more, so many evenly spread."""
MOST_POINTS = 2000
"""Steps in the learning curve, likewise."""
COLUMNS: dict[str, Metric] = {
    **SERIES_METRICS,
    **ECHO_METRICS,
    "dice": Metric("Dice", ".4f", 1),
    "iou": Metric("IoU", ".4f", 1),
}


def report_content(run: Run, measurements: RunMeasurements | None) -> dict[str, Any]:
    """What the script of the page draws, as plain values."""
    pattern = run.distribution.pattern
    maps = _maps(run) if pattern.trajectory is None else dict.fromkeys(MAPS)
    content = {"palette": bytes(palette("viridis").tobytes()).hex(), **maps, "history": _history(run)}
    if measurements is None:
        return content | {"examples": [], "masks": {}, "compared": None, "slices": None, "film": None}
    masks = {name: _shown_mask(mask, pattern) for name, mask in measurements.masks.items()}
    in_series = measurements.evaluation.temporal is not None
    return content | {
        "examples": _examples(measurements, image_axes(pattern), PIXELS - in_series * motion.PIXELS),
        "film": motion.film(measurements) if in_series else None,
        "masks": masks,
        "compared": _compared(measurements),
        "slices": _slices(measurements),
    }


def _maps(run: Run) -> dict[str, Any]:
    """The pictures of Cartesian k-space that the script draws."""
    pattern = run.distribution.pattern
    deviation = kspace_plane(run.variance.sqrt(), pattern)
    largest = float(deviation.max())
    spread = {**pack(_probability_levels(deviation / largest)), "largest": largest} if largest > 0 else None
    probabilities = pack(_probability_levels(kspace_plane(run.probabilities, pattern)))
    return dict(zip(MAPS, (_mask(run), probabilities, spread, _trajectory(run)), strict=True))


def _shown_mask(mask: Mask, pattern: Pattern) -> str:
    """The picture of a mask: spokes, or the plane that is undersampled; frames are several rows each."""
    if pattern.trajectory is not None:
        return rotations_picture(mask, pattern)
    shown = crop_centre(plane(mask, pattern.pictured), WIDEST)
    rows, columns = shown.shape
    times = max(1, round(columns / rows / 2)) if frames_style(pattern) else 1
    return mask_picture(shown.repeat_interleave(times, 0))


def _history(run: Run) -> dict[str, Any]:
    losses, budgets = run.history.loss, run.history.budget
    most = min(len(losses), MOST_POINTS)
    places = sorted({round(place * (len(losses) - 1) / max(most - 1, 1)) for place in range(most)})
    return {
        "steps": [place + 1 for place in places],
        "loss": [_rounded(losses[place]) for place in places],
        "budget": [_rounded(budgets[place]) for place in places],
        "name": f"loss ({run.config.loss})",
        "noun": describe(run.config.learner).noun,
    }


def _mask(run: Run) -> dict[str, Any]:
    """0: left out, 1: acquired, 2: padding."""
    pattern = run.distribution.pattern
    states = run.mask.to(torch.uint8).masked_fill(pattern.expand(pattern.never()), 2)
    shown = crop_centre(plane(states, pattern.pictured), WIDEST)
    names = [pattern.directions[axis] for axis in pattern.pictured] if pattern.directions else ["ky", "kx"]
    names = [pattern.indexed, names[1]] if frames_style(pattern) else names
    centre = [0 if frames_style(pattern) else shown.shape[0] // 2, shown.shape[1] // 2]
    return {**pack(shown.numpy()), "centre": centre, "directions": names}


def _probability_levels(values: Shaped[Tensor, "height width"]) -> Any:
    """Values from 0 to 1 as whole numbers of 16 bits."""
    shown = crop_centre(values, WIDEST).double()
    if shown.numel() > FINE:
        shown = (255 * shown).round() / 255
    return (65535 * shown).round().clamp(0, 65535).numpy().astype(np.uint16)


def _trajectory(run: Run) -> dict[str, Any] | None:
    if run.trajectory is None:
        return None
    steps, of_units = run.trajectory.steps, run.trajectory.probabilities
    pattern = run.distribution.pattern
    size = kspace_plane(of_units[0], pattern).numel()
    count = min(len(steps), max(2, TRAJECTORY // size))
    places = sorted({round(place * (len(steps) - 1) / (count - 1)) for place in range(count)})
    planes = [shrink(kspace_plane(of_units[place], pattern), TRAJECTORY // count) for place in places]
    values = (255 * torch.stack(planes)).round().clamp(0, 255).to(torch.uint8)
    return {**pack(values.numpy()), "steps": [steps[place] for place in places]}


def _examples(measurements: RunMeasurements, shown: tuple[int, int], pixels: int) -> list[dict[str, Any]]:
    pictures = 1 + 2 * len(measurements.masks)
    first = next(iter(measurements.examples[0].images.values()))
    size = plane(first.target, shown).numel()
    most = max(1, min(len(measurements.examples), pixels // (pictures * size)))
    several = len(set(measurements.subjects)) > 1
    noun = "image" if measurements.evaluation.of != "series" else "series"
    room = pixels // (pictures * most)
    return [_example(each, room, several, shown, noun) for each in measurements.examples[:most]]


def _example(
    example: ExampleImage, pixels: int, several: bool, shown: tuple[int, int], noun: str
) -> dict[str, Any]:
    full = plane(next(iter(example.images.values())).target, shown)
    brightest = white(full)
    named = f"{noun} {example.index}" + (f" of subject {example.subject}" if several else "")
    masks = {}
    for name, result in example.images.items():
        image = plane(result.image, shown)
        masks[name] = {
            "image": image_picture(shrink(image, pixels), brightest),
            "error": image_picture(shrink((image - full).abs(), pixels), brightest / ERROR_FACTOR, "magma"),
            "psnr": f"{result.psnr:.2f}",
            "ssim": None if math.isnan(result.ssim) else f"{result.ssim:.3f}",
        }
    return {
        "title": f"{example.title} ({named})",
        "full": image_picture(shrink(full, pixels), brightest),
        "masks": masks,
    }


def _compared(measurements: RunMeasurements) -> dict[str, Any]:
    masks = measurements.compared
    columns = {name: [row.get(name) for row in masks.values()] for name in COLUMNS}
    best = {
        name: COLUMNS[name].sign * max(COLUMNS[name].sign * value for value in known)
        for name, values in columns.items()
        if (known := [value for value in values if value is not None])
    }
    rows = []
    frozen = masks.get(LEARNED, {}).get("frozen")
    above = {} if frozen is None else {FROZEN: {"acceleration": None, **frozen}}
    for method, row in {**above, **masks}.items():
        cells: list[dict[str, Any]] = [{"text": method, "value": method}]
        factor = number_cell(row["acceleration"], ".4g")
        cells.append({"text": str(factor), "value": None if factor.value is None else _rounded(factor.value)})
        for name in best:
            cell = number_cell(row.get(name), COLUMNS[name].style, row.get(f"{name}_spread"))
            cells.append({"text": str(cell), "value": None if cell.value is None else _rounded(cell.value)})
            if cell.value is not None and method in masks:
                cells[-1]["best"] = cell.value == best[name]
        rows.append({"cells": cells, "learned": method == LEARNED})
    return {
        "columns": [{"title": "acceleration"}, *({"title": COLUMNS[name].heading} for name in best)],
        "rows": rows,
    }


def _slices(measurements: RunMeasurements) -> dict[str, Any]:
    evaluation = measurements.evaluation
    metrics = metrics_of(evaluation.indexed, bool(evaluation.contrasts and evaluation.contrasts.t2_error))
    values: dict[str, Sequence[float]] = {name: evaluation.values(name) for name in metrics}
    if evaluation.segmented is not None:
        values["dice"] = evaluation.segmented.with_mask.dice.nanmean(1).tolist()
    known = [name for name, column in values.items() if any(map(math.isfinite, column))]
    count = len(evaluation.psnr)
    shown = range(count) if count <= MOST_ROWS else [place * count // MOST_ROWS for place in range(MOST_ROWS)]
    noun = "series" if evaluation.of == "series" else "image"
    columns: list[dict[str, Any]] = [{"title": noun, "digits": 0}, {"title": "subject", "digits": 0}]
    columns += [{"title": COLUMNS[name].heading, "digits": int(COLUMNS[name].style[1:-1])} for name in known]
    subjects = measurements.subjects
    rows = [[place, subjects[place], *(_rounded(values[name][place]) for name in known)] for place in shown]
    return {"columns": columns, "rows": rows}


def _rounded(value: float) -> float | None:
    """Six digits, which is more than is shown; None for what is no number."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def write_report(run: Run, folder: Path, measurements: RunMeasurements | None = None) -> Path:
    """Write report.html and figures/ into a run folder.

    Args:
        run: The run.
        folder: Its folder.
        measurements: What `measure_run` found; None: the report shows what the run itself knows.

    Returns:
        The path of report.html.
    """
    save_figure(overview(run), folder / "figures" / "overview.png")
    path = folder / "report.html"
    save_text(path, report_page(run, measurements))
    return path


def report_page(run: Run, measurements: RunMeasurements | None = None) -> str:
    """The page that `write_report` writes, as a text.

    Args:
        run: The run.
        measurements: What `measure_run` found; None: the page shows what the run itself knows.

    Returns:
        HTML that needs no other file.
    """
    from jinja2 import Environment, PackageLoader

    pages = Environment(loader=PackageLoader("promask.report", "page"), autoescape=True, trim_blocks=True)
    pages.policies["json.dumps_kwargs"] = {"sort_keys": False, "allow_nan": False}  # tables are in their order
    content = report_content(run, measurements)
    rows = len(content["slices"]["rows"]) if content["slices"] else 0
    contours = None if measurements is None else measurements.contours
    physics, noise = _physics(run, measurements)
    return pages.get_template("report.html.j2").render(
        title=wording.title(run),
        lead=wording.lead(run),
        version=run.record.versions["promask"],
        style=_part("report.css"),
        script=_part("report.js"),
        cards=list(wording.cards(run, measurements)),
        notes=list(wording.notes(run, measurements)),
        **wording.captions(run, measurements, rows),
        error_factor=ERROR_FACTOR,
        members=run.config.members,
        classes=list(_classes(run)),
        rotations=_rotations(run),
        contours=figure_picture(contours) if contours is not None else None,
        physics=wording.physics_table(physics, noise),
        profiles=_profiles(measurements),
        about_film=" ".join(motion.about(measurements)) if measurements and content["film"] else None,
        physics_pictures=list(_physics_pictures(run, measurements)),
        python=wording.python(run),
        exports=wording.exports(run),
        command=wording.command(run),
        facts=list(wording.facts(run)),
        configuration=json.dumps(run.config.to_dict(), indent=1),
        content=content,
    )


def _rotations(run: Run) -> list[dict[str, Any]]:
    """The pictures of spokes or interleaves; none of Cartesian masks."""
    from markupsafe import Markup

    pattern = run.distribution.pattern
    if pattern.trajectory is None:
        return []
    return [
        {"svg": Markup(each["svg"]), "caption": each["caption"]}
        for each in rotations.pictures(pattern.restrict(run.mask), pattern)
    ]


def _profiles(measurements: RunMeasurements | None) -> str | None:
    """Of series, profiles over time with the learned mask and the best other one."""
    if measurements is None or measurements.evaluation.temporal is None:
        return None
    return figure_picture(profile_figure(motion.shown_series(measurements), curve=False))


def _physics(
    run: Run, measurements: RunMeasurements | None
) -> tuple[Mapping[str, MaskPhysics], Mapping[str, NoiseMap]]:
    """What was measured of all masks; of the learned one alone, what needs no images."""
    if measurements is not None and measurements.physics:
        return measurements.physics, measurements.noise
    voxel = run.record.data.read.voxel
    return {LEARNED: mask_physics(run.mask, run.distribution.pattern, voxel)}, {}


def _physics_pictures(run: Run, measurements: RunMeasurements | None) -> Iterator[dict[str, str]]:
    """The learned mask beside the best other one: density, point-spread function, and noise where it is known."""
    shown, noise = [LEARNED], {}
    masks: dict[str, Any] = {LEARNED: run}
    if measurements is not None:
        shown += [name for name, _ in wording.best_other(measurements.compared, "psnr")]
        masks |= {name: _like(run, measurements.masks[name]) for name in shown[1:]}
        noise = {name: measurements.noise[name] for name in shown if name in measurements.noise}
    energy = None if measurements is None else measurements.energy
    beside = " and ".join(shown)
    yield {
        "alt": f"Where {beside} sample k-space, and how densely",
        "source": figure_picture(density_figure(masks, energy)),
    }
    figure = point_spread_figure(masks, run.record.data.read.voxel)
    yield {"alt": f"The point-spread functions of {beside}", "source": figure_picture(figure)}
    if noise:
        yield {"alt": f"The noise amplification of {beside}", "source": figure_picture(noise_figure(noise))}


def _like(run: Run, mask: Mask) -> ExportedMask:
    """A mask with the axes of a run."""
    pattern = run.distribution.pattern
    if pattern.trajectory is not None:
        return ExportedMask.of_pattern(mask, pattern)
    axes, readout, indexed = pattern.directions, pattern.readout, pattern.indexed
    geometry = Geometry(pattern.extent, axes=axes, readout=readout, indexed=indexed)
    return ExportedMask.of_pattern(mask, pattern_of(mask, geometry, pattern.free))


@cache
def _part(name: str) -> Any:
    """A file that is put into the page as it is."""
    from markupsafe import Markup

    return Markup(resources.files("promask.report").joinpath("page", name).read_text(encoding="utf-8"))


def _classes(run: Run) -> Iterator[dict[str, Any]]:
    evaluation = run.record.evaluation
    for name, found in ((evaluation and evaluation.classes) or {}).items():
        values = [found[key] for key in ("dice", "dice_full", "iou", "iou_full")]
        yield {"name": name, "found": ["-" if value is None else f"{value:.4f}" for value in values]}
