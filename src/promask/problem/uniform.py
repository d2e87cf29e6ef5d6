"""Uniform spokes with the best offset: what learned ones start from, and must beat."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from promask.sampling.angles import GOLDEN, AngularDensity, rows_of
from promask.sampling.pattern import Pattern

if TYPE_CHECKING:
    from promask.problem.problem import Problem

ROUNDS = ((2, 24), (4, 8), (10, 3), (32, 1))
"""A race: on how many images sets are compared, and how many of them stay."""
SERIES = 4
"""A series of frames, or a volume, counts as so many images."""
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


def as_series(problem: "Problem", images: int) -> int:
    """So many images, or as many series or volumes as count alike; at least 1.

    Args:
        problem: Its pattern has a trajectory.
        images: How many.

    Returns:
        The number of samples.
    """
    return max(1, images // SERIES) if len(problem.pattern.shape) > 2 else images


def best_set(problem: "Problem", sets: Sequence[AngularDensity]) -> AngularDensity:
    """The set of least loss on some of the images; all images count alike.

    Args:
        problem: Its pattern has a trajectory.
        sets: To choose from.

    Returns:
        One of them.
    """
    left = list(sets)
    for most, keep in ROUNDS:
        if len(left) > keep:
            images = problem.images.some(as_series(problem, most))
            places = (each.place(problem.pattern, problem.budget) for each in left)
            losses = torch.stack([problem.losses(units, images) for units in places])
            scale = losses.median(0).values.abs().clamp_min(torch.finfo(losses.dtype).tiny)
            order = (losses / scale).mean(1).argsort(stable=True)
            left = [left[place] for place in order[:keep].tolist()]
    return left[0]
