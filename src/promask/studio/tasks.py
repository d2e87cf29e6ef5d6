"""The tasks of worker processes: describe data, and learn as `promask learn` does, telling how it goes."""

import base64
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.errors import InputWarning
from promask.figures.layout import plane, white
from promask.learning.hooks import Progress
from promask.report.page import image_picture, shrink
from promask.report.pipeline import learn_and_report
from promask.studio.processes import Send
from promask.types import Image

LARGEST_PICTURE = 512
"""Larger pictures are reduced to as many pixels as a square of this width."""
PICTURE_INTERVAL = 0.1
"""Seconds between two pictures of the probabilities."""


def describe(data: str, send: Send) -> dict[str, Any]:
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
        "picture": encode_image(whole[len(whole) // 2].image),
    }


def encode_image(image: Image) -> str:
    """An image as a grey PNG in a data: address, its channels combined; of a volume, the plane in the middle."""
    magnitude = plane(torch.linalg.vector_norm(image, dim=0).float())
    return image_picture(shrink(magnitude, LARGEST_PICTURE**2), white(magnitude))


def encode_probabilities(probabilities: torch.Tensor) -> dict[str, Any]:
    """Centred probabilities as bytes in text: 0 for never, 255 for always.

    >>> encode_probabilities(torch.tensor([0.0, 0.5, 1.0]))
    {'shape': [3], 'bytes': 'AID/'}
    """
    whole = (probabilities * 255).round().to(torch.uint8).contiguous()
    return {"shape": list(whole.shape), "bytes": base64.b64encode(whole.numpy().tobytes()).decode()}


@dataclass(frozen=True)
class LearnInput:
    """What to learn: DATA as on the command line, the folder for the run, and settings of `Config`."""

    data: str
    out: Path
    command: str
    settings: Mapping[str, Any]


class Reporter:
    """Sends how learning goes: every loss, and now and then a picture of the probabilities."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.started: float | None = None
        self.last = 0.0
        self.losses: list[float] = []
        self.done = 0

    def on_step(self, progress: Progress) -> None:
        """A step of learning is over."""
        now = time.perf_counter()
        self.started = now if self.started is None else self.started
        self.losses.append(progress.loss)
        self.done = progress.member * progress.steps + progress.step
        if now - self.last < PICTURE_INTERVAL and progress.step < progress.steps:
            return
        self.last = now
        content = {
            "done": self.done,
            "total": progress.members * progress.steps,
            "budget": progress.budget,
            "seconds": now - self.started,
            "losses": self.losses,
            "units": encode_probabilities(progress.probabilities.detach().cpu()),
        }
        self.losses = []
        self.send("step", content)


def learn(task_input: LearnInput, send: Send) -> dict[str, Any]:
    """Learn, measure, and write the run folder and its report; returns what the page says of the result."""
    reporter = Reporter(send)

    def counter(kind: str) -> Callable[[int, int], None]:
        return lambda done, total: send(kind, {"done": done, "total": total})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = lambda message, *_, **__: send("warning", str(message).replace("`", ""))
        run = learn_and_report(
            *(task_input.data, task_input.out, "default", reporter.on_step, counter("files"), counter("masks")),
            command=task_input.command,
            **task_input.settings,
        )
    last = {"done": reporter.done, "losses": reporter.losses, "units": encode_probabilities(run.probabilities)}
    send("step", {**last, "shape": list(run.distribution.pattern.shape)})
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
