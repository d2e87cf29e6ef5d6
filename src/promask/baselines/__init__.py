"""Masks to compare with. A new baseline is one file and one line in the table."""

from collections.abc import Callable, Mapping

from promask.baselines.energy import energy
from promask.baselines.equispaced import equispaced
from promask.baselines.gaussian import gaussian
from promask.errors import InputError
from promask.patterns import Pattern
from promask.types import Mask, SampleSet, UnitMask

__all__ = ["BASELINES", "USUAL_PATTERN", "baseline_mask"]

Baseline = Callable[[Pattern, int, int, SampleSet], UnitMask]
"""(pattern, budget, seed, data) -> exactly `budget` units, centred."""

BASELINES: Mapping[str, Baseline] = {"equispaced": equispaced, "gaussian": gaussian, "energy": energy}
USUAL_PATTERN: Mapping[str, str] = {"equispaced": "1d", "gaussian": "2d", "energy": "2d"}


def baseline_mask(name: str, data: SampleSet, pattern: Pattern, acceleration: float, seed: int = 0) -> Mask:
    """The mask of a baseline, (*space), centred, with exactly the budget of the acceleration."""
    if name not in BASELINES:
        raise InputError(f"Unknown baseline {name!r}: choose one of {', '.join(BASELINES)}.")
    if not 0 <= seed < 2**63:
        raise InputError(f"The seed must be a whole number from 0 to 2^63 - 1, but is {seed}.")
    return pattern.expand(BASELINES[name](pattern, pattern.budget(acceleration), seed, data))
