"""What physicists look at, for any mask: it needs the mask alone, and takes milliseconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from promask.evaluation.density import SamplingDensity, rotation_density, sampling_density
from promask.evaluation.point_spread import PointSpread, point_spread
from promask.evaluation.rotations import rotation_point_spread
from promask.sampling.pattern import Pattern
from promask.types import Geometry, Mask


@dataclass(frozen=True)
class MaskPhysics:
    """The point-spread function of a mask, and how densely it samples k-space.

    Args:
        point_spread: The widths, side lobes and energies of its point-spread function.
        density: Where its samples are.
    """

    point_spread: PointSpread
    density: SamplingDensity

    def summary(self) -> dict[str, Any]:
        """Plain values, as commands print them with `--json`."""
        return {"point_spread": self.point_spread.summary(), "density": self.density.summary()}


def mask_physics(mask: Mask, pattern: Pattern, voxel: Sequence[float] = ()) -> MaskPhysics:
    """Measure what is to be known of a mask by itself.

    >>> import torch
    >>> mask_physics(torch.ones(8, 6, dtype=torch.bool), Pattern((8, 6), (1,))).density.calibration
    (6,)

    Args:
        mask: (*space), centred.
        pattern: Its undersampled axes.
        voxel: The size of a voxel in mm along each axis of the images; empty if it is not known.

    Returns:
        Its point-spread function and its sampling density, in numbers.
    """
    units = pattern.restrict(mask)
    if pattern.trajectory is not None:
        return MaskPhysics(rotation_point_spread(units, pattern, voxel), rotation_density(units, pattern))
    return MaskPhysics(point_spread(units, pattern, voxel), sampling_density(units, pattern))


def pattern_of(mask: Mask, geometry: Geometry = Geometry(), free: Sequence[int] = ()) -> Pattern:
    """Find the pattern of a mask from anywhere: it is undersampled along the axes where it changes.

    >>> import torch
    >>> pattern_of(torch.tensor([[1, 0, 1], [1, 0, 1]]) == 1, Geometry(axes=("kx", "ky"))).free
    (1,)

    Args:
        mask: (*space), centred.
        geometry: What is known of its axes.
        free: Axes that are undersampled in any case.

    Returns:
        The pattern; of a mask that changes nowhere, with all axes.
    """
    changing = [axis for axis in range(mask.ndim) if (mask != mask.narrow(axis, 0, 1)).any()]
    axes = sorted({*changing, *free})
    if geometry.trajectory is not None:
        return Pattern.along(mask.shape, geometry, sorted({*axes, geometry.indexes} - {mask.ndim - 1}))
    if not set(axes) - set(range(geometry.indexes)):  # whole frames, or everything
        axes = list(range(mask.ndim))
    return Pattern(
        tuple(mask.shape),
        tuple(axes),
        geometry.extent,
        geometry.axes,
        geometry.readout,
        indexed=geometry.indexed,
    )
