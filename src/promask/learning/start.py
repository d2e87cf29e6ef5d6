"""Where a run starts: random probabilities, the energy of the data, or probabilities of one's own."""

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

NAMED_STARTS = ("uniform", "energy")


def starting_probabilities(init: Any, samples: Samples, pattern: Pattern, budget: int) -> Units | None:
    """One probability per unit, in FFT order, on the device of the samples; None: random, for each member anew."""
    if isinstance(init, str) and init == "uniform":
        return None
    if isinstance(init, str) and init == "energy":
        return from_energy(samples.mean_energy(pattern), budget)
    return given(init, pattern).to(samples.targets.device)


def from_energy(energy: Units, budget: int) -> Units:
    """Likely where there is much energy, undecided around the closed form's last unit, and within the budget.

    >>> from_energy(torch.tensor([8.0, 2.0, 1.6, 0.4]), budget=2)
    tensor([1.0000, 0.6000, 0.4000, 0.0000])
    """
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
