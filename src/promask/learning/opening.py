"""Data made ready to learn from, in this process or in others."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from promask.data.file_set import OnFile
from promask.data.preprocess import channels_seen
from promask.data.sample_sets import choose_part, reading_of
from promask.data.sources import load, read_part
from promask.errors import InputError
from promask.learning.checkpoint import Clock
from promask.learning.config import Config
from promask.losses import segmentation_in
from promask.losses.base import Task
from promask.problem.batches import Samples
from promask.problem.initial import Start, starting_probabilities
from promask.problem.parallel import ALONE, Group, own_device
from promask.recon.base import Reconstruction
from promask.sampling.pattern import Pattern
from promask.types import SampleSet

FEWEST_TO_SPLIT = 4
"""Samples, below which all of them are learned from and decide."""


@dataclass(frozen=True)
class Opened:
    """What learning works on."""

    whole: SampleSet
    chosen: SampleSet
    """The part that is learned from, and that decides."""
    part: str
    config: Config
    """With how the data were read."""
    pattern: Pattern
    task: Task
    samples: Samples
    judges: Samples
    """The same, or, where a network judges, others."""
    start: Start
    clock: Clock
    """It goes since the data were ready."""

    @property
    def validation(self) -> int:
        """How many samples decide without being learned from."""
        return 0 if self.judges is self.samples else len(self.judges)


@dataclass(frozen=True)
class Opening:
    """How data are opened and made ready; it can be sent to other processes if the data can."""

    data: Any
    config: Config
    task: Task
    recon: Reconstruction
    init: Any

    def __call__(self, on_file: OnFile | None = None, group: Group = ALONE) -> Opened:
        """Read the data; of a group of processes the first does it before the others."""
        config, recon = self.config, self.recon
        device = _device(own_device(config.device) if group.size > 1 else config.device)
        whole = load(self.data, config)
        loaded = reading_of(whole).reading_settings()
        config = replace(config, **{name: value for name, value in loaded.items() if name != "volumes"})
        pattern = Pattern.named(config.pattern, whole.shape[1:], config.axis, whole.geometry.extent)
        pattern.block(config.centre, pattern.budget(config.acceleration))  # must fit

        with group.first_before_others():
            _, chosen, part = read_part(whole, part=config.part, recon=recon, on_file=on_file)
        segmentation = segmentation_in(self.task)
        if segmentation is not None:
            segmentation.check(chosen, channels_seen(chosen, recon))
        learning, validation = _to_learn_from(chosen, self.task)
        clock = Clock()
        samples = Samples.of_task(learning, device, self.task, recon, group)
        judges = samples if validation is None else Samples.of_task(validation, device, self.task, recon, group)
        start = starting_probabilities(self.init, samples, pattern)
        return Opened(whole, chosen, part, config, pattern, self.task, samples, judges, start, clock)


def _to_learn_from(data: SampleSet, task: Task) -> tuple[SampleSet, SampleSet | None]:
    """The samples to learn from, and, where a network judges, others that decide whether what was learned is kept.

    They are other patients, and the same that said when to stop training the network.
    """
    if not task.needs_labels or len(data) < FEWEST_TO_SPLIT:
        return data, None
    (learning, _), (validation, _) = (choose_part(data, part, part) for part in ("train", "test"))
    return learning, validation


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"The device {name!r} cannot be used here: {str(error).splitlines()[0]}.") from error
    return device
