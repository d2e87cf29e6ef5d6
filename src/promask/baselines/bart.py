"""Poisson-disc masks of the program `bart poisson`: an implementation that is independent of the one used here."""

import math
import subprocess
import tempfile
from pathlib import Path

import torch

from promask.baselines.drawn import EXCESS, some_of
from promask.baselines.problem import BaselineProblem
from promask.errors import InputError
from promask.export.bart import read_bart
from promask.types import UnitMask

PROGRAM = "bart"
SEARCH = 12
"""How many masks are made at most to find the distance that fits the budget."""


def bart_poisson(problem: BaselineProblem) -> UnitMask:
    """Variable-density Poisson discs within an ellipse, around a calibration region 24 wide: `-v -e -C`.

    Of the accelerations of `bart poisson`, the same for both directions, the largest that reaches the budget is
    searched for, and the excess is removed at random. Below about x6 variable density cannot reach it: the
    calibration region is then as wide as it takes. On grids too small for it, the density is uniform.
    """
    generator, width = problem.generator(), problem.acs_width()
    seed = int(torch.randint(2**31, (), generator=generator))
    kept, budget, variable = problem.block(default=width), problem.budget, True

    def reached(spacing: float) -> UnitMask:
        return (bart_discs(problem.pattern.unit_shape, spacing, width, seed, variable) | kept) & problem.allowed

    try:
        found = reached(1)
    except InputError:  # the grid is too small
        variable = False
        found = reached(1)
    while found.sum() < budget and not kept[problem.allowed].all():
        width += 1
        kept = problem.pattern.centre(width)
        found |= kept
    low, high = (1.0, int(found.sum())), None
    for _ in range(SEARCH):
        if low[1] <= EXCESS * budget:
            break
        spacing = 2 * low[0] if high is None else between(low, high, 0.5 * (1 + EXCESS) * budget)
        tried = reached(spacing)
        size = int(tried.sum())
        if size >= budget:
            low, found = (spacing, size), tried
        else:
            high = spacing, size
    return some_of(problem, found, kept & found, generator)


def between(low: tuple[float, int], high: tuple[float, int], size: float) -> float:
    """Where a power law through two points has this size.

    >>> between((1, 400), (4, 25), 100)
    2.0
    """
    (start, most), (end, least) = low, high
    return float(start * (end / start) ** (math.log(most / size) / math.log(most / least)))


def bart_discs(shape: tuple[int, ...], spacing: float, centre: int, seed: int, variable: bool) -> UnitMask:
    """A mask of `bart poisson -e`.

    Args:
        shape: The size of both directions.
        spacing: The acceleration along each of them, at least 1.
        centre: The width of the calibration region.
        seed: Below 2^31.
        variable: Whether the density is variable, `-v`.

    Returns:
        (*shape): whether each location is acquired.

    Raises:
        InputError: If the program does not make one.
    """
    sizes = [f"-Y{shape[0]}", f"-Z{shape[1]}", f"-y{spacing:.6f}", f"-z{spacing:.6f}"]
    with tempfile.TemporaryDirectory() as folder:
        mask = Path(folder, "mask")
        command = [
            PROGRAM,
            "poisson",
            *sizes,
            f"-C{min(centre, *shape)}",
            f"-s{seed}",
            "-e",
            *["-v"] * variable,
            str(mask),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = " ".join(done.stderr.split()) or f"it ended with status {done.returncode}"
            raise InputError(f"{' '.join(command[:-1])} made no mask of {shape[0]} x {shape[1]}: {reason}")
        values, _ = read_bart(mask)
    return torch.from_numpy(values.reshape(shape).real > 0.5)
