"""Batches of a data set, drawn without replacement: from memory, or read ahead from disk."""

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import islice

import numpy as np
import torch

from promask.fourier import space_axes, spectrum
from promask.learning.ahead import ahead
from promask.patterns import Pattern
from promask.types import Batch, Label, Sample, SampleSet, Units

PIECE = 2**19
"""Complex numbers that are worked on at a time: few enough to stay in the cache of a core."""
MEMORY = 4 * 2**30
"""Bytes of spectra and targets that are kept; a larger data set is read again for every batch."""
AHEAD = 4
"""Pieces that are read while one is worked on."""
ENERGY_SAMPLES = 2000
"""The mean energy is that of all samples, or of this many of them at equal distances."""


LabelOf = Callable[[Sample], Label]
"""The label of a sample as a task wants it."""
BatchStream = Generator[Iterator[Batch], None, None]


class Samples:
    """A data set made ready for the loop: spectra in FFT order and magnitude targets, on one device."""

    def __init__(
        self, data: SampleSet, device: torch.device, label_of: LabelOf | None = None, memory: int = MEMORY
    ) -> None:
        self.data, self.device, self.label_of = data, device, label_of
        self.seconds_waited = 0.0
        """Spent in the loop on waiting for the disk."""
        self.like = data[0].image.real.new_empty(0, device=device)
        """An empty array of the targets' type, on the device."""
        self.energies: dict[Pattern, Units] = {}
        per_number = 3 * self.like.element_size()  # a complex number and its target
        fits = len(data) * math.prod(data.shape) * per_number <= memory
        self.kept = self._read_all() if fits else None

    def __len__(self) -> int:
        return len(self.data)

    def pieces(self, indices: torch.Tensor) -> Iterator[Batch]:
        """The samples with these indices, a few at a time."""
        return self._stream(iter([indices]))

    def batches(self, size: int, repeats: int, generator: torch.Generator) -> BatchStream:
        """For ever: the pieces of a random batch, in which each sample comes `repeats` times."""
        orders = index_batches(len(self), size, generator)
        each = math.ceil(size * repeats / self._piece_length)
        with closing(self._stream(order.repeat_interleave(repeats) for order in orders)) as pieces:
            while True:
                yield islice(pieces, each)

    def mean_energy(self, pattern: Pattern) -> Units:
        """The mean over the data of the energy of each unit, in FFT order."""
        if pattern not in self.energies:
            total = torch.zeros(pattern.unit_shape, dtype=torch.float64, device=self.device)
            count = min(len(self), ENERGY_SAMPLES)
            for piece in self.pieces(torch.arange(count) * len(self) // count):
                total += pattern.energies(piece.spectra).sum(0)
            self.energies[pattern] = (total / count).to(self.like.dtype)
        return self.energies[pattern]

    @property
    def _piece_length(self) -> int:
        return max(1, PIECE // math.prod(self.data.shape))

    def _stream(self, orders: Iterator[torch.Tensor]) -> Generator[Batch, None, None]:
        """The samples of one order after the other, each in pieces; from disk, the images are read in advance."""
        pieces = (piece for order in orders for piece in order.split(self._piece_length))
        if self.kept is not None:
            for piece in pieces:
                yield _select(self.kept, piece.to(self.device))
            return
        with closing(ahead(map(self._read, pieces), AHEAD, self._note_waiting)) as read:
            for images, labels, repeats in read:
                batch = self._transformed(images, labels)
                yield batch if repeats is None else _select(batch, repeats.to(self.device))

    def _read(self, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """The images and labels with these indices, each once, and how they are repeated."""
        once, repeats = indices.unique_consecutive(return_inverse=True)
        samples = [self.data[index] for index in once.tolist()]
        # By NumPy: PyTorch would start threads of its own for this thread, which wait in a busy loop.
        images = torch.from_numpy(np.stack([sample.image.numpy() for sample in samples]))
        labels = None
        if self.label_of is not None:
            labels = torch.from_numpy(np.stack([self.label_of(sample).numpy() for sample in samples]))
        return images, labels, repeats if len(once) < len(indices) else None

    def _transformed(self, images: torch.Tensor, labels: torch.Tensor | None) -> Batch:
        images, geometry = images.to(self.device), self.data.geometry
        return Batch(
            spectrum(images, space_axes(images.ndim - 2)),
            geometry.judged(images).abs(),
            geometry,
            None if labels is None else geometry.judged(labels.to(self.device)),
        )

    def _read_all(self) -> Batch:
        first = self._transformed(*self._read(torch.tensor([0]))[:2])
        whole = Batch(
            first.spectra.new_empty(len(self), *first.spectra.shape[1:]),
            first.targets.new_empty(len(self), *first.targets.shape[1:]),
            first.geometry,
            None if first.labels is None else first.labels.new_empty(len(self), *first.labels.shape[1:]),
        )
        for indices in torch.arange(len(self)).split(self._piece_length):
            piece = self._transformed(*self._read(indices)[:2])
            whole.spectra[indices], whole.targets[indices] = piece.spectra, piece.targets
            if whole.labels is not None and piece.labels is not None:
                whole.labels[indices] = piece.labels
        return whole

    def _note_waiting(self, seconds: float) -> None:
        self.seconds_waited += seconds


def index_batches(count: int, batch_size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Random batches of indices for ever: no index comes again before a shuffle has used up all the others.

    A remainder that is too small for a batch is left out of its round. A set that is smaller than a batch fills it
    by coming several times.
    """
    while True:
        shuffles = [torch.randperm(count, generator=generator) for _ in range(math.ceil(batch_size / count))]
        order = torch.cat(shuffles)
        yield from order.split(batch_size)[: len(order) // batch_size]


def _select(batch: Batch, indices: torch.Tensor) -> Batch:
    labels = None if batch.labels is None else batch.labels.index_select(0, indices)
    return Batch(
        batch.spectra.index_select(0, indices), batch.targets.index_select(0, indices), batch.geometry, labels
    )
