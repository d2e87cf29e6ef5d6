"""The loss of the paper's section 4.4: a segmentation by a network that was trained on fully sampled images."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from promask.data.device import CPU, find_device
from promask.errors import InputError, count
from promask.losses.base import check_scalar
from promask.operators.fourier import magnitude
from promask.segmentation.classes import Classes, dice_cross_entropy
from promask.segmentation.network import SegmentationNetwork
from promask.types import AnyImages, Batch, Label, Logits, Sample, SampleSet, Scalar, Targets

SEGMENTATION = "segmentation"
"""The name of this loss among the others."""
OutputLoss = Callable[[Tensor, Tensor], Tensor]
"""(outputs of the network, labels of shape (batch, 1, *space)) -> a scalar, a mean over the images."""


class Segmentation:
    """The loss of a network's segmentation of magnitude images, L(net(|image|), label).

    Args:
        network: Any module that takes magnitude images, (batch, channel, *space), in the scale of the data.
        loss: A function of its outputs and of labels, (batch, 1, *space), as MONAI's losses are. None for Dice
            plus cross-entropy.
        classes: What the outputs mean, if there is no loss: one for the background and one for each class, or one
            for each overlapping region. A network that promask trained knows its classes.
    """

    name = SEGMENTATION
    needs_labels = True

    def __init__(self, network: nn.Module, loss: OutputLoss | None = None, classes: Classes | None = None) -> None:
        self.network, self.loss = network, loss
        self.classes = classes or (network.classes if isinstance(network, SegmentationNetwork) else None)
        if loss is None and self.classes is None:
            raise InputError("A network without a loss needs classes: give Segmentation one of them.")

    def check(self, data: SampleSet, channels: int | None = None) -> None:
        """Refuse data that do not fit the network, or have no labels.

        Args:
            data: What is to be segmented.
            channels: How many channels the network gets, if not as many as the data have: coils may be combined.

        Raises:
            InputError: If the number of channels or axes does not fit, or there is no label.
        """
        if isinstance(self.network, SegmentationNetwork):
            wanted = self.network.architecture
            channels = data.shape[0] if channels is None else channels
            needed = count(wanted.channels, "channel"), f"{wanted.dimensions} axes"
            found = count(channels, "channel"), f"{len(data.shape) - 1} axes"
            for needs, has in zip(needed, found, strict=True):
                if needs != has:
                    raise InputError(
                        f"The network is for images with {needs}, but those of {data.name} have {has}: train one "
                        f"on such images with promask segment train."
                    )
        self.label(data[0])

    def label(self, sample: Sample) -> Label:
        """The label of a sample, with classes that were not annotated marked in the background."""
        if self.loss is None and self.classes is not None:
            return self.classes.label(sample)
        if sample.label is None:
            raise InputError(f"{sample.name} has no label: a segmentation needs labels of all samples.")
        return sample.label

    def __call__(self, images: AnyImages, batch: Batch) -> Scalar:
        """The loss of the reconstructed images of a batch."""
        assert batch.labels is not None
        outputs = self.outputs(magnitude(images))
        labels = batch.labels.to(outputs.device)
        if self.loss is not None:
            return check_scalar(self.loss(outputs, labels.unsqueeze(1)), self.name).to(images.device)
        assert self.classes is not None
        return check_scalar(dice_cross_entropy(outputs, labels, self.classes), self.name).to(images.device)

    def outputs(self, images: Targets) -> Logits:
        """Apply the network to magnitude images, on its own device.

        Args:
            images: (batch, channel, *space).

        Returns:
            The outputs, (batch, output, *space), on the device of the network.

        Raises:
            InputError: If the outputs do not fit the classes.
        """
        parameter = next(self.network.parameters(), images)
        outputs: Tensor = self.network(images.to(parameter.device))
        if self.classes is not None:
            wanted = (len(images), self.classes.outputs, *images.shape[2:])
            if tuple(outputs.shape) != wanted:
                raise InputError(
                    f"For {len(self.classes)} classes, the outputs of the network must have shape {list(wanted)}, "
                    f"but have {list(outputs.shape)}."
                )
        return outputs


def make_segmentation(
    network: str | Path | nn.Module | Segmentation, device: str | torch.device = CPU
) -> Segmentation:
    """The loss of a network: a file that promask wrote, a module that knows its classes, or the loss itself.

    A network from a file computes on the device, others where they are.
    """
    if isinstance(network, Segmentation):
        return network
    if isinstance(network, str | Path):
        return Segmentation(SegmentationNetwork.load(network).to(find_device(device)))
    return Segmentation(network)


@contextmanager
def freeze(network: nn.Module) -> Iterator[None]:
    """The network in evaluation mode, without gradients to its weights; afterwards it is as it was."""
    modes = [(module, module.training) for module in network.modules()]
    wanted = [(parameter, parameter.requires_grad) for parameter in network.parameters()]
    try:
        network.eval().requires_grad_(False)
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter, requires_grad in wanted:
            parameter.requires_grad_(requires_grad)
