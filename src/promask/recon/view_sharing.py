"""View sharing: what a frame did not acquire is taken from the frames next to it in time."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from promask.errors import InputError
from promask.operators.encoding import Encoding, GridTransform, along, mask_gradient, to_hybrid_space
from promask.operators.trajectory import Trajectory
from promask.recon.base import SpectralReconstruction
from promask.recon.gridding import grid
from promask.types import ComplexImages, KspaceMask, Maps, Spectra

OWN = 1000.0
"""How much more than its neighbours a frame counts for itself."""


def sharing_weights(frames: int, reach: float) -> Float[Tensor, "frame frame"]:
    """How much each frame counts for another one; time is cyclic, as the heart beat is.

    >>> sharing_weights(4, reach=float("inf"))[0]
    tensor([1., 1., 1., 1.])

    Args:
        frames: How many there are.
        reach: Weights fall by e^2 over so many frames, and a frame itself counts a thousand times; infinite: all
            frames count alike.

    Returns:
        (frame that takes, frame that gives).
    """
    places = torch.arange(frames)
    distance = (places[:, None] - places).abs()
    weights = torch.exp(-2.0 / reach * torch.minimum(distance, frames - distance))
    return weights if reach == float("inf") else torch.where(distance == 0, OWN, weights)


class _WeightedMeans(Function):
    # Where no frame, or only one, has acquired a sample, the derivative is infinite or 0, and next to a frame that
    # counts a thousand times it is as much too steep. So at zeros and ones the slope is the difference that the
    # sample makes, v(1) - v(0), which is always finite; at weights between them it is the derivative.
    @staticmethod
    def forward(ctx: Any, kspace: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(kspace, mask, weights)
        total = torch.einsum("st,bct...->bcs...", weights.to(kspace.dtype), kspace * mask)
        return total / _positive(torch.einsum("st,bct...->bcs...", weights, mask))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        kspace, mask, weights = ctx.saved_tensors
        of_kspace = of_mask = None
        if ctx.needs_input_grad[0]:
            shares = gradient / _positive(torch.einsum("st,bct...->bcs...", weights, mask))
            of_kspace = mask * torch.einsum("st,bcs...->bct...", weights.to(kspace.dtype), shares)
        if ctx.needs_input_grad[1]:
            of_mask, decided = torch.zeros_like(mask), (mask == 0) | (mask == 1)
            for frame, row in enumerate(weights):
                weight = row.reshape(-1, *[1] * (kspace.ndim - 3))
                count = _sums_of_others(weight * mask)
                without = _sums_of_others(weight * mask * kspace) / _positive(count)
                whole = _positive(count + weight * torch.where(decided, 1, mask))
                slope = weight / whole * torch.where(decided, 1, count / whole)
                taken = gradient[:, :, frame : frame + 1].expand_as(kspace)
                of_mask += mask_gradient(taken, slope * (kspace - without), mask.shape)
        return of_kspace, of_mask, None


def _positive(count: Tensor) -> Tensor:
    """What to divide by: where there is nothing to count, there is nothing to divide."""
    return torch.where(count > 0, count, 1)


def _sums_of_others(values: Tensor) -> Tensor:
    """For each frame, the sum over all others: a sum less a term of it would be nothing but rounding errors."""
    before, after = values.cumsum(2).roll(1, 2), values.flip(2).cumsum(2).roll(1, 2)
    before[:, :, 0] = after[:, :, 0] = 0
    return before + after.flip(2)


def share_views(kspace: Spectra, mask: KspaceMask, reach: float) -> Spectra:
    """Fill in what frames did not acquire, by weighted means over the frames that did.

    Args:
        kspace: (batch, coil, frame, *space).
        mask: (batch or 1, 1, frame, *space) or (frame, *space), zeros and ones or weights between them.
        reach: See `sharing_weights`.

    Returns:
        K-space of all frames; 0 where no frame acquired anything. Differentiable: where the mask is 0 or 1, its
        slope is the difference that it makes whether the sample is acquired.
    """
    weights = sharing_weights(kspace.shape[2], reach).to(kspace.real)
    mask = mask.expand(1, 1, *mask.shape) if mask.ndim < kspace.ndim else mask
    shared: Tensor = _WeightedMeans.apply(kspace, mask, weights)  # type: ignore[no-untyped-call]
    return shared


def shared_images(
    spectra: Spectra, mask: KspaceMask, maps: Maps | None, reach: float, trajectory: Trajectory | None = None
) -> ComplexImages:
    """The images of k-space that is filled in by `share_views`.

    Along a trajectory, the weights of gridding are those of all rotations that any frame acquired.

    Args:
        spectra: K-space in FFT order, (batch, coil, frame, *kspace).
        mask: (batch or 1, 1, frame, *kspace) or (frame, *kspace).
        maps: Coil sensitivities, or None.
        reach: See `sharing_weights`.
        trajectory: What the samples lie on; None: on the Cartesian grid.

    Returns:
        Images, (batch, channel, frame, *space).
    """
    if trajectory is None:
        kspace, mask, axes = to_hybrid_space(spectra, mask, indexes=1)
        return Encoding(maps, GridTransform(axes)).invert(share_views(kspace, mask.to(kspace.real), reach))
    _, mask = along(trajectory, spectra, mask, indexes=1)
    shared = share_views(spectra, mask, reach)
    acquired = (mask.detach() > 0).any(2, keepdim=True).expand(mask.shape)
    return grid(shared, acquired.to(mask).expand(*mask.shape[:-1], shared.shape[-1]), maps, trajectory, indexes=1)


@dataclass(frozen=True)
class ViewSharing(SpectralReconstruction):
    """Weighted means over the frames that acquired a sample, those next in time above all; then coils combined.

    Args:
        reach: Weights fall by e^2 over so many frames. Infinite: the mean over all frames, which is the same image
            at all times.
    """

    reach: float = 1.0

    temporal = True
    trajectories = True
    exact_slopes: ClassVar[bool] = True
    """At zeros and ones, the slope in the mask is the difference that a sample makes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reach", float(self.reach))
        if not self.reach > 0:
            raise InputError(f"reach must be a positive number of frames, but is {self.reach:g}.")

    @property
    def name(self) -> str:
        """`view-sharing`, or `temporal-average`."""
        return "temporal-average" if self.reach == float("inf") else "view-sharing"

    def from_spectra(
        self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None, trajectory: Trajectory | None = None
    ) -> ComplexImages:
        """The images of shared k-space; (batch, channel, frame, *space)."""
        return shared_images(spectra, mask, maps, self.reach, trajectory)
