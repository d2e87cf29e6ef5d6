"""Series that are sparse over time: k-t compressed sensing (Lustig et al. 2006), L+S (Otazo et al. 2015)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from promask.errors import InputError
from promask.operators.encoding import Encoding, GridTransform, encode, gradient_step
from promask.operators.low_rank import shrink_singular_values
from promask.operators.temporal import denoise_temporal_variation, shrink_frequencies, to_frequencies
from promask.operators.trajectory import Trajectory
from promask.recon.base import SpectralReconstruction
from promask.recon.compressed_sensing import largest_magnitude
from promask.recon.view_sharing import shared_images
from promask.types import ComplexImages, Cut, KspaceMask, Maps, Spectra

REACH = 1.0
"""Of the view sharing that iterations start from."""
FLAT, EARLY = 0.02, 0.1
"""Of the quadratic model: frequencies below this share of the largest magnitude count alike; and what stopping
early amounts to."""
Transform = Callable[[Tensor, Tensor], Tensor]

TRANSFORMS: Mapping[str, tuple[str, Transform, bool]] = {
    "temporal-fourier": ("kt-cs", shrink_frequencies, False),
    "temporal-variation": ("kt-tv", denoise_temporal_variation, True),
}
"""The name of the reconstruction; (series, thresholds) -> the series x of the smallest |x - series|^2 / 2 +
threshold R(x); and whether steps are accelerated. Early stopping is part of the prior: with temporal frequencies,
accelerated steps gave worse images."""


@dataclass(frozen=True)
class TemporalReconstruction(SpectralReconstruction):
    """What iterative reconstructions of series share: their scale, and where they start.

    Args:
        regularisation: Relative to the largest magnitude of the fully sampled series.
        iterations: Their number, from the images of view sharing.
        scale: The largest magnitude of the series that columns belong to, (batch,); None: that of what is given.
    """

    regularisation: float = 0.006
    iterations: int = 15
    scale: Float[Tensor, " batch"] | None = field(default=None, compare=False, repr=False)

    temporal = True
    trajectories = True
    arrays = ("scale",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.regularisation == 0:
            raise InputError(f"regularisation must be above 0, such as 0.006, but is {self.regularisation!r}.")

    def at(self, cut: Cut | None, parts: Integer[Tensor, " batch"] | None = None) -> "TemporalReconstruction":
        """The same for columns of series with these largest magnitudes."""
        return self if cut is None else replace(self, scale=cut.scales)

    def penalty(self, series: ComplexImages) -> Tensor:
        """The weights of a sum of |x_f|^2 that is as steep as the prior around these series, as a quadratic model.

        Stopping early holds all frequencies back a little.
        """
        scale = 1.0 if self.scale is None else self.scale.to(series.real).reshape(-1, *[1] * (series.ndim - 1))
        sizes = to_frequencies(series).abs() / scale
        weights = self.regularisation / (sizes + FLAT)
        weights[:, :, 0] = 0
        return weights + EARLY

    def begin(
        self, spectra: Spectra, mask: KspaceMask, maps: Maps | None, trajectory: Trajectory | None
    ) -> tuple[ComplexImages, Spectra, KspaceMask, Encoding, Float[Tensor, "batch ..."]]:
        """The images of view sharing; k-space, mask and encoding as `encode` has them; and the scale.

        Mask and scale are divided by the largest eigenvalue of E^H m E, so that steps have length 1.
        """
        start = shared_images(spectra, mask, maps, REACH, trajectory)
        kspace, mask, encoding = encode(spectra, mask, maps, trajectory, indexes=1)
        mask = mask.to(kspace.real)
        if self.scale is None:
            scale = largest_magnitude(encoding.invert(kspace))
        else:
            scale = self.scale.to(kspace.real).reshape(-1, *[1] * (kspace.ndim - 1))
        step = 1 / encoding.transform.largest_eigenvalue(mask)
        return start, kspace, step * mask, encoding, step * scale


@dataclass(frozen=True)
class TemporalCompressedSensing(TemporalReconstruction):
    """Steps towards the series x of the smallest |sqrt(m) (E x - y)|^2 / 2 + r R(x), from that of view sharing.

    The derivative is that of the steps.

    Args:
        regularisation: Relative to the largest magnitude of the fully sampled series.
        iterations: Steps; more are not better: they forget the start.
        scale: See `TemporalReconstruction`.
        transform: `temporal-fourier`, where R is the sum of the magnitudes of all temporal frequencies but the
            mean; or `temporal-variation`, the sum of the changes from frame to frame.
    """

    transform: str = "temporal-fourier"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.transform not in TRANSFORMS:
            raise InputError(f"Unknown transform {self.transform!r}: choose one of {', '.join(TRANSFORMS)}.")

    @property
    def name(self) -> str:
        """`kt-cs`, or `kt-tv`."""
        return TRANSFORMS[self.transform][0]

    def from_spectra(
        self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None, trajectory: Trajectory | None = None
    ) -> ComplexImages:
        """The series, (batch, channel, frame, *space)."""
        _, proximal, accelerated = TRANSFORMS[self.transform]
        start, kspace, mask, encoding, scale = self.begin(spectra, mask, maps, trajectory)
        series = extrapolated = start
        for number in range(self.iterations):
            before = series
            step = gradient_step(extrapolated, mask, kspace, encoding)
            series = proximal(step, self.regularisation * scale)
            weight = number / (number + 3) if accelerated else 0
            extrapolated = torch.lerp(before, series, 1 + weight) if weight else series
        return series


@dataclass(frozen=True)
class LowRankPlusSparse(TemporalReconstruction):
    """A series of low rank, the background, plus one with few temporal frequencies, what moves.

    Ranks are those of (pixel, frame) matrices, over the directions in which the mask varies: with lines, each
    position along the readout has a matrix of its own. The derivative is that of the steps.

    Args:
        regularisation: Of the sparse part, relative to the largest magnitude of the fully sampled series.
        iterations: Steps, from the images of view sharing.
        scale: See `TemporalReconstruction`.
        low_rank: The regularisation of the singular values of the low-rank part, relative to the same.
    """

    regularisation: float = 0.005
    iterations: int = 12
    low_rank: float = 0.04

    name = "l+s"

    def from_spectra(
        self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None, trajectory: Trajectory | None = None
    ) -> ComplexImages:
        """Both parts together, (batch, channel, frame, *space)."""
        series, kspace, mask, encoding, scale = self.begin(spectra, mask, maps, trajectory)
        sparse, pixels = torch.zeros_like(series), _pixel_axes(encoding, mask)
        for number in range(self.iterations):
            low = shrink_singular_values(series - sparse, self.low_rank * scale, pixels)
            sparse = shrink_frequencies(series - low, self.regularisation * scale)
            series = low + sparse
            if number + 1 < self.iterations:
                series = gradient_step(series, mask, kspace, encoding)
        return series


def _pixel_axes(encoding: Encoding, mask: KspaceMask) -> list[int]:
    """The directions that undersampling mixes: on the grid, those in which the mask varies."""
    if not isinstance(encoding.transform, GridTransform):
        return [-2, -1]
    return [axis for axis in encoding.transform.axes if _varies(mask, axis)]


def _varies(mask: KspaceMask, axis: int) -> bool:
    return mask.is_meta or bool((mask != mask.narrow(axis, 0, 1)).any())
