"""Batches of images, drawn without replacement: from memory, or prefetched from disk by a thread."""

import copy
import hashlib
import math
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

import torch

from promask.data.axes import CONTRAST
from promask.data.hybrid import HybridSet
from promask.data.preprocess import Collated, collate, move, stack_arrays
from promask.data.sensitivities import calibrate
from promask.losses.base import Loss, needs_phase
from promask.operators.fourier import combined_magnitude
from promask.problem.parallel import ALONE, Group
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED
from promask.sampling.pattern import Pattern
from promask.types import Batch, Cut, Label, Sample, SampleSet, Units

Item = TypeVar("Item")

POLL_SECONDS = 0.1
"""Seconds after which a thread that cannot hand over looks whether anyone still wants what it made."""


def prefetch(
    items: Iterator[Item], depth: int, waited: Callable[[float], None] = lambda seconds: None
) -> Generator[Item, None, None]:
    """The same items, up to `depth` of them made in advance; `waited` is told how long each was waited for.

    >>> list(prefetch(iter([1, 2, 3]), depth=2))
    [1, 2, 3]

    What goes wrong in the thread is raised here. The thread ends with the items, or when the result is closed.
    """
    # An item, what went wrong, or the end.
    made: queue.Queue[tuple[Item] | BaseException | None] = queue.Queue(depth)
    closed = threading.Event()

    def hand_over(what: tuple[Item] | BaseException | None) -> None:
        handed_over = False
        while not (handed_over or closed.is_set()):
            with suppress(queue.Full):
                made.put(what, timeout=POLL_SECONDS)
                handed_over = True

    def make() -> None:
        try:
            for item in items:
                hand_over((item,))
                if closed.is_set():
                    return
            hand_over(None)
        except BaseException as error:
            hand_over(error)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    try:
        while True:
            began = time.perf_counter()
            what = made.get()
            waited(time.perf_counter() - began)
            if isinstance(what, BaseException):
                raise what
            if what is None:
                return
            yield what[0]
    finally:
        closed.set()
        if thread is not threading.current_thread():  # which may be the one that collects garbage
            thread.join()


PIECE = 2**19
"""Complex numbers that are worked on at a time: few enough to stay in the cache of a core."""
MEMORY = 4 * 2**30
"""Bytes of spectra and targets that are kept; a larger data set is read again for every batch."""
PREFETCHED = 4
"""Micro-batches that are read while one is worked on."""
PARTS = 4
"""Parts of the patients: what is measured in data, for each of them in the other three."""
ENERGY_SAMPLES = 2000
"""The mean energy is that of all samples, or of this many of them at equal distances."""


LabelOf = Callable[[Sample], Label]
"""The label of a sample as a task wants it."""


@dataclass(frozen=True)
class MicroBatch:
    """A part of a batch: for how many images masks are drawn, and those of them that fall to this process."""

    count: int
    rows: slice
    batch: Batch | None
    """The images in these rows; None if there are none."""


BatchStream = Generator[Iterator[MicroBatch], None, None]


class SpectraSet:
    """A data set made ready for the loop: spectra in FFT order and targets, on one device.

    Targets are magnitudes, or, with `phase`, complex numbers. Volumes may be taken apart `along` an axis of space:
    the samples are then their slices. Of a group of processes, each keeps all samples that fit into memory, and
    works on its share of them.
    """

    def __init__(
        self,
        data: SampleSet,
        device: torch.device,
        label_of: LabelOf | None = None,
        memory: int | None = None,
        recon: Reconstruction = ZERO_FILLED,
        phase: bool = False,
        group: Group = ALONE,
        along: int | None = None,
    ) -> None:
        self.memory, self.group, self.along = MEMORY if memory is None else memory, group, along
        self.device, self.label_of, self.recon, self.phase = device, label_of, recon, phase
        self.source = calibrate(data, recon)
        """As it was given: slices, or whole volumes."""
        self.seconds_waited = 0.0
        """Spent in the loop on waiting for the disk."""
        first = self.source[0]
        self.like = first.image.real.new_empty(0, device=device)
        """An empty array of the targets' type, on the device."""
        self.energies: dict[Pattern, Units] = {}
        numbers = len(data) * math.prod(data.shape)
        needed = 2 * len(data) * self._numbers_of(data) + numbers  # complex numbers and their targets
        same_maps = not recon.uses_maps or first.maps is self.source[len(data) - 1].maps
        needed += 0 if same_maps and along is None else 2 * numbers // (len(data) if same_maps else 1)
        fits = needed * self.like.element_size() <= self.memory
        self.data: SampleSet = self.source if along is None else HybridSet(self.source, along, on_disk=not fits)
        """One sample after the other: slices, or whole volumes."""
        self.map_rows = (len(self.data) // len(data)) if same_maps else len(self.data)
        """After so many samples, their sensitivities are those of the first ones again."""
        self.kept = self._read_all() if fits else None
        self.parts: torch.Tensor | None = None
        """To which part of the patients each sample belongs, if there are priors that have not seen it."""
        if getattr(recon, "unseen", None) is not None:
            self.parts = torch.tensor(patient_parts(self.data.groups))

    @staticmethod
    def for_loss(
        data: SampleSet,
        device: torch.device,
        task: Loss,
        recon: Reconstruction,
        group: Group = ALONE,
        along: int | None = None,
    ) -> "SpectraSet":
        """With what a task needs to know of them."""
        label_of = task.label if task.needs_labels else None
        return SpectraSet(data, device, label_of, recon=recon, phase=needs_phase(task), group=group, along=along)

    def with_recon(self, recon: Reconstruction) -> "SpectraSet":
        """The same samples for another reconstruction."""
        if recon is self.recon:
            return self
        if type(recon) is not type(self.recon):
            settings = (self.device, self.label_of, self.memory, recon, self.phase, self.group, self.along)
            return SpectraSet(self.source, *settings)
        other = copy.copy(self)  # with other settings, it has the same aim
        other.recon = recon
        return other

    def alone(self) -> "SpectraSet":
        """The same samples for a process that works on all of them by itself."""
        other = copy.copy(self)
        other.group = ALONE
        return other

    def __len__(self) -> int:
        return len(self.data)

    def pieces(self, indices: torch.Tensor) -> Iterator[Batch]:
        """The samples with these indices, a few at a time."""
        return self._stream(iter(indices.split(self._piece_length)))

    def shared_pieces(self, indices: torch.Tensor) -> Iterator[Batch]:
        """Those of these pieces that fall to this process."""
        pieces = indices.split(self._piece_length)
        return self._stream(iter(pieces[self.group.share(len(pieces))]))

    def some(self, most: int) -> torch.Tensor:
        """The indices of all samples, or of so many of them at equal distances."""
        count = min(most, len(self))
        return torch.arange(count) * len(self) // count

    def batches(
        self,
        size: int,
        repeats: int,
        generator: torch.Generator,
        skipped: int = 0,
        chances: torch.Tensor | None = None,
    ) -> BatchStream:
        """For ever: the pieces of a random batch, in which each sample comes `repeats` times.

        The first ones can be skipped: what follows is the same. Slices of volumes may come with other `chances`,
        one for each position.
        """
        drawn = index_batches(len(self), size, generator)
        if chances is not None:
            drawn = draw_positions(len(self) // len(chances), size, chances, generator)
        orders = islice(drawn, skipped, None)
        mine = self.group.share(size * repeats)
        plan = [
            (len(piece), _overlap(piece, mine))
            for piece in map(range(size * repeats).__getitem__, _slices(size * repeats, self._piece_length))
        ]

        def wanted() -> Iterator[torch.Tensor]:
            for order in orders:
                pieces = order.repeat_interleave(repeats).split(self._piece_length)
                yield from (piece[rows] for piece, (_, rows) in zip(pieces, plan, strict=True) if _any(rows))

        with closing(self._stream(wanted())) as stream:
            while True:
                yield (MicroBatch(count, rows, next(stream) if _any(rows) else None) for count, rows in plan)

    def mean_energy(self, pattern: Pattern) -> Units:
        """The mean over the data of the energy of each unit, in FFT order."""
        if pattern not in self.energies:
            total = torch.zeros(pattern.unit_shape, dtype=torch.float64, device=self.device)
            chosen = self.some(ENERGY_SAMPLES)
            for piece in self.shared_pieces(chosen):
                total += pattern.energies(piece.spectra).sum(0)
            self.group.sum(total)
            self.energies[pattern] = (total / len(chosen)).to(self.like.dtype)
        return self.energies[pattern]

    @property
    def _piece_length(self) -> int:
        return max(1, PIECE // self._numbers_of(self.data))

    @staticmethod
    def _numbers_of(data: SampleSet) -> int:
        """The complex numbers of the k-space of a sample."""
        channels, *space = data.shape
        return channels * math.prod(data.geometry.kspace_shape(space))

    def _stream(self, pieces: Iterator[torch.Tensor]) -> Generator[Batch, None, None]:
        """The samples of one piece after the other; from disk, the images are read in advance."""
        if self.kept is not None:
            for piece in pieces:
                yield self._numbered(_select(self.kept, piece.to(self.device)), piece)
            return
        reading = ((piece, *self._read(piece)) for piece in pieces)
        with closing(prefetch(reading, PREFETCHED, self._note_waiting)) as read:
            for piece, found, labels, repeats in read:
                batch = self._transformed(found, labels)
                batch = batch if repeats is None else _select(batch, repeats.to(self.device))
                yield self._numbered(batch, piece)

    def _numbered(self, batch: Batch, indices: torch.Tensor) -> Batch:
        return replace(batch, indices=indices, parts=None if self.parts is None else self.parts[indices])

    def _read(self, indices: torch.Tensor) -> tuple[Collated, torch.Tensor | None, torch.Tensor | None]:
        """The samples with these indices, each once, their labels, and how they are repeated."""
        once, repeats = indices.unique_consecutive(return_inverse=True)
        samples = [self.data[index] for index in once.tolist()]
        labels = None if self.label_of is None else stack_arrays(self.label_of(sample) for sample in samples)
        return collate(samples, self.recon.uses_maps), labels, repeats if len(once) < len(indices) else None

    def _transformed(self, found: Collated, labels: torch.Tensor | None) -> Batch:
        found, geometry = move(found, self.device), self.data.geometry
        clean, maps, cut, spectra = found.clean, found.maps, found.cut, found.spectra(geometry)
        if geometry.indexes:  # series count alike, whatever their scale is
            each = 2 if geometry.indexed == CONTRAST else 1  # and so do contrasts
            magnitudes = combined_magnitude(clean, 1)
            scales = magnitudes.flatten(each).amax(each) if cut is None else cut.scales
            cut = None if cut is None else replace(cut, scales=torch.ones_like(scales))
            scales = scales.reshape(len(clean), 1, -1, *[1] * (clean.ndim - 3))
            spectra, clean = spectra / scales, clean / scales
        reference = geometry.crop(self.recon.reference(clean, maps))
        return Batch(
            spectra,
            reference if self.phase else reference.abs(),
            geometry,
            None if labels is None else geometry.crop(labels.to(self.device)),
            maps,
            cut=cut,
        )

    def _read_all(self) -> Batch:
        first = self._transformed(*self._read(torch.tensor([0]))[:2])
        whole = Batch(
            _room(first.spectra, len(self)),
            _room(first.targets, len(self)),
            first.geometry,
            None if first.labels is None else _room(first.labels, len(self)),
        )
        maps: list[torch.Tensor] = []
        cuts: list[Cut] = []
        for indices in torch.arange(len(self)).split(self._piece_length):
            found, labels, _ = self._read(indices)
            piece = self._transformed(found, labels)
            whole.spectra[indices], whole.targets[indices] = piece.spectra, piece.targets
            if whole.labels is not None and piece.labels is not None:
                whole.labels[indices] = piece.labels
            cuts += [] if piece.cut is None else [piece.cut]
            if piece.maps is not None and len(maps) < self.map_rows:
                maps += list(piece.maps.expand(len(indices), *piece.maps.shape[1:]))
        whole_cut = None
        if cuts:
            places = (torch.cat([getattr(cut, name) for cut in cuts]) for name in ("positions", "scales"))
            whole_cut = Cut(cuts[0].axis, *places)
        return replace(whole, maps=torch.stack(maps[: self.map_rows]) if maps else None, cut=whole_cut)

    def _note_waiting(self, seconds: float) -> None:
        self.seconds_waited += seconds


def patient_parts(groups: Sequence[str]) -> list[int]:
    """Parts of the patients, by a hash of their names: the same for all slices of a patient, wherever they are.

    >>> patient_parts(["Ann", "Ann", "Bob", "Eve"])
    [2, 2, 1, 0]

    Args:
        groups: The patient of each sample.

    Returns:
        Numbers from 0 to 3.
    """
    part_of = {name: hashlib.sha256(name.encode()).digest()[-1] % PARTS for name in set(groups)}
    return [part_of[name] for name in groups]


def index_batches(count: int, batch_size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Random batches of indices for ever: no index comes again before a shuffle has used up all the others.

    A remainder that is too small for a batch is left out of its round. A set that is smaller than a batch fills it
    by coming several times.
    """
    while True:
        shuffles = [torch.randperm(count, generator=generator) for _ in range(math.ceil(batch_size / count))]
        order = torch.cat(shuffles)
        yield from order.split(batch_size)[: len(order) // batch_size]


def draw_positions(
    volumes: int, batch_size: int, chances: torch.Tensor, generator: torch.Generator
) -> Iterator[torch.Tensor]:
    """Random batches of slices for ever: volumes in turn, and positions in them at random with these chances."""
    for order in index_batches(volumes, batch_size, generator):
        positions = torch.multinomial(chances, batch_size, replacement=True, generator=generator)
        yield order * len(chances) + positions


def _slices(count: int, length: int) -> list[slice]:
    return [slice(start, min(start + length, count)) for start in range(0, count, length)]


def _overlap(piece: range, mine: slice) -> slice:
    """Which rows of a piece lie in a share of the whole; an empty slice if none does.

    >>> _overlap(range(8, 16), slice(10, 20)), _overlap(range(8, 16), slice(0, 4))
    (slice(2, 8, None), slice(0, 0, None))
    """
    first, last = max(piece.start, mine.start), min(piece.stop, mine.stop)
    return slice(first - piece.start, last - piece.start) if first < last else slice(0, 0)


def _any(rows: slice) -> bool:
    return bool(rows.start < rows.stop)


def _select(batch: Batch, indices: torch.Tensor) -> Batch:
    maps = batch.maps
    return Batch(
        batch.spectra.index_select(0, indices),
        batch.targets.index_select(0, indices),
        batch.geometry,
        None if batch.labels is None else batch.labels.index_select(0, indices),
        maps if maps is None or len(maps) == 1 else maps.index_select(0, indices % len(maps)),
        cut=None if batch.cut is None else batch.cut.part(indices),
    )


def _room(first: torch.Tensor, count: int) -> torch.Tensor:
    return first.new_empty(count, *first.shape[1:])
