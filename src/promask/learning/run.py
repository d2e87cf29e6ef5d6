"""The result of learning, and the folder that keeps it."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_model
from torch import nn

from promask.data.atomic import check_writable, is_temporary, read_array, replace_folder, save_array, save_text
from promask.errors import InputError, count, one_line
from promask.export.files import RUN_FORMAT, check_size, parse_pattern, read_any_record, read_record
from promask.learning.checkpoint import checkpoints_in
from promask.learning.config import Config
from promask.learning.hooks import Trajectory
from promask.learning.phrases import kept_reference, sample_noun, split_of_contrasts, units_acquired
from promask.learning.records import RunHistory, RunRecord
from promask.recon import RECONSTRUCTIONS, KtSense, make_reconstruction, with_settings
from promask.recon.base import Reconstruction
from promask.sampling.distribution import MaskDistribution
from promask.sampling.limits import CONTRAST
from promask.sampling.pattern import Pattern
from promask.segmentation.network import SegmentationNetwork, is_network
from promask.types import Mask, Masks, Units

NETWORK = "network.safetensors"
"""The file of a network that was trained on."""
TRAJECTORY = "trajectory.npy"
"""The file of probabilities on the way, (moment, *units); run.json has their steps."""
PRIOR = "prior.npy"
"""The file of what a reconstruction knows from the data that were learned from."""
CONTENT = (
    "mask.npy",
    NETWORK,
    "probabilities.npy",
    "variance.npy",
    TRAJECTORY,
    "run.json",
    PRIOR,
    "report.html",
    "figures",
    "stability.json",
)
"""What a run folder may hold, beside checkpoints; a folder that holds anything else is not replaced."""


@dataclass(frozen=True, repr=False)
class Run:
    """What was learned, centred (DC at index n // 2), and how it came about.

    Args:
        distribution: The probabilities on their pattern, and how many samples or lines are acquired.
        config: The settings.
        history: What happened in every step.
        variance: The variance of each probability over the members, (*units).
        record: What else run.json says: the data, the time, an evaluation.
        network: The network that was trained while the mask was learned.
        trajectory: The probabilities of the first member at some of its steps.
        recon: The reconstruction that the mask was learned for; of it, the name, the settings and the
            prior are saved.
        prior: What the reconstruction knows from the data that were learned from, if it knows anything.
    """

    distribution: MaskDistribution
    config: Config
    history: RunHistory
    variance: Units
    record: RunRecord = field(default_factory=RunRecord)
    network: nn.Module | None = None
    trajectory: Trajectory | None = None
    recon: Reconstruction | None = None
    prior: torch.Tensor | None = None

    def __repr__(self) -> str:
        """The run in one paragraph: data, pattern, samples, quality."""
        pattern, data, quality = self.distribution.pattern, self.record.data, self.record.evaluation
        noun, steps = sample_noun(pattern), len(self.history.loss)
        size = " x ".join(map(str, pattern.image_shape[bool(pattern.indexed) :]))
        acquired = units_acquired(pattern, self.distribution.budget)
        text = (
            f"Run: {self.stated_acceleration}, {acquired} {'of' if pattern.trajectory is None else 'for'} {size}"
        )
        if pattern.varies and pattern.indexed == CONTRAST:
            text += f" ({split_of_contrasts(pattern, pattern.restrict(self.mask))})"
        if data.source:
            text += f", learned from {count(data.images, noun)} of {data.source} ({data.part})"
        text += f" for {self.config.loss} with {self.config.recon} by {self.config.learner}"
        text += f" in {count(steps, 'step')} ({self.record.seconds:.1f} s)." if steps else "."
        if self.record.reference:
            text += f" {kept_reference(self.record.reference, pattern)}"
        if quality is not None and quality.psnr is not None:
            moving = quality.psnr_moving
            within = "" if moving is None else f", {moving:.2f} dB in what moves,"
            text += f" PSNR {quality.psnr:.2f} dB{within} on {count(quality.images, noun)} ({quality.part})."
        return text

    @property
    def probabilities(self) -> Units:
        """One probability per unit, centred."""
        return self.distribution.probabilities

    @property
    def mask(self) -> Mask:
        """The most probable mask of exactly the budget, (*space), centred."""
        return self.distribution.mode()

    @property
    def acceleration(self) -> float:
        """The acceleration achieved: all units, padding left out, over those acquired; of scan time with costs."""
        return self.distribution.pattern.full / self._spent

    @property
    def acceleration_within(self) -> float | None:
        """The same within the shutter and what partial Fourier acquires; None without either."""
        pattern = self.distribution.pattern
        return pattern.acquirable / self._spent if pattern.limits.leave_out else None

    @property
    def _spent(self) -> int:
        """What the mask costs: the budget, or a little less where units have different costs."""
        pattern, budget = self.distribution.pattern, self.distribution.budget
        return pattern.spent(pattern.restrict(self.mask)) if pattern.limits.cost else budget

    @property
    def stated_acceleration(self) -> str:
        """The acceleration in words, both ways where there is a shutter or partial Fourier."""
        within = self.acceleration_within
        if within is None:
            return f"x{self.acceleration:.4g}"
        where = self.distribution.pattern.limits.name_within
        return f"x{self.acceleration:.4g} of the full grid, x{within:.4g} within the {where}"

    def sample(self, count: int, seed: int, exact: bool = False) -> Masks:
        """Draw random masks from the learned distribution.

        Args:
            count: How many.
            seed: Equal seeds give equal masks.
            exact: Whether each mask has exactly as many samples or lines as `mask`; otherwise their number varies.

        Returns:
            Boolean masks, (count, *space), centred.
        """
        if count < 1:
            raise InputError(f"`count` must be a whole number of at least 1, but is {count}.")
        draw = self.distribution.sample_exact if exact else self.distribution.sample
        return draw(count, seed)

    def reconstruction(self) -> Reconstruction:
        """The reconstruction that the mask was learned for, with its settings.

        Raises:
            InputError: If the run was loaded, and the reconstruction was an object that is not saved with it.
        """
        if self.recon is not None:
            return self.recon
        if self.record.reconstruction.own:
            name = self.record.reconstruction.name
            raise InputError(
                f"The run was learned with a reconstruction of your own, {name!r}: give it as `recon`."
            )
        settings = self.record.reconstruction.settings
        if settings and self.config.recon in RECONSTRUCTIONS:
            recon = with_settings(RECONSTRUCTIONS[self.config.recon](), settings)
            return replace(recon, prior=self.prior) if isinstance(recon, KtSense) else recon
        return make_reconstruction(self.config.recon, self.config.iterations, self.config.regularisation)

    def with_record(self, **fields: Any) -> "Run":
        """The same run with other values in its record.

        Args:
            **fields: The new values, by the name of the field of the record.

        Returns:
            A new run; this one is not changed.
        """
        return replace(self, record=replace(self.record, **fields))

    def export(self, path: str | Path, to: str | None = None) -> Path:
        """Write the mask for another program.

        Args:
            path: The file: .npy, .mat, .cfl (BART), .png, .csv or .h5 (fastMRI); .mrd for spokes and interleaves.
            to: `npy`, `mat`, `bart`, `png`, `csv` or `fastmri`, and for spokes and interleaves `angles`,
                `mri-nufft` or `mrd`; None: by the ending of the file.

        Returns:
            The path of the file.
        """
        from promask.export import write_mask

        return write_mask(self, path, to)

    def save(self, folder: str | Path) -> Path:
        """Write the run folder; a run that was there is replaced, anything else is left alone.

        Args:
            folder: Where to write mask.npy, probabilities.npy, variance.npy, trajectory.npy and run.json.

        Returns:
            The path of the folder.
        """
        folder = Path(folder)
        check_destination(folder)
        with replace_folder(folder) as temporary:
            self._write(temporary)
        return folder

    @staticmethod
    def load(folder: str | Path) -> "Run":
        """Read a run folder.

        Args:
            folder: A folder that `save` or `promask learn` wrote.

        Returns:
            The run.
        """
        folder = Path(folder)
        record = read_record(folder)
        try:
            pattern = parse_pattern(record["pattern"])
            check_size(pattern, folder / "run.json")
            config = Config.from_dict(record["config"])
            probabilities = _read_units(folder / "probabilities.npy", pattern)
            variance = _read_units(folder / "variance.npy", pattern)
            distribution = MaskDistribution(probabilities, pattern, record["budget"])
            network = SegmentationNetwork.load(folder / NETWORK) if _holds_network(folder) else None
            trajectory = _read_trajectory(folder / TRAJECTORY, record.get("trajectory"), pattern)
            history, about = RunHistory.from_json(record["history"]), RunRecord.from_json(record["about"])
            found = folder / PRIOR
            prior = read_array(found, "f", "real numbers").to(torch.float32) if found.is_file() else None
            return Run(distribution, config, history, variance, about, network, trajectory, prior=prior)
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise InputError(
                f"{folder / 'run.json'} is not the record of a run: {one_line(error)} is missing or wrong."
            ) from error

    def _write(self, folder: Path) -> None:
        pattern = self.distribution.pattern
        save_array(folder / "mask.npy", self.mask)
        save_array(folder / "probabilities.npy", self.probabilities)
        save_array(folder / "variance.npy", self.variance)
        if self.prior is not None:
            save_array(folder / PRIOR, self.prior)
        if self.trajectory is not None:
            save_array(folder / TRAJECTORY, self.trajectory.probabilities.to(torch.float16))
        if isinstance(self.network, SegmentationNetwork):
            self.network.save(folder / NETWORK)
        elif self.network is not None:
            save_model(self.network, str(folder / NETWORK))  # the weights alone
        record = {
            "format": RUN_FORMAT,
            "config": self.config.to_dict(),
            "seed": self.config.seed,
            "acceleration": {"asked": self.config.acceleration, "achieved": self.acceleration},
            "acceleration_within": self.acceleration_within,
            "units": pattern.units,
            "budget": self.distribution.budget,
            "pattern": dataclasses.asdict(pattern),
            "centring": "DC at index n // 2 of every axis",
            "about": self.record.to_json(),
            "history": self.history.to_json(),
            "trajectory": None if self.trajectory is None else self.trajectory.steps,
        }
        save_text(folder / "run.json", json.dumps(record, indent=1, allow_nan=False))


def check_destination(folder: Path) -> None:
    """Refuse to replace what is not a run, before any work is done."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: choose a folder for the result.")
    place = folder.resolve()
    if place in (Path.cwd(), *Path.cwd().parents):
        raise InputError(f"The result cannot replace {folder}, the folder that you are in: choose another one.")
    if folder.is_dir() and any(folder.iterdir()):
        if (folder / "run.json").is_file():
            read_any_record(
                folder
            )  # a run of another version may be replaced; a damaged record is left for its owner
        elif not checkpoints_in(folder):
            raise InputError(f"{folder} exists and is not a run: choose another folder for the result.")
        ours = {*CONTENT, *(path.name for path in checkpoints_in(folder))}
        foreign = sorted({path.name for path in folder.iterdir() if not is_temporary(path.name)} - ours)
        if foreign:
            raise InputError(
                f"{folder} is a run, but holds {foreign[0]} as well: move it, or choose another folder."
            )
    check_writable(place.parent)


def _holds_network(folder: Path) -> bool:
    """Whether there is a network that promask can build; of another one there are the weights alone."""
    return (folder / NETWORK).is_file() and is_network(folder / NETWORK)


def _read_trajectory(path: Path, steps: Sequence[int] | None, pattern: Pattern) -> Trajectory | None:
    if steps is None or not path.is_file():
        return None
    return Trajectory(tuple(steps), _read_floats(path, (len(steps), *pattern.unit_shape)))


def _read_units(path: Path, pattern: Pattern) -> Units:
    return _read_floats(path, pattern.unit_shape)


def _read_floats(path: Path, shape: tuple[int, ...]) -> torch.Tensor:
    values = read_array(path, "f", "real numbers").to(torch.float32)
    if values.shape != shape:
        raise InputError(f"{path} does not fit the run: it should hold {list(shape)} values.")
    return values
