"""What is in data that a user picked: numbers, and a picture of the image in the middle.

What the process of a job does: exactly what `promask learn` does, telling how it goes.
"""

import base64
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.errors import InputWarning
from promask.figures.layout import plane, white
from promask.learning.hooks import Progress
from promask.learning.run import Run
from promask.report.page import image_picture, shrink
from promask.report.pipeline import learn_and_report
from promask.studio.processes import Say
from promask.types import Image

LARGEST_PICTURE = 512
"""Larger pictures have as many pixels as a square of this width."""


def describe(data: str, say: Say) -> dict[str, Any]:
    """Open the data, a DATA string, as `learn` will; only the image in the middle is read in full."""
    whole = load(data)
    learned, part = choose_part(whole, None, default="train")
    channels, *space = whole.shape
    groups = set(whole.groups)
    return {
        "images": len(whole),
        "subjects": len(groups) if len(groups) > 1 else None,
        "channels": channels,
        "shape": space,
        "extent": [list(ends) for ends in whole.geometry.extent],
        "held_out": len(whole) - len(learned) if part != "all" else 0,
        "picture": picture_of(whole[len(whole) // 2].image),
    }


def picture_of(image: Image) -> str:
    """An image as a grey PNG in a data: address, its channels combined; of a volume, the plane in the middle."""
    magnitude = plane(torch.linalg.vector_norm(image, dim=0).float())
    return image_picture(shrink(magnitude, LARGEST_PICTURE**2), white(magnitude))


BETWEEN = 0.1
"""Seconds between two pictures of the probabilities."""


@dataclass(frozen=True)
class Order:
    """What is to be learned: DATA as on the command line, the folder for the run, and settings of `Config`."""

    data: str
    out: Path
    command: str
    settings: Mapping[str, Any]


class Reporter:
    """Tells of steps, not too often: their losses, and the probabilities as a picture of 8 bits."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.began: float | None = None
        self.last = 0.0
        self.losses: list[float] = []
        self.done = 0

    def on_step(self, progress: Progress) -> None:
        """Called by the loop after every step."""
        now = time.perf_counter()
        self.began = now if self.began is None else self.began
        self.losses.append(progress.loss)
        self.done = progress.member * progress.steps + progress.step
        if now - self.last < BETWEEN and progress.step < progress.steps:
            return
        self.last = now
        shown = progress.probabilities.detach().cpu()
        content = {
            "done": self.done,
            "total": progress.members * progress.steps,
            "budget": progress.budget,
            "seconds": now - self.began,
            "losses": self.losses,
            "units": picture(shown),
        }
        self.losses = []
        self.say("step", content)

    def on_file(self, done: int, total: int) -> None:
        """Called while files are made ready."""
        self.say("file", {"done": done, "total": total})

    def on_mask(self, done: int, total: int) -> None:
        """Called while the mask and those that it is compared with are measured."""
        self.say("mask", {"done": done, "total": total})


def picture(units: torch.Tensor) -> dict[str, Any]:
    """Centred probabilities as bytes in text: 0 for never, 255 for always.

    >>> picture(torch.tensor([0.0, 0.5, 1.0]))
    {'shape': [3], 'bytes': 'AID/'}
    """
    whole = (units * 255).round().to(torch.uint8).contiguous()
    return {"shape": list(whole.shape), "bytes": base64.b64encode(whole.numpy().tobytes()).decode()}


def learn(order: Order, say: Say) -> dict[str, Any]:
    """Learn, measure, and write the run folder and its report; returns what the page says of the result."""
    reporter = Reporter(say)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = lambda message, *_, **__: say("warning", str(message))
        run = learn_and_report(
            order.data,
            order.out,
            "default",
            reporter.on_step,
            reporter.on_file,
            reporter.on_mask,
            command=order.command,
            **order.settings,
        )
    last = {"done": reporter.done, "losses": reporter.losses, "units": picture(run.probabilities)}
    say("step", {**last, "shape": list(run.distribution.pattern.shape)})
    return summary(run)


def summary(run: Run) -> dict[str, Any]:
    """What the page says of a run."""
    data, evaluation = run.record.data, run.record.evaluation
    assert evaluation is not None
    return {
        "acceleration": run.acceleration,
        "units": run.distribution.pattern.units,
        "budget": run.distribution.budget,
        "seconds": run.record.seconds,
        "plain": run.record.reference,
        "stopped": run.history.stopped_after,
        "steps": run.config.steps,
        "images": data.images,
        "held_out": evaluation.part != data.part,
        "evaluation": {name: getattr(evaluation, name) for name in ("psnr", "ssim", "nmse", "images", "recon")},
    }
