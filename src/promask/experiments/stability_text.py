"""What a user is told of a run's stability: rows of a table, and sentences."""

from collections.abc import Iterator, Mapping
from typing import Any

from promask.experiments.agreement import AGREED, Agreement
from promask.experiments.stability import Stability

ALIKE = 0.005
"""The difference in dB below which two decimals say nothing."""
DECIDED = 0.02
"""A distribution is all but decided if random masks differ from the mode in at most this share of the budget."""


def table_rows(result: Stability) -> Mapping[str, Mapping[str, Any]]:
    """The mode and both kinds of random masks."""
    return {
        "mode": {**result.mode.summary(), "pixel_std": None},
        "drawn": result.drawn.summary(),
        "exact": result.exact.summary(),
    }


def sentences(result: Stability) -> Iterator[str]:
    """What the numbers mean, one line each."""
    yield (
        "drawn: every unit is acquired or not by itself, so that sizes vary; exact: of as many units as the mode. "
        "± is the standard deviation over masks, pixel ± that of a pixel relative to the maximum of its image."
    )
    left_out = result.draws - len(result.drawn.evaluations)
    if left_out:
        yield f"Of the {result.draws} masks that were drawn, {left_out} acquired nothing and were left out."
    yield _of_entropy(result)
    mode, exact = result.mode.summary()["psnr"], result.exact.summary()["psnr"]
    if mode is not None and exact is not None:
        difference = mode - exact
        place = f"{abs(difference):.2f} dB {'above' if difference > 0 else 'below'}"
        yield f"The mode is {place if abs(difference) >= ALIKE else 'as good as'} random masks of its size."
    if result.run.about.get("plain"):
        plain = result.run.about["plain"]
        yield f"The mask is that of {plain}, which was better than what was learned: it knows no chance."
    elif result.agreement is None:
        yield "The run has one member: promask learn ... --members 10 tells how far independent ones agree."
    else:
        yield _of_members(result.agreement)


def _of_entropy(result: Stability) -> str:
    distribution = result.run.distribution
    differing = result.differing
    verdict = (
        "nearly all probabilities are 0 or 1, and random masks hardly differ from the mode"
        if differing <= DECIDED * distribution.budget
        else "the probabilities leave a choice, which the mode settles"
    )
    return (
        f"The entropy is {distribution.entropy():.1f} bits, and a drawn mask differs from the mode in "
        f"{differing:.1f} of {distribution.pattern.units} units on average: {verdict}."
    )


def _of_members(agreement: Agreement) -> str:
    everywhere, centre, rest = agreement.everywhere, agreement.centre, agreement.rest
    places = f"{centre.mean_std:.2g} in the central half of every free axis"
    if rest is not None:
        places += f" and {rest.mean_std:.2g} outside"
    return (
        f"The {agreement.members} members agree on {100 * everywhere.agreed:.1f} % of the units (to a standard "
        f"deviation of {AGREED}); the mean standard deviation of a probability over members is "
        f"{everywhere.mean_std:.2g} ({places}), and the mean variance {everywhere.mean_variance:.2g}."
    )
