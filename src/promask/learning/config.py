"""The settings of a run: one frozen dataclass, checked when it is made, to and from JSON."""

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

from promask.data.reading import Check, Reading
from promask.errors import InputError, one_line
from promask.learners import RULES
from promask.sampling.pattern import FREE_AXES
from promask.sampling.schedules import ANNEALINGS

LARGEST = 1e18
"""No setting is larger; infinity and NaN are not smaller."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # Few cheap steps on the budget itself, in units of what the last affordable sample is worth.
    "default": {
        "steps": 100,
        "batch_size": 16,
        "samples": 1,
        "members": 1,
        "rule": "response",
        "init": "energy",
        "annealing": "none",
        "patience": 10,
    },
    # Section 4 of the paper.
    "paper": {
        "steps": 2500,
        "batch_size": 32,
        "samples": 4,
        "members": 10,
        "rule": "published",
        "annealing": "cubic",
        "patience": 0,
    },
}


SHAPE = "shape"
"""The rule that looks for the shape of a mask, and asks for losses alone."""
FOR_NETWORKS: Mapping[str, Any] = {"rule": SHAPE, "steps": 5, "batch_size": 48, "patience": 0}
"""What is different by default where a network judges: its gradients are noisy, and dear."""
DIRECT = ("zero-filled", "rss", "sense")
"""Reconstructions that infer nothing of what was not acquired."""
EXCHANGE = "exchange"
FOR_FILLING_IN: Mapping[str, Any] = {"rule": EXCHANGE, "steps": 120, "batch_size": 4, "patience": 0}
"""What is different by default for the other ones: units depend on their neighbours, and images take long."""
RECONSTRUCTION, SEGMENTATION = TASKS = ("reconstruction", "segmentation")


def names_segmentation(loss: str) -> bool:
    """Whether a loss, or a sum of losses, has to do with a network.

    >>> names_segmentation("0.5*segmentation + 0.5*mse"), names_segmentation("my_segmentation_loss")
    (True, False)
    """
    return SEGMENTATION in re.findall(r"\w+", loss)


def _positive(value: float) -> bool:
    return 0 < value < LARGEST


def _share(value: float) -> bool:
    return 0 <= value <= 1


def _anything(value: object) -> bool:
    return True


_COUNT: Check = (int, _positive, "a whole number of at least 1")
_COUNT_OR_NONE: Check = (int, lambda value: 0 <= value < LARGEST, "a whole number of at least 0")
_NUMBER = (int, float)

_CHECKS: Mapping[str, Check] = {
    **Reading.CHECKS,
    "acceleration": (_NUMBER, lambda value: 1 <= value < LARGEST, "a number of at least 1"),
    "steps": _COUNT,
    "batch_size": _COUNT,
    "samples": _COUNT,
    "members": _COUNT,
    "rule": (str, lambda value: value in RULES or value == SHAPE, " or ".join((*RULES, SHAPE))),
    "learning_rate": (_NUMBER, _positive, "a positive number"),
    "pattern": (str, FREE_AXES.__contains__, " or ".join(FREE_AXES)),
    "axis": (
        (tuple, type(None)),
        lambda value: value is None or all(type(axis) is int for axis in value),
        "whole numbers, the free axes of k-space",
    ),
    "task": (str, TASKS.__contains__, " or ".join(TASKS)),
    "loss": (str, _anything, "the name of a loss"),
    "network": ((str, type(None)), _anything, "the name of a file"),
    "finetune": (bool, _anything, "true or false"),
    "network_rate": (_NUMBER, _positive, "a positive number"),
    "recon": (str, _anything, "the name of a reconstruction"),
    "iterations": ((int, type(None)), lambda value: value is None or _positive(value), "a whole number from 1"),
    "regularisation": (
        (*_NUMBER, type(None)),
        lambda value: value is None or 0 <= value < LARGEST,
        "a number of at least 0",
    ),
    "init": (str, _anything, "uniform, energy or the name of a file of probabilities"),
    "exploration": (_NUMBER, _share, "a share from 0 to 1"),
    "exploitation": (_NUMBER, _share, "a share from 0 to 1"),
    "annealing": (str, ANNEALINGS.__contains__, " or ".join(ANNEALINGS)),
    "patience": _COUNT_OR_NONE,
    "centre": _COUNT_OR_NONE,
    "seed": (int, lambda value: 0 <= value < 2**63, "a whole number from 0 to 2^63 - 1"),
    "part": ((str, type(None)), _anything, "train, test or all"),
    "device": (str, _anything, "a device that PyTorch knows, such as cpu or cuda"),
}


@dataclass(frozen=True, kw_only=True)
class Config(Reading):
    """Everything that determines a run, apart from the data and a loss or start given as an object.

    >>> Config.preset("paper", acceleration=8).steps
    2500
    """

    acceleration: float
    steps: int
    batch_size: int
    samples: int
    """L, the masks drawn for each image of a batch."""
    members: int
    """M, the independent runs whose probabilities are averaged."""
    rule: str
    """How masks are drawn and move the probabilities: `response` to their gains, `published` (with Adam), or
    `shape`: the losses of whole shapes are compared in a race, or `exchange`: members of the mask for others."""
    annealing: str
    """How the budget falls from all units to its target: `cubic`, `linear`, or `none`, the target all along."""
    patience: int
    """Learning ends when the mode is the same as this many steps before; 0: never."""
    learning_rate: float = 0.01
    """Of the published rule; the others have none."""
    pattern: str = "2d"
    axis: tuple[int, ...] | None = None
    """Which axes are free; None: the last ones."""
    task: str = RECONSTRUCTION
    """What the images are for: to be looked at, or a segmentation by a network."""
    loss: str = "mse"
    network: str | None = None
    """The file of the network that segments."""
    finetune: bool = False
    """Whether the network is trained on while the mask is learned."""
    network_rate: float = 1e-4
    """The learning rate of the network."""
    recon: str = "zero-filled"
    """How images are reconstructed."""
    iterations: int | None = None
    """Of the reconstruction; None: its own."""
    regularisation: float | None = None
    """Of the reconstruction; None: its own."""
    init: str = "uniform"
    exploration: float = 0.1
    """The share of the steps before the budget begins to fall."""
    exploitation: float = 0.1
    """The share of the steps after it has reached its target."""
    centre: int = 0
    """The width of the block in the centre of k-space that is always acquired, and counted in the budget."""
    seed: int = 0
    part: str | None = None
    """`train`, `test` or `all` of the data; None: the learning part where the data tell their subjects."""
    device: str = "cpu"

    CHECKS: ClassVar[Mapping[str, Check]] = _CHECKS

    def __post_init__(self) -> None:
        if isinstance(self.axis, Integral) and not isinstance(self.axis, bool):
            object.__setattr__(self, "axis", (int(self.axis),))
        super().__post_init__()
        if self.pattern == "3d":
            object.__setattr__(self, "volumes", True)
        if self.rule == "response" and self.batch_size * self.samples < 2:
            raise InputError("The rule 'response' compares masks: batch-size times samples must be at least 2.")
        if self.task == SEGMENTATION and not names_segmentation(self.loss):
            raise InputError(f"The loss {self.loss!r} has no segmentation in it: leave out the task, or the loss.")
        has_network = self.task == SEGMENTATION or self.recon == "network"
        if self.finetune and (not has_network or self.members > 1):
            raise InputError("finetune needs a network, and a single member: they would share the network.")
        if self.exploration + self.exploitation > 1:
            raise InputError(
                f"exploration and exploitation are shares of the steps, but {self.exploration:g} and "
                f"{self.exploitation:g} add up to more than 1."
            )

    @staticmethod
    def preset(name: str, iterative: bool | None = None, **settings: Any) -> "Config":
        """A preset, with the given settings instead of its own.

        The task is a segmentation if the loss is, or if there is a network and no loss. Whether the reconstruction
        fills in what was not acquired is known by its name, unless that is one of a user's own.
        """
        if name not in PRESETS:
            raise InputError(f"Unknown preset {name!r}: choose one of {', '.join(PRESETS)}.")
        usual = dict(PRESETS[name])
        if iterative is None:
            iterative = settings.get("recon", DIRECT[0]) not in DIRECT
        if name == "default" and iterative:
            usual |= FOR_FILLING_IN if settings.get("rule", EXCHANGE) == EXCHANGE else {}
        loss = settings.get("loss", SEGMENTATION if settings.get("network") else "")
        if names_segmentation(str(loss)):
            usual["task"] = SEGMENTATION
        if settings.get("task", usual.get("task")) == SEGMENTATION:
            usual["loss"] = SEGMENTATION
            usual |= FOR_NETWORKS if name == "default" and settings.get("rule", SHAPE) == SHAPE else {}
        return Config.from_dict({**usual, **settings})

    @staticmethod
    def from_dict(settings: Mapping[str, Any]) -> "Config":
        """From plain values; unknown names are refused."""
        refuse_unknown(settings)
        if "acceleration" not in settings:
            raise InputError("The acceleration is missing: give a number of at least 1, such as --accel 8.")
        missing = [name for name in PRESETS["paper"] if name not in settings]
        if missing:
            raise InputError(f"The settings are not complete: there is no {missing[0].replace('_', '-')}.")
        return Config(**settings)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in run.json."""
        return dataclasses.asdict(self)


def refuse_unknown(settings: Mapping[str, Any]) -> None:
    """Say so if there is a setting that no configuration has."""
    known = [field.name for field in dataclasses.fields(Config)]
    for name in settings:
        if name not in known:
            raise InputError(f"Unknown setting {name!r}: choose from {', '.join(known)}.")


def read_settings(path: Path) -> dict[str, Any]:
    """Settings from a JSON file: a configuration, or a run.json, whose configuration is taken."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read the configuration {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"The configuration {path} is not JSON: {one_line(error)}.") from error
    settings = settings.get("config", settings) if isinstance(settings, dict) else settings
    if not isinstance(settings, dict):
        raise InputError(f"The configuration {path} must be a JSON object of names and values.")
    refuse_unknown(settings)  # before they become arguments of functions, which have names of their own
    return settings
