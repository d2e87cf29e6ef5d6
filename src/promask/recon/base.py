"""The contract of a reconstruction, and what the built-in ones share."""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Protocol, runtime_checkable

import torch

from promask.errors import InputError
from promask.operators.encoding import combine_coils
from promask.operators.fourier import kspace_from_spectrum, shift_mask, space_axes, spectrum_from_kspace
from promask.types import AnyImages, CoilImages, KspaceMask, Maps, Spectra


@runtime_checkable
class Reconstruction(Protocol):
    """(k-space, mask) -> image, differentiable in the mask: the contract of all reconstructions, also your own.

    K-space and mask are centred: DC is at index n // 2, and `promask.operators.fourier.to_image` is the inverse
    transform. Images and coil sensitivities are in image space, which has no such order.
    """

    @property
    def name(self) -> str:
        """As on the command line, in messages and in records."""

    @property
    def uses_maps(self) -> bool:
        """Whether coils are combined by their sensitivities."""

    @property
    def iterative(self) -> bool:
        """Whether it infers samples that were not acquired, as iterative and learned reconstructions do."""

    def reference(self, images: CoilImages, maps: Maps | None, /) -> AnyImages:
        """Return what the reconstruction aims at.

        Args:
            images: Fully sampled images, (batch, coil or channel, *space).
            maps: Coil sensitivities, (batch or 1, coil, *space), if channels are coils and the sensitivities
                known.

        Returns:
            Images of the shape that a call returns.
        """

    def __call__(self, kspace: Spectra, mask: KspaceMask, maps: Maps | None = None, /) -> AnyImages:
        """Reconstruct images.

        Args:
            kspace: Fully sampled and centred, (batch, coil or channel, *space).
            mask: Centred, (batch or 1, 1, *space) or (*space): zeros and ones, or weights between them.
            maps: Coil sensitivities; without them, every channel is an image of its own.

        Returns:
            Images, (batch, channel, *space); one channel where coils are combined.
        """


class SpectralReconstruction(ABC):
    """A built-in reconstruction: centred when it is called, in FFT order (DC at index 0) inside the loop.

    Those that use coil sensitivities are iterative unless they say otherwise.
    """

    uses_maps: ClassVar[bool] = True
    combines_coils: ClassVar[bool] = False
    """Whether it has no meaning without several coils."""
    iterative: ClassVar[bool] = True
    slicewise: ClassVar[bool] = True
    """Whether volumes may be reconstructed slice by slice, along an axis that is not undersampled."""

    def __post_init__(self) -> None:
        check_settings(getattr(self, "iterations", None), getattr(self, "regularisation", None))

    def reference(self, images: CoilImages, maps: Maps | None) -> AnyImages:
        """S^H x, the coils combined; without sensitivities, the images themselves."""
        return images if maps is None else combine_coils(images, maps)

    @abstractmethod
    def from_spectra(self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None) -> AnyImages:
        """The same as a call, for k-space and mask in FFT order.

        Args:
            spectra: Fully sampled, (batch, coil or channel, *space).
            mask: (batch or 1, 1, *space) or (*space). It may be a broadcast view: along axes where it does not
                change, there is less to do.
            maps: Coil sensitivities, (batch or 1, coil, *space); None if every channel is an image of its own.

        Returns:
            Images, (batch, channel, *space); one channel where coils are combined.
        """

    def __call__(self, kspace: Spectra, mask: KspaceMask, maps: Maps | None = None) -> AnyImages:
        """Reconstruct images from centred k-space; see `Reconstruction`."""
        axes = space_axes(kspace.ndim - 2)
        return self.from_spectra(
            spectrum_from_kspace(kspace, axes), shift_mask(mask, axes, torch.fft.ifftshift), maps
        )


def reconstruct_spectra(
    recon: Reconstruction, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None
) -> AnyImages:
    """The images of any reconstruction, for k-space and mask in FFT order: what the loop calls."""
    if isinstance(recon, SpectralReconstruction):
        return recon.from_spectra(spectra, mask, maps)
    axes = space_axes(spectra.ndim - 2)
    return recon(kspace_from_spectrum(spectra, axes), shift_mask(mask, axes, torch.fft.fftshift), maps)


def check_settings(iterations: int | None, regularisation: float | None) -> None:
    """Refuse what no reconstruction can do."""
    if iterations is not None and iterations < 1:
        raise InputError(f"iterations must be a whole number from 1, but is {iterations}.")
    if regularisation is not None and not 0 <= regularisation < math.inf:
        raise InputError(f"regularisation must be a number of at least 0, but is {regularisation}.")
