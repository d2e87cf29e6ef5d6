"""Batches of a data set, drawn without replacement."""

from collections.abc import Iterator

import torch

from promask.fourier import space_axes, spectrum
from promask.types import Batch, SampleSet


class Samples:
    """A data set made ready for the loop: spectra in FFT order and magnitude targets, on one device."""

    def __init__(self, data: SampleSet, device: torch.device) -> None:
        images = torch.stack([data[index].image for index in range(len(data))]).to(device)
        self.space = tuple(images.shape[2:])
        self.spectra = spectrum(images, space_axes(len(self.space)))
        self.targets = images.abs()

    def __len__(self) -> int:
        return len(self.spectra)

    def batch(self, indices: torch.Tensor) -> Batch:
        """The samples with these indices."""
        return Batch(spectra=self.spectra[indices], targets=self.targets[indices])


def index_batches(count: int, batch_size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Random batches of min(batch_size, count) indices for ever: no index twice before the next shuffle.

    A remainder that is too small for a batch is left out of its round.
    """
    batch_size = min(batch_size, count)
    while True:
        order = torch.randperm(count, generator=generator)
        yield from order.split(batch_size)[: count // batch_size]
