"""Where samples lie in k-space that is not Cartesian: rotations of one spoke, or of one spiral interleaf.

Coordinates are in cycles per pixel, (y, x), from -1/2 to 1/2: the square that a Cartesian scan of the same pixels
covers. The candidates of a trajectory are its rotations by equal steps, so that an index is an angle.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from promask.errors import InputError

RADIAL, SPIRAL = "radial", "spiral"
KINDS = (RADIAL, SPIRAL)
MULTIPLE = 96
"""Candidates come in multiples of it, so that 8, 12, 16, 24 or 32 of them can lie at equal distances."""
COMPLETE = 32
"""The interleaves of a complete spiral scan."""
OVERSAMPLING = 2
"""Samples along a spoke or an interleaf, relative to the distance of neighbours on the Cartesian grid."""
FINE = 20000
"""Points at which the length of a spiral is measured."""
BALANCE = 0.3
"""What weights of iterative reconstructions are multiplied with: then the usual regularisation of CG-SENSE, 0.003,
is near the best for uniform spokes of knees, hearts and brains."""


@dataclass(frozen=True)
class Trajectory:
    """All rotations of a spoke or of a spiral interleaf that may be acquired.

    >>> spokes = Trajectory.of("radial", matrix=(32, 32), candidates=4)
    >>> spokes.points.shape, [round(math.degrees(angle)) for angle in spokes.angles.tolist()]
    (torch.Size([4, 64, 2]), [0, 45, 90, 135])

    Args:
        kind: `radial` or `spiral`.
        candidates: How many rotations there are to choose from.
        samples: Of each spoke or interleaf.
        matrix: The size of the images, (y, x).
    """

    kind: str
    candidates: int
    samples: int
    matrix: tuple[int, int]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"Unknown trajectory {self.kind!r}: choose one of {', '.join(KINDS)}.")
        if self.candidates < 1 or self.samples < 2 or min(self.matrix) < 2:
            raise InputError(
                f"A trajectory needs at least 1 candidate and 2 samples, and images of 2 x 2 pixels, but has "
                f"{self.candidates}, {self.samples} and {' x '.join(map(str, self.matrix))}."
            )

    @staticmethod
    def of(kind: str, matrix: tuple[int, int], candidates: int | None = None) -> "Trajectory":
        """The usual trajectory for images of a size.

        Args:
            kind: `radial` or `spiral`.
            matrix: The size of the images, (y, x).
            candidates: How many rotations there are to choose from; None: the next multiple of 96 above what a
                complete scan has.

        Returns:
            Spokes, or interleaves, with twice as many samples as neighbours on the Cartesian grid would need.
        """
        complete = _complete(kind, matrix)
        number = math.ceil(complete / MULTIPLE) * MULTIPLE if candidates is None else candidates
        length = max(matrix) if kind == RADIAL else _spiral(max(matrix))[1] * max(matrix)
        return Trajectory(kind, number, 2 * math.ceil(OVERSAMPLING * length / 2), matrix)

    @property
    def full(self) -> int:
        """How many rotations a complete scan has (Nyquist): pi / 2 times the matrix size for spokes."""
        return min(_complete(self.kind, self.matrix), self.candidates)

    @property
    def oversampling(self) -> float:
        """Samples along a spoke or interleaf, relative to neighbours on the Cartesian grid."""
        length = max(self.matrix) if self.kind == RADIAL else _spiral(max(self.matrix))[1] * max(self.matrix)
        return self.samples / length

    @property
    def noun(self) -> str:
        """What rotations are called: `spokes` or `interleaves`."""
        return "spokes" if self.kind == RADIAL else "interleaves"

    @property
    def period(self) -> float:
        """After how large a rotation the same samples come again: a spoke has no direction."""
        return math.pi if self.kind == RADIAL else 2 * math.pi

    @cached_property
    def angles(self) -> Float[Tensor, " candidates"]:
        """The angle of each candidate, from 0 along x towards y, in radians."""
        return torch.arange(self.candidates, dtype=torch.float64) * (self.period / self.candidates)

    @cached_property
    def interleaf(self) -> Float[Tensor, "samples 2"]:
        """The candidate at the angle 0, (y, x), in cycles per pixel."""
        if self.kind == RADIAL:
            along = (torch.arange(self.samples, dtype=torch.float64) - self.samples // 2) / self.samples
            return torch.stack([torch.zeros_like(along), along], 1)
        radius, angle = self._along_spiral
        return torch.stack([radius * angle.sin(), radius * angle.cos()], 1)

    @cached_property
    def points(self) -> Float[Tensor, "candidates samples 2"]:
        """All samples, (y, x), in cycles per pixel."""
        y, x = self.interleaf.T
        cos, sin = self.angles.cos()[:, None], self.angles.sin()[:, None]
        return torch.stack([cos * y + sin * x, cos * x - sin * y], 2)

    @cached_property
    def areas(self) -> Float[Tensor, " samples"]:
        """The area of k-space that belongs to each sample if all candidates are acquired; that of a pixel is 1.

        The areas add up to the disc that the trajectory covers. The centre, which all spokes share, has what the
        trapezoidal rule misses at the kink of |k|: a sixth of a step squared, and not the quarter of its disc.
        """
        if self.kind == RADIAL:
            step = 1 / self.samples
            along = (torch.arange(self.samples, dtype=torch.float64) - self.samples // 2).abs() * step
            areas = torch.where(along == 0, torch.pi * step**2 / 6, torch.pi * along * step)
        else:
            radius, _ = self._along_spiral
            edges = torch.cat([radius.new_zeros(1), (radius[1:] + radius[:-1]) / 2, radius[-1:]])
            areas = torch.pi * edges.square().diff()
        return areas * (math.prod(self.matrix) / self.candidates)

    @cached_property
    def weights(self) -> Float[Tensor, " samples"]:
        """What samples count in iterative reconstructions, as sqrt(area), relative to one cycle from the centre.

        Without weights, many iterations are needed; with the areas themselves, noise is amplified.
        """
        radius = torch.linalg.vector_norm(self.interleaf, dim=1)
        nearest = (radius - 1 / max(self.matrix)).abs().argmin()
        return BALANCE * (self.areas * self.areas[nearest]).sqrt()

    @property
    def _along_spiral(self) -> tuple[Tensor, Tensor]:
        """Radius and angle of samples at equal distances along an Archimedean spiral."""
        turns, _ = _spiral(max(self.matrix))
        share = np.linspace(0, 1, FINE)
        length = np.concatenate(
            [[0], np.cumsum(np.hypot(0.5, np.pi * turns * (share[1:] + share[:-1]) / 2) / FINE)]
        )
        place = torch.from_numpy(np.interp(np.linspace(0, length[-1], self.samples), length, share))
        return place / 2, 2 * torch.pi * turns * place


def _complete(kind: str, matrix: tuple[int, int]) -> int:
    return math.ceil(math.pi / 2 * max(matrix)) if kind == RADIAL else COMPLETE


def _spiral(size: int) -> tuple[float, float]:
    """The turns of an interleaf, 32 of which are a complete scan, and its length in cycles per pixel."""
    turns = size / (2 * COMPLETE)
    middle = (np.arange(FINE) + 0.5) / FINE
    return turns, float(np.hypot(0.5, np.pi * turns * middle).mean())
