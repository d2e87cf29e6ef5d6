"""Where spokes and interleaves lie: sets of rotations by a smooth density of angles, or by steps of the trade.

The units of a trajectory are a grid of rows, frames or partitions kz, each of which has all candidates. A set is
described by positions in each row, from 0 to 1 around the circle, and rounded to candidates that are still free.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from promask.sampling.pattern import Pattern
from promask.types import UnitMask

GOLDEN = (math.sqrt(5) - 1) / 2
"""The golden step, as a share of the circle: 111.25 degrees of spokes."""
FINE = 4096
"""Points at which a density is summed up."""
HARMONICS = 2
"""Of the logarithm of a density of angles, each with a cosine and a sine."""


@dataclass(frozen=True)
class AngularDensity:
    """A set of rotations: evenly spread, but for a smooth density.

    Args:
        waves: Cosine and sine of each harmonic of the logarithm of the density; 0 for uniform spokes.
        offset: By how much the first row is turned, as a share of the distance of two spokes.
        turn: By how much each row is turned more than the one before it, likewise.
        falloff: How much fewer spokes rows far from kz = 0 have: their number falls as exp(-falloff z^2), z from 0
            to 1. Of frames, all have as many.
    """

    waves: tuple[float, ...] = (0.0,) * (2 * HARMONICS)
    offset: float = 0.0
    turn: float = 0.0
    falloff: float = 0.0

    @property
    def numbers(self) -> tuple[float, ...]:
        """All of them, in the order of the fields."""
        return (*self.waves, self.offset, self.turn, self.falloff)

    @staticmethod
    def of(numbers: Sequence[float]) -> "AngularDensity":
        """From all numbers."""
        *waves, offset, turn, falloff = numbers
        return AngularDensity(tuple(waves), offset, turn, falloff)

    def density(self, positions: Float[Tensor, " positions"]) -> Float[Tensor, " positions"]:
        """The density at positions from 0 to 1 around the circle, not normalised.

        Args:
            positions: Any.

        Returns:
            Positive numbers; 1 for uniform spokes.
        """
        exponent = torch.zeros_like(positions)
        for place in range(len(self.waves) // 2):
            turns = 2 * torch.pi * (place + 1) * positions
            exponent += self.waves[2 * place] * turns.cos() + self.waves[2 * place + 1] * turns.sin()
        return exponent.exp()

    def place(self, pattern: Pattern, budget: int) -> UnitMask:
        """The units that are nearest to these rotations.

        >>> from promask.types import Geometry
        >>> spokes = Pattern.on((16, 16), Geometry(), "radial")
        >>> AngularDensity(offset=0.5).place(spokes, 4).nonzero().flatten().tolist()
        [12, 36, 60, 84]

        Args:
            pattern: With a trajectory.
            budget: How many units are acquired.

        Returns:
            (*units), centred: exactly the budget.
        """
        edges = torch.linspace(0, 1, FINE + 1, dtype=torch.float64)
        sums = torch.cat([edges.new_zeros(1), self.density((edges[1:] + edges[:-1]) / 2).cumsum(0)])
        sums = sums / sums[-1]
        rows = []
        for row, count in enumerate(row_counts(pattern, budget, self.falloff)):
            shares = (torch.arange(count) + self.offset + row * self.turn) / max(count, 1) % 1
            after = torch.searchsorted(sums, shares.double(), right=True).clamp(1, FINE)
            within = (shares - sums[after - 1]) / (sums[after] - sums[after - 1])
            rows.append((edges[after - 1] + within / FINE).tolist())
        return place_rows(pattern, rows)

    def uniform(self) -> "AngularDensity":
        """The same without a density: evenly spread, with the offset and the turn."""
        return replace(self, waves=(0.0,) * len(self.waves), falloff=0.0)


def rows_of(pattern: Pattern) -> int:
    """How many rows there are: frames of a period, or partitions kz, each of which has all candidates."""
    assert pattern.trajectory is not None
    return math.prod(pattern.unit_shape) // pattern.trajectory.candidates


def row_counts(pattern: Pattern, budget: int, falloff: float = 0.0) -> list[int]:
    """How many units each row has.

    Args:
        pattern: With a trajectory.
        budget: How many there are together.
        falloff: See `AngularDensity`; without effect on frames.

    Returns:
        Numbers that add up to the budget; none is larger than the number of candidates.
    """
    assert pattern.trajectory is not None
    rows, most = rows_of(pattern), pattern.trajectory.candidates
    distance = torch.zeros(rows, dtype=torch.float64)
    if pattern.encoded:
        distance = (torch.arange(rows) - rows // 2).double().abs() / max(rows // 2, 1)
    shares = torch.exp(-falloff * distance.square())
    counts = torch.zeros(rows, dtype=torch.int64)
    wanted = shares / shares.sum() * budget
    while int(counts.sum()) < budget:  # the largest remainder first, in rows that are not full
        left = (wanted - counts).masked_fill(counts >= most, -torch.inf)
        whole = left.floor().clamp_min(0).long().clamp_max(most - counts)
        if int(whole.sum()) and int((counts + whole).sum()) <= budget:
            counts += whole
        else:
            counts[int(torch.argmax(left - 1e-9 * distance))] += 1
    return counts.tolist()


def place_rows(pattern: Pattern, rows: Sequence[Sequence[float]]) -> UnitMask:
    """The candidates nearest to positions from 0 to 1 around the circle, each once, in their order.

    Args:
        pattern: With a trajectory.
        rows: The positions in each row.

    Returns:
        (*units), centred.
    """
    assert pattern.trajectory is not None
    count = pattern.trajectory.candidates
    found = torch.zeros(len(rows), count, dtype=torch.bool)
    for row, positions in zip(found, rows, strict=True):
        for position in positions:
            wanted = position % 1 * count
            far = (torch.arange(count) - wanted).abs()
            far = torch.minimum(far, count - far).masked_fill(row, torch.inf)
            row[int(far.argmin())] = True
    return found if pattern.varies else found.T.reshape(pattern.unit_shape)


def steps_of(pattern: Pattern, budget: int, step: float, first: float = 0.0) -> UnitMask:
    """Rotations by equal steps, one after the other through all rows, as golden angles are acquired.

    Args:
        pattern: With a trajectory.
        budget: How many units are acquired.
        step: The angle from one to the next, as a share of the circle.
        first: That of the first one.

    Returns:
        (*units), centred.
    """
    rows, number = [], 0
    for count in row_counts(pattern, budget):
        rows.append([first + (number + place) * step for place in range(count)])
        number += count
    return place_rows(pattern, rows)
