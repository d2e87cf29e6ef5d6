"""What samples, and what is acquired of them, are called: words that a run, its report and its figures share."""

from promask.sampling.pattern import Pattern
from promask.types import UnitMask


def unit_noun(pattern: Pattern) -> str:
    """What is acquired or not as a whole, to a user.

    >>> unit_noun(Pattern((4, 6), (1,)))
    'lines'
    """
    if pattern.trajectory is not None:
        return pattern.trajectory.noun
    return "lines" if pattern.encoded == 1 else "samples"


def sample_noun(pattern: Pattern) -> str:
    """What a mask is applied to, to a user: `image`, `volume` or `series`.

    >>> sample_noun(Pattern((20, 6, 5), (0, 1), indexed="frame"))
    'series'
    """
    if pattern.indexed:
        return "series"
    return "volume" if len(pattern.image_shape) == 3 else "image"


def units_acquired(pattern: Pattern, budget: int) -> str:
    """How many units there are, and how many of them are acquired, to a user.

    >>> units_acquired(Pattern((4, 6), (1,)), 2)
    '2 of 6 lines'
    >>> from promask.sampling.limits import Limits
    >>> units_acquired(Pattern((20, 192, 4), (0, 1), indexed="frame", limits=Limits(equal_per=0)), 480)
    '24 of 192 lines in each of 20 frames'
    >>> units_acquired(Pattern((20, 192, 4), (0, 1), indexed="frame", period=5), 97)
    '97 of 960 lines in 5 frames, which are repeated to 20'
    >>> from promask.types import Geometry
    >>> units_acquired(Pattern.on((192, 192), Geometry(), "radial"), 32)
    '32 of 384 spokes (a complete scan has 302)'

    Args:
        pattern: The pattern of the mask.
        budget: How many units it acquires.

    Returns:
        Such as `2 of 6 lines`; where each frame has its own lines, their number in each of them.
    """
    noun = unit_noun(pattern)
    if not pattern.varies:
        same = f", the same in each of {pattern.shape[0]} {pattern.indexed}s" if pattern.indexed else ""
        if pattern.trajectory is not None:
            partitions = f" in {pattern.unit_shape[-1]} partitions" if pattern.encoded else ""
            return f"{budget} of {pattern.units} {noun}{partitions} (a complete scan has {pattern.full}){same}"
        return f"{budget} of {pattern.units} {noun}{same}"
    own, every = pattern.unit_shape[0], pattern.shape[0]
    frames = f"{own} {pattern.indexed}s"
    repeated = f", which are repeated to {every}" if own < every else ""
    if pattern.limits.cost:
        spent, whole = (each * pattern.cost_unit for each in (budget, pattern.units))
        return f"{spent:.4g} of {whole:.4g} s for the {noun} of {frames}"
    if pattern.limits.equal_per == 0 and pattern.limits.equal_group == 1 and budget % own == 0:
        return f"{budget // own} of {pattern.units // own} {noun} in each of {frames}{repeated}"
    return f"{budget} of {pattern.units} {noun} in {frames}{repeated}"


def kept_reference(reference: str, pattern: Pattern) -> str:
    """That a reference mask took the place of the learned one, in a sentence.

    >>> kept_reference("energy", Pattern((4, 6), (1,)))
    "Kept the reference mask 'energy': what was learned was not better."

    Args:
        reference: Its name.
        pattern: That of the run.

    Returns:
        The sentence.
    """
    if pattern.trajectory is None:
        return f"Kept the reference mask {reference!r}: what was learned was not better."
    return (
        f"Kept {reference} {pattern.trajectory.noun}: no density of angles was certainly better (0.1 dB and two "
        f"standard errors) over the patients."
    )


def split_of_contrasts(pattern: Pattern, units: UnitMask) -> str:
    """How many units of each contrast are acquired, to a user.

    >>> lines = Pattern((2, 6), (0, 1), indexed="contrast", contrasts=("T1", "FLAIR"))
    >>> split_of_contrasts(lines, lines.innermost(5))
    'T1 3, FLAIR 2 of 6 lines each'

    Args:
        pattern: That of a mask whose contrasts have units of their own.
        units: Those that are acquired, (*units).

    Returns:
        The number of each.
    """
    names = pattern.contrasts or [f"contrast {number}" for number in range(len(units))]
    numbers = ", ".join(f"{name} {int(own.sum())}" for name, own in zip(names, units, strict=True))
    return f"{numbers} of {units[0].numel()} {unit_noun(pattern)} each"
