"""Where a run starts: random probabilities, the energy of the data, or probabilities of one's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from promask.data.atomic import read_array
from promask.errors import InputError
from promask.problem.batches import Samples
from promask.sampling.distribution import initial_probabilities
from promask.sampling.pattern import Pattern
from promask.types import Units

Start = Callable[[torch.Generator], Units]
"""Draws the probabilities that a member starts from, one per unit, in FFT order."""


STARTS = ("uniform", "energy")
"""The names of starts; anything else is a file, or an array."""


def starting_probabilities(init: Any, samples: Samples, pattern: Pattern) -> Start:
    """`uniform`: from U(0, 1), for each member its own. `energy`: the same numbers in the order of the energy."""
    like = samples.like
    if isinstance(init, str) and init == "uniform":
        return lambda generator: torch.rand(pattern.unit_shape, generator=generator, dtype=like.dtype)
    if isinstance(init, str) and init == "energy":
        probabilities = by_rank(samples.mean_energy(pattern))
    else:
        probabilities = given(init, pattern)
    return lambda generator: probabilities


def by_rank(energy: Units) -> Units:
    """Probabilities spread evenly from 0 to 1, as those of a uniform start are, in the order of the energies.

    >>> by_rank(torch.tensor([3.0, 100.0, 5.0, 4.0]))
    tensor([0.1250, 0.8750, 0.6250, 0.3750])
    """
    ranks = energy.flatten().argsort().argsort().reshape(energy.shape)
    return (ranks.to(energy.dtype) + 0.5) / energy.numel()


def given(init: Any, pattern: Pattern) -> Units:
    """Probabilities in an array, a .npy file or a run folder, one per unit or one per location, centred."""
    if isinstance(init, str | Path):
        path = Path(init, "probabilities.npy") if Path(init).is_dir() else Path(init)
        if not path.is_file():
            raise InputError(f"{init} is not 'uniform', 'energy', a file of probabilities or a run folder.")
        init = read_array(path, "buif", "probabilities")
    return initial_probabilities(init, pattern)
