"""Compressed sensing (Lustig et al. 2007): the image that agrees with what was measured and is sparse."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from promask.errors import InputError
from promask.operators.encoding import encode, gradient_step
from promask.operators.finite_differences import denoise_total_variation
from promask.operators.fourier import real_product
from promask.operators.trajectory import Trajectory
from promask.operators.wavelets import shrink_wavelets
from promask.recon.base import SpectralReconstruction
from promask.types import ComplexImages, KspaceMask, Maps, Spectra

TRANSFORMS: Mapping[str, tuple[str, Callable[[Tensor, Tensor, int], Tensor]]] = {
    "wavelet": ("cs", shrink_wavelets),
    "total-variation": ("cs-tv", lambda images, thresholds, number: denoise_total_variation(images, thresholds)),
}
"""The name of the reconstruction, and (images, thresholds, number of the iteration) -> the images x of the
smallest |x - images|^2 / 2 + threshold R(x)."""
START = 0.3
"""The regularisation of the first iteration."""


@dataclass(frozen=True)
class CompressedSensing(SpectralReconstruction):
    """The image x of the smallest |sqrt(m) (E x - y)|^2 / 2 + r R(x), by so many iterations of FISTA.

    The regularisation falls from a large one to its value, iteration by iteration, which gets there sooner (Hale,
    Yin and Zhang 2008), and the grid of the wavelets moves. The derivative is that of the iterations.

    Args:
        transform: `wavelet`, where R is the sum of the magnitudes of the coefficients, or `total-variation`.
        regularisation: Relative to the largest magnitude of the fully sampled image: its scale makes no
            difference.
        iterations: Iterations of FISTA.
    """

    transform: str = "wavelet"
    regularisation: float = 0.001
    iterations: int = 20

    trajectories: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.transform not in TRANSFORMS:
            raise InputError(f"Unknown transform {self.transform!r}: choose one of {', '.join(TRANSFORMS)}.")
        super().__post_init__()
        if self.regularisation == 0:
            raise InputError(f"regularisation must be above 0, such as 0.001, but is {self.regularisation!r}.")

    @property
    def name(self) -> str:
        """`cs`, or `cs-tv`."""
        return TRANSFORMS[self.transform][0]

    def from_spectra(
        self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None, trajectory: Trajectory | None = None
    ) -> ComplexImages:
        """The image; the step is 1 over the largest eigenvalue of E^H m E, which on a grid is at most 1."""
        _, proximal = TRANSFORMS[self.transform]
        kspace, mask, encoding = encode(spectra, mask, maps, trajectory)
        full = encoding.invert(kspace)
        step = 1 / encoding.transform.largest_eigenvalue(mask)
        mask, largest = step * mask, step * largest_magnitude(full)
        images = extrapolated = torch.zeros_like(full)
        for number, weight in enumerate(self.weights()):
            before = images
            images = proximal(gradient_step(extrapolated, mask, kspace, encoding), weight * largest, number)
            extrapolated = torch.lerp(before, images, 1 + (number + 1) / (number + 4))
        return images

    def weights(self) -> list[float]:
        """The regularisation of each iteration.

        >>> [round(weight, 3) for weight in CompressedSensing(regularisation=0.003, iterations=3).weights()]
        [0.3, 0.03, 0.003]
        """
        factor, last = max(START / self.regularisation, 1), self.iterations - 1
        falling = [self.regularisation * factor ** (1 - number / last) for number in range(last)]
        return [*falling, self.regularisation]


def largest_magnitude(images: ComplexImages) -> Float[Tensor, "batch ..."]:
    """The largest magnitude of each item."""
    return real_product(images, images).amax(tuple(range(1, images.ndim)), keepdim=True).sqrt_()
