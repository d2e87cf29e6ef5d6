"""Uniform spokes with the best offset: what learned ones start from, and must beat."""

import itertools
from typing import TYPE_CHECKING

import torch

from promask.sampling.angles import GOLDEN, AngularDensity, rows_of
from promask.sampling.pattern import Pattern

if TYPE_CHECKING:
    from promask.problem.problem import Problem

ROUNDS = ((4, 12), (10, 4), (32, 1))
"""A race: on how many images offsets are compared, and how many of them stay."""
MOST_OFFSETS = 48
"""The most that are looked at: further ones lie between them."""
TURNS = (0.0, GOLDEN, 0.5, 1 / 3)
"""By how much frames or partitions are turned against each other, as a share of the distance of two spokes."""


def uniform_sets(pattern: Pattern, budget: int) -> list[AngularDensity]:
    """Evenly spread spokes with all offsets that differ, and with some turns from row to row.

    >>> from promask.types import Geometry
    >>> spokes = Pattern.on((16, 16), Geometry(), "radial")
    >>> len(uniform_sets(spokes, 8)), uniform_sets(spokes, 8)[1].place(spokes, 8)[:3]
    (12, tensor([False,  True, False]))

    Args:
        pattern: With a trajectory.
        budget: How many units are acquired.

    Returns:
        One for each of them.
    """
    assert pattern.trajectory is not None
    rows = rows_of(pattern)
    number = max(1, round(pattern.trajectory.candidates * rows / budget))
    turns = TURNS if rows > 1 else TURNS[:1]
    number = max(1, min(number, MOST_OFFSETS) // len(turns))
    return [
        AngularDensity(offset=place / number, turn=turn) for turn, place in itertools.product(turns, range(number))
    ]


def best_uniform(problem: "Problem") -> AngularDensity:
    """The uniform spokes of least loss on some of the images.

    Args:
        problem: Its pattern has a trajectory.

    Returns:
        Their offset and turn.
    """
    left = uniform_sets(problem.pattern, problem.budget)
    for most, keep in ROUNDS:
        if len(left) > keep:
            images = problem.images.some(most)
            sets = (each.place(problem.pattern, problem.budget) for each in left)
            losses = torch.stack([problem.losses(units, images).mean() for units in sets])
            left = [left[place] for place in losses.argsort(stable=True)[:keep].tolist()]
    return left[0]
