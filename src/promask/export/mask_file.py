"""A mask with what one must know to use it: its axes, its padding, its acceleration."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from promask import __version__
from promask.data.atomic import NUMBERS, Array
from promask.errors import InputError
from promask.learning.run import Run
from promask.sampling.pattern import Pattern
from promask.types import Mask

AXES = (("D", "slices"), ("H", "rows"), ("W", "columns"))
"""The names of three axes; masks with fewer have the last ones."""
CENTRING = "DC at index n // 2 of every axis"


@dataclass(frozen=True)
class ExportedMask:
    """A centred mask, (*space), and the facts that are written beside it.

    >>> mask = ExportedMask.of_mask([[0, 1, 1, 0], [0, 1, 1, 0]], asked=2)
    >>> mask.free, mask.achieved
    ((1,), 2.0)
    """

    mask: Mask
    free: tuple[int, ...]
    extent: tuple[tuple[int, int], ...] = ()
    """The part of each axis that the scanner covers, as in `Pattern`; what lies outside is padding."""
    asked: float | None = None
    """The acceleration asked for; None if unknown."""
    version: str = __version__
    """The version of promask that made it."""

    def __post_init__(self) -> None:
        if not 1 <= self.mask.ndim <= len(AXES):
            raise InputError(f"A mask has 1 to 3 axes, but this one has shape {list(self.mask.shape)}.")
        if self.asked is not None and not 1 <= self.asked < math.inf:
            raise InputError(f"The acceleration must be at least 1, but is {self.asked:g}.")
        object.__setattr__(self, "mask", self.mask.contiguous())
        object.__setattr__(self, "extent", self.pattern.extent)
        self.pattern.restrict(self.mask)
        if not self._covered.any():
            raise InputError("The mask acquires nothing.")

    @staticmethod
    def of_run(run: Run) -> "ExportedMask":
        """The mask of a run."""
        pattern = run.distribution.pattern
        return ExportedMask(run.mask, pattern.free, pattern.extent, run.config.acceleration)

    @staticmethod
    def of_mask(
        mask: Any,
        asked: float | None = None,
        extent: Sequence[tuple[int, int]] = (),
        free: Sequence[int] | None = None,
    ) -> "ExportedMask":
        """A mask from anywhere; the axes along which it varies are free if nobody says which."""
        mask = as_mask(mask)
        if free is None:
            varying = [axis for axis in range(mask.ndim) if (mask.any(axis) != mask.all(axis)).any()]
            free = varying or range(mask.ndim)
        return ExportedMask(mask, tuple(free), tuple(extent), asked)

    @staticmethod
    def of_file(values: Array, facts: Mapping[str, Any]) -> "ExportedMask":
        """From what a file holds; facts that are not there, or that promask did not write, are deduced."""
        if "centring" not in facts:
            return ExportedMask.of_mask(values)
        shape = _whole_numbers(facts["shape"])
        # MATLAB and BART add axes of length 1 and drop them.
        if [n for n in values.shape if n != 1] != [n for n in shape if n != 1]:
            raise InputError(f"it states the shape {shape}, but has {list(values.shape)}.")
        free = _whole_numbers(facts["free_axes"])
        extent = np.reshape(_whole_numbers(facts["extent"]), (-1, 2)).tolist()
        asked = float(np.asarray(facts["acceleration_asked"]).item()) if "acceleration_asked" in facts else None
        version = facts.get("version", __version__)
        return ExportedMask(
            as_mask(values.reshape(shape)), tuple(free), tuple((a, b) for a, b in extent), asked, str(version)
        )

    @property
    def pattern(self) -> Pattern:
        """The free axes of its k-space."""
        return Pattern(tuple(self.mask.shape), self.free, self.extent)

    @property
    def lines(self) -> bool:
        """Whether it consists of whole lines, as in fastMRI: only the last axis is free."""
        return self.free == (self.mask.ndim - 1,)

    @property
    def achieved(self) -> float:
        """The acceleration achieved: locations over acquired locations; padding is neither."""
        return self._covered.numel() / int(self._covered.sum())

    @property
    def _covered(self) -> Mask:
        return self.mask[tuple(slice(*ends) for ends in self.extent)]

    def facts(self) -> dict[str, Any]:
        """What every format keeps beside the mask, as plain values; an unknown acceleration is left out."""
        asked = {} if self.asked is None else {"acceleration_asked": float(self.asked)}
        return {
            **asked,
            "acceleration_achieved": self.achieved,
            "shape": list(self.mask.shape),
            "axes": ", ".join(
                f"axis {axis}: {name} ({words}, {'phase encoding' if axis in self.free else 'readout'})"
                for axis, (name, words) in enumerate(AXES[-self.mask.ndim :])
            ),
            "free_axes": list(self.free),
            "extent": [list(ends) for ends in self.extent],
            "centring": CENTRING,
            "version": self.version,
        }


def as_mask(values: Any) -> Mask:
    """Zeros and ones, or booleans, of whatever type as a mask."""
    array = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    if array.dtype == bool:
        array = array.view(np.uint8)  # a file may hold other bytes than 0 and 1
    if array.dtype.kind not in NUMBERS or not ((array == 0) | (array == 1)).all():
        raise InputError("A mask must hold only 0 and 1, or false and true.")
    return torch.from_numpy(np.ascontiguousarray(array == 1)).reshape(array.shape)


def facts_as_text(facts: Mapping[str, Any]) -> dict[str, str]:
    """The facts for formats that keep text."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in facts.items()}


def facts_from_text(texts: Mapping[str, str]) -> dict[str, Any]:
    """The inverse of `facts_as_text`; nothing from texts that promask did not write."""
    if "centring" not in texts:
        return {}
    values = ("acceleration_asked", "acceleration_achieved", "shape", "free_axes", "extent")
    return {name: json.loads(text) if name in values else text for name, text in texts.items()}


def _whole_numbers(values: Any) -> list[int]:
    return [int(value) for value in np.ravel(values)]
