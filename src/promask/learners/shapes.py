"""Masks of a few numbers: the units that score best, where the score is the energy, reshaped smoothly.

A network tells little about single units: one image contradicts the next, and what a unit is worth depends on the
others. It tells more about the shape of the whole. A shape is the logarithm of the energy plus a weighted sum of a
few smooth maps: one half of k-space against the other, directions, ellipses, distance from the centre, and how
much the energy is smoothed over its neighbourhood, which fills holes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from promask.operators.fourier import fft_order
from promask.sampling.pattern import Pattern
from promask.types import UnitMask, Units

Weights = Float[Tensor, " maps"]

SMOOTHING = 1 / 25
"""The standard deviation of the smoothing, as a share of each axis."""
FLOOR = 1e-12
"""The smallest energy, as a share of the largest."""
SIDES = (0.0, 0.35, 0.7)
"""How much one half of k-space is preferred; with 0.35, half of log 2, a unit counts twice its conjugate twin."""
OUTLINES: tuple[Mapping[str, float], ...] = (
    {},
    {"smooth": 1.0},
    {"smooth": 1.0, "distance": -0.75},
    {"smooth": 1.0, "distance": -1.5},
    {"distance": -0.75},
)
"""From ragged, as the energy is, to compact."""
PULL = 0.4
"""How much the energy counts more towards a direction, or along an axis."""
BEYOND = 1e4
"""A score beyond all others."""


@dataclass(frozen=True)
class Shapes:
    """All masks of one budget that weights can describe, in FFT order."""

    base: Units
    maps: Float[Tensor, "maps *units"]
    names: tuple[str, ...]
    budget: int

    def score(self, weights: Weights) -> Units:
        """The larger, the sooner a unit is acquired."""
        return self.base + torch.tensordot(weights.to(self.maps), self.maps, 1)

    def mask(self, weights: Weights) -> Units:
        """The units of the largest scores: zeros and ones."""
        score = self.score(weights)
        result = torch.zeros_like(score).flatten()
        result[score.flatten().topk(self.budget).indices] = 1
        return result.reshape(score.shape)

    def weights(self, **values: float) -> Weights:
        """Weights by name; the others are 0."""
        return torch.tensor([values.get(name, 0.0) for name in self.names])

    def candidates(self) -> list[Weights]:
        """Every side with every outline, the energy itself first; and a compact one pulled in every direction."""
        grid = [self.weights(half=half, **outline) for outline in OUTLINES for half in SIDES]
        middle = self.weights(half=SIDES[1], **OUTLINES[2])
        pulls = [name for name in self.names if name.partition(" ")[0] in ("towards", "along", "across")]
        pulled = [middle + self.weights(**{name: sign * PULL}) for name in pulls for sign in (1, -1)]
        return grid + pulled


def shapes(base: Units, pattern: Pattern, budget: int, always: UnitMask, never: UnitMask) -> Shapes:
    """Shapes around a base, the logarithm of energies or of probabilities."""
    axes = len(pattern.free)
    offsets = _offsets(pattern).to(base.device, base.dtype)
    length = offsets.square().sum(0).sqrt()
    direction = offsets / length.clamp_min(torch.finfo(base.dtype).tiny)
    off_centre = length > 0
    nearest = length[off_centre].min() if off_centre.any() else length.new_ones(())
    free = ~(always | never)
    maps = {
        "half": fft_order(pattern.half(), axes).to(base),
        "smooth": _smoothed(base, ~never) - base,
        "distance": (length.clamp_min(nearest / 2) / nearest).log(),
    }
    if axes > 1:
        maps |= {f"towards {axis}": direction[axis] for axis in range(axes)}
        maps |= {f"along {axis}": direction[axis].square() - off_centre / axes for axis in range(axes - 1)}
        maps |= {
            f"across {one} {other}": 2 * direction[one] * direction[other]
            for one in range(axes)
            for other in range(one)
        }
    decided = torch.where(always, BEYOND, 0.0) - torch.where(never, BEYOND, 0.0)
    stacked = torch.stack([values * free for values in maps.values()])
    return Shapes(base + decided.to(base), stacked, tuple(maps), budget)


def log_energy(energy: Units) -> Units:
    """Finite also where there is none."""
    return energy.clamp_min((FLOOR * energy.max()).clamp_min(torch.finfo(energy.dtype).tiny)).log()


def _offsets(pattern: Pattern) -> Float[Tensor, "axis *units"]:
    """The place of each unit along each free axis, as a share of the axis, in FFT order."""
    along = [torch.fft.fftfreq(n, dtype=torch.float64) for n in pattern.unit_shape]
    return torch.stack(torch.meshgrid(*along, indexing="ij"))


def _smoothed(values: Units, counted: UnitMask) -> Units:
    """Gaussian means over what is counted, around the edges of k-space."""
    weights = _blurred(counted.double()).clamp_min(FLOOR)
    return (_blurred(values.double() * counted) / weights).to(values.dtype)


def _blurred(values: Units) -> Units:
    spectrum = torch.fft.fftn(values)
    for axis, n in enumerate(values.shape):
        frequency = torch.fft.fftfreq(n, dtype=torch.float64, device=values.device)
        response = torch.exp(-2 * (math.pi * SMOOTHING * n * frequency).square())
        spectrum = spectrum * response.reshape([-1 if place == axis else 1 for place in range(values.ndim)])
    return torch.fft.ifftn(spectrum).real
