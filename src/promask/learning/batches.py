"""Batches of a data set, drawn without replacement: from memory, or read ahead from disk."""

import copy
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice

import torch

from promask.data import Acquired, acquired, calibrated, stacked
from promask.fourier import space_axes, spectrum
from promask.learning.ahead import ahead
from promask.patterns import Pattern
from promask.recon import ZERO_FILLED, Reconstruction
from promask.tasks import Task, needs_phase
from promask.types import Batch, Label, Maps, Sample, SampleSet, Units

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
    """A data set made ready for the loop: spectra in FFT order and targets, on one device.

    Targets are magnitudes, or, with `phase`, complex numbers.
    """

    def __init__(
        self,
        data: SampleSet,
        device: torch.device,
        label_of: LabelOf | None = None,
        memory: int = MEMORY,
        recon: Reconstruction = ZERO_FILLED,
        phase: bool = False,
    ) -> None:
        self.memory = memory
        self.device, self.label_of, self.recon, self.phase = device, label_of, recon, phase
        self.data = calibrated(data, recon)
        self.seconds_waited = 0.0
        """Spent in the loop on waiting for the disk."""
        self.like = data[0].image.real.new_empty(0, device=device)
        """An empty array of the targets' type, on the device."""
        self.energies: dict[Pattern, Units] = {}
        per_number = 3 * self.like.element_size()  # a complex number and its target
        if recon.uses_maps and self.data[0].maps is not self.data[len(data) - 1].maps:
            per_number += 2 * self.like.element_size()
        fits = len(data) * math.prod(data.shape) * per_number <= memory
        self.kept = self._read_all() if fits else None

    @staticmethod
    def of_task(data: SampleSet, device: torch.device, task: Task, recon: Reconstruction) -> "Samples":
        """With what a task needs to know of them."""
        label_of = task.label if task.needs_labels else None
        return Samples(data, device, label_of, recon=recon, phase=needs_phase(task))

    def with_recon(self, recon: Reconstruction) -> "Samples":
        """The same samples for another reconstruction."""
        if recon is self.recon:
            return self
        if type(recon) is not type(self.recon):
            return Samples(self.data, self.device, self.label_of, self.memory, recon, self.phase)
        other = copy.copy(self)  # with other settings, it has the same aim
        other.recon = recon
        return other

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
            for found, labels, repeats in read:
                batch = self._transformed(found, labels)
                yield batch if repeats is None else _select(batch, repeats.to(self.device))

    def _read(self, indices: torch.Tensor) -> tuple[Acquired, torch.Tensor | None, torch.Tensor | None]:
        """The samples with these indices, each once, their labels, and how they are repeated."""
        once, repeats = indices.unique_consecutive(return_inverse=True)
        samples = [self.data[index] for index in once.tolist()]
        labels = None if self.label_of is None else stacked(self.label_of(sample) for sample in samples)
        return acquired(samples, self.recon), labels, repeats if len(once) < len(indices) else None

    def _transformed(self, found: Acquired, labels: torch.Tensor | None) -> Batch:
        images, clean, geometry = found.images.to(self.device), found.clean.to(self.device), self.data.geometry
        maps = None if found.maps is None else found.maps.to(self.device)
        reference = geometry.judged(self.recon.reference(clean, maps))
        return Batch(
            spectrum(images, space_axes(images.ndim - 2)),
            reference if self.phase else reference.abs(),
            geometry,
            None if labels is None else geometry.judged(labels.to(self.device)),
            maps,
        )

    def _read_all(self) -> Batch:
        first = self._transformed(*self._read(torch.tensor([0]))[:2])
        whole = Batch(
            _room(first.spectra, len(self)),
            _room(first.targets, len(self)),
            first.geometry,
            None if first.labels is None else _room(first.labels, len(self)),
        )
        maps: list[torch.Tensor | None] = []
        for indices in torch.arange(len(self)).split(self._piece_length):
            found, labels, _ = self._read(indices)
            piece = self._transformed(found, labels)
            whole.spectra[indices], whole.targets[indices] = piece.spectra, piece.targets
            if whole.labels is not None and piece.labels is not None:
                whole.labels[indices] = piece.labels
            maps += _each(piece.maps, len(indices))
        return replace(whole, maps=_once_or_all(maps))

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
    maps = batch.maps
    return Batch(
        batch.spectra.index_select(0, indices),
        batch.targets.index_select(0, indices),
        batch.geometry,
        None if batch.labels is None else batch.labels.index_select(0, indices),
        maps if maps is None or len(maps) == 1 else maps.index_select(0, indices),
    )


def _each(maps: Maps | None, count: int) -> list[torch.Tensor | None]:
    """The maps of each sample of a piece."""
    return [None] * count if maps is None else [maps] * count if len(maps) == 1 else list(maps.split(1))


def _once_or_all(maps: Sequence[torch.Tensor | None]) -> Maps | None:
    """The maps of all samples, or, if they are the same, once."""
    known = [each for each in maps if each is not None]
    if not known:
        return None
    if all(each is known[0] or torch.equal(each, known[0]) for each in known):
        return known[0]
    return torch.cat(known)


def _room(first: torch.Tensor, count: int) -> torch.Tensor:
    return first.new_empty(count, *first.shape[1:])
