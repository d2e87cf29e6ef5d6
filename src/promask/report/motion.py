"""What a report shows of series of frames: a film with a slider, and profiles over time."""

import base64
import io
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from promask.evaluation.images import ReconstructedImage
from promask.figures.layout import white
from promask.figures.series import Series
from promask.report import wording
from promask.report.measurements import LEARNED, RunMeasurements

PIXELS = 1_200_000
"""Of all frames of a film together, at most."""
QUALITY = 92
"""Of the JPEG strips of a film."""


def shown_masks(measurements: RunMeasurements) -> list[str]:
    """The learned mask, and the best other one."""
    return [LEARNED, *(name for name, _ in wording.best_other(measurements.compared, "psnr"))]


def shown_series(measurements: RunMeasurements) -> Series:
    """The first example, with these masks."""
    images = measurements.examples[0].images
    return Series.of({name: images[name] for name in shown_masks(measurements) if name in images})


def film(measurements: RunMeasurements) -> dict[str, Any]:
    """A strip of all frames below each other, for the fully sampled series and each of the masks."""
    series, example = shown_series(measurements), measurements.examples[0]
    frames, *size = series.target.shape
    panels = {"fully sampled": series.target, **series.images}
    scale = min(1.0, (PIXELS / (len(panels) * series.target.numel())) ** 0.5)
    height, width = (max(1, int(n * scale)) for n in size)
    brightest = white(series.target.flatten(0, 1))
    return {
        "frames": frames,
        "size": [height, width],
        "title": f"{example.title[:1].upper()}{example.title[1:]} (series {example.index})",
        "panels": [
            {
                "name": name,
                "caption": _caption(example.images, name),
                "strip": _strip(values, (height, width), brightest),
            }
            for name, values in panels.items()
        ],
        "over_time": {name: [round(value, 3) for value in each] for name, each in series.over_time.items()},
    }


def _caption(images: Mapping[str, ReconstructedImage], name: str) -> str:
    return f"{images[name].psnr:.2f} dB" if name in images else ""


def _strip(values: Float[Tensor, "frame height width"], size: tuple[int, int], brightest: float) -> str:
    """Frames below each other in one picture, which a browser decodes once."""
    from PIL import Image

    small = values if values.shape[1:] == size else adaptive_avg_pool2d(values, size)
    levels = (small / brightest).clamp(0, 1).mul(255).round().to(torch.uint8)
    file = io.BytesIO()
    picture = Image.fromarray(np.ascontiguousarray(levels.flatten(0, 1).numpy()))
    picture.save(file, format="jpeg", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def about(measurements: RunMeasurements) -> Iterator[str]:
    """What one should know before looking at the film."""
    frozen = measurements.compared[LEARNED].get("frozen") or {}
    known = [frozen.get(name) for name in ("psnr", "psnr_moving")]
    yield "Play the film, or move the slider from frame to frame."
    if None not in known:
        whole, moving = known
        yield (
            f"A frozen heart, the mean of all fully sampled frames, would have {whole:.2f} dB over the whole "
            f"series, but {moving:.2f} dB in what moves, and an error of 1 in what changes from frame to frame."
        )
