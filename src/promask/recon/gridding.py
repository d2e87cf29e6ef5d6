"""Gridding: the adjoint of spokes or interleaves, each weighted by the area of k-space that it stands for."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from promask.operators.encoding import Encoding, along, mask_gradient
from promask.operators.trajectory import Trajectory
from promask.recon.base import SpectralReconstruction
from promask.recon.zero_filled import zero_filled
from promask.types import ComplexImages, KspaceMask, Maps, Spectra


def neighbour_distances(
    mask: Float[Tensor, "*leading candidate"],
) -> tuple[Float[Tensor, "*leading candidate"], Float[Tensor, "*leading candidate"]]:
    """How far the acquired rotations before and after each candidate are, itself left out; around the circle.

    >>> before, after = neighbour_distances(torch.tensor([1.0, 0, 0, 1, 0, 0, 0, 0]))
    >>> before.int().tolist(), after.int().tolist()
    ([5, 1, 2, 3, 1, 2, 3, 4], [3, 2, 1, 5, 4, 3, 2, 1])

    Args:
        mask: Of all candidates; above 0: acquired.

    Returns:
        Both distances, in steps from candidate to candidate; the number of candidates where no other is acquired.
    """
    count = mask.shape[-1]

    def since(acquired: Tensor) -> Tensor:
        twice = torch.cat([acquired, acquired], -1)
        place = torch.arange(2 * count, device=mask.device)
        last = torch.where(twice, place, -1).cummax(-1).values
        found = place[count:] - last[..., count - 1 : -1]
        return found.clamp_max(count).to(mask.dtype)

    acquired = mask > 0
    return since(acquired), since(acquired.flip(-1)).flip(-1)


def gap_weights(mask: Float[Tensor, "*leading candidate"]) -> Float[Tensor, "*leading candidate"]:
    """Density compensation: half the distance from the rotation before to the one after each that is acquired.

    >>> gap_weights(torch.tensor([1.0, 0, 0, 1, 0, 0, 0, 0]))
    tensor([4., 0., 0., 4., 0., 0., 0., 0.])

    Args:
        mask: Of all candidates, with which the result is multiplied.

    Returns:
        Weights that add up to the number of candidates, if the mask is of zeros and ones.
    """
    before, after = neighbour_distances(mask)
    return mask * (before + after) / 2


class _Gridded(Function):
    # A rotation that is added takes area from its neighbours. So at zeros and ones the slope is the difference
    # that it makes, with the areas that all have then; at weights between them it is the derivative.
    @staticmethod
    def forward(ctx: Any, kspace: Tensor, mask: Tensor, encoding: Encoding, axis: int) -> Tensor:
        ctx.save_for_backward(kspace, mask)
        ctx.encoding, ctx.axis = encoding, axis
        return encoding.adjoint(kspace, _along(gap_weights, mask, axis))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        kspace, mask = ctx.saved_tensors
        back = ctx.encoding(gradient)
        of_kspace = back * _along(gap_weights, mask, ctx.axis) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return of_kspace, None, None, None
        slopes = mask_gradient(back, kspace, mask.shape).movedim(ctx.axis, -1)
        weights = mask.movedim(ctx.axis, -1)
        before, after = neighbour_distances(weights)
        count = weights.shape[-1]
        place = torch.arange(count, device=mask.device)
        first, last = ((place + sign * far.long()) % count for sign, far in ((-1, before), (1, after)))
        neighbours = after * slopes.gather(-1, first) + before * slopes.gather(-1, last)
        decided = (weights == 0) | (weights == 1)
        own = torch.where(decided | (weights > 0), (before + after) * slopes, 0)
        found = (own - torch.where(decided, neighbours, 0)) / 2
        return of_kspace, found.movedim(-1, ctx.axis), None, None


def _along(function: Any, mask: Tensor, axis: int) -> Tensor:
    return function(mask.movedim(axis, -1)).movedim(-1, axis)


def grid(
    spectra: Spectra, mask: KspaceMask, maps: Maps | None, trajectory: Trajectory, indexes: int = 0
) -> ComplexImages:
    """The density-compensated adjoint; differentiable in the samples and in the mask.

    Args:
        spectra: Samples of all candidates, (batch, coil, ..., candidate, sample).
        mask: (batch or 1, 1, *kspace) or (*kspace).
        maps: Coil sensitivities, or None.
        trajectory: The candidates.
        indexes: 1 if the first axis counts frames; otherwise 0.

    Returns:
        Images, (batch, channel, *space).
    """
    transform, mask = along(trajectory, spectra, mask, indexes, compensated=True)
    kspace = spectra * transform.root.to(spectra.real)
    axis = -3 if transform.stacked else -2
    found: Tensor = _Gridded.apply(kspace, mask, Encoding(maps, transform), axis)  # type: ignore[no-untyped-call]
    return found


@dataclass(frozen=True)
class Gridding(SpectralReconstruction):
    """Spokes or interleaves on the grid of the image: each weighted by the area of k-space that it stands for.

    The areas are found anew for each set of them. On the Cartesian grid, where all samples have the same area, it
    is the adjoint that `sense` is.
    """

    name = "gridding"
    iterative: ClassVar[bool] = False
    trajectories: ClassVar[bool] = True
    exact_slopes: ClassVar[bool] = True
    """At zeros and ones, the slope in the mask is the difference that a spoke makes."""

    def from_spectra(
        self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None, trajectory: Trajectory | None = None
    ) -> ComplexImages:
        """The images, the coils combined by their sensitivities."""
        return zero_filled(spectra, mask, maps) if trajectory is None else grid(spectra, mask, maps, trajectory)
