"""Compressed sensing (Lustig et al. 2007): the image that agrees with what was measured and is sparse."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from promask.errors import InputError
from promask.operators.encoding import Encoding, gradient_step, hybrid
from promask.operators.finite_differences import smooth_in_pieces
from promask.operators.fourier import real_product
from promask.operators.wavelets import sparse_in_wavelets
from promask.recon.zero_filled import UsesMaps
from promask.types import ComplexImages, KspaceMask, Maps, Spectra

TRANSFORMS: Mapping[str, tuple[str, Callable[[Tensor, Tensor, int], Tensor]]] = {
    "wavelet": ("cs", sparse_in_wavelets),
    "total-variation": ("cs-tv", lambda images, thresholds, number: smooth_in_pieces(images, thresholds)),
}
"""The name of the reconstruction, and (images, thresholds, number of the iteration) -> the images x of the
smallest |x - images|^2 / 2 + threshold R(x)."""
START = 0.3
"""The regularisation of the first iteration."""


@dataclass(frozen=True)
class CompressedSensing(UsesMaps):
    """The image x of the smallest |sqrt(m) (E x - y)|^2 / 2 + r R(x), by so many iterations of FISTA.

    R is the sum of the magnitudes of the wavelet coefficients, or the total variation. The regularisation falls
    from a large one to its value, iteration by iteration, which gets there sooner (Hale, Yin and Zhang 2008), and
    the grid of the wavelets moves. The derivative is that of the iterations.
    """

    transform: str = "wavelet"
    """`wavelet` or `total-variation`."""
    regularisation: float = 0.001
    """As a share of the largest magnitude of the fully sampled image: its scale makes no difference."""
    iterations: int = 20

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

    def __call__(self, kspace: Spectra, mask: KspaceMask, maps: Maps | None = None) -> ComplexImages:
        """The image; the largest eigenvalue that E^H m E can have is 1, and so is the step."""
        _, sparse = TRANSFORMS[self.transform]
        kspace, mask, axes = hybrid(kspace, mask)
        encoding = Encoding(maps, axes)
        whole = encoding.adjoint(kspace)
        largest = _largest(whole)
        images = ahead = torch.zeros_like(whole)
        for number, share in enumerate(self.falling()):
            before, images = images, sparse(gradient_step(ahead, mask, kspace, encoding), share * largest, number)
            ahead = torch.lerp(before, images, 1 + (number + 1) / (number + 4))
        return images

    def falling(self) -> list[float]:
        """The regularisation of each iteration.

        >>> [round(share, 3) for share in CompressedSensing(regularisation=0.003, iterations=3).falling()]
        [0.3, 0.03, 0.003]
        """
        factor, last = max(START / self.regularisation, 1), self.iterations - 1
        shares = [self.regularisation * factor ** (1 - number / last) for number in range(last)]
        return [*shares, self.regularisation]


def _largest(images: ComplexImages) -> Float[Tensor, "batch ..."]:
    """The largest magnitude of each item."""
    return real_product(images, images).amax(tuple(range(1, images.ndim)), keepdim=True).sqrt_()
