"""The reconstruction of the paper: what was not acquired is zero. With coil maps, coils are combined (SENSE)."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from promask.errors import InputError
from promask.operators.encoding import Encoding, combined, mask_gradient
from promask.operators.fourier import space_axes
from promask.types import AnyImages, CoilImages, ComplexImages, KspaceMask, Maps, Spectra


class _Adjoint(Function):
    # Autograd would turn the real mask into a complex one, and make a complex gradient of which it then drops the
    # imaginary part. The gradient is one more transform: dL/dm = Re(conj(y) E (dL/dx)).
    @staticmethod
    def forward(ctx: Any, kspace: Tensor, mask: Tensor, encoding: Encoding) -> Tensor:
        ctx.save_for_backward(kspace)
        ctx.encoding, ctx.mask_shape = encoding, mask.shape
        return encoding.adjoint(kspace * mask)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        (kspace,) = ctx.saved_tensors
        return None, mask_gradient(kspace, ctx.encoding(gradient), ctx.mask_shape), None


def zero_filled(kspace: Spectra, mask: KspaceMask, maps: Maps | None = None) -> ComplexImages:
    """E^H (m y): differentiable in the mask, not in k-space."""
    encoding = Encoding(maps, space_axes(kspace.ndim - 2))
    result: Tensor = _Adjoint.apply(kspace, mask, encoding)  # type: ignore[no-untyped-call]
    return result


@dataclass(frozen=True)
class ZeroFilled:
    """Every channel by itself, whether it is a coil or a contrast."""

    name = "zero-filled"
    uses_maps = False
    fills_in = False

    def reference(self, images: CoilImages, maps: Maps | None) -> AnyImages:
        """The images themselves."""
        return images

    def __call__(self, kspace: Spectra, mask: KspaceMask, maps: Maps | None = None) -> ComplexImages:
        """F^-1 (m y)."""
        return zero_filled(kspace, mask)


ZERO_FILLED = ZeroFilled()


@dataclass(frozen=True)
class RootSumOfSquares:
    """The magnitude of all coils together, which needs no maps."""

    name = "rss"
    uses_maps = False
    fills_in = False

    def reference(self, images: CoilImages, maps: Maps | None) -> AnyImages:
        """The root of the sum of squares, (batch, 1, *space)."""
        return torch.linalg.vector_norm(images, dim=1, keepdim=True)

    def __call__(self, kspace: Spectra, mask: KspaceMask, maps: Maps | None = None) -> AnyImages:
        """That of the zero-filled images."""
        return self.reference(zero_filled(kspace, mask), None)


def check_settings(iterations: int | None, regularisation: float | None) -> None:
    """Refuse what no reconstruction can do."""
    if iterations is not None and iterations < 1:
        raise InputError(f"iterations must be a whole number from 1, but is {iterations}.")
    if regularisation is not None and not 0 <= regularisation < math.inf:
        raise InputError(f"regularisation must be a number of at least 0, but is {regularisation}.")


class UsesMaps:
    """What reconstructions with coil maps have in common."""

    uses_maps = True
    fills_in = True

    def __post_init__(self) -> None:
        check_settings(getattr(self, "iterations", None), getattr(self, "regularisation", None))

    def reference(self, images: CoilImages, maps: Maps | None) -> AnyImages:
        """S^H x, the coils combined; without maps, the images themselves."""
        return images if maps is None else combined(images, maps)


@dataclass(frozen=True)
class Sense(UsesMaps):
    """The adjoint of the scanner: zero-filled images of all coils, combined by their maps."""

    name = "sense"
    fills_in = False

    def __call__(self, kspace: Spectra, mask: KspaceMask, maps: Maps | None = None) -> ComplexImages:
        """S^H F^-1 (m y)."""
        return zero_filled(kspace, mask, maps)
