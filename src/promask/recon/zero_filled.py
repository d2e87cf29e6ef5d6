"""The reconstruction of the paper: what was not acquired is zero."""

from jaxtyping import Complex, Shaped
from torch import Tensor

from promask.fourier import from_spectrum, space_axes


def zero_filled(
    spectrum: Complex[Tensor, "..."], mask: Shaped[Tensor, "..."], dimensions: int
) -> Complex[Tensor, "..."]:
    """F^-1(x_k * m), both in FFT order; the mask broadcasts over batch and channel."""
    return from_spectrum(spectrum * mask, space_axes(dimensions))
