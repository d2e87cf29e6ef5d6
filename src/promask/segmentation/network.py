"""The U-Net with what it needs to know of its images, and the file that keeps it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from promask.data.atomic import check_writable, replace_file
from promask.errors import InputError, one_line
from promask.segmentation.classes import Classes
from promask.types import Images, Logits

FORMAT = 1
"""The version of the file's description."""
KEY = "promask.segmentation"
"""The name of the description among the file's metadata."""
WIDTHS = (16, 32, 64, 128, 256)
RESIDUAL_UNITS = 2
NORMALISATION = "zscore"
"""Each channel of an image less its mean, over its standard deviation."""
ENDING = ".safetensors"


class Scores(TypedDict):
    """Mean Dice and intersection over union; None where there is nothing to find."""

    dice: float | None
    iou: float | None


class ClassScores(Scores):
    """The means over all classes, and the scores of each class."""

    classes: dict[str, Scores]


class TrainingRecord(TypedDict, total=False):
    """How a network was trained, as it stands in its file; empty for one that was not trained by promask."""

    data: str
    shape: list[int]
    reading: dict[str, Any]
    split: dict[str, dict[str, int]]
    preset: str | None
    seed: int
    epochs: int
    best_epoch: int
    history: dict[str, list[float]]
    test: ClassScores
    seconds: float
    versions: dict[str, str]


@dataclass(frozen=True)
class Architecture:
    """What determines the shape of the network.

    Args:
        channels: Contrasts of the images.
        classes: What it tells apart.
        dimensions: Axes of the images: 2 or 3.
        widths: Channels inside the U-Net; the image is halved between two of them.
        residual_units: Convolutions at each width.
    """

    channels: int
    classes: Classes
    dimensions: int = 2
    widths: tuple[int, ...] = WIDTHS
    residual_units: int = RESIDUAL_UNITS


class SegmentationNetwork(nn.Module):
    """MONAI's U-Net for magnitude images of any size and scale.

    Args:
        architecture: Its shape.
        seed: Of its initial weights.
        record: How it was trained.
    """

    def __init__(self, architecture: Architecture, seed: int = 0, record: TrainingRecord | None = None) -> None:
        super().__init__()
        from monai.networks.nets.unet import UNet  # takes seconds

        self.architecture, self.record = architecture, (record or TrainingRecord()).copy()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.unet = UNet(
                architecture.dimensions,
                architecture.channels,
                architecture.classes.outputs,
                architecture.widths,
                strides=(2,) * (len(architecture.widths) - 1),
                num_res_units=architecture.residual_units,
            )

    @property
    def classes(self) -> Classes:
        """What it tells apart."""
        return self.architecture.classes

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.parameters()).device

    def save(self, path: str | Path) -> Path:
        """Write weights, architecture and record to a .safetensors file, and return its path."""
        description = {
            "format": FORMAT,
            "architecture": asdict(self.architecture),
            "normalisation": NORMALISATION,
            "record": self.record,
        }
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.unet.state_dict().items()}
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as temporary:
            save_file(tensors, temporary, {KEY: json.dumps(description, allow_nan=False)})
        return path

    @staticmethod
    def load(path: str | Path) -> "SegmentationNetwork":
        """Read a file that `save` wrote; nothing in it is executed."""
        path = Path(path)
        if not path.is_file():
            raise InputError(f"{path} is not a file: train a network with promask segment train.")
        metadata, tensors = _read(path)
        if KEY not in metadata:
            raise InputError(
                f"{path} holds weights, but no network of promask: give one of your own to "
                f"promask.losses.Segmentation in Python."
            )
        return _rebuild(metadata[KEY], tensors, path)

    def forward(self, images: Images) -> Logits:
        """From magnitude images, (batch, channel, *space), to one value for each output and pixel."""
        channels, dimensions = self.architecture.channels, self.architecture.dimensions
        if (images.shape[1], images.ndim - 2) != (channels, dimensions):
            raise InputError(
                f"The network takes images of {channels} channels and {dimensions} axes, but these have "
                f"{images.shape[1]} and {images.ndim - 2}."
            )
        multiple = 2 ** (len(self.architecture.widths) - 1)
        inside: tuple[Any, ...] = (..., *(slice(n) for n in images.shape[2:]))
        logits: Tensor = self.unet(pad_to_multiple(normalise(images), multiple))
        return logits[inside]


def is_network(path: Path) -> bool:
    """Whether a .safetensors file holds a network of promask, and not weights alone."""
    return KEY in _read(path)[0]


def _read(path: Path) -> tuple[Mapping[str, str], Mapping[str, Tensor]]:
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
            return file.metadata() or {}, tensors
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged or not a .safetensors file: {one_line(error)}.") from error


def _rebuild(description: str, tensors: Mapping[str, Tensor], path: Path) -> SegmentationNetwork:
    try:
        content = json.loads(description)
        readable = (content["format"], content["normalisation"]) == (FORMAT, NORMALISATION)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"The description of the network in {path} is damaged.") from error
    if not readable:
        raise InputError(f"{path} was written by another version of promask, which this one does not read.")
    try:
        about = content["architecture"]
        classes = about["classes"]
        architecture = Architecture(
            channels=about["channels"],
            classes=Classes(tuple(classes["names"]), tuple(classes["values"]), classes["overlapping"]),
            dimensions=about["dimensions"],
            widths=tuple(about["widths"]),
            residual_units=about["residual_units"],
        )
        _check_fits(architecture, tensors)
        network = SegmentationNetwork(architecture, record=content["record"])
        network.unet.load_state_dict(tensors)
    except Exception as error:  # MONAI raises nearly everything where an architecture makes no sense
        raise InputError(f"The weights and the description of the network in {path} do not match.") from error
    network.eval()
    return network


def _check_fits(architecture: Architecture, tensors: Mapping[str, Tensor]) -> None:
    """See that weights are those of an architecture before one of any size is built."""
    numbers = (architecture.channels, architecture.dimensions, *architecture.widths, architecture.residual_units)
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError(f"These are not whole numbers: {numbers}")
    # Each width and each residual unit has weights of its own; there cannot be more of them than of those.
    if max(len(architecture.widths), architecture.residual_units, architecture.classes.outputs) > sum(
        tensor.numel() for tensor in tensors.values()
    ):
        raise ValueError("There are too few weights")
    if len(architecture.widths) * (1 + architecture.residual_units) > len(tensors):
        raise ValueError("There are too few tensors")
    with torch.device("meta"):  # shapes without numbers
        wanted = SegmentationNetwork(architecture).unet.state_dict()
    if {name: tensor.shape for name, tensor in wanted.items()} != {name: t.shape for name, t in tensors.items()}:
        raise ValueError("The shapes differ")


def check_network_file(path: Path) -> None:
    """Refuse a place where no network can be written, before any work is done."""
    if path.suffix != ENDING:
        raise InputError(f"A network is written to a file that ends with {ENDING}, but {path} does not.")
    if path.is_dir():
        raise InputError(f"{path} is a folder: choose another name for the network.")
    check_writable(path.parent)


def normalise(images: Images) -> Images:
    """Each channel of an image less its mean, over its standard deviation; nothing where it has one value."""
    space = tuple(range(2, images.ndim))
    deviation, mean = torch.std_mean(images, space, correction=0, keepdim=True)
    # Where a channel has one value, the rounding error of the mean must not become an image, nor a gradient.
    varies = deviation > torch.finfo(images.dtype).eps * mean.abs()
    return (images - mean) / deviation.where(varies, torch.inf)


def pad_to_multiple(images: Float[Tensor, "..."], multiple: int) -> Float[Tensor, "..."]:
    """Images whose last values are repeated along each axis, up to a multiple, at least the second one."""
    widths: list[int] = []
    for n in reversed(images.shape[2:]):
        widths += [0, max(2 * multiple - n, -n % multiple)]
    return nn.functional.pad(images, widths, mode="replicate") if any(widths) else images
