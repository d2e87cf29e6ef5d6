"""Volumes with two phase encodings, as slices."""

import numpy as np

from promask.files import Array


def slices_of_encoded_volume(kspace: Array) -> Array:
    """K-space (..., x, y, z) of a volume to the k-space (..., x, y) of its slices, along the last axis."""
    shifted = np.fft.ifftshift(kspace, axes=-1)
    return np.fft.fftshift(np.fft.ifft(shifted, axis=-1, norm="ortho"), axes=-1).astype(np.complex64)
