"""From data to a run: the whole of learning in one call."""

import copy
import itertools
import platform
import statistics
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import nn

from promask import __version__
from promask.data.file_set import OnFile
from promask.errors import InputError
from promask.learners import Learner, describe, make_learner
from promask.learning.checkpoint import Checkpointer, Clock, Identity
from promask.learning.config import (
    CONTRAST_LOSS,
    MOTION,
    RECONSTRUCTION,
    Config,
    Settings,
    in_present_names,
    refuse_unknown,
)
from promask.learning.ensemble import Ensemble, OnCluster, optimise_members
from promask.learning.hooks import OnStep, ReportProgress, TrajectoryRecorder
from promask.learning.loop import Hook
from promask.learning.records import (
    CheckpointRecord,
    DataRecord,
    NetworkRecord,
    ReconstructionRecord,
    RunHistory,
    RunRecord,
)
from promask.learning.run import Run
from promask.learning.selection import reference_masks, select
from promask.learning.setup import Setup
from promask.losses import find_segmentation, freeze_networks, make_loss, replace_network
from promask.losses.base import Loss, WeightedSum
from promask.losses.segmentation import SEGMENTATION, Segmentation, make_segmentation
from promask.problem.cluster import check_address
from promask.problem.objective import Finetuning
from promask.problem.parallel import ALONE, Group, own_device
from promask.problem.problem import Problem, mean_loss
from promask.recon import is_built_in, make_reconstruction, settings_of
from promask.recon.base import Fittable, Reconstruction, is_temporal
from promask.recon.network import Network
from promask.sampling.free_axes import TRAJECTORIES
from promask.types import LossFunction


def learn(
    data: Any,
    acceleration: float | Config | None = None,
    *,
    preset: str = "default",
    learner: str | Learner | None = None,
    loss: str | LossFunction | None = None,
    network: str | Path | nn.Module | Segmentation | None = None,
    task: str | Loss | None = None,
    recon: str | Reconstruction | None = None,
    init: Any = None,
    on_step: OnStep | None = None,
    on_file: OnFile | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    group: Group = ALONE,
    scheduler: str | None = None,
    **settings: Unpack[Settings],
) -> Run:
    """Learn where to sample k-space.

    >>> images = torch.rand(2, 16, 16, generator=torch.Generator().manual_seed(0))
    >>> run = learn(images, acceleration=4, steps=20)
    >>> run.mask.shape, int(run.mask.sum())
    (torch.Size([16, 16]), 64)

    Args:
        data: An array or tensor of images, (N, *space) or (N, channel, *space); a torch Dataset; a file, a folder
            or a glob, or a list of these; a built-in name; or a data set of `promask.data.load`.
        acceleration: The acceleration factor, at least 1; or all settings, as `Config.preset("default",
            acceleration=8)` makes them.
        preset: `default`, or `paper` for section 4 of the paper.
        learner: `best-response`, `exchange`, `gumbel-adam` (the paper's), `shape-race`, `swap`, or an object of
            your own; by default the one that suits the loss and the reconstruction.
        loss: `mse`, `l1`, `ssim`, `psnr`, `motion`, `complex-mse`, `complex-l1`, `segmentation`, a weighted sum
            such as `0.5*segmentation + 0.5*mse`, or a function of magnitude images and targets, (batch, channel,
            *space) both, that returns their mean loss. By default `mse`; `segmentation` with a network; `motion`
            where frames are reconstructed together; `psnr` where contrasts have patterns of their own.
        network: The network that segments: a file, a module with classes, or `promask.losses.Segmentation`.
        task: `reconstruction`, `segmentation`, or an object of `promask.losses` instead of `loss` and `network`.
        recon: `zero-filled`, `rss`, `sense`, `gridding` (the default for spokes and spirals), `cg-sense`,
            `cs`, `cs-tv`, `partial-fourier`; for series of frames
            `temporal-average`, `view-sharing`, `kt-sense`, `kt-cs`, `kt-tv`, `l+s`; or an object of
            `promask.recon` or of your own.
        init: `energy`, `uniform`, or probabilities to start from, centred: an array, a .npy file or a run folder.
        on_step: Called after every step with a `Progress`, whose probabilities are centred.
        on_file: Called with the number of files read, and their total.
        checkpoint: The folder for checkpoints; a run that is killed goes on from there with `resume`.
        resume: Whether to go on from the checkpoints in that folder.
        group: The processes that learn together, from `promask.problem.parallel.joined`.
        scheduler: The address of a Dask cluster that learns the members.
        **settings: The other fields of `Config`: `steps`, `batch_size`, `samples`, `members`, `pattern`, `axis`,
            `spokes`, `candidates`, `centre`, `shutter`, `acs_shape`, `partial_fourier`, `largest_gap`,
            `equal_per`, `period`, `cost`,
            `annealing`, `patience`, `seed`, `device`, `part`, `finetune`, `iterations`, ...; and how
            files are read: `volumes`, `size`, `slices`, `select`, `coils`, `phase`, `noise`, `maps`, ...

    Returns:
        The run: its mask and probabilities, centred, and how they came about.

    Raises:
        InputError: If something about the arguments or the data is wrong: one sentence that says what.
    """
    if resume and checkpoint is None:
        raise InputError("`resume` needs the folder of the checkpoints: give `checkpoint`.")
    setup, given_network = _setup(
        data, acceleration, preset, learner, loss, network, task, recon, init, dict(settings)
    )
    if scheduler is not None:
        _check_cluster(scheduler, setup.config, group)
    prepared = setup(on_file, group)
    config, problem, clock = prepared.config, prepared.problem, Clock()
    recorder = TrajectoryRecorder(problem)
    energy = problem.energy
    identity = Identity({**config.to_dict(), "images": len(problem.images)}, energy)
    folder = None if checkpoint is None else Path(checkpoint)
    checkpointer = Checkpointer(folder, identity, resume, recorder, group, clock)
    hooks: list[Hook] = [prepared.early_stopping, recorder]
    if on_step is not None:
        dimensions = problem.pattern.encoded
        unit = problem.pattern.cost_unit
        hooks.append(ReportProgress(on_step, config.members, prepared.learner.steps, dimensions, unit))
    finetuning = _finetuning(problem, config)
    with freeze_networks(problem.loss, problem.recon):
        problem = _in_units_of_the_start(problem)
        trained = _with_finetuning(problem, finetuning)
        elsewhere = None
        if scheduler is not None:
            elsewhere = OnCluster(scheduler, replace(setup, config=config), recorder, on_step)
        ensemble = optimise_members(trained, prepared.learner, config.members, hooks, checkpointer, elsewhere)
        about = describe(prepared.learner)
        selected = select(problem, trained, prepared.validation, ensemble, about, config)
    finetuned, of_recon = selected.network is not None, isinstance(problem.recon, Network)
    record = RunRecord(
        data=DataRecord.of(prepared.chosen, prepared.part, prepared.description, prepared.held_back),
        preset=preset,
        reference=selected.reference,
        reconstruction=ReconstructionRecord(
            problem.recon.name,
            settings_of(problem.recon),
            finetuned=finetuned and of_recon,
            own=not is_built_in(problem.recon),
        ),
        network=_network_record(given_network, problem.loss, config, finetuned=finetuned and not of_recon),
        seconds=round(checkpointer.seconds, 3),
        seconds_waited=round(problem.images.seconds_waited, 3),
        checkpoints=CheckpointRecord(clock.written, round(clock.spent, 4), tuple(sorted(checkpointer.resumed))),
        processes=group.size,
        versions={
            "promask": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    )
    return Run(
        distribution=replace(selected.distribution, pattern=prepared.pattern),
        config=config,
        history=_history(ensemble),
        variance=selected.variance,
        record=record,
        network=selected.network,
        trajectory=recorder.trajectory(),
        recon=trained.recon if finetuned else problem.recon,
        prior=problem.recon.prior if isinstance(problem.recon, Fittable) else None,
    )


def _setup(
    data: Any,
    acceleration: float | Config | None,
    preset: str,
    learner: str | Learner | None,
    loss: str | LossFunction | None,
    network: Any,
    task: str | Loss | None,
    recon: str | Reconstruction | None,
    init: Any,
    settings: dict[str, Any],
) -> tuple[Setup, Any]:
    """What was asked, as objects and settings; and the network as it was given."""
    settings = in_present_names(settings)
    refuse_unknown(settings)
    from_config = isinstance(acceleration, Config)
    if isinstance(acceleration, Config):
        if settings or preset != "default":
            raise InputError(f"The settings are in the Config: give `{next(iter(settings), 'preset')}` there.")
        config, acceleration = acceleration, acceleration.acceleration
        settings = {name: getattr(config, name) for name in Settings.__annotations__}
        learner, recon, network = learner or config.learner, recon or config.recon, network or config.network
        init, task = config.init if init is None else init, task or config.task
        loss = loss or (config.loss if isinstance(task, str) else None)
    rotations = settings.get("pattern") in TRAJECTORIES or settings.get("trajectory") is not None
    learner, recon = (
        learner or settings.pop("learner", None),
        recon or ("gridding" if rotations else "zero-filled"),
    )
    if acceleration is not None:
        settings["acceleration"] = acceleration
    made = make_reconstruction(recon)  # or refuse it
    if loss is None and network is None and task in (None, RECONSTRUCTION):
        loss = MOTION if is_temporal(made) else CONTRAST_LOSS if settings.get("per") else None
    objective = _loss(loss, network, task, own_device(settings.get("device", "cpu")))
    if isinstance(task, str):
        settings["task"] = task
    if init is not None:
        settings["init"] = str(init) if isinstance(init, str | Path) else "given"
    if network is not None or find_segmentation(objective) is not None:
        settings["network"] = str(network) if isinstance(network, str | Path) else "given"
    if learner is not None:
        if not isinstance(learner, str):  # it brings its settings along
            own = {"steps": make_learner(learner, None).steps, "batch_size": 1, "patience": 0}
            own |= {name: getattr(learner, name) for name in Settings.__annotations__ if hasattr(learner, name)}
            for name in own.keys() & settings.keys():
                if not from_config and settings[name] != own[name]:
                    raise InputError(f"The learner is made already: give `{name}` to it.")
            settings |= own
        settings["learner"] = learner if isinstance(learner, str) else learner.name
    name, iterative = (recon, None) if isinstance(recon, str) else (recon.name, recon.iterative)
    config = Config.preset(preset, iterative, loss=objective.name, recon=name, **settings)
    return (
        Setup(
            data=data,
            config=config,
            learner=make_learner(config.learner if learner is None else learner, config),
            loss=objective,
            recon=make_reconstruction(recon, config.iterations, config.regularisation),
            init=config.init if init is None else init,
        ),
        network,
    )


def _loss(loss: str | LossFunction | None, network: Any, task: str | Loss | None, device: str) -> Loss:
    if task is not None and not isinstance(task, str):
        if loss is not None or network is not None:
            raise InputError("A `task` has its loss and its network: leave out `loss` and `network`, or the task.")
        return task
    segmentation = None if network is None else make_segmentation(network, device)
    if segmentation is not None and loss is not None and not isinstance(loss, str):
        raise InputError("A loss of your own on the outputs of a network is part of promask.losses.Segmentation.")
    for_network = task == SEGMENTATION or (task is None and segmentation is not None)
    return make_loss(loss or (SEGMENTATION if for_network else "mse"), segmentation)


def _finetuning(problem: Problem, config: Config) -> Finetuning | None:
    """A copy of the network that is trained, if that was asked for: the one that reconstructs comes first."""
    segmentation, recon = find_segmentation(problem.loss), problem.recon
    network = recon.module if isinstance(recon, Network) else segmentation.network if segmentation else None
    return Finetuning(copy.deepcopy(network), config.network_rate) if config.finetune and network else None


def _with_finetuning(problem: Problem, finetuning: Finetuning | None) -> Problem:
    """The same problem with the network that is trained."""
    if finetuning is None:
        return problem
    if isinstance(problem.recon, Network):
        images = problem.images.with_recon(replace(problem.recon, module=finetuning.network))
        return replace(problem, images=images, finetuning=finetuning)
    return replace(problem, loss=replace_network(problem.loss, finetuning.network), finetuning=finetuning)


def _in_units_of_the_start(problem: Problem) -> Problem:
    """A weighted sum of losses with each as a share of its value for the mask of largest energy."""
    if not isinstance(problem.loss, WeightedSum):
        return problem
    images, pattern = problem.images, problem.pattern
    energy = reference_masks(images, pattern, problem.budget, problem.centre)["energy"]
    units = [mean_loss(energy, images, pattern, term.loss) for term in problem.loss.terms]
    return replace(problem, loss=problem.loss.scaled_by(units))


def _check_cluster(scheduler: str, config: Config, group: Group) -> None:
    check_address(scheduler)
    if config.members == 1:
        raise InputError("A cluster learns members, each apart from the others: ask for several with `members`.")
    if group.size > 1:
        raise InputError("Members are learned on a cluster or by the processes of torchrun, not by both.")


def _network_record(network: Any, loss: Loss, config: Config, finetuned: bool) -> NetworkRecord | None:
    if config.network is None:
        return None
    segmentation = find_segmentation(loss)
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
