"""The scanner as a linear operator: from an image to the k-space of every coil, and back."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from promask.fourier import from_spectrum, space_axes, spectrum
from promask.magnitude import real_product
from promask.types import AnyImages, CoilImages, ComplexImages, KspaceMask, Maps, Spectra


@dataclass(frozen=True)
class Encoding:
    """E = F S: coil maps, then the Fourier transform over some axes of space; without maps, of each channel.

    Along axes where a mask does not change, it commutes with the transform, and nothing needs to be transformed:
    lines are cheaper than single locations.
    """

    maps: Maps | None
    axes: tuple[int, ...]

    def __call__(self, images: AnyImages) -> Spectra:
        """The fully sampled k-space of every coil."""
        return spectrum(images if self.maps is None else self.maps * images, self.axes)

    def adjoint(self, kspace: Spectra) -> ComplexImages:
        """E^H: the images of all coils, combined."""
        images = from_spectrum(kspace, self.axes)
        return images if self._conjugate is None else images.mul_(self._conjugate).sum(1, keepdim=True)

    @cached_property
    def _conjugate(self) -> Maps | None:
        return None if self.maps is None else self.maps.conj().resolve_conj()

    def normal(self, images: AnyImages, mask: KspaceMask) -> ComplexImages:
        """E^H m E, in which the mask counts as a weight of each location."""
        return self.adjoint(self(images).mul_(mask))


def combined(images: CoilImages, maps: Maps) -> ComplexImages:
    """S^H: the sum over the coils of conj(s) x, (batch, 1, *space)."""
    dtype = torch.promote_types(images.dtype, maps.dtype)
    return torch.linalg.vecdot(maps.to(dtype), images.to(dtype), dim=1).unsqueeze(1)


def over_coils(left: Spectra, right: Spectra) -> Float[Tensor, "batch 1 *space"]:
    """Re(conj(left) right), summed over the coils."""
    if left.shape[1] == 1:
        return real_product(left, right)
    return torch.linalg.vecdot(left, right, dim=1).real.unsqueeze(1)


def mask_gradient(left: Spectra, right: Spectra, mask_shape: torch.Size) -> Tensor:
    """Re(conj(left) right), summed over the coils and whatever else the mask is broadcast along."""
    return over_coils(left, right).sum_to_size(mask_shape)


def hybrid(kspace: Spectra, mask: KspaceMask) -> tuple[Spectra, KspaceMask, tuple[int, ...]]:
    """K-space over the axes along which the mask varies, and image space over the others; and the mask without
    those others, and the axes that are left.

    >>> lines = torch.ones(5, 1, 1, 4).expand(5, 1, 3, 4)
    >>> kspace, mask, axes = hybrid(torch.ones(5, 1, 3, 4, dtype=torch.complex64), lines)
    >>> mask.shape, axes
    (torch.Size([5, 1, 1, 4]), (-1,))
    """
    axes = space_axes(kspace.ndim - 2)
    constant = tuple(axis for axis in axes if mask.shape[axis] == 1 or mask.stride(axis) == 0)
    for axis in constant:
        mask = mask.narrow(axis, 0, 1)
    varying = tuple(axis for axis in axes if axis not in constant)
    return (from_spectrum(kspace, constant) if constant else kspace), mask, varying
