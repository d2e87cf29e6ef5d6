"""One step towards the data: what was acquired replaces, in part or as a whole, what an image says about it."""

from typing import Any

from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from promask.recon.encoding import Encoding, mask_gradient
from promask.types import ComplexImages, KspaceMask, Spectra


class _GradientStep(Function):
    # The k-space of all coils is computed again on the way back, rather than kept.
    @staticmethod
    def forward(ctx: Any, image: Tensor, mask: Tensor, kspace: Tensor, encoding: Encoding) -> Tensor:
        ctx.save_for_backward(image, mask, kspace)
        ctx.encoding = encoding
        return image - encoding.adjoint(encoding(image).sub_(kspace).mul_(mask))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        image, mask, kspace = ctx.saved_tensors
        back = ctx.encoding(gradient)
        of_mask = None
        if ctx.needs_input_grad[1]:
            of_mask = mask_gradient(back, ctx.encoding(image).neg_().add_(kspace), mask.shape)
        return gradient - ctx.encoding.adjoint(back.mul_(mask)), of_mask, None, None


def gradient_step(image: ComplexImages, mask: KspaceMask, kspace: Spectra, encoding: Encoding) -> ComplexImages:
    """x - E^H m (E x - y): differentiable in the image and in the mask, not in k-space.

    It is a step of length 1 along the gradient of |sqrt(m) (E x - y)|^2 / 2; with a single coil, k-space then
    holds the samples where the mask is 1. K-space and mask are those of `hybrid`, for the axes of the encoding.
    """
    result: Tensor = _GradientStep.apply(image, mask, kspace, encoding)  # type: ignore[no-untyped-call]
    return result
