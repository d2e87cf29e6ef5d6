"""Partial Fourier imaging: where the phase is smooth, half of k-space follows from the other half.

In the k-space of an image with a known phase, e^(i phase) times a real one, every sample has a conjugate twin. The
phase comes from the centre of k-space, as in homodyne and POCS reconstructions (Noll et al. 1991, Haacke et al.
1991), and the image is that of least squares, which takes any mask, and coils as well.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from promask.operators.encoding import Encoding, GridTransform, to_hybrid_space
from promask.operators.fourier import space_axes
from promask.recon.base import SpectralReconstruction
from promask.recon.cg_sense import Solver, least_squares
from promask.recon.zero_filled import zero_filled
from promask.types import CoilImages, ComplexImages, KspaceMask, Maps, Spectra


@dataclass(frozen=True)
class PartialFourier(SpectralReconstruction):
    """Least squares for images that are nearly real once their smooth phase is taken away.

    The derivative takes the phase as given. It need not be quite right: an imaginary part is possible, at a price.

    Args:
        regularisation: Of the real part, relative to the largest eigenvalue that E^H m E can have, which is 1.
        iterations: Steps of conjugate gradients.
        calibration: The width of the central block of k-space that gives the phase, as far as samples were
            acquired on both sides.
        of_imaginary: The regularisation of the imaginary part.
    """

    regularisation: float = 0.003
    iterations: int = 10
    calibration: int = 24
    of_imaginary: float = 0.1

    name = "partial-fourier"

    def from_spectra(self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None) -> ComplexImages:
        """e^(i phase) x for the image x that minimises |m (E e^(i phase) x - y)|^2 and its regularisation."""
        phase = self.phase_factor(spectra, mask.detach(), maps)
        kspace, mask, axes = to_hybrid_space(spectra, mask)
        encoding = PhasedEncoding(maps, GridTransform(axes), phase)
        solver = Solver(encoding, self.regularisation, self.iterations, self.of_imaginary)
        return phase * least_squares(kspace, mask, solver)

    def phase_factor(self, spectra: Spectra, mask: KspaceMask, maps: Maps | None) -> ComplexImages:
        """e^(i phase) of the image that the central block gives, smoothly cut out.

        Args:
            spectra: K-space in FFT order, (batch, coil or channel, *space).
            mask: In FFT order, (batch or 1, 1, *space) or (*space).
            maps: Coil sensitivities, (batch or 1, coil, *space), or None.

        Returns:
            Complex numbers of magnitude 1, (batch, channel, *space).
        """
        dimensions = spectra.ndim - 2
        window = torch.ones((), dtype=mask.dtype, device=mask.device)
        for axis in space_axes(dimensions):
            window = window.unsqueeze(-1) * hann(spectra.shape[axis], self.calibration, mask)
        low = zero_filled(spectra, mask * conjugate_twins(mask, dimensions) * window, maps)
        size = low.abs()
        return torch.where(size > 0, low / size.clamp_min(torch.finfo(size.dtype).tiny), 1)


@dataclass(frozen=True)
class PhasedEncoding(Encoding):
    """The scanner for images whose phase was taken away."""

    phase: ComplexImages

    def to_coils(self, images: ComplexImages) -> CoilImages:
        """S e^(i phase)."""
        return super().to_coils(self.phase * images)

    def from_coils(self, images: CoilImages) -> ComplexImages:
        """e^(-i phase) S^H."""
        return self.phase.conj() * super().from_coils(images)


def conjugate_twins(mask: KspaceMask, dimensions: int) -> KspaceMask:
    """The mask at the conjugate twin of every location, in FFT order.

    >>> conjugate_twins(torch.tensor([1, 2, 3, 4]), 1)
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
