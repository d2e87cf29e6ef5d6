"""What the loop asks of a rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from promask.sampling.pattern import Pattern
from promask.types import Spectra, UnitDraws, UnitMask, Units


@dataclass(frozen=True)
class Conditions:
    """What a rule is told before the first step."""

    steps: int
    learning_rate: float
    pattern: Pattern
    budget: int
    energy: Units
    """The mean energy of each unit over the data, in FFT order."""
    always: UnitMask
    """The units that are always acquired."""
    never: UnitMask
    """The units that are never acquired: padding."""
    generator: torch.Generator


@runtime_checkable
class Rule(Protocol):
    """One step is `begin`, then `draw` and `observe` for each piece of the batch, then `propose`.

    What a rule remembers between steps is its own; each member has a rule of its own. What it draws depends on
    what was known before the step, not on what was observed since: processes that share a batch draw and observe
    some of its masks each, and skip the others.
    """

    def begin(self, theta: Units, step: int) -> float:
        """Start a step, which counts from 1, and tell its temperature."""

    def draw(self, count: int) -> UnitDraws:
        """Masks of zeros and ones, (count, *units)."""

    def skip(self, count: int) -> None:
        """Instead of `draw`, where the masks are another process's: the random numbers go on as after it."""

    def observe(self, masks: UnitDraws, gradients: UnitDraws, spectra: Spectra, rows: slice = slice(None)) -> None:
        """Take note of masks just drawn, all or some rows, of dL/dm for the loss of each, and of the images."""

    @property
    def evidence(self) -> Sequence[torch.Tensor]:
        """What was observed in this step: sums over masks, which may be changed in place before `propose`."""

    def propose(self) -> Units:
        """The probabilities after this step, before they are projected onto the budget."""

    def state(self) -> Mapping[str, Any]:
        """What is remembered between two steps, as numbers and tensors that are not changed in place later."""

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; one that does not fit is a ValueError or a KeyError."""
