"""Where a run starts: random probabilities, the energy of the data, or probabilities of one's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from promask.errors import InputError
from promask.files import read_array
from promask.fourier import fft_order
from promask.learning.batches import Samples
from promask.patterns import Pattern
from promask.projection import project
from promask.types import Units

SPREAD = 1.0
"""The standard deviation of the logarithm of the random factors of an energy start."""

Start = Callable[[torch.Generator], Units]
"""Draws the probabilities that a member starts from, one per unit, in FFT order."""


def starting_probabilities(init: Any, samples: Samples, pattern: Pattern, budget: int) -> Start:
    """`uniform`: theta from U(0, 1). `energy`: around the closed form. Anything else: the same for all members."""
    like = samples.targets
    if isinstance(init, str) and init == "uniform":
        return lambda generator: torch.rand(pattern.unit_shape, generator=generator, dtype=like.dtype)
    if isinstance(init, str) and init == "energy":
        energy = samples.mean_energy(pattern).cpu()
        return lambda generator: from_energy(energy, budget, generator)
    probabilities = given(init, pattern)
    return lambda generator: probabilities


def from_energy(energy: Units, budget: int, generator: torch.Generator) -> Units:
    """Likely where there is much energy, undecided around the closed form's last unit, and within the budget.

    The energies are multiplied by random factors. Real images have conjugate twins of equal energy, and a start
    that is as symmetric as they are would take long to find out that one of two twins may do for both.
    """
    factors = torch.randn(energy.shape, generator=generator, dtype=energy.dtype).mul_(SPREAD).exp_()
    energy = energy * factors
    marginal = energy.flatten().kthvalue(energy.numel() - budget + 1).values
    ratio = energy / marginal.clamp_min(torch.finfo(energy.dtype).tiny)
    return project(ratio.clamp_max(1e6) - 0.5, budget)


def given(init: Any, pattern: Pattern) -> Units:
    """Probabilities in an array, a .npy file or a run folder, one per unit or one per location, centred."""
    if isinstance(init, str | Path):
        path = Path(init, "probabilities.npy") if Path(init).is_dir() else Path(init)
        if not path.is_file():
            raise InputError(f"{init} is not 'uniform', 'energy', a file of probabilities or a run folder.")
        init = read_array(path, "buif", "probabilities")
    probabilities = torch.as_tensor(init).to(torch.float32)
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise InputError("The probabilities to start from must be numbers from 0 to 1.")
    if probabilities.shape != pattern.unit_shape:
        if probabilities.shape != pattern.shape:
            raise InputError(
                f"The probabilities to start from have shape {list(probabilities.shape)}, but the units have "
                f"shape {list(pattern.unit_shape)}."
            )
        probabilities = pattern.restrict(probabilities)
    return fft_order(probabilities, len(pattern.free))
