"""The reconstruction of the paper: what was not acquired is zero. SENSE combines the coils."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from promask.operators.encoding import Encoding, GridTransform, mask_gradient
from promask.operators.fourier import space_axes
from promask.recon.base import SpectralReconstruction
from promask.types import AnyImages, CoilImages, ComplexImages, KspaceMask, Maps, Spectra


class _Adjoint(Function):
    # Autograd would turn the real mask into a complex one, and make a complex gradient of which it then drops the
    # imaginary part. The gradient is one more transform: dL/dm = Re(conj(y) E (dL/dx)).
    @staticmethod
    def forward(ctx: Any, kspace: Tensor, mask: Tensor, encoding: Encoding) -> Tensor:
        ctx.save_for_backward(kspace)
        ctx.encoding, ctx.mask_shape = encoding, mask.shape
        return encoding.adjoint(kspace, mask)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        (kspace,) = ctx.saved_tensors
        return None, mask_gradient(kspace, ctx.encoding(gradient), ctx.mask_shape), None


def zero_filled(kspace: Spectra, mask: KspaceMask, maps: Maps | None = None) -> ComplexImages:
    """E^H (m y), for k-space and mask in FFT order: differentiable in the mask, not in k-space."""
    encoding = Encoding(maps, GridTransform(space_axes(kspace.ndim - 2)))
    result: Tensor = _Adjoint.apply(kspace, mask, encoding)  # type: ignore[no-untyped-call]
    return result


@dataclass(frozen=True)
class ZeroFilled(SpectralReconstruction):
    """Every channel by itself, whether it is a coil or a contrast: F^-1 (m y)."""

    name = "zero-filled"
    uses_maps = False
    iterative = False

    def reference(self, images: CoilImages, maps: Maps | None) -> AnyImages:
        """The images themselves."""
        return images

    def from_spectra(self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None) -> ComplexImages:
        """F^-1 (m y)."""
        return zero_filled(spectra, mask)


ZERO_FILLED = ZeroFilled()


@dataclass(frozen=True)
class RootSumOfSquares(SpectralReconstruction):
    """The root of the sum of squares of the zero-filled coils, which needs no coil sensitivities."""

    name = "rss"
    uses_maps = False
    combines_coils = True
    iterative = False

    def reference(self, images: CoilImages, maps: Maps | None) -> AnyImages:
        """The root of the sum of squares, (batch, 1, *space)."""
        return torch.linalg.vector_norm(images, dim=1, keepdim=True)

    def from_spectra(self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None) -> AnyImages:
        """That of the zero-filled images."""
        return self.reference(zero_filled(spectra, mask), None)


@dataclass(frozen=True)
class Sense(SpectralReconstruction):
    """The adjoint of the scanner: zero-filled images of all coils, combined by their sensitivities."""

    name = "sense"
    combines_coils = True
    iterative = False

    def from_spectra(self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None) -> ComplexImages:
        """S^H F^-1 (m y)."""
        return zero_filled(spectra, mask, maps)
