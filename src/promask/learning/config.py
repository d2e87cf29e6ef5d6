"""The settings of a run: one frozen dataclass, checked when it is made, to and from JSON."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from promask.data.reading import Check, Reading, ReadingSettings
from promask.errors import InputError, check_keywords, one_line
from promask.learners import FORMER_NAMES, LEARNERS, PUBLISHED, describe, unknown_learner, usual_learner
from promask.recon import RECONSTRUCTIONS, Network, ZeroFilled, names_temporal
from promask.sampling.free_axes import PATTERNS, STACK, TRAJECTORIES
from promask.sampling.limits import ACS_SHAPES, BY_DIRECTION, SHUTTERS, LimitSettings, by_direction
from promask.sampling.schedules import ANNEALINGS

LARGEST = 1e18
"""No setting is larger; infinity and NaN are not smaller."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # Few cheap steps on the budget itself; how many, the learner knows.
    "default": {"samples": 1, "members": 1, "init": "energy", "annealing": "none"},
    # Section 4 of the paper.
    "paper": {
        "learner": PUBLISHED,
        "steps": 2500,
        "batch_size": 32,
        "samples": 4,
        "members": 10,
        "annealing": "cubic",
        "patience": 0,
    },
}
LIMITS = tuple(field.name for field in dataclasses.fields(LimitSettings))
"""The settings that limit a pattern."""
MOTION, CONTRAST_LOSS = "motion", "psnr"
"""The losses where frames are reconstructed together, and where contrasts have patterns of their own, if none is
chosen."""
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
    "learner": (str, _anything, " or ".join(LEARNERS)),
    "learning_rate": (_NUMBER, _positive, "a positive number"),
    "pattern": ((str, type(None)), lambda value: value in (None, *PATTERNS), " or ".join(PATTERNS)),
    "spokes": (
        (int, type(None)),
        lambda value: value is None or _positive(value),
        "a whole number of at least 1, such as 32",
    ),
    "axis": (
        (tuple, type(None)),
        lambda value: value is None or all(type(axis) in (int, str) for axis in value),
        "numbers or directions of the undersampled axes, such as 1 or ky",
    ),
    "allow_readout": (bool, _anything, "true or false"),
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
    "shutter": ((str, type(None)), lambda value: value in (None, *SHUTTERS), " or ".join(SHUTTERS)),
    "acs_shape": (str, ACS_SHAPES.__contains__, " or ".join(ACS_SHAPES)),
    "partial_fourier": (tuple, _anything, "a share for each direction, such as ky=6/8"),
    "largest_gap": (tuple, _anything, "a number for each direction, such as ky=4"),
    "equal_per": ((int, str, type(None)), _anything, "a direction, such as kz, or frame or contrast"),
    "period": _COUNT_OR_NONE,
    "cost": (tuple, _anything, "a number for each contrast, such as FLAIR=2.5"),
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
    """The acceleration factor, at least 1."""
    steps: int
    """The most steps of a member."""
    batch_size: int
    """The images of each step."""
    samples: int
    """L, the masks drawn for each image of a batch."""
    members: int
    """M, the independent runs whose probabilities are averaged."""
    learner: str
    """How probabilities are moved: `best-response`, `exchange`, `gumbel-adam` (the paper's) or `shape-race`."""
    annealing: str
    """How the budget falls from all units to its target: `cubic`, `linear`, or `none`, the target all along."""
    patience: int
    """Learning ends when the mode is the same as this many steps before; 0: never."""
    learning_rate: float = 0.01
    """Of `gumbel-adam`; the other learners have none."""
    pattern: str | None = None
    """What is acquired as a whole: `1d` for lines, `2d` or `3d` for samples, `kt` or `kt-2d` for those of each
    frame; None: all phase encodings of data whose readout is known, otherwise `2d`; of series, `kt`. `radial`,
    `spiral` or `stack-of-stars` for spokes and interleaves; `kt-radial` or `kt-spiral` for those of each frame."""
    spokes: int | None = None
    """The number of spokes or interleaves, which the acceleration follows from; of each frame that has its own."""
    axis: tuple[int | str, ...] | None = None
    """Which axes are undersampled, as numbers or directions such as `ky`; None: the last phase encodings."""
    allow_readout: bool = False
    """Whether the readout may be undersampled, which no scanner can do."""
    task: str = RECONSTRUCTION
    """What the images are for: to be looked at, or a segmentation by a network."""
    loss: str = "mse"
    """What is minimised: `mse`, `l1`, `ssim`, `motion`, `complex-mse`, `complex-l1`, `segmentation`, or a weighted
    sum."""
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
    """The initial probabilities: `uniform`, `energy`, or the name of a file of probabilities."""
    exploration: float = 0.1
    """The share of the steps before the budget begins to fall."""
    exploitation: float = 0.1
    """The share of the steps after it has reached its target."""
    centre: int = 0
    """The width of the calibration region (ACS) in the centre of k-space: always acquired, and counted."""
    shutter: str | None = None
    """`ellipse`: the corners of k-space are never acquired."""
    acs_shape: str = "block"
    """The shape of the calibration region: `block` or `ellipse`."""
    partial_fourier: tuple[tuple[int | str, float], ...] = ()
    """The share of directions that is acquired, from the positive end, such as {"ky": 0.75}."""
    largest_gap: tuple[tuple[int | str, int], ...] = ()
    """The largest distance of neighbouring samples along a direction, such as {"ky": 4}."""
    equal_per: int | str | None = None
    """The direction for every place of which the same number of samples is acquired, such as `kz`; of series
    `frame`, `frame=5` for every five frames together, `contrast`, or `none`; None: every frame that has its own
    pattern."""
    period: int = 0
    """After so many frames the pattern begins anew; 0: it does not repeat."""
    cost: tuple[tuple[int | str, float], ...] = ()
    """What a line of a contrast costs, such as {"FLAIR": 2.5} seconds; contrasts that are not named cost 1."""
    seed: int = 0
    """Of all random numbers."""
    part: str | None = None
    """`train`, `test` or `all` of the data; None: the learning part where the data tell their subjects."""
    device: str = "cpu"
    """Where PyTorch computes, such as `cpu` or `cuda`."""

    CHECKS: ClassVar[Mapping[str, Check]] = _CHECKS

    def __post_init__(self) -> None:
        for name in BY_DIRECTION:
            object.__setattr__(self, name, by_direction(name, getattr(self, name)))
        super().__post_init__()
        if self.pattern in ("3d", STACK):
            object.__setattr__(self, "volumes", True)
        if self.pattern in TRAJECTORIES:
            object.__setattr__(self, "trajectory", TRAJECTORIES[self.pattern])
        fewest = describe(self.learner).fewest_masks
        if self.batch_size * self.samples < fewest:
            raise InputError(
                f"The learner {self.learner!r} compares masks: `batch_size` times `samples` must be at least "
                f"{fewest}."
            )
        if self.task == SEGMENTATION and not names_segmentation(self.loss):
            raise InputError(f"The loss {self.loss!r} has no segmentation in it: leave out the task, or the loss.")
        has_network = self.task == SEGMENTATION or self.recon == Network.name
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

        Args:
            name: `default` or `paper`.
            iterative: Whether the reconstruction is iterative; None: known by its name.
            **settings: The fields of this class. The task is a segmentation if the loss is, or if there is a
                network and no loss.

        Returns:
            The settings.
        """
        if name not in PRESETS:
            raise InputError(f"Unknown preset {name!r}: choose one of {', '.join(PRESETS)}.")
        usual = dict(PRESETS[name])
        loss = settings.get("loss", SEGMENTATION if settings.get("network") else "")
        if names_segmentation(str(loss)):
            usual["task"] = SEGMENTATION
        for_network = settings.get("task", usual.get("task")) == SEGMENTATION
        if for_network:
            usual["loss"] = SEGMENTATION
        make = RECONSTRUCTIONS.get(str(settings.get("recon", ZeroFilled.name)))
        temporal = names_temporal(str(settings.get("recon", "")))
        rotations = settings.get("pattern") in TRAJECTORIES or settings.get("trajectory") is not None
        if iterative is None:
            iterative = make is None or make().iterative
        if (temporal or settings.get("per")) and not for_network:
            usual["loss"] = MOTION if temporal else CONTRAST_LOSS
        settings = in_present_names(settings)
        usual.setdefault("learner", usual_learner(for_network, iterative, temporal, rotations))
        learner = settings.get("learner", usual["learner"])
        if str(learner) not in LEARNERS and not {"steps", "batch_size", "patience"} <= settings.keys():
            raise unknown_learner(learner)  # an object brings its settings along
        usual = {**describe(learner).defaults, **usual}
        return Config.from_dict({**usual, **settings})

    def for_images(self, recon: str) -> "Config":
        """The settings to learn a mask for the squared error of the image itself, on the same pattern.

        Args:
            recon: The name of the reconstruction.

        Returns:
            The default preset, with the acceleration, pattern, centre, limits, seed, device and part of these
            settings.
        """
        usual = Config.preset("default", acceleration=self.acceleration, recon=recon)
        shared = ("pattern", "spokes", "axis", "volumes", "centre", *LIMITS, "seed", "device", "part")
        return dataclasses.replace(usual, **{name: getattr(self, name) for name in shared})

    @staticmethod
    def from_dict(settings: Mapping[str, Any]) -> "Config":
        """Make settings from plain values.

        Args:
            settings: By the name of the field, as `to_dict` gives them.

        Returns:
            The settings.

        Raises:
            InputError: If a name is unknown, a setting is missing, or a value is not possible.
        """
        settings = in_present_names(settings)
        refuse_unknown(settings)
        if settings.get("spokes") is not None and "acceleration" not in settings:
            settings["acceleration"] = 1  # until the size of the images is known
        if "acceleration" not in settings:
            raise InputError("`acceleration` is missing: give a number of at least 1, such as 8.")
        missing = [name for name in PRESETS["paper"] if name not in settings]
        if missing:
            raise InputError(f"The settings are not complete: there is no `{missing[0]}`.")
        return Config(**settings)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in run.json; `rule` is what the learner was called before."""
        former = {name: rule for rule, name in FORMER_NAMES.items()}
        named = {name: dict(getattr(self, name)) for name in BY_DIRECTION}
        return {**dataclasses.asdict(self), **named, "rule": former.get(self.learner, self.learner)}


class Settings(ReadingSettings, total=False):
    """The fields of `Config` as keywords of `learn`, but for those that have arguments of their own."""

    steps: int
    batch_size: int
    samples: int
    members: int
    annealing: str
    patience: int
    learning_rate: float
    pattern: str | None
    spokes: int | None
    axis: int | str | Sequence[int | str] | None
    allow_readout: bool
    finetune: bool
    network_rate: float
    iterations: int | None
    regularisation: float | None
    exploration: float
    exploitation: float
    centre: int
    shutter: str | None
    acs_shape: str
    partial_fourier: Mapping[int | str, float | str] | tuple[tuple[int | str, float], ...]
    largest_gap: Mapping[int | str, int] | tuple[tuple[int | str, int], ...]
    equal_per: int | str | None
    period: int
    cost: Mapping[int | str, float] | tuple[tuple[int | str, float], ...]
    seed: int
    part: str | None
    device: str


def in_present_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`rule`, as older runs have it, as `learner`."""
    present = {name: value for name, value in settings.items() if name != "rule"}
    if "rule" in settings:
        present.setdefault("learner", FORMER_NAMES.get(str(settings["rule"]), settings["rule"]))
    return present


def refuse_unknown(settings: Mapping[str, Any]) -> None:
    """Say so if there is a setting that no configuration has, and which one may be meant."""
    check_keywords(settings, [field.name for field in dataclasses.fields(Config)])


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
    settings = in_present_names(settings)
    refuse_unknown(settings)  # before they become arguments of functions, which have names of their own
    return settings
