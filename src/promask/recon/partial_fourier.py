"""Partial Fourier imaging: where the phase is smooth, half of k-space follows from the other half.

In the k-space of an image with a known phase, e^(i phase) times a real one, every sample has a conjugate twin. The
phase comes from the centre of k-space, as in homodyne and POCS reconstructions (Noll et al. 1991, Haacke et al.
1991), and the image is that of least squares, which takes any mask, and coils as well.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from promask.operators.encoding import Encoding, hybrid
from promask.operators.fourier import space_axes
from promask.recon.cg_sense import Solver, least_squares
from promask.recon.zero_filled import UsesMaps, zero_filled
from promask.types import ComplexImages, KspaceMask, Maps, Spectra


@dataclass(frozen=True)
class PartialFourier(UsesMaps):
    """Images that are nearly real once their smooth phase is taken away.

    The phase is that of the central block, `calibration` wide, as far as samples were acquired on both sides; the
    derivative takes it as given. It need not be quite right: an imaginary part is possible, at a price.
    """

    regularisation: float = 0.003
    iterations: int = 10
    calibration: int = 24
    of_imaginary: float = 0.1
    """The regularisation of the imaginary part."""

    name = "partial-fourier"

    def __call__(self, kspace: Spectra, mask: KspaceMask, maps: Maps | None = None) -> ComplexImages:
        """e^(i phase) x for the image x that minimises |m (E e^(i phase) x - y)|^2 and its regularisation."""
        turn = self.phase_factor(kspace, mask.detach(), maps)
        kspace, mask, axes = hybrid(kspace, mask)
        turned = Turned(maps, axes, turn)
        solver = Solver(turned, self.regularisation, self.iterations, self.of_imaginary)
        return turn * least_squares(kspace, mask, solver)

    def phase_factor(self, kspace: Spectra, mask: KspaceMask, maps: Maps | None) -> ComplexImages:
        """e^(i phase) of the image that the central block gives, smoothly cut out."""
        window = torch.ones((), dtype=mask.dtype, device=mask.device)
        for axis in space_axes(kspace.ndim - 2):
            window = window.unsqueeze(-1) * hann(kspace.shape[axis], self.calibration, mask)
        low = zero_filled(kspace, mask * twins(mask, kspace.ndim - 2) * window, maps)
        size = low.abs()
        return torch.where(size > 0, low / size.clamp_min(torch.finfo(size.dtype).tiny), 1)


@dataclass(frozen=True)
class Turned(Encoding):
    """The scanner, of an image whose phase is taken away."""

    turn: ComplexImages

    def __call__(self, images: ComplexImages) -> Spectra:
        """E e^(i phase)."""
        return super().__call__(self.turn * images)

    def adjoint(self, kspace: Spectra) -> ComplexImages:
        """e^(-i phase) E^H."""
        return self.turn.conj() * super().adjoint(kspace)


def twins(mask: KspaceMask, dimensions: int) -> KspaceMask:
    """The mask at the conjugate twin of every location.

    >>> twins(torch.tensor([1, 2, 3, 4]), 1)
    tensor([1, 4, 3, 2])
    """
    axes = space_axes(dimensions)
    return mask.flip(axes).roll([1] * dimensions, axes)


def hann(length: int, width: int, like: Tensor) -> Tensor:
    """A Hann window around index 0, in FFT order: 0 from half the width on.

    >>> hann(6, 4, torch.empty(0))
    tensor([1.0000, 0.5000, 0.0000, 0.0000, 0.0000, 0.5000])
    """
    distance = torch.fft.fftfreq(length, 1 / length, dtype=like.dtype, device=like.device).abs()
    return torch.cos(math.pi * distance / width).square().where(distance < width / 2, 0)
