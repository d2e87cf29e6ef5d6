"""What is written below a reconstruction: how good it is."""

import math
from dataclasses import dataclass

from promask.conventions import Measured, find_convention
from promask.evaluation import reconstruct
from promask.recon import ZERO_FILLED, Reconstruction
from promask.types import Mask, SampleSet, Targets


@dataclass(frozen=True)
class Reconstructed:
    """One image with a mask, its fully sampled target, and the quality of this image alone."""

    image: Targets
    target: Targets
    psnr: float
    ssim: float
    """NaN for images that are too small."""

    def caption(self, separator: str = "\n") -> str:
        """Both numbers."""
        psnr = "exact" if math.isinf(self.psnr) else f"{self.psnr:.1f} dB"
        return psnr if math.isnan(self.ssim) else f"{psnr}{separator}SSIM {self.ssim:.3f}"


def reconstructed(
    mask: Mask, data: SampleSet, index: int, recon: Reconstruction = ZERO_FILLED, convention: str = "paper"
) -> Reconstructed:
    """Reconstruct one image of a data set, and measure it as `evaluate` would."""
    image, target = reconstruct(mask, data, range(index, index + 1), recon)
    alone = Measured([range(1)], ["shown"], targets=lambda _: target, pairs=lambda _: (image, target))
    quality = find_convention(convention).measure(alone)
    return Reconstructed(image, target, quality.psnr[0], quality.ssim[0])
