"""Batches of a data set, drawn without replacement."""

import math
from collections.abc import Iterator

import torch

from promask.fourier import space_axes, spectrum
from promask.patterns import Pattern
from promask.types import Batch, SampleSet, Units

PIECE = 2**19
"""Complex numbers that are worked on at a time: few enough to stay in the cache of a core."""


class Samples:
    """A data set made ready for the loop: spectra in FFT order and magnitude targets, on one device."""

    def __init__(self, data: SampleSet, device: torch.device) -> None:
        images = torch.stack([data[index].image for index in range(len(data))]).to(device)
        self.space = tuple(images.shape[2:])
        self.spectra = torch.cat([spectrum(piece, space_axes(len(self.space))) for piece in _pieces(images)])
        self.targets = images.abs()

    def __len__(self) -> int:
        return len(self.spectra)

    def batch(self, indices: torch.Tensor) -> Batch:
        """The samples with these indices."""
        return Batch(self.spectra.index_select(0, indices), self.targets.index_select(0, indices))

    def pieces(self, indices: torch.Tensor) -> Iterator[Batch]:
        """The samples with these indices, a few at a time."""
        yield from (self.batch(piece) for piece in indices.split(_piece_length(self.spectra)))

    def mean_energy(self, pattern: Pattern) -> Units:
        """The mean over the data of the energy of each unit, in FFT order."""
        total = torch.zeros(pattern.unit_shape, dtype=torch.float64, device=self.spectra.device)
        for piece in _pieces(self.spectra):
            total += pattern.energies(piece).sum(0)
        return (total / len(self)).to(self.targets.dtype)


def index_batches(count: int, batch_size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Random batches of indices for ever: no index comes again before a shuffle has used up all the others.

    A remainder that is too small for a batch is left out of its round. A set that is smaller than a batch fills it
    by coming several times.
    """
    while True:
        shuffles = [torch.randperm(count, generator=generator) for _ in range(math.ceil(batch_size / count))]
        order = torch.cat(shuffles)
        yield from order.split(batch_size)[: len(order) // batch_size]


def _piece_length(values: torch.Tensor) -> int:
    return max(1, PIECE // math.prod(values.shape[1:]))


def _pieces(values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return values.split(_piece_length(values))
