"""From data to a run: the whole of learning in one call."""

import itertools
import platform
import statistics
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from promask.config import Config
from promask.data import OnFile, choose_part, load, prepared, reading_of
from promask.distribution import MaskDistribution
from promask.errors import InputError
from promask.fourier import centred
from promask.learning.batches import Samples
from promask.learning.ensemble import Ensemble, optimise_members
from promask.learning.loop import OnStep
from promask.learning.plain import better_plain_mask, plain_masks
from promask.learning.run import Run
from promask.learning.start import starting_probabilities
from promask.patterns import Pattern
from promask.tasks import Reconstruction
from promask.types import Loss, Units
from promask.version import __version__


def learn(
    data: Any,
    acceleration: float,
    *,
    preset: str = "default",
    loss: str | Loss = "mse",
    init: Any = None,
    on_step: OnStep | None = None,
    on_file: OnFile | None = None,
    **settings: Any,
) -> Run:
    """Learn where to sample k-space.

    >>> images = torch.rand(2, 16, 16, generator=torch.Generator().manual_seed(0))
    >>> run = learn(images, acceleration=4, steps=20)
    >>> run.mask.shape, int(run.mask.sum())
    (torch.Size([16, 16]), 64)

    `data` is an array or tensor of images, a torch Dataset, a file, a folder or a built-in name; `loss` is `mse`,
    `l1`, `ssim` or a callable on (magnitude images, targets), a mean over the images; `init` is `uniform`,
    `energy`, or an array or .npy file of probabilities, or a run folder. Further settings are those of `Config`:
    steps, batch_size, samples, members, pattern, axis, centre, part, seed, ...; and of `Reading`, for files.
    """
    task = Reconstruction(loss)
    if init is not None:
        settings["init"] = str(init) if isinstance(init, str | Path) else "given"
    config = Config.preset(preset, acceleration=acceleration, loss=task.name, **settings)
    init = config.init if init is None else init
    device = _device(config.device)
    whole = load(data, config)
    loaded = reading_of(whole).reading_settings()
    config = replace(config, **{name: value for name, value in loaded.items() if name != "volumes"})
    chosen, part = choose_part(whole, config.part, usual="train")
    pattern = Pattern.named(config.pattern, whole.shape[1:], config.axis, whole.geometry.extent)
    budget = pattern.budget(config.acceleration)
    pattern.block(config.centre, budget)  # must fit

    chosen = prepared(chosen, on_file)
    began = time.perf_counter()
    samples = Samples(chosen, device)
    start = starting_probabilities(init, samples, pattern)
    ensemble = optimise_members(samples, pattern, task, config, start, on_step)
    dimensions = len(pattern.free)
    distribution = MaskDistribution(_result(ensemble.probabilities, dimensions), pattern, budget)
    variance = _result(ensemble.variance, dimensions)
    plain = None
    if config.rule == "response":  # the published one is left as it is
        masks = plain_masks(samples, pattern, budget, config.centre)
        plain = better_plain_mask(pattern.restrict(distribution.mode()), masks, samples, pattern, task)
        if plain is not None:
            distribution = replace(distribution, probabilities=masks[plain].to(torch.float32))
            variance = torch.zeros_like(variance)
    about = {
        "data": {
            "source": whole.name,
            "part": part,
            "images": len(chosen),
            "groups": len(set(chosen.groups)),
            "shape": whole.shape,
        },
        "preset": preset,
        "plain": plain,
        "seconds": round(time.perf_counter() - began, 3),
        "seconds_waited": round(samples.seconds_waited, 3),
        "versions": {
            "promask": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    return Run(
        distribution=distribution,
        config=config,
        history=_history(ensemble),
        variance=variance,
        about=about,
    )


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"The device {name!r} cannot be used here: {str(error).splitlines()[0]}.") from error
    return device


def _result(values: Units, dimensions: int) -> Units:
    return centred(values, dimensions).to("cpu", torch.float32).contiguous()


def _history(ensemble: Ensemble) -> dict[str, Any]:
    longest = max(ensemble.histories, key=lambda history: len(history.loss))
    losses = [history.loss for history in ensemble.histories]
    return {
        "loss": [_mean_of_known(values) for values in itertools.zip_longest(*losses)],
        "budget": longest.budget,
        "temperature": longest.temperature,
        "member_loss": losses,
        "stopped": [history.stopped for history in ensemble.histories],
    }


def _mean_of_known(values: Iterable[float | None]) -> float:
    """The mean over the members that had not stopped yet."""
    return statistics.fmean(value for value in values if value is not None)
