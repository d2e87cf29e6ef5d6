"""The methods of a comparison: promask or a baseline, perhaps with a pattern, a loss and a reconstruction.

Masks that were made elsewhere are rows beside them.
"""

import hashlib
import math
import re
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from promask.baselines import BASELINES, OWN, baseline_mask, check_available
from promask.baselines.problem import BaselineProblem
from promask.errors import InputError, InputWarning
from promask.evaluation.matching import check_mask, is_for_volumes, mask_values
from promask.export import read_mask
from promask.learning.api import learn
from promask.learning.config import CONTRAST_LOSS, MOTION
from promask.losses.image import COMPLEX_LOSSES, LOSSES, SERIES_LOSSES
from promask.losses.segmentation import SEGMENTATION
from promask.recon import RECONSTRUCTIONS, names_temporal
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED, ZeroFilled
from promask.sampling.free_axes import FREE_AXES, PATTERNS, PER_FRAME, STACK, TRAJECTORIES, usual_on
from promask.sampling.limits import CONTRAST, LimitSettings
from promask.sampling.pattern import Pattern
from promask.types import Mask, SampleSet

if TYPE_CHECKING:
    from promask.evaluation.cells import Conditions

RECONSTRUCTION = "reconstruction"


@dataclass(frozen=True)
class ComparisonTask:
    """What masks are compared by: the losses that methods may minimise, and the methods that are compared."""

    default_loss: str
    """Of methods that learn; it is not part of their names."""
    losses: tuple[str, ...]
    own_losses: tuple[str, ...]
    """Those of them that are what the comparison is about."""
    default_methods: tuple[str, ...]


_WITHOUT_FRAMES = {
    name: baseline for name, baseline in BASELINES.items() if baseline.frames != OWN and not baseline.rotations
}
_NOT_LEARNED = tuple(name for name, baseline in _WITHOUT_FRAMES.items() if not baseline.learns)
_WITHOUT_COILS = tuple(name for name, baseline in _WITHOUT_FRAMES.items() if not baseline.for_coils)
TASKS: Mapping[str, ComparisonTask] = {
    RECONSTRUCTION: ComparisonTask(
        default_loss="mse",
        losses=(*LOSSES, *SERIES_LOSSES, *COMPLEX_LOSSES),
        own_losses=(*LOSSES, *SERIES_LOSSES, *COMPLEX_LOSSES),
        default_methods=(*_WITHOUT_COILS, "igs:2d", "promask:1d", "promask"),
    ),
    # Through a network, methods that look at all images for every few samples take hours.
    SEGMENTATION: ComparisonTask(
        default_loss=SEGMENTATION,
        losses=(SEGMENTATION, *LOSSES, *COMPLEX_LOSSES),
        own_losses=(SEGMENTATION,),
        default_methods=(
            *(name for name in _WITHOUT_COILS if name in _NOT_LEARNED),
            "energy:1d",
            "igs:mse",
            "promask:1d:mse",
            "promask:mse",
            "promask:1d",
            "promask",
        ),
    ),
}


def find_task(name: str) -> ComparisonTask:
    """What masks are compared by, by its name."""
    if name not in TASKS:
        raise InputError(f"Unknown task {name!r}: choose one of {', '.join(TASKS)}.")
    return TASKS[name]


PROMASK = "promask"
DEFAULT_IF_ITERATIVE = (
    *_NOT_LEARNED,
    "energy:1d",
    "centre:1d",
    "regular:1d",
    "variable-density:1d",
    "poisson-tuned:1d",
    "promask:1d:zero-filled",
    "promask:zero-filled",
    "promask:1d",
    "promask",
)
"""The methods for iterative reconstructions, which take long: none that looks at all images many times."""
DEFAULT_OF_FRAMES = (
    "static-energy",
    "static-variable-density",
    "variable-density",
    "kt-lattice",
    "kt-golden",
    "promask",
)
"""The methods for series whose frames have patterns of their own."""
DEFAULT_OF_ROTATIONS = ("random", "golden", "tiny-golden", "raga", "uniform", "uniform-best", "promask")
"""The methods for spokes and spiral interleaves."""
EQUAL = "equal"
"""The variant of a method in which all contrasts (or frames) have the same number of lines or samples."""
DEFAULT_OF_CONTRASTS = (
    "static-variable-density",
    "static-energy",
    "equal-energy",
    "energy",
    f"promask:{EQUAL}",
    "promask",
)
"""The methods for contrasts that have patterns of their own."""


@dataclass(frozen=True)
class Method:
    """A way to make a mask.

    >>> Method.parse("igs:2d", loss="ssim").label
    'igs:2d:ssim'
    >>> Method.parse("energy:2d", loss="ssim").label
    'energy'
    >>> Method.parse("promask:mse", task="segmentation").label
    'promask:mse'
    >>> Method.parse("promask:zero-filled:1d", recon="cg-sense").label
    'promask:1d:zero-filled'
    """

    name: str
    pattern: str
    loss: str
    task: str = RECONSTRUCTION
    """What the comparison is about: its default loss is not part of the label."""
    recon: str | None = None
    """The reconstruction that it learns for; None: that of the comparison."""
    usual_loss: str = field(default="", compare=False)
    """That of the comparison, which is not part of the label; empty: that of the task."""
    equal: bool = False
    """Whether all contrasts have the same number of lines or samples, whatever they cost."""
    pattern_named: bool = field(default=False, compare=False)
    """Whether the pattern was asked for; otherwise lines take its place where it would undersample a readout."""

    @staticmethod
    def parse(
        text: str,
        loss: str | None = None,
        task: str = RECONSTRUCTION,
        recon: str = ZeroFilled.name,
        per: str | None = None,
    ) -> "Method":
        """From a name and what it is to be different from usual: `promask:1d`, `igs:2d:ssim`."""
        name, *variants = text.split(":")
        if name != PROMASK and name not in BASELINES:
            known = ", ".join((*BASELINES, PROMASK))
            raise InputError(f"Unknown method {name!r}: choose from {known}, or give a mask as NAME=FILE.")
        kind = find_task(task)
        usual = kind.default_loss
        if task == RECONSTRUCTION and (per or names_temporal(recon)):
            usual = CONTRAST_LOSS if per else MOTION
        method = Method(name, default_pattern(name), usual if loss is None else loss, task, usual_loss=usual)
        for kinds in (PATTERNS, kind.losses, RECONSTRUCTIONS):
            if sum(variant in kinds for variant in variants) > 1:
                raise InputError(f"{text} asks for two things at once: choose one of {', '.join(variants)}.")
        for variant in variants:
            if variant == EQUAL:
                method = replace(method, equal=True)
            elif variant in PATTERNS:
                method = replace(method, pattern=variant, pattern_named=True)
            elif variant in kind.losses and method.learns:
                method = replace(method, loss=variant)
            elif variant in RECONSTRUCTIONS and method.learns_for_reconstructions:
                method = replace(method, recon=None if variant == recon else variant)
            else:
                learned = kind.losses if method.learns else ()
                learned += tuple(RECONSTRUCTIONS) if method.learns_for_reconstructions else ()
                possible = ", ".join((*method.patterns, EQUAL, *learned))
                raise InputError(f"Unknown variant {variant!r} of {name}: choose from {possible}.")
        method._check()
        return method

    def _check(self) -> None:
        if self.pattern not in self.patterns:
            possible = " or ".join(f"{self.name}:{pattern}" for pattern in self.patterns)
            raise InputError(f"There is no {self.name}:{self.pattern}: choose {possible}.")
        if (
            self.loss not in (*LOSSES, *SERIES_LOSSES)
            and self.name != PROMASK
            and BASELINES[self.name].images_only
        ):
            possible = " or ".join(f"{self.name}:{loss}" for loss in LOSSES)
            raise InputError(
                f"{self.name} learns from a loss of images, and not from {self.loss}: choose {possible}."
            )

    @property
    def label(self) -> str:
        """The shortest text for this method in its comparison, the same however it was written."""
        variants = {
            self.pattern: self.pattern != default_pattern(self.name),
            self.loss: self.learns and self.loss != (self.usual_loss or TASKS[self.task].default_loss),
            self.recon or "": self.recon is not None,
            EQUAL: self.equal,
        }
        return ":".join([self.name, *(variant for variant, named in variants.items() if named)])

    @property
    def file_name(self) -> str:
        """What its files are called, without seed and ending."""
        return self.label.replace(":", "-")

    @property
    def for_volumes(self) -> bool:
        """Whether the samples must be volumes."""
        return self.pattern in ("3d", STACK)

    @property
    def learns_for_task(self) -> bool:
        """Whether what it minimises is what the comparison is about."""
        return self.loss in TASKS[self.task].own_losses and self.recon is None

    @property
    def free(self) -> int:
        """How many directions are undersampled; angles count as one."""
        return FREE_AXES.get(self.pattern, 2 if self.pattern == STACK else 1)

    @property
    def learns(self) -> bool:
        """Whether it minimises a loss."""
        return self.name == PROMASK or BASELINES[self.name].learns or BASELINES[self.name].tuned

    @property
    def learns_for_reconstructions(self) -> bool:
        """Whether it learns for the reconstruction that it is given, and not for a network of its own."""
        return self.learns and (self.name == PROMASK or not BASELINES[self.name].images_only)

    @property
    def draws(self) -> bool:
        """Whether another seed gives another mask."""
        return self.name == PROMASK or BASELINES[self.name].draws

    @property
    def patterns(self) -> tuple[str, ...]:
        """The names of the patterns that it can have."""
        return PATTERNS if self.name == PROMASK else BASELINES[self.name].patterns

    def accelerations(self, asked: Sequence[float], conditions: "Conditions") -> Sequence[float]:
        """Those at which it has a row: all that were asked for, each of which must be possible."""
        for acceleration in asked:
            try:
                conditions.problem(self, acceleration).block()  # the budget must hold the centre
            except InputError as error:
                raise InputError(f"{self.label} at x{acceleration:g}: {error}") from error
        return asked

    def create(self, conditions: "Conditions", acceleration: float, seed: int) -> tuple[Mask, dict[str, Any]]:
        """The mask, (*space), and how it came about: the seconds it took, and the reference mask it is, if any."""
        began = time.perf_counter()
        mask, reference = self.mask(conditions.problem(self, acceleration, seed))
        return mask, {"seconds": round(time.perf_counter() - began, 3), "plain": reference}

    def mask(self, problem: BaselineProblem) -> tuple[Mask, str | None]:
        """The mask for a problem, (*space), and the name of the reference mask that took its place, if one did."""
        if self.name != PROMASK:
            asked = (
                problem.acceleration,
                problem.seed,
                problem.centre,
                problem.task,
                problem.recon,
                problem.device,
            )
            return baseline_mask(self.name, problem.data, problem.pattern, *asked), None
        run = learn(
            problem.data,
            problem.acceleration,
            task=problem.task,
            recon=problem.recon,
            pattern=self.pattern,
            axis=None if problem.pattern.trajectory else problem.pattern.free[problem.pattern.varies :],
            allow_readout=True,  # what may be undersampled was decided with the pattern
            centre=problem.centre or 0,
            **LimitSettings.as_asked(problem.pattern),
            seed=problem.seed,
            part="all",
            device=str(problem.device),
        )
        return run.mask, run.record.reference

    def on(self, dimensions: int, readout: bool, indexed: str = "", pattern: str | None = None) -> "Method":
        """The same for data with so many axes.

        Args:
            dimensions: How many there are.
            readout: Whether one of them is a readout.
            indexed: What the first of them counts, `frame` or `contrast`; empty if it is a direction.
            pattern: The pattern of all methods that can have it, and name no other.

        Returns:
            The method with its pattern.
        """
        if self.pattern_named:
            return self
        possible = self.patterns
        if pattern in TRAJECTORIES:
            return replace(self, pattern=pattern if pattern in possible else self.pattern)
        if indexed == CONTRAST:  # whose patterns are called after what is undersampled in each
            possible = tuple(name for name in possible if name not in PER_FRAME) or possible
            pattern = next((name for name in possible if pattern == PER_FRAME.get(name, name)), None)
        chosen = pattern if pattern in possible else None
        about = (dimensions, readout, bool(indexed))
        return replace(self, pattern=chosen or usual_on(self.pattern, possible, *about))

    def pattern_on(self, data: SampleSet, axis: Sequence[int | str] | None, allow_readout: bool) -> Pattern:
        """Its pattern on a k-space; `axis` chooses the undersampled directions of patterns that have as many."""
        chosen = axis if axis is not None and len(axis) == self.free else None
        if (self.pattern in TRAJECTORIES) != (data.geometry.trajectory is not None):
            known = "spokes or interleaves" if data.geometry.trajectory is not None else "Cartesian k-space"
            raise InputError(
                f"{self.label} has the pattern {self.pattern}, but masks are compared for {known}: choose the "
                f"`pattern` of all methods, or leave it out."
            )
        return Pattern.on(data.shape[1:], data.geometry, self.pattern, chosen, allow_readout)


FULL = "fully sampled"
"""The name of the row above the methods."""
FROZEN = "frozen heart"
"""The name of the row of the fully sampled temporal mean, above the methods as well."""
NAME = re.compile(r"[^\W\d_][\w .+()-]{0,59}")
"""What a mask may be called: nothing that a file name, a figure or a table would take for something else."""
FAR = 0.1
"""How much the acceleration of a given mask may differ from the one that it is listed with, relative to it."""


@dataclass(frozen=True)
class GivenMask:
    """A mask that was made elsewhere, of a file or of a run: a row beside the methods, of one mask."""

    label: str
    """The name that it was given."""
    digest: str
    """Of its name and content: a mask that has changed is another one."""
    free: int
    """How many axes of k-space are undersampled."""
    values: npt.NDArray[np.bool_] = field(compare=False, repr=False)
    """As in the file; an array of NumPy, which goes to other processes by value."""
    learns: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    learns_for_task: ClassVar[bool] = True

    def on(self, data: SampleSet) -> "GivenMask":
        """The same; of series, the axis of frames is none that is undersampled."""
        if not data.geometry.indexed:
            return self
        mask = fit_mask(self.label, self.values, data)
        varying = [axis for axis in range(1, mask.ndim) if not (mask == mask.narrow(axis, 0, 1)).all()]
        return replace(self, free=max(1, len(varying)))

    @staticmethod
    def parse(text: str) -> "GivenMask":
        """From a name and a place: `mine=mask.npy`, or `old=runs/brain`."""
        label, _, place = text.partition("=")
        if not place:
            raise InputError(f"{text!r} is not NAME=FILE or NAME=RUN, such as mine=mask.npy.")
        check_name(label)
        exported = read_mask(Path(place).expanduser())
        values = exported.mask.numpy()
        digest = hashlib.sha256(repr((label, values.shape)).encode() + values.tobytes()).hexdigest()
        return GivenMask(label, digest, len(exported.free), values)

    @property
    def file_name(self) -> str:
        """What its files are called, without seed and ending."""
        return f"{re.sub('[^A-Za-z0-9.+-]', '_', self.label)}-{self.digest[:12]}"

    @property
    def for_volumes(self) -> bool:
        """Whether the samples must be volumes, unless they are series."""
        return is_for_volumes(mask_values(self.values))

    def accelerations(self, asked: Sequence[float], conditions: "Conditions") -> Sequence[float]:
        """The one of those that were asked for which is nearest to its own, with a warning if that is far."""
        data = conditions.learning
        achieved = conditions.acceleration(fit_mask(self.label, self.values, data))
        nearest = min(asked, key=lambda each: abs(math.log(each / achieved)))
        if abs(achieved / nearest - 1) > FAR:
            warnings.warn(
                f"{self.label} has an acceleration of {achieved:.4g}: it is listed with x{nearest:g}, the nearest "
                f"that was asked for.",
                InputWarning,
                stacklevel=2,
            )
        return [nearest]

    def create(self, conditions: "Conditions", acceleration: float, seed: int) -> tuple[Mask, dict[str, Any]]:
        """The mask, (*space), and how it came about, of which nothing is known."""
        return fit_mask(self.label, self.values, conditions.learning), {"seconds": None, "plain": None}


ComparedMethod = Method | GivenMask
AnyMethod = TypeVar("AnyMethod", bound=ComparedMethod)


def fit_mask(name: str, mask: Any, data: SampleSet) -> Mask:
    """A mask from elsewhere, as `evaluate` takes it, on the k-space of a data set; errors tell its name.

    Of series, a mask may also be (frame, line).
    """
    check_name(name)
    try:
        return check_mask(mask_values(mask), data)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def check_name(name: str) -> None:
    """Refuse a name for a mask that a method has, or that could not stand in tables, figures and file names."""
    if name in (PROMASK, *BASELINES, FULL, FROZEN):
        raise InputError(f"{name!r} is taken, and cannot be the name of your mask: choose another, such as mine.")
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a mask: choose a letter, and up to 59 letters, digits, spaces and "
            f". _ + - ( ) after it."
        )


def parse_methods(
    texts: Iterable[str],
    loss: str | None,
    task: str = RECONSTRUCTION,
    recon: Reconstruction = ZERO_FILLED,
    per: str | None = None,
) -> list[ComparedMethod]:
    """The methods asked for, each once; `NAME=FILE` and `NAME=RUN` are masks, which are read."""
    kind = find_task(task)
    if loss is not None and loss not in kind.losses:
        raise InputError(f"Unknown loss {loss!r}: choose one of {', '.join(kind.losses)}.")
    methods: list[ComparedMethod] = []
    for text in texts:
        if "=" in text:
            methods.append(GivenMask.parse(text))
            continue
        method = Method.parse(text, loss, task, recon.name, per)
        if method.name in BASELINES:
            check_available(method.name)
        methods.append(method)
    return list(by_label(methods).values())


def by_label(methods: Iterable[AnyMethod]) -> dict[str, AnyMethod]:
    """Methods by their labels, each once; different masks must have different names."""
    chosen: dict[str, AnyMethod] = {}
    for method in methods:
        if chosen.setdefault(method.label, method) != method:
            raise InputError(f"Two masks are called {method.label!r}: give them different names.")
    return chosen


def usual_methods(
    loss: str | None,
    dimensions: int,
    task: str = RECONSTRUCTION,
    recon: Reconstruction = ZERO_FILLED,
    readout: bool = False,
    indexed: str = "",
    pattern: str | None = None,
) -> list[ComparedMethod]:
    """What is compared without a choice: methods that fit k-space of so many axes, if they are installed."""
    usual = DEFAULT_IF_ITERATIVE if recon.iterative and task == RECONSTRUCTION else find_task(task).default_methods
    if pattern in TRAJECTORIES:
        usual = DEFAULT_OF_ROTATIONS
    elif indexed and (pattern is None or pattern in PER_FRAME or indexed == CONTRAST):
        usual = DEFAULT_OF_CONTRASTS if indexed == CONTRAST else DEFAULT_OF_FRAMES
    if loss not in (None, *LOSSES):
        usual = tuple(text for text in usual if text not in BASELINES or not BASELINES[text].images_only)
    chosen: list[ComparedMethod] = []
    for text in usual:
        per = CONTRAST if indexed == CONTRAST else None
        method = Method.parse(text, loss, task, recon.name, per).on(dimensions, readout, indexed, pattern)
        baseline = BASELINES.get(method.name)
        if pattern not in TRAJECTORIES and method.free > dimensions - readout - bool(indexed):
            continue
        if baseline is not None and (missing := baseline.missing):
            extra = f"which needs {missing.name}: {missing.installation}"
            warnings.warn(f"Left out: {method.name}, {extra}.", InputWarning, stacklevel=2)
            continue
        chosen.append(method)
    return list(by_label(chosen).values())


def default_pattern(name: str) -> str:
    """The pattern of a method that names none."""
    return "2d" if name == PROMASK else BASELINES[name].usual
