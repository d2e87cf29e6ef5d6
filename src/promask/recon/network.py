"""A network as a reconstruction: any module that improves the zero-filled image."""

from dataclasses import dataclass

import torch
from torch import nn

from promask.errors import InputError
from promask.operators.encoding import Encoding, GridTransform, gradient_step, to_hybrid_space
from promask.operators.fourier import magnitude
from promask.recon.base import SpectralReconstruction
from promask.recon.zero_filled import zero_filled
from promask.types import ComplexImages, KspaceMask, Maps, Spectra


@dataclass(frozen=True)
class Network(SpectralReconstruction):
    """A module that improves the zero-filled image, as a reconstruction.

    It sees the zero-filled image, coils combined, scaled by its largest magnitude; channels that are no coils come
    one by one.

    Args:
        module: From images to images, real and imaginary parts as two channels: (batch, 2, *space) both.
        data_consistency: Whether acquired samples replace what the module says about them.
    """

    module: nn.Module
    data_consistency: bool = True

    name = "network"

    @property
    def slicewise(self) -> bool:  # type: ignore[override]
        """Whether the module has no layers for volumes."""
        return not any(isinstance(layer, nn.Conv3d | nn.ConvTranspose3d) for layer in self.module.modules())

    def from_spectra(self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None) -> ComplexImages:
        """What the module makes of the zero-filled image."""
        filled = zero_filled(spectra, mask, maps)
        flat = filled.flatten(0, 1)
        scale = magnitude(flat).flatten(1).amax(1).clamp_min(torch.finfo(mask.dtype).tiny)
        scale = scale.reshape(-1, *[1] * (flat.ndim - 1))
        parts = torch.view_as_real(flat / scale).movedim(-1, 1)
        parameter = next(self.module.parameters(), parts)
        output = self.module(parts.to(parameter.device).contiguous()).to(parts.device)
        if output.shape != parts.shape:
            raise InputError(
                f"A network that reconstructs must return what it takes, real and imaginary parts of shape "
                f"{list(parts.shape)}, but returned {list(output.shape)}."
            )
        image = (torch.view_as_complex(output.movedim(1, -1).contiguous()) * scale).reshape(filled.shape)
        if not self.data_consistency:
            return image
        kspace, mask, axes = to_hybrid_space(spectra, mask)
        return gradient_step(image, mask, kspace, Encoding(maps, GridTransform(axes)))
