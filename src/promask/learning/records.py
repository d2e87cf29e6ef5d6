"""What a run says of itself: typed records, and their form in run.json."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from promask.data.description import DataDescription
from promask.types import SampleSet

METRICS = ("psnr", "ssim", "nmse", "dice", "iou")
SERIES_METRICS = ("psnr_moving", "nmse_differences", "psnr_worst", "t2_error")
"""Further ones of series of frames or contrasts."""


@dataclass(frozen=True)
class DataRecord:
    """The data that a mask was learned from, or measured on."""

    source: str = ""
    """As it was given: a name, a file, a folder or a glob, or several, joined as in a shell."""
    part: str = "all"
    images: int = 0
    """How many there are; of those that were learned from, with those for validation."""
    validation: int = 0
    groups: int = 1
    """How many subjects they are of."""
    shape: tuple[int, ...] = ()
    """(channel, *space)."""
    read: DataDescription = field(default_factory=DataDescription)
    """What was understood of the whole data set."""

    @staticmethod
    def of(samples: SampleSet, part: str, read: DataDescription, validation: int = 0) -> "DataRecord":
        """What is to be known of the samples of a part."""
        subjects = len(set(samples.groups))
        return DataRecord(samples.name, part, len(samples), validation, subjects, samples.shape, read)

    def summary(self) -> dict[str, Any]:
        """Plain values, as commands print them with `--json`."""
        channels, *space = self.shape
        return {
            "source": self.source,
            "part": self.part,
            "images": self.images,
            "subjects": self.groups,
            "channels": channels,
            "shape": space,
            "read": self.read.to_json(),
        }


@dataclass(frozen=True)
class ReconstructionRecord:
    """The reconstruction that a mask was learned for."""

    name: str = "zero-filled"
    settings: Mapping[str, Any] = field(default_factory=dict)
    finetuned: bool = False
    """Whether its network was trained on with the mask."""
    own: bool = False
    """Whether it is an object that promask cannot make again: a network, or one of a user's own."""


@dataclass(frozen=True)
class NetworkRecord:
    """The segmentation network that a mask was learned for."""

    file: str | None = None
    classes: tuple[str, ...] | None = None
    finetuned: bool = False


@dataclass(frozen=True)
class CheckpointRecord:
    """How many checkpoints were written, what they cost, and which members went on from one."""

    written: int = 0
    seconds: float = 0.0
    resumed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Quality:
    """Means over images, volumes or series; None where a metric is not defined."""

    acceleration: float
    images: int
    part: str
    psnr: float | None = None
    ssim: float | None = None
    nmse: float | None = None
    psnr_moving: float | None = None
    """Of series of frames: within what moves."""
    nmse_differences: float | None = None
    """Of series: that of frame-to-frame differences."""
    psnr_over_time: Sequence[float | None] | None = None
    """Of series: that of every frame."""
    psnr_worst: float | None = None
    """Of series of contrasts: that of the worst one."""
    psnr_of_contrasts: Sequence[float | None] | None = None
    """Of series of contrasts: that of each."""
    t2_error: float | None = None
    """Of series of echoes: the error of T2 in ms."""
    frozen: Mapping[str, float | None] | None = None
    """Of series: the metrics of the fully sampled temporal mean, which shows no motion."""
    dice: float | None = None
    dice_full: float | None = None
    dice_kept: float | None = None
    iou: float | None = None
    iou_full: float | None = None
    iou_kept: float | None = None
    classes: Mapping[str, Mapping[str, float | None]] | None = None
    """Of a segmentation: Dice and IoU of each class, with the mask and fully sampled."""
    convention: str | None = None
    recon: str | None = None
    volumes: int | None = None
    data: Mapping[str, Any] | None = None
    """The images that were measured, as `DataRecord.summary` tells them."""
    point_spread: Mapping[str, Any] | None = None
    density: Mapping[str, Any] | None = None
    noise: Mapping[str, Any] | None = None
    """Of the learned mask, what physicists look at: the summaries of `promask.evaluation.physics` and `noise`."""
    psnr_spread: float | None = None
    """Standard deviation over several random masks; None for a single mask."""
    ssim_spread: float | None = None
    nmse_spread: float | None = None
    psnr_moving_spread: float | None = None
    nmse_differences_spread: float | None = None
    psnr_worst_spread: float | None = None
    t2_error_spread: float | None = None
    dice_spread: float | None = None
    iou_spread: float | None = None

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Quality":
        """From the plain values of `to_json`; unknown ones are left out."""
        return Quality(**_known(Quality, values))

    def to_json(self) -> dict[str, Any]:
        """Plain values; what does not apply is left out."""
        shown = METRICS if self.classes is not None else METRICS[:3]
        return {name: value for name, value in asdict(self).items() if value is not None or name in shown}


@dataclass(frozen=True)
class ReferenceComparison:
    """The learned mask beside reference masks, on the same few images."""

    images: int
    draws: int
    """Masks of each random baseline."""
    masks: Mapping[str, Quality]

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "ReferenceComparison":
        """From the plain values of `to_json`."""
        masks = {name: Quality.from_json(row) for name, row in values["masks"].items()}
        return ReferenceComparison(values["images"], values["draws"], masks)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        masks = {name: quality.to_json() for name, quality in self.masks.items()}
        return {"images": self.images, "draws": self.draws, "masks": masks}


@dataclass(frozen=True)
class Measured:
    """The data that a run was measured on, and whether its mask was learned from them."""

    data: str
    seen: str


@dataclass(frozen=True)
class RunRecord:
    """What run.json says of a run beside its settings and its history."""

    data: DataRecord = field(default_factory=DataRecord)
    preset: str = "default"
    reference: str | None = None
    """The reference mask that was better than the learned one and took its place; `plain` in run.json."""
    reconstruction: ReconstructionRecord = field(default_factory=ReconstructionRecord)
    network: NetworkRecord | None = None
    seconds: float = 0.0
    seconds_waited: float = 0.0
    """Spent waiting for the disk."""
    checkpoints: CheckpointRecord = CheckpointRecord()
    processes: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str | None = None
    """The command line that made the run."""
    evaluation: Quality | None = None
    measured: Measured | None = None
    compared: ReferenceComparison | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values, as they stand in run.json."""
        plain = asdict(self)
        plain["plain"] = plain.pop("reference")
        for name in ("command", "evaluation", "measured", "compared"):
            if plain[name] is None:
                del plain[name]
        if self.evaluation is not None:
            plain["evaluation"] = self.evaluation.to_json()
        if self.compared is not None:
            plain["compared"] = self.compared.to_json()
        return plain

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "RunRecord":
        """From the plain values of `to_json`; older runs lack some, which take their defaults."""
        known = _known(RunRecord, {**values, "reference": values.get("plain")})
        kinds: Mapping[str, Any] = {
            "data": DataRecord,
            "reconstruction": ReconstructionRecord,
            "network": NetworkRecord,
            "checkpoints": CheckpointRecord,
            "measured": Measured,
        }
        for name, kind in kinds.items():
            if known.get(name) is not None:
                known[name] = kind(**{key: _typed(key, value) for key, value in _known(kind, known[name]).items()})
        for name, parse in (("evaluation", Quality.from_json), ("compared", ReferenceComparison.from_json)):
            if known.get(name) is not None:
                known[name] = parse(known[name])
        return RunRecord(**known)


@dataclass(frozen=True)
class RunHistory:
    """What happened in every step: lists over the steps, or over the members."""

    loss: Sequence[float] = ()
    """The mean over the members that had not stopped."""
    budget: Sequence[float] = ()
    """How many samples or lines the probabilities summed to, at most."""
    temperature: Sequence[float] = ()
    member_loss: Sequence[Sequence[float]] = ()
    stopped: Sequence[int | None] = ()
    """The step after which the mask of each member no longer changed; None if it ran to the end."""
    halved: Sequence[Sequence[tuple[int, int]]] = ()
    """For each member: the steps in which memory ran out, and how many images were worked on from then on."""

    @property
    def stopped_after(self) -> int | None:
        """The step after which the last member stopped early; None if none did."""
        return max((step for step in self.stopped if step is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """Plain lists, as they stand in run.json."""
        return asdict(self)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "RunHistory":
        """From the plain lists of `to_json`."""
        known = _known(RunHistory, values)
        known["halved"] = [[(step, count) for step, count in each] for each in known.get("halved", ())]
        return RunHistory(**known)


def _known(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in values.items() if name in names}


def _typed(name: str, value: Any) -> Any:
    if name == "read":
        return DataDescription.from_json(value)
    return tuple(value) if isinstance(value, list) else value
