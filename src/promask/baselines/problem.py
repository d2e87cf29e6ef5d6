"""What a mask is wanted for: the same question for every baseline."""

from dataclasses import dataclass, field

import torch

from promask.losses.base import Loss
from promask.losses.image import ImageLoss
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZeroFilled
from promask.sampling.pattern import Pattern
from promask.types import SampleSet, UnitMask, Units


@dataclass(frozen=True)
class Problem:
    """Units to choose from, how many of them, and the data they are chosen for."""

    pattern: Pattern
    acceleration: float
    data: SampleSet
    """Fully sampled images to choose by; most baselines do not look at them."""
    seed: int = 0
    centre: int | None = None
    """The width of the central block that is always acquired and counted; None: what the baseline itself has."""
    task: Loss = field(default_factory=lambda: ImageLoss("mse"))
    """What the images are for, for baselines that ask."""
    recon: Reconstruction = field(default_factory=ZeroFilled)
    """How images are reconstructed, for baselines that ask."""

    @property
    def budget(self) -> int:
        """How many units may be acquired."""
        return self.pattern.budget(self.acceleration)

    def block(self, usual: int = 0) -> UnitMask:
        """The central block; `usual` is its width if the problem does not say."""
        return self.pattern.block(usual if self.centre is None else self.centre, self.budget)

    def best(self, values: Units) -> UnitMask:
        """The central block, and units of largest value up to the budget."""
        return self.pattern.largest(values.masked_fill(self.block(), torch.inf), self.budget)

    def generator(self) -> torch.Generator:
        """Random numbers that depend on the seed alone."""
        return torch.Generator().manual_seed(self.seed)
