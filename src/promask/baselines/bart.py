"""Poisson-disc masks of the program `bart poisson`: an implementation that is independent of the one used here."""

import math
import subprocess
import tempfile
from pathlib import Path

import torch

from promask.baselines.drawn import EXCESS, some_of
from promask.baselines.problem import BaselineProblem
from promask.errors import InputError
from promask.export.formats import read_bart
from promask.types import UnitMask

PROGRAM = "bart"
SEARCH = 12
"""How many masks are made at most to find the distance that fits the budget."""


def bart_poisson(problem: BaselineProblem) -> UnitMask:
    """Variable-density Poisson discs within an ellipse, around a calibration region 24 wide: `-v -e -C`.

    Of the accelerations of `bart poisson`, the same for both directions, the largest that reaches the budget is
    searched for, and the excess is removed at random. Where variable density cannot reach it, or the grid is too
    small for it, the density is uniform; below about x1.3 the rest comes from outside the ellipse, at random.
    """
    generator, width = problem.generator(), problem.acs_width()
    kept, seed = problem.block(default=width), int(torch.randint(2**31, (), generator=generator))

    def reached(spacing: float, variable: bool) -> UnitMask:
        return (bart_discs(problem.pattern.unit_shape, spacing, width, seed, variable) | kept) & problem.allowed

    variable = True
    try:
        found = reached(1, variable)
    except InputError:  # the grid is too small for it
        found = kept
    if found.sum() < problem.budget:
        variable = False
        found = reached(1, variable)
    low, high = 1.0, math.inf
    for _ in range(SEARCH):
        if found.sum() <= EXCESS * problem.budget:
            break
        spacing = math.sqrt(low * min(high, 4 * low))
        tried = reached(spacing, variable)
        if tried.sum() >= problem.budget:
            low, found = spacing, tried
        else:
            high = spacing
    return some_of(problem, found, kept, generator)


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
