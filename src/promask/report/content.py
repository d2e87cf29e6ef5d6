"""What the script of a report draws: arrays, pictures and tables, as plain values."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from promask import metrics
from promask.config import SHAPE
from promask.figures.picture import plane, white
from promask.headings import METRICS, Metric
from promask.learning.run import Run
from promask.report.evidence import LEARNED, Evidence, Shown
from promask.report.pixels import black_and_white, coloured, grey, middle, packed, palette, shrunk
from promask.types import Targets

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
        "probabilities": packed(_levels(run.distribution.mean())),
        "spread": {**packed(_levels(deviation / largest)), "largest": largest} if largest > 0 else None,
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
    losses, budgets = run.history["loss"], run.history["budget"]
    most = min(len(losses), MOST_POINTS)
    places = sorted({round(place * (len(losses) - 1) / max(most - 1, 1)) for place in range(most)})
    return {
        "steps": [place + 1 for place in places],
        "loss": [_rounded(losses[place]) for place in places],
        "budget": [_rounded(budgets[place]) for place in places],
        "name": f"loss ({run.config.loss})",
        "noun": "round" if run.config.rule == SHAPE else "step",
    }


def _mask(run: Run) -> dict[str, Any]:
    """0: left out, 1: acquired, 2: padding."""
    pattern = run.distribution.pattern
    states = run.mask.to(torch.uint8).masked_fill(pattern.expand(pattern.padding()), 2)
    shown = middle(plane(states), WIDEST)
    return {**packed(shown.numpy()), "centre": [n // 2 for n in shown.shape]}


def _levels(values: Shaped[Tensor, "..."]) -> Any:
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
