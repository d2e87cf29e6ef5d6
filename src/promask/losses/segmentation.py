"""The task of the paper's section 4.4: a segmentation by a network that was trained on fully sampled images."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor, nn

from promask.errors import InputError
from promask.losses.base import checked
from promask.operators.fourier import magnitude
from promask.segmentation.classes import Classes
from promask.segmentation.network import SegmentationNetwork
from promask.segmentation.overlap import dice_cross_entropy
from promask.types import AnyImages, Batch, Label, Logits, Sample, SampleSet, Scalar, Targets

SEGMENTATION = "segmentation"
"""The name of this task among the losses."""
OutputLoss = Callable[[Tensor, Tensor], Tensor]
"""(outputs of the network, labels of shape (batch, 1, *space)) -> a scalar, a mean over the images."""


class Segmentation:
    """The loss of a network's segmentation of magnitude images, L(net(|image|), label).

    The network is any module that takes (batch, channel, *space), in the scale of the data; the loss takes its
    outputs and labels, (batch, 1, *space), as MONAI's losses do. A network that promask trained knows its classes
    and needs no loss; another one without a loss is taken to have the outputs of `classes`: one for the background
    and one for each class, or one for each overlapping region.
    """

    name = SEGMENTATION
    needs_labels = True

    def __init__(self, network: nn.Module, loss: OutputLoss | None = None, classes: Classes | None = None) -> None:
        self.network, self.loss = network, loss
        self.classes = classes or (network.classes if isinstance(network, SegmentationNetwork) else None)
        if loss is None and self.classes is None:
            raise InputError("A network without a loss needs classes: give Segmentation one of them.")

    def check(self, data: SampleSet, seen: int | None = None) -> None:
        """Refuse data that do not fit the network, or have no labels.

        `seen` are the channels of its images, if they are not those of the data: coils may be combined.
        """
        if isinstance(self.network, SegmentationNetwork):
            (channels, *space), wanted = data.shape, self.network.architecture
            channels = channels if seen is None else seen
            if wanted.channels != channels:
                raise InputError(
                    f"The network is for images with {_channels(wanted.channels)}, but those of {data.name} have "
                    f"{_channels(channels)}: train one on such images with promask segment train."
                )
            if wanted.dimensions != len(space):
                raise InputError(
                    f"The network is for images with {wanted.dimensions} axes, but those of {data.name} have "
                    f"{len(space)}: train one on such images with promask segment train."
                )
        self.label(data[0])

    def label(self, sample: Sample) -> Label:
        """The label of a sample, in which classes that were not annotated are told apart from the background."""
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
            return checked(self.loss(outputs, labels.unsqueeze(1)), self.name).to(images.device)
        assert self.classes is not None
        return checked(dice_cross_entropy(outputs, labels, self.classes), self.name).to(images.device)

    def outputs(self, images: Targets) -> Logits:
        """What the network makes of magnitude images, wherever it is."""
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


def _channels(number: int) -> str:
    return f"{number} channel{'s' * (number > 1)}"


def segmentation_by(network: str | Path | nn.Module | Segmentation) -> Segmentation:
    """The task of a network: a file that promask wrote, a network that knows its classes, or the task itself."""
    if isinstance(network, Segmentation):
        return network
    return Segmentation(SegmentationNetwork.load(network) if isinstance(network, str | Path) else network)


@contextmanager
def frozen(network: nn.Module) -> Iterator[None]:
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
