"""From data to a run: the whole of learning in one call."""

import itertools
import platform
import statistics
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from promask.config import Config
from promask.data import OnFile, calibrated, channels_seen, choose_part, load, prepared, reading_of
from promask.errors import InputError
from promask.fourier import fft_order
from promask.learning.batches import Samples
from promask.learning.checkpoint import Clock, Identity, Keeper
from promask.learning.distributed import ALONE, Group, own_device
from promask.learning.ensemble import Ensemble
from promask.learning.loop import generator
from promask.learning.progress import OnStep
from promask.learning.run import Run
from promask.learning.search import search
from promask.learning.start import Start, starting_probabilities
from promask.learning.trajectory import Recorder
from promask.patterns import Pattern
from promask.recon import Network, Reconstruction, make_reconstruction, settings_of
from promask.tasks import SEGMENTATION, Segmentation, Task, make_task, segmentation_by, segmentation_in
from promask.types import Loss, SampleSet, Units
from promask.version import __version__

FEWEST_TO_SPLIT = 4
"""Samples, below which all of them are learned from and decide."""


def learn(
    data: Any,
    acceleration: float,
    *,
    preset: str = "default",
    loss: str | Loss | None = None,
    network: str | Path | nn.Module | Segmentation | None = None,
    task: str | Task | None = None,
    recon: str | Reconstruction = "zero-filled",
    init: Any = None,
    on_step: OnStep | None = None,
    on_file: OnFile | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    group: Group = ALONE,
    **settings: Any,
) -> Run:
    """Learn where to sample k-space.

    >>> images = torch.rand(2, 16, 16, generator=torch.Generator().manual_seed(0))
    >>> run = learn(images, acceleration=4, steps=20)
    >>> run.mask.shape, int(run.mask.sum())
    (torch.Size([16, 16]), 64)

    `data` is an array or tensor of images, a torch Dataset, a file, a folder or a built-in name; `loss` is `mse`,
    `l1`, `ssim` or a callable on (magnitude images, targets), a mean over the images; with a `network`, a file or
    `promask.tasks.Segmentation`, it is `segmentation` unless told otherwise; or a sum of such, such as
    `0.5*segmentation + 0.5*mse`. A `task` may be all of this in one object. `recon` is how images are
    reconstructed: `zero-filled`, `rss`, `sense`, `cg-sense`, `cs`, `cs-tv`, `partial-fourier`, or an object of
    `promask.recon`, such as a network. `init` is `uniform`, `energy`, or an
    array or .npy file of probabilities, or a run folder. With a folder for a `checkpoint`, a run that is killed
    goes on from there when it is called again with `resume`. `group` are the processes that learn together, from
    `promask.learning.distributed.joined`. Further settings are those of `Config`: steps,
    batch_size, samples, members, pattern, axis, centre, part, seed, finetune, ...; and of `Reading`, for files.
    """
    if isinstance(task, str):
        settings["task"] = task
    task = _task(loss, network, task)
    if init is not None:
        settings["init"] = str(init) if isinstance(init, str | Path) else "given"
    segmentation = segmentation_in(task)
    if network is not None or segmentation is not None:
        settings["network"] = str(network) if isinstance(network, str | Path) else "given"
    name, fills_in = (recon, None) if isinstance(recon, str) else (recon.name, recon.fills_in)
    config = Config.preset(preset, fills_in, acceleration=acceleration, loss=task.name, recon=name, **settings)
    recon = make_reconstruction(recon, config.iterations, config.regularisation)
    init = config.init if init is None else init
    device = _device(own_device(config.device) if group.size > 1 else config.device)
    whole = load(data, config)
    loaded = reading_of(whole).reading_settings()
    config = replace(config, **{name: value for name, value in loaded.items() if name != "volumes"})
    chosen, part = choose_part(whole, config.part, usual="train")
    pattern = Pattern.named(config.pattern, whole.shape[1:], config.axis, whole.geometry.extent)
    budget = pattern.budget(config.acceleration)
    pattern.block(config.centre, budget)  # must fit

    with group.first_before_others():
        chosen = calibrated(prepared(chosen, on_file), recon, on_file)
    if segmentation is not None:
        segmentation.check(chosen, channels_seen(chosen, recon))
    learning, validation = _to_learn_from(chosen, task)
    clock = Clock()
    samples = Samples.of_task(learning, device, task, recon, group)
    judges = samples if validation is None else Samples.of_task(validation, device, task, recon, group)
    start = starting_probabilities(init, samples, pattern)
    recorder = Recorder(_first(start, pattern, config), on_step)
    identity = Identity({**config.to_dict(), "samples": len(learning)}, samples.mean_energy(pattern))
    keeper = Keeper(None if checkpoint is None else Path(checkpoint), identity, resume, recorder, group, clock)
    found = search(samples, judges, pattern, task, config, start, recorder.on_step, keeper)
    about = {
        "data": {
            "source": whole.name,
            "part": part,
            "images": len(chosen),
            "validation": 0 if validation is None else len(validation),
            "groups": len(set(chosen.groups)),
            "shape": whole.shape,
        },
        "preset": preset,
        "plain": found.plain,
        "reconstruction": {
            "name": recon.name,
            "settings": settings_of(recon),
            "finetuned": found.finetuned and isinstance(recon, Network),
        },
        "network": _about_network(
            network, segmentation, config, finetuned=found.finetuned and not isinstance(recon, Network)
        ),
        "seconds": round(keeper.seconds, 3),
        "seconds_waited": round(samples.seconds_waited, 3),
        "checkpoints": {
            "written": clock.written,
            "seconds": round(clock.spent, 4),
            "resumed": sorted(keeper.went_on),
        },
        "processes": group.size,
        "versions": {
            "promask": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    return Run(
        distribution=found.distribution,
        config=config,
        history=_history(found.ensemble),
        variance=found.variance,
        about=about,
        network=found.network,
        trajectory=recorder.trajectory(len(pattern.free)),
    )


def _task(
    loss: str | Loss | None, network: str | Path | nn.Module | Segmentation | None, task: str | Task | None
) -> Task:
    if task is not None and not isinstance(task, str):
        if loss is not None or network is not None:
            raise InputError("A task has its loss and its network: leave them out, or the task.")
        return task
    segmentation = None if network is None else segmentation_by(network)
    if segmentation is not None and loss is not None and not isinstance(loss, str):
        raise InputError("A loss of your own on the outputs of a network is part of promask.tasks.Segmentation.")
    for_network = task == SEGMENTATION or (task is None and segmentation is not None)
    return make_task(loss or (SEGMENTATION if for_network else "mse"), segmentation)


def _first(start: Start, pattern: Pattern, config: Config) -> Units:
    """Where the first member starts: what is always or never acquired is so from the beginning."""
    drawn, axes = start(generator(config.seed, 0, "start")).cpu(), len(pattern.free)
    always, never = (fft_order(units, axes) for units in (pattern.centre(config.centre), pattern.padding()))
    return drawn.masked_fill(always, 1).masked_fill(never, 0)


def _about_network(
    network: Any, segmentation: Segmentation | None, config: Config, finetuned: bool
) -> dict[str, Any] | None:
    if config.network is None:
        return None
    names = segmentation.classes.names if segmentation is not None and segmentation.classes is not None else None
    return {
        "file": str(Path(network).absolute()) if isinstance(network, str | Path) else None,
        "classes": names,
        "finetuned": finetuned,
    }


def _to_learn_from(data: SampleSet, task: Task) -> tuple[SampleSet, SampleSet | None]:
    """The samples to learn from, and, where a network judges, others that decide whether what was learned is kept.

    They are other patients, and the same that said when to stop training the network.
    """
    if not task.needs_labels or len(data) < FEWEST_TO_SPLIT:
        return data, None
    (learning, _), (validation, _) = (choose_part(data, part, usual=part) for part in ("train", "test"))
    return learning, validation


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"The device {name!r} cannot be used here: {str(error).splitlines()[0]}.") from error
    return device


def _history(ensemble: Ensemble) -> dict[str, Any]:
    longest = max(ensemble.histories, key=lambda history: len(history.loss))
    losses = [history.loss for history in ensemble.histories]
    return {
        "loss": [_mean_of_known(values) for values in itertools.zip_longest(*losses)],
        "budget": longest.budget,
        "temperature": longest.temperature,
        "member_loss": losses,
        "stopped": [history.stopped for history in ensemble.histories],
        "halved": [history.halved for history in ensemble.histories],
    }


def _mean_of_known(values: Iterable[float | None]) -> float:
    """The mean over the members that had not stopped yet."""
    return statistics.fmean(value for value in values if value is not None)
