"""From what a user asked to a problem and a learner, in this process or in others."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from promask.data.description import DataDescription
from promask.data.device import find_device
from promask.data.file_set import OnFile
from promask.data.preprocess import collate, reconstructed_channels
from promask.data.sample_sets import choose_part, reading_of
from promask.data.sources import absolute_source, load, read_part
from promask.errors import InputError
from promask.learners import LEARNERS, describe
from promask.learners.base import CARTESIAN, ROTATIONS, Learner
from promask.learning.config import Config
from promask.learning.hooks import EarlyStopping
from promask.losses import find_segmentation
from promask.losses.base import Loss
from promask.problem.batches import SpectraSet, patient_parts
from promask.problem.parallel import ALONE, Group, own_device
from promask.problem.problem import STARTS, Problem, slicing_axis, starting_probabilities
from promask.recon.base import Fittable, Reconstruction
from promask.sampling.limits import LimitSettings
from promask.sampling.pattern import Pattern
from promask.types import AnyImages, SampleSet

FEWEST_TO_SPLIT = 4
"""With fewer samples than this, all are used for learning and for validation."""


@dataclass(frozen=True)
class Prepared:
    """A problem with the data that it came from."""

    whole: SampleSet
    chosen: SampleSet
    """The part that is learned from, and that validates."""
    part: str
    description: DataDescription
    config: Config
    """With how the data were read."""
    pattern: Pattern
    """On all axes of k-space; that of the problem may be the pattern of slices of volumes."""
    problem: Problem
    learner: Learner
    validation: SpectraSet
    """The images that decide what is kept: those that are learned from, or, where a network judges, others."""

    @property
    def early_stopping(self) -> EarlyStopping:
        """When members stop."""
        return EarlyStopping(self.config.patience, self.problem.budget, self.learner.steps)

    @property
    def held_back(self) -> int:
        """How many samples validate without being learned from."""
        return 0 if self.validation is self.problem.images else len(self.validation)


@dataclass(frozen=True)
class Setup:
    """What a user asked; it can be sent to other processes if the data can."""

    data: Any
    config: Config
    learner: Learner
    loss: Loss
    recon: Reconstruction
    init: Any

    def __call__(self, on_file: OnFile | None = None, group: Group = ALONE) -> Prepared:
        """Read the data and state the problem; of a group of processes the first reads before the others."""
        config, recon, loss = self.config, self.recon, self.loss
        device = find_device(own_device(config.device) if group.size > 1 else config.device)
        whole = load(self.data, config)
        loaded = reading_of(whole).reading_settings()
        config = replace(config, **{name: value for name, value in loaded.items() if name != "volumes"})
        pattern = Pattern.on(
            whole.shape[1:], whole.geometry, config.pattern, config.axis, allow_readout=config.allow_readout
        )
        pattern = LimitSettings.of(config).on(pattern)
        config = _with_acceleration(config, pattern)
        check_learner(self.learner, pattern)
        pattern.block(config.centre, pattern.budget(config.acceleration))  # must fit
        with group.first_before_others():
            _, chosen, part, description = read_part(whole, part=config.part, recon=recon, on_file=on_file)
        segmentation = find_segmentation(loss)
        if segmentation is not None:
            segmentation.check(chosen, reconstructed_channels(chosen, recon))
        learning, others = _split(chosen, loss, self.learner)
        if isinstance(recon, Fittable) and recon.prior is None:
            recon = recon.fitted(full_images(learning, recon), patient_parts(learning.groups))
        along = slicing_axis(pattern, recon, loss)
        samples = SpectraSet.for_loss(learning, device, loss, recon, group, along)
        validation = samples if others is None else SpectraSet.for_loss(others, device, loss, recon, group, along)
        in_loop = pattern if along is None else pattern.plane(along)
        problem = state_problem(samples, in_loop, loss, config, self.init)
        if describe(self.learner).validates and others is not None:
            problem = replace(problem, validation=validation)
        return Prepared(whole, chosen, part, description, config, pattern, problem, self.learner, validation)

    def for_other_machines(self, loss: Loss) -> "Setup":
        """The same for a process in another folder, or on another machine that has the same disk."""
        maps, init = self.config.maps, self.init
        return replace(
            self,
            data=absolute_source(self.data),
            config=replace(self.config, maps=None if maps is None else str(Path(maps).absolute())),
            init=init if not isinstance(init, str | Path) or init in STARTS else Path(init).absolute(),
            loss=loss,
        )


def _with_acceleration(config: Config, pattern: Pattern) -> Config:
    """The settings with the acceleration that a number of spokes, in each frame, amounts to."""
    if config.spokes is None:
        return config
    return replace(config, acceleration=acceleration_of(config.spokes, pattern))


def acceleration_of(spokes: int, pattern: Pattern) -> float:
    """The acceleration of a number of spokes or interleaves.

    Args:
        spokes: How many are acquired; where frames have patterns of their own in each, and of a stack at each kz,
            on average.
        pattern: With a trajectory.

    Returns:
        How many a complete scan has for each of them.

    Raises:
        InputError: If there are not so many candidates, or a complete scan has fewer; or no spokes.
    """
    trajectory = pattern.trajectory
    if trajectory is None:
        raise InputError("`spokes` is for spokes and spirals: choose the pattern radial or spiral.")
    noun = trajectory.noun
    if spokes > trajectory.candidates:
        raise InputError(
            f"{spokes} {noun} cannot be chosen from {trajectory.candidates}: ask for fewer `spokes`, or for more "
            f"`candidates`."
        )
    if spokes > trajectory.full:
        raise InputError(
            f"{spokes} {noun} are more than a complete scan has: {trajectory.full} for images of "
            f"{' x '.join(map(str, trajectory.matrix))}."
        )
    return trajectory.full / spokes


def check_learner(learner: Learner, pattern: Pattern) -> None:
    """Refuse a learner that cannot choose spokes, or one that can do nothing else."""
    able = describe(learner).patterns
    found = CARTESIAN if pattern.trajectory is None else ROTATIONS
    if found not in able:
        fitting = ", ".join(name for name in LEARNERS if found in describe(name).patterns)
        raise InputError(
            f"The learner {learner.name} cannot learn the pattern {pattern.name}: choose one of {fitting}."
        )


def state_problem(samples: SpectraSet, pattern: Pattern, loss: Loss, config: Config, init: Any = None) -> Problem:
    """The problem of settings, with their start or a given one."""
    start = starting_probabilities(config.init if init is None else init, samples, pattern)
    budget = pattern.budget(config.acceleration)
    return Problem(samples, pattern, budget, loss, start, config.centre, config.seed)


def full_images(data: SampleSet, recon: Reconstruction) -> Iterator[AnyImages]:
    """The fully sampled images of all samples, one after the other, as the reconstruction would have them."""
    for index in range(len(data)):
        found = collate([data[index]], recon.uses_maps)
        yield recon.reference(found.clean, found.maps)


def _split(data: SampleSet, loss: Loss, learner: Learner) -> tuple[SampleSet, SampleSet | None]:
    """The samples to learn from, and, where a network judges or the learner asks, those of others for validation.

    They are the same that said when to stop training the network.
    """
    if not (loss.needs_labels or describe(learner).validates) or len(data) < FEWEST_TO_SPLIT:
        return data, None
    (learning, _), (validation, _) = (choose_part(data, part, part) for part in ("train", "test"))
    return learning, validation
