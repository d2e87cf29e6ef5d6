"""Batches of a data set, drawn without replacement."""

from collections.abc import Iterator

import torch

from promask.fourier import space_axes, spectrum
from promask.types import Batch, SampleSet


class Samples:
    """A data set made ready for the loop: spectra in FFT order, magnitude targets and labels, on one device."""

    def __init__(self, data: SampleSet, device: torch.device) -> None:
        samples = [data[index] for index in range(len(data))]
        images = torch.stack([sample.image for sample in samples]).to(device)
        self.space = tuple(images.shape[2:])
        self.spectra = spectrum(images, space_axes(len(self.space)))
        self.targets = images.abs()
        labels = [sample.label for sample in samples if sample.label is not None]
        self.labels = torch.stack(labels).to(device) if len(labels) == len(samples) else None

    def __len__(self) -> int:
        return len(self.spectra)

    def batch(self, indices: torch.Tensor) -> Batch:
        """The samples with these indices."""
        return Batch(
            spectra=self.spectra[indices],
            targets=self.targets[indices],
            labels=None if self.labels is None else self.labels[indices],
        )


def index_batches(count: int, batch_size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Random batches of min(batch_size, count) indices for ever: no index twice before the next shuffle.

    A remainder that is too small for a batch is left out of its round.
    """
    batch_size = min(batch_size, count)
    while True:
        order = torch.randperm(count, generator=generator)
        yield from order.split(batch_size)[: count // batch_size]
