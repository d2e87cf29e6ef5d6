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

from promask import __version__
from promask.cluster.dask import check_address
from promask.data.file_set import OnFile
from promask.errors import InputError
from promask.learning.checkpoint import Identity, Keeper
from promask.learning.config import Config
from promask.learning.ensemble import Ensemble, OnCluster
from promask.learning.history import OnStep, Recorder, first_of
from promask.learning.opening import Opening
from promask.learning.records import (
    CheckpointRecord,
    DataRecord,
    NetworkRecord,
    ReconstructionRecord,
    RunHistory,
    RunRecord,
)
from promask.learning.run import Run
from promask.learning.selection import search
from promask.losses import find_segmentation, make_loss
from promask.losses.base import Loss
from promask.losses.segmentation import SEGMENTATION, Segmentation, make_segmentation
from promask.problem.parallel import ALONE, Group
from promask.recon import make_reconstruction, settings_of
from promask.recon.base import Reconstruction
from promask.recon.network import Network
from promask.types import LossFunction


def learn(
    data: Any,
    acceleration: float,
    *,
    preset: str = "default",
    loss: str | LossFunction | None = None,
    network: str | Path | nn.Module | Segmentation | None = None,
    task: str | Loss | None = None,
    recon: str | Reconstruction = "zero-filled",
    init: Any = None,
    on_step: OnStep | None = None,
    on_file: OnFile | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    group: Group = ALONE,
    scheduler: str | None = None,
    **settings: Any,
) -> Run:
    """Learn where to sample k-space.

    >>> images = torch.rand(2, 16, 16, generator=torch.Generator().manual_seed(0))
    >>> run = learn(images, acceleration=4, steps=20)
    >>> run.mask.shape, int(run.mask.sum())
    (torch.Size([16, 16]), 64)

    `data` is an array or tensor of images, a torch Dataset, a file, a folder or a built-in name; `loss` is `mse`,
    `l1`, `ssim` or a callable on (magnitude images, targets), a mean over the images; with a `network`, a file or
    `promask.losses.Segmentation`, it is `segmentation` unless told otherwise; or a sum of such, such as
    `0.5*segmentation + 0.5*mse`. A `task` may be all of this in one object. `recon` is how images are
    reconstructed: `zero-filled`, `rss`, `sense`, `cg-sense`, `cs`, `cs-tv`, `partial-fourier`, or an object of
    `promask.recon`, such as a network. `init` is `uniform`, `energy`, or an
    array or .npy file of probabilities, or a run folder. With a folder for a `checkpoint`, a run that is killed
    goes on from there when it is called again with `resume`. `group` are the processes that learn together, from
    `promask.problem.parallel.joined`; `scheduler` is the address of a Dask cluster that learns the members.
    Further settings are those of `Config`: steps,
    batch_size, samples, members, pattern, axis, centre, part, seed, finetune, ...; and of `Reading`, for files.
    """
    if isinstance(task, str):
        settings["task"] = task
    task = _task(loss, network, task)
    if init is not None:
        settings["init"] = str(init) if isinstance(init, str | Path) else "given"
    segmentation = find_segmentation(task)
    if network is not None or segmentation is not None:
        settings["network"] = str(network) if isinstance(network, str | Path) else "given"
    name, iterative = (recon, None) if isinstance(recon, str) else (recon.name, recon.iterative)
    config = Config.preset(preset, iterative, acceleration=acceleration, loss=task.name, recon=name, **settings)
    recon = make_reconstruction(recon, config.iterations, config.regularisation)
    opening = Opening(data, config, task, recon, config.init if init is None else init)
    if scheduler is not None:
        _check_cluster(scheduler, config, group)
    opened = opening(on_file, group)
    config, pattern, samples, clock = opened.config, opened.pattern, opened.samples, opened.clock
    recorder = Recorder(first_of(opened.start, pattern, config), on_step)
    identity = Identity({**config.to_dict(), "samples": len(samples)}, samples.mean_energy(pattern))
    keeper = Keeper(None if checkpoint is None else Path(checkpoint), identity, resume, recorder, group, clock)
    elsewhere = None if scheduler is None else OnCluster(scheduler, replace(opening, config=config), recorder)
    found = search(
        samples, opened.judges, pattern, task, config, opened.start, recorder.on_step, keeper, elsewhere
    )
    record = RunRecord(
        data=DataRecord(
            source=opened.whole.name,
            part=opened.part,
            images=len(opened.chosen),
            validation=opened.validation,
            groups=len(set(opened.chosen.groups)),
            shape=opened.whole.shape,
        ),
        preset=preset,
        reference=found.plain,
        reconstruction=ReconstructionRecord(
            recon.name, settings_of(recon), finetuned=found.finetuned and isinstance(recon, Network)
        ),
        network=_network_record(
            network, segmentation, config, finetuned=found.finetuned and not isinstance(recon, Network)
        ),
        seconds=round(keeper.seconds, 3),
        seconds_waited=round(samples.seconds_waited, 3),
        checkpoints=CheckpointRecord(clock.written, round(clock.spent, 4), tuple(sorted(keeper.went_on))),
        processes=group.size,
        versions={
            "promask": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    )
    return Run(
        distribution=found.distribution,
        config=config,
        history=_history(found.ensemble),
        variance=found.variance,
        record=record,
        network=found.network,
        trajectory=recorder.trajectory(len(pattern.free)),
    )


def _task(
    loss: str | LossFunction | None, network: str | Path | nn.Module | Segmentation | None, task: str | Loss | None
) -> Loss:
    if task is not None and not isinstance(task, str):
        if loss is not None or network is not None:
            raise InputError("A task has its loss and its network: leave them out, or the task.")
        return task
    segmentation = None if network is None else make_segmentation(network)
    if segmentation is not None and loss is not None and not isinstance(loss, str):
        raise InputError("A loss of your own on the outputs of a network is part of promask.losses.Segmentation.")
    for_network = task == SEGMENTATION or (task is None and segmentation is not None)
    return make_loss(loss or (SEGMENTATION if for_network else "mse"), segmentation)


def _check_cluster(scheduler: str, config: Config, group: Group) -> None:
    check_address(scheduler)
    if config.members == 1:
        raise InputError(
            "A cluster learns members, each apart from the others: ask for several, such as --members 10."
        )
    if group.size > 1:
        raise InputError("Members are learned on a cluster or by the processes of torchrun, not by both.")


def _network_record(
    network: Any, segmentation: Segmentation | None, config: Config, finetuned: bool
) -> NetworkRecord | None:
    if config.network is None:
        return None
    classes = None if segmentation is None else segmentation.classes
    file = str(Path(network).absolute()) if isinstance(network, str | Path) else None
    return NetworkRecord(file, None if classes is None else classes.names, finetuned)


def _history(ensemble: Ensemble) -> RunHistory:
    longest = max(ensemble.histories, key=lambda history: len(history.loss))
    losses = [history.loss for history in ensemble.histories]
    return RunHistory(
        loss=[_mean_of_known(values) for values in itertools.zip_longest(*losses)],
        budget=longest.budget,
        temperature=longest.temperature,
        member_loss=losses,
        stopped=[history.stopped for history in ensemble.histories],
        halved=[history.halved for history in ensemble.histories],
    )


def _mean_of_known(values: Iterable[float | None]) -> float:
    """The mean over the members that had not stopped yet."""
    return statistics.fmean(value for value in values if value is not None)
