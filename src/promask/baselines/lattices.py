"""Regular masks of parallel imaging: lattices, or equally spaced lines, around a calibration region."""

import math

import torch

from promask.baselines.fixed import spread_lines
from promask.baselines.problem import BaselineProblem
from promask.baselines.tuned import best_of, centres
from promask.types import UnitMask

Lattice = tuple[int, int, int]
"""Ry, Rz and a shift: every Ry-th ky has samples at every Rz-th kz, displaced by it from one to the next."""

LARGEST_INDEX = 64
"""The sparsest lattices that are tried: no coils resolve more."""
FIRST = 8
"""More than any distance from the centre."""


def lattices(index: int) -> list[Lattice]:
    """All lattices that have one of `index` locations: every Ry x Rz, each with all shifts below Rz.

    >>> lattices(2)
    [(1, 2, 0), (1, 2, 1), (2, 1, 0)]
    """
    pairs = [(rows, index // rows) for rows in range(1, index + 1) if index % rows == 0]
    return [(rows, columns, shift) for rows, columns in pairs for shift in range(columns)]


def lattice_points(shape: tuple[int, ...], lattice: Lattice) -> UnitMask:
    """The samples of a lattice, one of which is the centre of k-space."""
    rows, columns, shift = lattice
    y, z = (torch.arange(n) - n // 2 for n in shape)
    row = y.div(rows, rounding_mode="floor")
    return (y % rows == 0)[:, None] & ((z - shift * row[:, None]) % columns == 0)


def fitting(problem: BaselineProblem, kept: UnitMask) -> list[Lattice]:
    """The lattices that, with a calibration region, come next to the budget: from above and from below."""
    outside, left = int((problem.allowed & ~kept).sum()), problem.budget - int(kept.sum())
    share = min(max(outside / max(left, 1), 1), LARGEST_INDEX)
    return [lattice for index in sorted({math.floor(share), math.ceil(share)}) for lattice in lattices(index)]


def exact(problem: BaselineProblem, lattice: Lattice, kept: UnitMask) -> UnitMask:
    """The budget: the outermost samples of a lattice are left out, or the innermost others are added."""
    samples = lattice_points(problem.pattern.unit_shape, lattice)
    values = FIRST * samples - problem.pattern.distance()
    return problem.best(values.masked_fill(kept, torch.inf))


def caipi(problem: BaselineProblem) -> UnitMask:
    """The best 2D-CAIPIRINHA lattice (Breuer et al. 2006): Ry x Rz, the shift and the width of the ACS are tuned.

    There is no ACS, or it is 24 wide, or takes half of the budget. Of the lattices next to the budget, the
    outermost samples are left out, or the innermost others are added.
    """
    choices = [(lattice, kept) for kept in centres(problem, 0) for lattice in fitting(problem, kept)]
    return best_of(problem, (exact(problem, *choice) for choice in choices))


def regular(problem: BaselineProblem) -> UnitMask:
    """A calibration region 24 wide, and a rectangular grid Ry x Rz, which is tuned; or equally spaced lines.

    Grids are made exact as CAIPIRINHA lattices are.
    """
    kept = problem.acs()
    if len(problem.pattern.free) == 1:
        return spread_lines(problem, kept, 0.5)
    grids = [lattice for lattice in fitting(problem, kept) if lattice[-1] == 0]
    return best_of(problem, (exact(problem, grid, kept) for grid in grids))
