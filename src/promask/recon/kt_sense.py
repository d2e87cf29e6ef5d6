"""k-t SENSE (Tsao et al. 2003): frames together, in x-f space, with a prior of what moves where, and how fast."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Integer
from torch import Tensor
from torch.nn.functional import avg_pool2d

from promask.errors import InputError
from promask.operators.encoding import encode
from promask.operators.temporal import TemporalEncoding, to_frequencies
from promask.operators.trajectory import Trajectory
from promask.recon.base import SpectralReconstruction
from promask.recon.cg_sense import Solver, least_squares
from promask.types import AnyImages, ComplexImages, Cut, KspaceMask, Maps, Spectra

MEAN = 0.07
"""The power of the mean over time in the prior: held back a little, or lines that are rarely acquired amplify
noise."""
SMOOTHING = 9
"""The width, in pixels, of the square over which the power of training data is averaged."""
LEAST = 1e-9
"""No power is smaller."""


def usual_power(frames: int) -> tuple[float, ...]:
    """The power of each temporal frequency, relative to the mean over time, where no data tell it.

    >>> [f"{power:.4f}" for power in usual_power(4)]
    ['0.0700', '0.0030', '0.0008', '0.0030']

    It falls as that of beating hearts does: 0.003 / f^2, with f in periods of the series.

    Args:
        frames: How many frames there are.

    Returns:
        One value for each frequency, in FFT order.
    """
    return tuple(MEAN if f == 0 else 0.003 / min(f, frames - f) ** 2 for f in range(frames))


@dataclass(frozen=True)
class KtSense(SpectralReconstruction):
    """The series x of the smallest |m (E x - y)|^2 + regularisation * sum over f of |x_f|^2 / prior_f.

    x_f are the temporal frequencies of x at each pixel. The image is linear in the data, and its derivative is
    that of the solution itself.

    Args:
        regularisation: Relative to the largest eigenvalue that E^H m E can have, which is 1.
        iterations: Steps of conjugate gradients.
        prior: The power that is expected of each temporal frequency at each pixel, (frame, *space), in FFT order
            along frequencies; `fitted` measures it. None: the same at all pixels, see `usual_power`.
        unseen: The same without each part of the patients, (part, frame, *space), for learning: series that the
            prior was measured in are reconstructed too well with it. The last one is for all further parts.
    """

    regularisation: float = 1e-4
    iterations: int = 20
    prior: Float[Tensor, "frame *space"] | Float[Tensor, "batch 1 frame *space"] | None = field(
        default=None, compare=False, repr=False
    )
    unseen: Float[Tensor, "part frame *space"] | None = field(default=None, compare=False, repr=False)

    name = "kt-sense"
    temporal = True
    trajectories = True
    linear: ClassVar[bool] = True
    arrays: ClassVar[tuple[str, ...]] = ("prior", "unseen")

    def at(self, cut: Cut | None, parts: Integer[Tensor, " batch"] | None = None) -> "KtSense":
        """The same with the prior at the positions of slices or columns, measured without their patients."""
        if self.prior is None:
            return self
        priors, numbers = self.prior[None], torch.zeros((), dtype=torch.int64)
        if self.unseen is not None and parts is not None:
            priors, numbers = self.unseen, parts.to(self.unseen.device).clamp_max(len(self.unseen) - 1)
        if cut is not None:
            prior = priors.movedim(cut.axis + 1, 1)[numbers, cut.positions.to(priors.device)]
        else:
            prior = priors[numbers.expand(1) if parts is None else numbers]
        return replace(self, prior=prior.unsqueeze(1), unseen=None)

    def fitted(self, series: Iterable[AnyImages], parts: Sequence[int] | None = None) -> "KtSense":
        """The same with a prior from training data.

        Args:
            series: Fully sampled images, (batch, 1, frame, *space) each; their scale makes no difference.
            parts: To which part of the patients each of them belongs, counted from 0.

        Returns:
            A reconstruction whose prior is their mean power, averaged over neighbouring pixels; with `parts` of
            several patients also priors without each part.
        """
        if parts is None or len(set(parts)) < 2:
            return replace(self, prior=temporal_power(series))
        total, sums = torch.zeros(()), dict[int, Tensor]()
        for part, images in zip(parts, series, strict=True):
            power = relative_power(images)
            total, sums[part] = total + power, sums[part] + power if part in sums else power
        prior = smooth_power(total)
        known = range(max(sums) + 1)
        unseen = [smooth_power(total - sums[part]) if part in sums else prior for part in known]
        return replace(self, prior=prior, unseen=torch.stack([*unseen, prior]))

    def penalty(self, series: AnyImages) -> Tensor:
        """What |x_f|^2 is weighted with.

        Args:
            series: Any, (batch, channel, frame, *space).

        Returns:
            The regularisation over the prior, in a shape that series can be multiplied with.
        """
        return self.regularisation / self._prior(series.shape[2:]).to(series.device)

    def _prior(self, shape: Sequence[int]) -> Tensor:
        if self.prior is None:
            return torch.tensor(usual_power(shape[0])).reshape(-1, *[1] * (len(shape) - 1))
        if self.prior.shape[-len(shape) :] != tuple(shape):
            fits, found = list(self.prior.shape[-len(shape) :]), list(shape)
            raise InputError(f"The prior of kt-sense is for series of {fits}, but these have {found}.")
        return self.prior

    def from_spectra(
        self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None, trajectory: Trajectory | None = None
    ) -> ComplexImages:
        """The series, nearly; (batch, channel, frame, *space)."""
        space = spectra.shape[3:] if trajectory is None else trajectory.matrix
        prior = self._prior((spectra.shape[2], *space))
        kspace, mask, encoding = encode(spectra, mask, maps, trajectory, indexes=1)
        encoding = TemporalEncoding(maps, encoding.transform, prior.to(kspace.real).sqrt())
        solver = Solver(encoding, self.regularisation, self.iterations)
        return encoding.frames(least_squares(kspace, mask, solver))


def temporal_power(series: Iterable[AnyImages]) -> Float[Tensor, "frequency *pixels"]:
    """Measure the power of each temporal frequency at each pixel, averaged over series and neighbouring pixels.

    Args:
        series: Fully sampled images, (batch, channel, frame, *space) each.

    Returns:
        The power, (frame, *space), the same for f and -f, relative to that of the mean over time averaged over all
        pixels; the latter is set to 0.07 everywhere.
    """
    total: Tensor | None = None
    for each in series:
        total = relative_power(each) if total is None else total + relative_power(each)
    if total is None:
        raise InputError("A prior needs at least one series.")
    return smooth_power(total)


def relative_power(series: AnyImages) -> Float[Tensor, "frequency *pixels"]:
    """The power of each temporal frequency at each pixel, relative to that of the mean over time.

    Args:
        series: Fully sampled images, (batch, channel, frame, *space).

    Returns:
        The sum over batch and channels, (frame, *space).
    """
    power = to_frequencies(series.abs()).abs().square().sum((0, 1)).cpu()
    return power / power[0].mean()


def smooth_power(total: Float[Tensor, "frequency *pixels"]) -> Float[Tensor, "frequency *pixels"]:
    """A prior from the sum of the powers of series: see `temporal_power`.

    Args:
        total: The sum, (frame, *space).

    Returns:
        The same for f and -f, averaged over neighbouring pixels.
    """
    total = total + total.flip(0).roll(1, 0)
    planes = total.reshape(1, -1, *total.shape[-2:])
    widths = [min(SMOOTHING, n - 1 + n % 2) for n in total.shape[-2:]]
    smooth = avg_pool2d(planes, widths, 1, [width // 2 for width in widths], count_include_pad=False)
    result = (smooth.reshape(total.shape) / total[0].mean()).clamp_min(LEAST)
    result[0] = MEAN
    return result
