"""What a mask is wanted for: the same question for every baseline."""

from dataclasses import dataclass, field

import torch

from promask.data.device import CPU
from promask.learning.setup import full_images
from promask.losses.base import Loss
from promask.losses.image import ImageLoss
from promask.problem.batches import patient_parts
from promask.recon.base import Fittable, Reconstruction
from promask.recon.zero_filled import ZeroFilled
from promask.sampling.pattern import Pattern
from promask.types import SampleSet, UnitMask, Units

CENTRE_SHARE = 0.04
"""The width of the central block of some baselines, as a share of k-space, as published."""
ACS_WIDTH = 24
"""The usual width of the calibration region (ACS) of parallel imaging."""


@dataclass(frozen=True)
class BaselineProblem:
    """Units to choose from, how many of them, and the data they are chosen for.

    Args:
        pattern: What is acquired or not as a whole.
        acceleration: The acceleration factor, at least 1.
        data: Fully sampled images to choose by; most baselines do not look at them.
        seed: For baselines that draw masks at random.
        centre: The width of the calibration region, always acquired and counted; None for that of the baseline.
        task: What the images are for, for baselines that minimise a loss.
        recon: How images are reconstructed, for baselines that minimise a loss.
        device: Where what they ask of the data is computed; masks are on the CPU.
    """

    pattern: Pattern
    acceleration: float
    data: SampleSet
    seed: int = 0
    centre: int | None = None
    task: Loss = field(default_factory=lambda: ImageLoss("mse"))
    recon: Reconstruction = field(default_factory=ZeroFilled)
    device: torch.device = CPU

    @property
    def budget(self) -> int:
        """How many units may be acquired."""
        return self.pattern.budget(self.acceleration)

    @property
    def allowed(self) -> UnitMask:
        """(*units), centred: whether each unit may be acquired."""
        return ~self.pattern.never()

    def block(self, default: int = 0) -> UnitMask:
        """The calibration region.

        Args:
            default: Its width if `centre` is None.

        Returns:
            (*units), centred: whether each unit is in the region.
        """
        return self.pattern.block(default if self.centre is None else self.centre, self.budget)

    def acs_width(self, most: int = ACS_WIDTH) -> int:
        """The width of a calibration region that takes at most half of the budget; `centre` if that is given.

        Args:
            most: The width that is wanted.

        Returns:
            The width that fits.
        """
        if self.centre is not None:
            return self.centre
        fits = (width for width in range(most, 0, -1) if 2 * int(self.pattern.centre(width).sum()) <= self.budget)
        return next(fits, 0)

    def acs(self, most: int = ACS_WIDTH) -> UnitMask:
        """The calibration region of that width.

        Args:
            most: The width that is wanted.

        Returns:
            (*units), centred: whether each unit is in the region.
        """
        return self.block(default=self.acs_width(most))

    def best(self, values: Units) -> UnitMask:
        """The calibration region, and the units of largest value up to the budget.

        Args:
            values: (*units), centred.

        Returns:
            (*units), centred: whether each unit is acquired.
        """
        return self.pattern.largest(values.masked_fill(self.block(), torch.inf), self.budget)

    def generator(self) -> torch.Generator:
        """Random numbers that depend on the seed alone."""
        return torch.Generator().manual_seed(self.seed)

    def random(self) -> Units:
        """A uniform random number for each unit."""
        return torch.rand(self.pattern.unit_shape, generator=self.generator(), dtype=torch.float64)


def fitted_to(recon: Reconstruction, data: SampleSet) -> Reconstruction:
    """A reconstruction with a prior from the data that masks are made from, as `learn` has it.

    Args:
        recon: Any reconstruction.
        data: The samples that may be learned from, with their coil sensitivities.

    Returns:
        The same, unless it has a prior that is not known yet.
    """
    if not isinstance(recon, Fittable) or recon.prior is not None:
        return recon
    return recon.fitted(full_images(data, recon), patient_parts(data.groups))
