"""Masks to compare with. A new baseline is one file and one line in the table."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from promask.baselines.drawn import gaussian, gaussian_paper, poisson, random
from promask.baselines.fixed import centre, energy, equispaced, equispaced_paper, radial
from promask.baselines.loupe import loupe
from promask.baselines.problem import Problem
from promask.baselines.searched import greedy, igs, igs_paper
from promask.errors import InputError
from promask.losses import freeze_networks
from promask.losses.base import Loss
from promask.losses.image import ImageLoss
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZeroFilled
from promask.sampling.pattern import Pattern
from promask.types import Mask, SampleSet, UnitMask

__all__ = [
    "BASELINES",
    "Baseline",
    "Problem",
    "baseline_mask",
    "check_available",
    "find_baseline",
    "matching_pattern",
]


@dataclass(frozen=True)
class Baseline:
    """How a baseline makes a mask, and what it can do."""

    make: Callable[[Problem], UnitMask]
    """The units, centred: exactly the budget, except for `exact=False`."""
    usual: str = "2d"
    """The pattern without a choice."""
    free: tuple[int, ...] = (1, 2, 3)
    """How many free axes it can have."""
    draws: bool = False
    """Whether another seed gives another mask."""
    learns: bool = False
    """Whether it minimises a loss, which takes a while."""
    exact: bool = True
    """Whether it keeps the budget; variants of the paper need not."""
    images_only: bool = False
    """Whether what it minimises must be a loss of images."""
    needs: str | None = None
    """A package that does not come with promask."""

    @property
    def available(self) -> bool:
        """Whether everything it needs is installed."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None


BASELINES: Mapping[str, Baseline] = {
    "equispaced": Baseline(equispaced, usual="1d", free=(1,), draws=True),
    "equispaced-paper": Baseline(equispaced_paper, usual="1d", free=(1,), draws=True, exact=False),
    "gaussian": Baseline(gaussian, draws=True),
    "gaussian-paper": Baseline(gaussian_paper, free=(2,), draws=True),
    "poisson": Baseline(poisson, free=(2,), draws=True, needs="sigpy"),
    "radial": Baseline(radial, free=(2,), draws=True),
    "random": Baseline(random, draws=True),
    "centre": Baseline(centre),
    "energy": Baseline(energy),
    "igs": Baseline(igs, usual="1d", learns=True),
    "igs-paper": Baseline(igs_paper, usual="1d", free=(1,), learns=True, exact=False),
    "greedy": Baseline(greedy, learns=True),
    "loupe": Baseline(loupe, draws=True, learns=True, images_only=True),
}

UNITS = {1: "lines", 2: "locations on two axes", 3: "locations on three axes"}
"""What a mask is made of, by the number of free axes."""


def find_baseline(name: str) -> Baseline:
    """A baseline of the table."""
    if name not in BASELINES:
        raise InputError(f"Unknown baseline {name!r}: choose one of {', '.join(BASELINES)}.")
    return BASELINES[name]


def check_available(name: str) -> None:
    """Refuse a baseline that needs a package which is not installed."""
    if not BASELINES[name].available:
        raise InputError(f"{name} masks need {BASELINES[name].needs}: pip install 'promask[{name}]'.")


def matching_pattern(name: str, pattern: Pattern) -> Pattern | None:
    """The pattern of a baseline beside a mask of this pattern: the same if it can have it, or lines for locations.

    Lines are along the last of two free axes. None if the baseline can be neither.

    >>> locations, lines = Pattern((4, 6), (0, 1)), Pattern((4, 6), (0,))
    >>> matching_pattern("energy", lines) == lines, matching_pattern("equispaced", locations).free
    (True, (1,))
    >>> matching_pattern("radial", lines) is None
    True
    """
    possible, count = find_baseline(name).free, len(pattern.free)
    if count in possible:
        return pattern
    if count == 2 and 1 in possible:
        return Pattern(pattern.shape, pattern.free[-1:], pattern.extent)
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
) -> Mask:
    """The mask of a baseline, (*space), centred, with exactly the budget, unless the baseline is not `exact`.

    The task is what the images are for, for baselines that learn: a small mean squared error without a choice; the
    reconstruction, for those that look at images, is zero-filled without one.
    """
    baseline = find_baseline(name)
    check_available(name)
    if not 0 <= seed < 2**63:
        raise InputError(f"The seed must be a whole number from 0 to 2^63 - 1, but is {seed}.")
    if len(pattern.free) not in baseline.free:
        made_of = " or ".join(UNITS[free] for free in baseline.free)
        possible = " or ".join(f"{free}d" for free in baseline.free)
        raise InputError(f"{name} masks are made of {made_of}: choose the pattern {possible}.")
    problem = Problem(pattern, acceleration, data, seed, centre, task or ImageLoss("mse"), recon or ZeroFilled())
    with freeze_networks(problem.task, problem.recon):
        return pattern.expand(baseline.make(problem))
