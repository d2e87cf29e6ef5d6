"""The reconstruction of the paper: what was not acquired is zero."""

from typing import Any

from jaxtyping import Complex, Shaped
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from promask.fourier import from_spectrum, space_axes, spectrum
from promask.magnitude import real_product


class _ZeroFilled(Function):
    # Autograd would turn the real mask into a complex one, and make a complex gradient of which it then drops the
    # imaginary part. The gradient is one more transform: dL/dm = Re(conj(x) F(dL/dz)).
    @staticmethod
    def forward(ctx: Any, kspace: Tensor, mask: Tensor, dimensions: int) -> Tensor:
        ctx.save_for_backward(kspace)
        ctx.dimensions, ctx.mask_shape = dimensions, mask.shape
        return from_spectrum(kspace * mask, space_axes(dimensions))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        (kspace,) = ctx.saved_tensors
        back = spectrum(gradient, space_axes(ctx.dimensions))
        return None, real_product(kspace, back).sum_to_size(ctx.mask_shape), None


def zero_filled(
    kspace: Complex[Tensor, "..."], mask: Shaped[Tensor, "..."], dimensions: int
) -> Complex[Tensor, "..."]:
    """F^-1(x_k * m), both in FFT order; the mask broadcasts over batch and channel.

    Differentiable in the mask, not in k-space.
    """
    result: Tensor = _ZeroFilled.apply(kspace, mask, dimensions)  # type: ignore[no-untyped-call]
    return result
