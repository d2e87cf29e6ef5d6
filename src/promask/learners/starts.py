"""Masks that swaps may start from: patterns of the trade, and the best of them with other centres."""

import itertools
from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from promask.operators.fourier import fft_order
from promask.problem.problem import Problem
from promask.sampling import kt
from promask.sampling.limits import FRAME
from promask.types import UnitMask, Units


def make_starts(problem: Problem, theta: Units) -> Bool[Tensor, "starts *units"]:
    """Where the race begins, in FFT order: patterns of the trade if frames have their own, or the given start."""
    pattern = problem.pattern
    if pattern.varies and pattern.indexed == FRAME and not problem.start.given:
        width = problem.centre or None
        return _different(
            problem, [*kt.lattices(pattern, problem.budget, width), *kt.goldens(pattern, problem.budget, width)]
        )
    return problem.best(theta)[None]


def vary_centres(
    problem: Problem, starts: Bool[Tensor, "starts *units"], count: int
) -> Bool[Tensor, "more *units"]:
    """Starts, and the first of them with other centres: see `kt.with_other_centres`.

    Args:
        problem: What is asked.
        starts: In FFT order, the best first.
        count: How many of them are varied.

    Returns:
        All of them, in FFT order, each once.
    """
    found = [problem.centred(units) for units in starts]
    varied = (
        kt.with_other_centres(problem.pattern, problem.budget, each, problem.centre) for each in found[:count]
    )
    return _different(problem, [*found, *itertools.chain.from_iterable(varied)])


def _different(problem: Problem, masks: Sequence[UnitMask]) -> Bool[Tensor, "masks *units"]:
    """Centred masks in FFT order, each once."""
    unique = {units.numpy().tobytes(): units for units in masks}
    device = problem.images.device
    return torch.stack([fft_order(units, problem.pattern.encoded).to(device) for units in unique.values()])
