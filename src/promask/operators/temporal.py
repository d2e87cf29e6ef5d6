"""Series of frames, (batch, channel, frame, *space): the Fourier transform over time, and what is built on it."""

from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from promask.operators.encoding import Encoding
from promask.operators.finite_differences import denoise_total_variation
from promask.types import AnyImages, CoilImages, ComplexImages

FRAMES = 2
"""The axis of frames."""


def to_frequencies(series: AnyImages) -> ComplexImages:
    """Frames to temporal frequencies, x-t to x-f, orthonormal: DC is at index 0 of the axis of frames."""
    return torch.fft.fft(series, dim=FRAMES, norm="ortho")


def to_frames(frequencies: ComplexImages) -> ComplexImages:
    """Temporal frequencies to frames: the inverse, and the adjoint, of `to_frequencies`."""
    return torch.fft.ifft(frequencies, dim=FRAMES, norm="ortho")


@dataclass(frozen=True)
class TemporalEncoding(Encoding):
    """E F^H W: weighted temporal frequencies to the k-space of all frames and coils.

    Args:
        maps: Coil sensitivities, (batch or 1, coil, 1, *space), or None.
        transform: From the images of all frames to k-space.
        weights: Of each temporal frequency, in a shape that series can be multiplied with.
    """

    weights: Float[Tensor, "..."]

    def to_coils(self, images: AnyImages) -> CoilImages:
        """What every coil sees of the frames that weighted frequencies make."""
        return super().to_coils(self.frames(images))

    def from_coils(self, images: CoilImages) -> ComplexImages:
        """W F S^H."""
        return to_frequencies(super().from_coils(images)).mul_(self.weights)

    def frames(self, frequencies: ComplexImages) -> ComplexImages:
        """F^H W: the frames of weighted frequencies."""
        return to_frames(self.weights * frequencies)


def shrink_frequencies(
    series: Complex[Tensor, "batch channel frame *space"], threshold: Tensor
) -> Complex[Tensor, "batch channel frame *space"]:
    """The series x of the smallest |x - series|^2 / 2 + threshold |F x|_1, in which the mean over time is free.

    Args:
        series: Complex.
        threshold: For each item, (batch, 1, ...).

    Returns:
        The series with smaller temporal frequencies.
    """
    frequencies = to_frequencies(series)
    size = frequencies.abs()
    kept = (1 - threshold / size.clamp_min(torch.finfo(size.dtype).tiny)).clamp_min(0)
    first = torch.zeros(series.shape[FRAMES], dtype=torch.bool, device=series.device)
    first[0] = True
    return to_frames(frequencies * torch.where(first.reshape(-1, *[1] * (series.ndim - 3)), 1, kept))


def denoise_temporal_variation(
    series: Complex[Tensor, "batch channel frame *space"], threshold: Tensor
) -> Complex[Tensor, "batch channel frame *space"]:
    """The series that nearly minimises |x - series|^2 / 2 + threshold * sum of |changes from frame to frame|.

    After the last frame comes the first.

    Args:
        series: Complex.
        threshold: For each item, (batch, 1, ...).

    Returns:
        The series with smaller changes.
    """
    last = series.movedim(FRAMES, -1)
    smooth = denoise_total_variation(last.flatten(1, -2), threshold.reshape(-1, 1, 1))
    return smooth.reshape(last.shape).movedim(-1, FRAMES)
