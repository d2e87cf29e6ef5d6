"""View sharing: what a frame did not acquire is taken from the frames next to it in time."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from promask.errors import InputError
from promask.operators.encoding import Encoding, to_hybrid_space
from promask.recon.base import SpectralReconstruction
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


def share_views(kspace: Spectra, mask: KspaceMask, reach: float) -> Spectra:
    """Fill in what frames did not acquire, by weighted means over the frames that did.

    Args:
        kspace: (batch, coil, frame, *space).
        mask: (batch or 1, 1, frame, *space) or (frame, *space), zeros and ones or weights between them.
        reach: See `sharing_weights`.

    Returns:
        K-space of all frames; 0 where no frame acquired anything.
    """
    weights = sharing_weights(kspace.shape[2], reach).to(kspace.real)
    mask = mask.expand(1, 1, *mask.shape) if mask.ndim < kspace.ndim else mask
    total = torch.einsum("st,bct...->bcs...", weights.to(kspace.dtype), kspace * mask)
    count = torch.einsum("st,bct...->bcs...", weights, mask)
    return total / count.clamp_min(torch.finfo(count.dtype).tiny)


@dataclass(frozen=True)
class ViewSharing(SpectralReconstruction):
    """Weighted means over the frames that acquired a sample, those next in time above all; then coils combined.

    Args:
        reach: Weights fall by e^2 over so many frames. Infinite: the mean over all frames, which is the same image
            at all times.
    """

    reach: float = 1.0

    temporal = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "reach", float(self.reach))
        if not self.reach > 0:
            raise InputError(f"reach must be a positive number of frames, but is {self.reach:g}.")

    @property
    def name(self) -> str:
        """`view-sharing`, or `temporal-average`."""
        return "temporal-average" if self.reach == float("inf") else "view-sharing"

    def from_spectra(self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None) -> ComplexImages:
        """The images of shared k-space; (batch, channel, frame, *space)."""
        kspace, mask, axes = to_hybrid_space(spectra, mask, indexes=1)
        return Encoding(maps, axes).adjoint(share_views(kspace, mask.to(kspace.real), self.reach))
