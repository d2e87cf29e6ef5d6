"""Masks that swaps may start from: patterns of the trade, lattices of two zones, and both with other centres."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from promask.operators.fourier import fft_order
from promask.problem.problem import Problem
from promask.sampling import kt
from promask.sampling.limits import FRAME
from promask.types import UnitMask

BEST = 3
"""How many are varied."""


@dataclass(frozen=True)
class Round:
    """A round of a race."""

    share: float
    """Of the images of a step, on which starts race."""
    keep: int
    """How many of them go on, those of the smallest sums of losses since others joined them."""
    joined_by: Callable[[Problem, Bool[Tensor, "starts *units"]], Bool[Tensor, "more *units"]] | None = None
    """Adds starts to those that are there, in FFT order, the best first."""


def make_starts(problem: Problem) -> Bool[Tensor, "starts *units"]:
    """Where the race begins: patterns of the trade if frames have their own, or the given start.

    Args:
        problem: What is asked.

    Returns:
        In FFT order, each once.
    """
    pattern = problem.pattern
    if pattern.varies and pattern.indexed == FRAME and not problem.start.given:
        width = problem.centre or None
        return _different(
            problem, [*kt.lattices(pattern, problem.budget, width), *kt.goldens(pattern, problem.budget, width)]
        )
    return problem.best(problem.initial(0))[None]


def add_zones(problem: Problem, starts: Bool[Tensor, "starts *units"]) -> Bool[Tensor, "more *units"]:
    """Starts, and lattices of two zones: see `kt.two_zones`.

    Args:
        problem: What is asked.
        starts: In FFT order.

    Returns:
        All of them, in FFT order, each once.
    """
    found = [problem.centred(units) for units in starts]
    return _different(problem, [*found, *kt.two_zones(problem.pattern, problem.budget, problem.centre)])


def vary_centres(problem: Problem, starts: Bool[Tensor, "starts *units"]) -> Bool[Tensor, "more *units"]:
    """Starts, and the first three of them with other centres: see `kt.with_other_centres`.

    Args:
        problem: What is asked.
        starts: In FFT order, the best first.

    Returns:
        All of them, in FFT order, each once.
    """
    found = [problem.centred(units) for units in starts]
    varied = (
        kt.with_other_centres(problem.pattern, problem.budget, each, problem.centre) for each in found[:BEST]
    )
    return _different(problem, [*found, *itertools.chain.from_iterable(varied)])


def _different(problem: Problem, masks: Sequence[UnitMask]) -> Bool[Tensor, "masks *units"]:
    """Centred masks in FFT order, each once."""
    unique = {units.numpy().tobytes(): units for units in masks}
    device = problem.images.device
    return torch.stack([fft_order(units, problem.pattern.encoded).to(device) for units in unique.values()])
