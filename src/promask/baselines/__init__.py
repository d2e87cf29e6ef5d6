"""Masks to compare with. A new baseline is one function and one line in the table."""

import importlib.util
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from promask.baselines.bart import PROGRAM, bart_poisson
from promask.baselines.drawn import gaussian, gaussian_paper, poisson, random
from promask.baselines.fixed import centre, energy, equispaced, equispaced_paper, radial
from promask.baselines.kt import equal_energy, kt_golden, kt_lattice, static_energy, static_variable_density
from promask.baselines.lattices import caipi, regular
from promask.baselines.loupe import loupe
from promask.baselines.problem import BaselineProblem
from promask.baselines.rotations import golden, raga, tiny_golden, uniform, uniform_best
from promask.baselines.searched import greedy, igs, igs_paper
from promask.baselines.tuned import partial_fourier, poisson_tuned, variable_density
from promask.data.device import find_device
from promask.errors import InputError
from promask.losses import freeze_networks
from promask.losses.base import Loss
from promask.losses.image import ImageLoss
from promask.recon.base import Reconstruction
from promask.recon.gridding import Gridding
from promask.recon.zero_filled import ZeroFilled
from promask.sampling.free_axes import FREE_AXES, PER_FRAME, TRAJECTORIES
from promask.sampling.limits import CONTRAST
from promask.sampling.pattern import Pattern
from promask.types import Mask, SampleSet, UnitMask

__all__ = [
    "BASELINES",
    "Baseline",
    "BaselineProblem",
    "baseline_mask",
    "check_available",
    "find_baseline",
    "matching_pattern",
]


@dataclass(frozen=True)
class Need:
    """What does not come with promask.

    Args:
        name: Such as `sigpy`.
        installation: How to get it.
        found: Whether it is there.
    """

    name: str
    installation: str
    found: Callable[[], bool]


SIGPY = Need("sigpy", "pip install 'promask[poisson]'", lambda: importlib.util.find_spec("sigpy") is not None)
BART = Need(
    "the program bart",
    "install BART (https://mrirecon.github.io/bart) and put it on the PATH",
    lambda: shutil.which(PROGRAM) is not None,
)


SHARED, OWN, EITHER = "shared", "own", "either"
"""What baselines do with the frames of a series: all share one mask, each has its own, or as the pattern says."""


@dataclass(frozen=True)
class Baseline:
    """How a baseline makes a mask, and what it can do.

    Args:
        make: Gives the units, centred: exactly the budget, except for `exact=False`.
        usual: The pattern if none is asked for.
        free: How many undersampled directions it can have.
        frames: Whether the frames of a series share a mask (`shared`), have their own (`own`), or `either`.
        over_time: Whether it is for frames, and not for contrasts.
        draws: Whether another seed gives another mask.
        learns: Whether it minimises a loss, which takes a while.
        tuned: Whether the best of a few masks is taken, by the loss of a few images, which takes seconds.
        for_coils: Whether it is meant for coils and iterative reconstructions, and poor without them.
        rotations: Whether it is for spokes and spiral interleaves, and nothing else; `random` is for all patterns.
        exact: Whether it keeps the number of samples; variants of the paper need not.
        images_only: Whether what it minimises must be a loss of images.
        needs: What it needs that does not come with promask.
    """

    make: Callable[[BaselineProblem], UnitMask]
    usual: str = "2d"
    free: tuple[int, ...] = (1, 2, 3)
    frames: str = SHARED
    over_time: bool = False
    draws: bool = False
    learns: bool = False
    tuned: bool = False
    for_coils: bool = False
    rotations: bool = False
    exact: bool = True
    images_only: bool = False
    needs: Need | None = None

    @property
    def missing(self) -> Need | None:
        """What it needs and is not installed."""
        return None if self.needs is None or self.needs.found() else self.needs

    @property
    def patterns(self) -> tuple[str, ...]:
        """The names of the patterns that it can have."""
        if self.rotations:
            return tuple(TRAJECTORIES)
        fitting = tuple(name for name, free in FREE_AXES.items() if self._fits(free, name in PER_FRAME))
        return (*fitting, *TRAJECTORIES) if self.make is random else fitting

    def fits(self, pattern: Pattern) -> bool:
        """Whether it can have a pattern.

        Args:
            pattern: Any pattern.

        Returns:
            Whether it can undersample so many directions, and treat frames as the pattern does.
        """
        if pattern.indexed == CONTRAST and self.over_time:
            return False
        if self.rotations or pattern.trajectory is not None:
            return pattern.name in self.patterns
        return self._fits(pattern.encoded, pattern.varies) and not (pattern.limits.cost and self.learns)

    def _fits(self, free: int, varies: bool) -> bool:
        return free in self.free and self.frames in (EITHER, OWN if varies else SHARED)


BASELINES: Mapping[str, Baseline] = {
    "equispaced": Baseline(equispaced, usual="1d", free=(1,), draws=True),
    "equispaced-paper": Baseline(equispaced_paper, usual="1d", free=(1,), draws=True, exact=False),
    "regular": Baseline(regular, free=(1, 2), tuned=True, for_coils=True),
    "caipi": Baseline(caipi, free=(2,), tuned=True, for_coils=True),
    "partial-fourier": Baseline(partial_fourier, tuned=True),
    "gaussian": Baseline(gaussian, frames=EITHER, draws=True),
    "gaussian-paper": Baseline(gaussian_paper, free=(2,), draws=True),
    "variable-density": Baseline(variable_density, frames=EITHER, draws=True, tuned=True),
    "poisson": Baseline(poisson, free=(2,), draws=True, needs=SIGPY),
    "poisson-tuned": Baseline(poisson_tuned, free=(1, 2), draws=True, tuned=True, for_coils=True, needs=SIGPY),
    "bart-poisson": Baseline(bart_poisson, free=(2,), draws=True, for_coils=True, needs=BART),
    "radial": Baseline(radial, free=(2,), draws=True),
    "random": Baseline(random, frames=EITHER, draws=True),
    "centre": Baseline(centre, frames=EITHER),
    "energy": Baseline(energy, frames=EITHER),
    "igs": Baseline(igs, usual="1d", frames=EITHER, learns=True),
    "igs-paper": Baseline(igs_paper, usual="1d", free=(1,), learns=True, exact=False),
    "greedy": Baseline(greedy, learns=True),
    "loupe": Baseline(loupe, draws=True, learns=True, images_only=True),
    "kt-lattice": Baseline(kt_lattice, usual="kt", free=(1, 2), frames=OWN, over_time=True, tuned=True),
    "kt-golden": Baseline(kt_golden, usual="kt", free=(1, 2), frames=OWN, over_time=True, tuned=True),
    "static-variable-density": Baseline(
        static_variable_density, usual="kt", free=(1, 2), frames=OWN, draws=True, tuned=True
    ),
    "uniform": Baseline(uniform, usual="radial", draws=True, rotations=True),
    "uniform-best": Baseline(uniform_best, usual="radial", tuned=True, rotations=True),
    "golden": Baseline(golden, usual="radial", draws=True, rotations=True),
    "tiny-golden": Baseline(tiny_golden, usual="radial", draws=True, rotations=True),
    "raga": Baseline(raga, usual="radial", draws=True, rotations=True),
    "static-energy": Baseline(static_energy, usual="kt", free=(1, 2), frames=OWN),
    "equal-energy": Baseline(equal_energy, usual="kt", free=(1, 2), frames=OWN),
}

UNIT_NAMES = {
    "1d": "lines",
    "2d": "locations on two axes",
    "3d": "locations on three axes",
    "kt": "lines of each frame",
    "kt-2d": "locations of each frame",
}
"""What a mask is made of, by the name of the pattern."""


def find_baseline(name: str) -> Baseline:
    """Return a baseline of the table.

    Args:
        name: Such as `poisson`.

    Returns:
        What it can do.
    """
    if name not in BASELINES:
        raise InputError(f"Unknown baseline {name!r}: choose one of {', '.join(BASELINES)}.")
    return BASELINES[name]


def check_available(name: str) -> None:
    """Refuse a baseline that needs a package or a program which is not installed.

    Args:
        name: A name of the table.

    Raises:
        InputError: If it is missing; the message says how to install it.
    """
    if missing := BASELINES[name].missing:
        raise InputError(f"{name} masks need {missing.name}: {missing.installation}.")


def matching_pattern(name: str, pattern: Pattern) -> Pattern | None:
    """Find the pattern of a baseline beside a mask of this pattern.

    >>> locations, lines = Pattern((4, 6), (0, 1)), Pattern((4, 6), (0,))
    >>> matching_pattern("energy", lines) == lines, matching_pattern("equispaced", locations).free
    (True, (1,))
    >>> matching_pattern("radial", lines) is None
    True

    Args:
        name: The baseline.
        pattern: That of the mask to compare with.

    Returns:
        The same pattern if the baseline can have it, or lines along the last of two undersampled directions,
        without the limits of the other one, or None. Frames that have patterns of their own keep them.
    """
    baseline = find_baseline(name)
    if baseline.fits(pattern):
        return pattern
    cartesian = pattern.trajectory is None
    if cartesian and len(pattern.free) == 2 and not pattern.varies and "1d" in baseline.patterns:
        return replace(pattern, free=pattern.free[-1:], limits=pattern.limits.keep([1]))
    return None


def baseline_mask(
    name: str,
    data: SampleSet,
    pattern: Pattern,
    acceleration: float,
    seed: int = 0,
    centre: int | None = None,
    task: Loss | None = None,
    recon: Reconstruction | None = None,
    device: str | torch.device = "cpu",
) -> Mask:
    """Make the mask of a baseline.

    Args:
        name: A name of the table.
        data: Fully sampled images, for baselines that look at them.
        pattern: What is acquired as a whole.
        acceleration: The acceleration factor, at least 1.
        seed: For baselines that draw masks at random.
        centre: The width of the calibration region, always acquired and counted; None for that of the baseline.
        task: The loss, for baselines that minimise one; by default the mean squared error.
        recon: The reconstruction, for baselines that minimise a loss; by default zero-filled, or gridding along a
            trajectory.
        device: Where PyTorch computes, such as `cpu` or `cuda`.

    Returns:
        The mask, (*space), centred; with exactly the number of samples, unless the baseline is not `exact`.

    Raises:
        InputError: If there is no such baseline, or it cannot have this pattern.
    """
    baseline = find_baseline(name)
    check_available(name)
    if not 0 <= seed < 2**63:
        raise InputError(f"The seed must be a whole number from 0 to 2^63 - 1, but is {seed}.")
    if pattern.indexed == CONTRAST and (baseline.over_time or (pattern.limits.cost and baseline.learns)):
        why = "are for frames, not for contrasts" if baseline.over_time else "cannot weigh `cost`"
        raise InputError(f"{name} masks {why}: choose another baseline, such as equal-energy.")
    if not baseline.fits(pattern):
        fitting = (
            baseline.patterns if baseline.rotations else [each for each in baseline.patterns if each in FREE_AXES]
        )
        kinds = (
            "spokes or interleaves" if baseline.rotations else " or ".join(UNIT_NAMES[each] for each in fitting)
        )
        possible = " or ".join(fitting)
        raise InputError(f"{name} masks are made of {kinds}: choose the pattern {possible}.")
    usual = ZeroFilled() if pattern.trajectory is None else Gridding()
    loss, recon = task or ImageLoss("mse"), recon or usual
    problem = BaselineProblem(pattern, acceleration, data, seed, centre, loss, recon, find_device(device))
    with freeze_networks(problem.task, problem.recon):
        units = baseline.make(problem)
    return pattern.expand(problem.best(units.double()) if pattern.limits.couple else units)
