"""Arrays and pictures as text, to be put into a page.

What the script of a report draws: arrays, pictures and tables, as plain values.

report.html: one file that opens from disk, needs nothing else, and shows what a run is.
"""

import base64
import io
import json
import math
import zlib
from collections.abc import Iterator, Sequence
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
from promask.evaluation.measures import METRICS, Metric
from promask.figures.layout import plane, save_figure, white
from promask.figures.learning import overview
from promask.learners import describe
from promask.learning.run import Run
from promask.losses import metrics
from promask.report import wording
from promask.report.data import LEARNED, Evidence, Shown
from promask.types import Targets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Bytes = npt.NDArray[np.uint8]


def packed(values: npt.NDArray[Any]) -> dict[str, Any]:
    """An array of whole numbers, deflated and in base64, with its shape."""
    content = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
    return {"shape": list(values.shape), "data": base64.b64encode(zlib.compress(content, 9)).decode()}


def middle(values: Shaped[Tensor, "*leading height width"], most: int) -> Shaped[Tensor, "*leading rows columns"]:
    """The central part of centred arrays, at most so many rows and columns; the centre is at n // 2 again."""
    for axis in (-2, -1):
        n = values.shape[axis]
        kept = min(n, most)
        values = values.narrow(axis, n // 2 - kept // 2, kept)
    return values


def shrunk(image: Float[Tensor, "height width"], pixels: int) -> Float[Tensor, "rows columns"]:
    """An image of at most so many pixels: means over blocks."""
    height, width = image.shape
    scale = min(1.0, (pixels / (height * width)) ** 0.5)
    if scale == 1:
        return image
    return adaptive_avg_pool2d(image[None], (max(1, int(height * scale)), max(1, int(width * scale))))[0]


def grey(image: Float[Tensor, "height width"], white: float) -> str:
    """A picture in shades of grey, from black at 0 to white."""
    return _png(_levels(image, white), "L")


def coloured(image: Float[Tensor, "height width"], brightest: float, colours: str) -> str:
    """A picture in a colour map of matplotlib, from 0 to the brightest value."""
    return _png(_levels(image, brightest), "P", palette(colours))


def black_and_white(mask: Shaped[Tensor, "height width"]) -> str:
    """The picture of a mask."""
    return _png(mask.numpy().astype(np.uint8) * 255, "1")


def drawn(figure: "Figure") -> str:
    """A figure as a picture."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return _data_uri(file.getvalue())


def palette(colours: str) -> Bytes:
    """The 256 colours of a map of matplotlib, as bytes."""
    from matplotlib import colormaps

    table = colormaps[colours](np.arange(256), bytes=True)
    return np.ascontiguousarray(table[:, :3])


def _levels(image: Tensor, brightest: float) -> Bytes:
    return (image / brightest).clamp(0, 1).mul(255).round().numpy().astype(np.uint8)


def _png(pixels: Bytes, mode: str, colours: Bytes | None = None) -> str:
    from PIL import Image

    picture = Image.fromarray(pixels, "L")
    if colours is not None:
        picture.putpalette(colours.tobytes())
    if mode == "1":
        picture = picture.convert("1", dither=Image.Dither.NONE)
    file = io.BytesIO()
    picture.save(file, format="png", optimize=True)
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
MOMENTS = 500_000
"""Values of all moments together."""
MOST_ROWS = 5000
"""Images in the table; of more, so many evenly spread."""
MOST_POINTS = 2000
"""Steps in the learning curve, likewise."""
COLUMNS: dict[str, Metric] = {**METRICS, "dice": Metric("Dice", ".4f", 1), "iou": Metric("IoU", ".4f", 1)}


def report_content(run: Run, evidence: Evidence | None) -> dict[str, Any]:
    """All of it, ready for JSON."""
    pattern = run.distribution.pattern
    deviation = pattern.expand(run.variance.sqrt())
    largest = float(deviation.max())
    return {
        "palette": bytes(palette("viridis").tobytes()).hex(),
        "mask": _mask(run),
        "probabilities": packed(_probability_levels(run.distribution.mean())),
        "spread": {**packed(_probability_levels(deviation / largest)), "largest": largest}
        if largest > 0
        else None,
        "trajectory": _trajectory(run),
        "history": _history(run),
        "examples": [] if evidence is None else _examples(evidence),
        "masks": {}
        if evidence is None
        else {name: black_and_white(middle(plane(mask), WIDEST)) for name, mask in evidence.masks.items()},
        "compared": None if evidence is None else _compared(evidence),
        "slices": None if evidence is None else _slices(evidence),
    }


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
    states = run.mask.to(torch.uint8).masked_fill(pattern.expand(pattern.padding()), 2)
    shown = middle(plane(states), WIDEST)
    return {**packed(shown.numpy()), "centre": [n // 2 for n in shown.shape]}


def _probability_levels(values: Shaped[Tensor, "..."]) -> Any:
    """Values from 0 to 1 as whole numbers of 16 bits."""
    shown = middle(plane(values), WIDEST).double()
    if shown.numel() > FINE:
        shown = (255 * shown).round() / 255
    return (65535 * shown).round().clamp(0, 65535).numpy().astype(np.uint16)


def _trajectory(run: Run) -> dict[str, Any] | None:
    if run.trajectory is None:
        return None
    steps, of_units = run.trajectory.steps, run.trajectory.probabilities
    pattern = run.distribution.pattern
    size = math.prod(plane(pattern.expand(of_units[0])).shape)
    count = min(len(steps), max(2, MOMENTS // size))
    places = sorted({round(place * (len(steps) - 1) / (count - 1)) for place in range(count)})
    moments = [shrunk(plane(pattern.expand(of_units[place])), MOMENTS // count) for place in places]
    values = (255 * torch.stack(moments)).round().clamp(0, 255).to(torch.uint8)
    return {**packed(values.numpy()), "steps": [steps[place] for place in places]}


def _examples(evidence: Evidence) -> list[dict[str, Any]]:
    pictures = 1 + 2 * len(evidence.masks)
    size = math.prod(plane(evidence.shown[0].full).shape)
    most = max(1, min(len(evidence.shown), PIXELS // (pictures * size)))
    several = len(set(evidence.subjects)) > 1
    return [_example(shown, PIXELS // (pictures * most), several) for shown in evidence.shown[:most]]


def _example(shown: Shown, pixels: int, several: bool) -> dict[str, Any]:
    full = plane(shown.full)
    brightest = white(full)
    named = f"image {shown.place} of subject {shown.subject}" if several else f"image {shown.place}"
    masks = {}
    for name, image in shown.images.items():
        error = (plane(image) - full).abs()
        masks[name] = {
            "image": grey(shrunk(plane(image), pixels), brightest),
            "error": coloured(shrunk(error, pixels), brightest / ERROR_FACTOR, "magma"),
            **_quality(image, shown.full),
        }
    return {"title": f"{shown.title} ({named})", "full": grey(shrunk(full, pixels), brightest), "masks": masks}


def _quality(image: Targets, full: Targets) -> dict[str, str | None]:
    fits = metrics.GAUSSIAN.fits(full)
    similarity = f"{float(metrics.ssim(image, full)):.3f}" if fits else None
    return {"psnr": f"{float(metrics.psnr(image, full)):.2f}", "ssim": similarity}


def _compared(evidence: Evidence) -> dict[str, Any]:
    names = [name for name in COLUMNS if any(row.get(name) is not None for row in evidence.compared.values())]
    best = {
        name: max(
            (row[name] for row in evidence.compared.values() if row[name] is not None),
            key=lambda value, sign=COLUMNS[name].sign: sign * value,  # type: ignore[misc]
        )
        for name in names
    }
    rows = []
    for method, row in evidence.compared.items():
        cells: list[dict[str, Any]] = [{"text": method, "value": method}]
        cells.append({"text": f"{row['acceleration']:.4g}", "value": _rounded(row["acceleration"])})
        for name in names:
            style, spread = COLUMNS[name].style, row.get(f"{name}_spread")
            if row[name] is None:
                cells.append({"text": "-", "value": None})
                continue
            text = f"{row[name]:{style}}" + (f" ± {spread:{style}}" if spread is not None else "")
            cells.append({"text": text, "value": _rounded(row[name]), "best": row[name] == best[name]})
        rows.append({"cells": cells, "learned": method == LEARNED})
    columns = [{"title": "acceleration"}, *({"title": COLUMNS[name].heading} for name in names)]
    return {"columns": columns, "rows": rows}


def _slices(evidence: Evidence) -> dict[str, Any]:
    evaluation = evidence.evaluation
    values: dict[str, Sequence[float]] = {name: getattr(evaluation, name) for name in METRICS}
    if evaluation.segmented is not None:
        values["dice"] = evaluation.segmented.with_mask.dice.nanmean(1).tolist()
    known = [name for name, column in values.items() if any(map(math.isfinite, column))]
    count = len(evaluation.psnr)
    shown = range(count) if count <= MOST_ROWS else [place * count // MOST_ROWS for place in range(MOST_ROWS)]
    columns: list[dict[str, Any]] = [{"title": "image", "digits": 0}, {"title": "subject", "digits": 0}]
    columns += [{"title": COLUMNS[name].heading, "digits": int(COLUMNS[name].style[1:-1])} for name in known]
    subjects = evidence.subjects
    rows = [[place, subjects[place], *(_rounded(values[name][place]) for name in known)] for place in shown]
    return {"columns": columns, "rows": rows}


def _rounded(value: float) -> float | None:
    """Six digits, which is more than is shown; None for what is no number."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def write_report(run: Run, folder: Path, evidence: Evidence | None = None) -> Path:
    """Write report.html and figures/ into a run folder; without evidence, what the run itself knows."""
    save_figure(overview(run), folder / "figures" / "overview.png")
    path = folder / "report.html"
    save_text(path, report_page(run, evidence))
    return path


def report_page(run: Run, evidence: Evidence | None = None) -> str:
    """The whole page as a text."""
    from jinja2 import Environment, PackageLoader

    pages = Environment(loader=PackageLoader("promask.report", "page"), autoescape=True, trim_blocks=True)
    pages.policies["json.dumps_kwargs"] = {"sort_keys": False, "allow_nan": False}  # tables are in their order
    content = report_content(run, evidence)
    rows = len(content["slices"]["rows"]) if content["slices"] else 0
    return pages.get_template("report.html.j2").render(
        title=wording.title(run),
        lead=wording.lead(run),
        version=run.record.versions["promask"],
        style=_part("report.css"),
        script=_part("report.js"),
        cards=list(wording.cards(run, evidence)),
        notes=list(wording.notes(run, evidence)),
        about_mask=wording.about_mask(run),
        about_probabilities=wording.about_probabilities(run),
        about_examples=wording.about_examples(run),
        about_compared=None if evidence is None else wording.about_compared(run, evidence),
        about_slices=None if evidence is None else wording.about_slices(run, evidence, rows),
        about_learning=wording.about_learning(run),
        about_trajectory=wording.about_trajectory(run),
        error_factor=ERROR_FACTOR,
        members=run.config.members,
        classes=list(_classes(run)),
        contours=None if evidence is None or evidence.contours is None else drawn(evidence.contours),
        python=wording.PYTHON,
        exports=wording.EXPORTS,
        command=wording.command(run),
        facts=list(wording.facts(run)),
        configuration=json.dumps(run.config.to_dict(), indent=1),
        content=content,
    )


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
