"""A mask with what one must know to use it: its axes, its padding, its acceleration."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from promask import __version__
from promask.data.atomic import NUMBERS, Array
from promask.errors import InputError
from promask.operators.trajectory import Trajectory
from promask.sampling.distribution import MaskDistribution
from promask.sampling.pattern import Pattern
from promask.types import Mask

AXES = ("D (slices", "H (rows", "W (columns")
"""The names of three axes whose directions are not known; masks with fewer have the last ones."""
INDEXED = ("frame", "contrast")
"""What the first axis may count instead of being a direction."""
CENTRING = "DC at index n // 2 of every axis"


@dataclass(frozen=True)
class MaskRecord:
    """What every format keeps beside the mask; the names of the fields are those in the files."""

    acceleration_asked: float | None
    acceleration_achieved: float | None
    shape: list[int]
    axes: str
    """In words."""
    free_axes: list[int]
    extent: list[list[int]]
    centring: str
    version: str
    directions: str = ""
    """The names of the axes, such as `kx ky`, with a star at the readout; empty if they are not known."""
    indexed: str = ""
    """What the first axis counts: `frame` or `contrast`; empty if all axes are directions of k-space."""
    trajectory_kind: str = ""
    """`radial` or `spiral`; empty if k-space is Cartesian."""
    matrix: list[int] = field(default_factory=list)
    """The size of the images, (y, x), where k-space is along a trajectory."""

    def values(self) -> dict[str, Any]:
        """As plain values; what is not known is left out."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "", [])}

    def texts(self) -> dict[str, str]:
        """As text, for formats that keep nothing else."""
        return {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in self.values().items()
        }

    @property
    def named_axes(self) -> tuple[tuple[str, ...], int | None]:
        """The names of the axes, and the number of the readout."""
        words = self.directions.split()
        readout = next((axis for axis, word in enumerate(words) if word.endswith("*")), None)
        return tuple(word.rstrip("*") for word in words), readout

    @property
    def pattern(self) -> Pattern:
        """The undersampled directions of the k-space that is described; a ValueError if there is none such."""
        extent = tuple((start, stop) for start, stop in self.extent)
        named = (extent, *self.named_axes)
        shape, first, trajectory = tuple(self.shape), bool(self.indexed), None
        if self.trajectory_kind and (len(self.matrix) != 2 or len(shape) < 2 + first):
            raise ValueError(f"its matrix {self.matrix} or its shape {self.shape} is not that of a trajectory")
        try:
            if self.trajectory_kind:
                sizes = (shape[first], shape[-1], (self.matrix[0], self.matrix[1]))
                trajectory = Trajectory(self.trajectory_kind, *sizes)
            return Pattern(shape, tuple(self.free_axes), *named, indexed=self.indexed, trajectory=trajectory)
        except InputError as error:  # which does not say of what file
            raise ValueError(str(error)) from None

    @staticmethod
    def parse(values: Mapping[str, Any]) -> "MaskRecord | None":
        """The record from values, arrays or texts of a file; None if promask did not write it."""
        if "centring" not in values:
            return None
        found = {
            name: json.loads(value) if isinstance(value, str) and name in NUMERIC else value
            for name, value in values.items()
        }
        asked, achieved = (
            float(np.asarray(found[name]).item()) if name in found else None
            for name in ("acceleration_asked", "acceleration_achieved")
        )
        shape, free, ends = ([int(n) for n in np.ravel(found[name])] for name in ("shape", "free_axes", "extent"))
        extent = np.reshape(ends, (-1, 2)).tolist()
        texts = (
            str(found.get(name, usual))
            for name, usual in (
                ("axes", ""),
                ("centring", ""),
                ("version", __version__),
                ("directions", ""),
                ("indexed", ""),
                ("trajectory_kind", ""),
            )
        )
        axes, centring, version, directions, indexed, kind = texts
        matrix = [int(n) for n in np.ravel(found.get("matrix", []))]
        named = (directions, indexed, kind, matrix)
        return MaskRecord(asked, achieved, shape, axes, free, extent, centring, version, *named)


NUMERIC = ("acceleration_asked", "acceleration_achieved", "shape", "free_axes", "extent", "matrix")
"""The fields of a record that are numbers, also where they are written as text."""


@dataclass(frozen=True)
class ExportedMask:
    """A centred mask, and what is written beside it.

    >>> mask = ExportedMask.of_mask([[0, 1, 1, 0], [0, 1, 1, 0]], asked=2)
    >>> mask.free, mask.achieved
    ((1,), 2.0)

    Args:
        mask: (*space), DC at index n // 2, of one to three axes; before them, there may be one of frames.
        free: The undersampled directions, along which samples are chosen.
        extent: Start and end of the part of each axis that the scanner covers, as in `Pattern`; empty for all.
        asked: The acceleration that was asked for; None if it is not known.
        version: The version of promask that made it.
        directions: The names of its axes, such as ("kx", "ky"); empty if they are not known.
        readout: The axis along which the scanner reads whole lines; None if there is none, or it is not known.
        indexed: What the first axis counts: `frame` or `contrast`; empty if all axes are directions of k-space.
        trajectory: Of spokes and spirals: then the mask is over ([frame], rotation, [kz], sample), and constant
            along the last axis; None on the Cartesian grid.
    """

    mask: Mask
    free: tuple[int, ...]
    extent: tuple[tuple[int, int], ...] = ()
    asked: float | None = None
    version: str = __version__
    directions: tuple[str, ...] = ()
    readout: int | None = None
    indexed: str = ""
    trajectory: Trajectory | None = None

    def __post_init__(self) -> None:
        if self.indexed not in ("", *INDEXED):
            raise InputError(
                f"The first axis of a mask may count {' or '.join(INDEXED)}, but not {self.indexed!r}."
            )
        if not 1 <= self.mask.ndim - bool(self.indexed) <= len(AXES):
            raise InputError(
                f"A mask has 1 to 3 axes, and perhaps one of frames before them, but this one has shape "
                f"{list(self.mask.shape)}."
            )
        if self.asked is not None and not 1 <= self.asked < math.inf:
            raise InputError(f"The acceleration must be at least 1, but is {self.asked:g}.")
        object.__setattr__(self, "mask", self.mask.contiguous())
        object.__setattr__(self, "extent", self.pattern.extent)
        self.pattern.restrict(self.mask)
        if not self._covered.any():
            raise InputError("The mask acquires nothing.")

    @staticmethod
    def of_distribution(distribution: MaskDistribution, asked: float | None = None) -> "ExportedMask":
        """The most probable mask of a distribution.

        Args:
            distribution: The probabilities that were learned.
            asked: The acceleration that was asked for, if it is known.

        Returns:
            The mask with its record.
        """
        return ExportedMask.of_pattern(distribution.mode(), distribution.pattern, asked)

    @staticmethod
    def of_pattern(mask: Mask, pattern: Pattern, asked: float | None = None) -> "ExportedMask":
        """A mask with what its pattern tells of the axes.

        Args:
            mask: (*space), centred.
            pattern: What is acquired as a whole.
            asked: The acceleration that was asked for, if it is known.

        Returns:
            The mask with its record.
        """
        named = (pattern.directions, pattern.readout, pattern.indexed, pattern.trajectory)
        return ExportedMask(mask, pattern.free, pattern.extent, asked, __version__, *named)

    @staticmethod
    def of_mask(
        mask: Any,
        asked: float | None = None,
        extent: Sequence[tuple[int, int]] = (),
        free: Sequence[int] | None = None,
        indexed: str = "",
    ) -> "ExportedMask":
        """Make one of a mask from anywhere.

        Args:
            mask: Zeros and ones, or booleans, (*space), centred: an array, a tensor or lists.
            asked: The acceleration that was asked for, if it is known.
            extent: The covered part of each axis; empty for all.
            free: The undersampled directions; by default the axes along which the mask varies.
            indexed: What the first axis counts, such as `frame`; of four axes, the first one counts frames.

        Returns:
            The mask with its record.
        """
        mask = _as_mask(mask)
        indexed = indexed or ("frame" if mask.ndim == len(AXES) + 1 else "")
        if free is None:
            varying = [axis for axis in range(mask.ndim) if (mask.any(axis) != mask.all(axis)).any()]
            free = varying if set(varying) - set(range(bool(indexed))) else range(mask.ndim)
        return ExportedMask(mask, tuple(free), tuple(extent), asked, indexed=indexed)

    @staticmethod
    def of_file(values: Array, beside: Mapping[str, Any]) -> "ExportedMask":
        """Make one of the content of a file.

        Args:
            values: Zeros and ones, or booleans, (*space), centred.
            beside: What the file keeps beside them. Without a record of promask, it is deduced from the mask.

        Returns:
            The mask with its record.

        Raises:
            InputError: If the values are no mask, or do not have the shape that the record states.
        """
        record = MaskRecord.parse(beside)
        if record is None:
            return ExportedMask.of_mask(values, indexed=str(beside.get("indexed", "")))
        # MATLAB and BART add axes of length 1 and drop them.
        if [n for n in values.shape if n != 1] != [n for n in record.shape if n != 1]:
            raise InputError(f"it states the shape {record.shape}, but has {list(values.shape)}.")
        pattern = record.pattern
        about = (record.acceleration_asked, record.version, *record.named_axes)
        mask = _as_mask(values.reshape(record.shape))
        return ExportedMask(
            mask, pattern.free, pattern.extent, *about, pattern.indexed, trajectory=pattern.trajectory
        )

    @property
    def pattern(self) -> Pattern:
        """The undersampled directions of its k-space."""
        named = (self.extent, self.directions, self.readout)
        return Pattern(tuple(self.mask.shape), self.free, *named, indexed=self.indexed, trajectory=self.trajectory)

    @property
    def lines(self) -> bool:
        """Whether it consists of whole lines, as in fastMRI: only the last axis is undersampled."""
        return self.free == (self.mask.ndim - 1,)

    @property
    def achieved(self) -> float:
        """The acceleration achieved: samples over acquired ones, padding left out; of spokes, those of Nyquist."""
        if self.trajectory is not None:
            return self.pattern.full / int(self.pattern.restrict(self.mask).sum())
        return self._covered.numel() / int(self._covered.sum())

    @property
    def _covered(self) -> Mask:
        return self.mask[tuple(slice(*ends) for ends in self.extent)]

    def record(self) -> MaskRecord:
        """What every format keeps beside the mask."""
        return MaskRecord(
            acceleration_asked=None if self.asked is None else float(self.asked),
            acceleration_achieved=self.achieved,
            shape=list(self.mask.shape),
            axes=", ".join(f"axis {axis}: {self._describe_axis(axis)}" for axis in range(self.mask.ndim)),
            free_axes=list(self.free),
            extent=[list(ends) for ends in self.extent],
            centring=CENTRING,
            version=self.version,
            directions=" ".join(
                f"{name}*" if axis == self.readout else name for axis, name in enumerate(self.directions)
            ),
            indexed=self.indexed,
            trajectory_kind="" if self.trajectory is None else self.trajectory.kind,
            matrix=[] if self.trajectory is None else list(self.trajectory.matrix),
        )

    def _describe_axis(self, axis: int) -> str:
        """Such as `kx (readout)`, `ky (phase encoding, undersampled)` or `H (rows, fully sampled)`."""
        if self.indexed and axis == 0:
            return f"{self.indexed} ({'each has its own' if axis in self.free else 'all have the same'})"
        sampled = "undersampled" if axis in self.free else "fully sampled"
        if not self.directions:
            return f"{AXES[axis - self.mask.ndim]}, {sampled})"
        if self.readout is None or (self.trajectory is not None and axis != self.readout):
            return f"{self.directions[axis]} ({sampled})"
        if axis == self.readout:
            return f"{self.directions[axis]} (readout{', undersampled' if axis in self.free else ''})"
        return f"{self.directions[axis]} (phase encoding, {sampled})"


def _as_mask(values: Any) -> Mask:
    array = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    if array.dtype == bool:
        array = array.view(np.uint8)  # a file may hold other bytes than 0 and 1
    if array.dtype.kind not in NUMBERS or not ((array == 0) | (array == 1)).all():
        raise InputError("A mask must hold only 0 and 1, or false and true.")
    return torch.from_numpy(np.ascontiguousarray(array == 1)).reshape(array.shape)
