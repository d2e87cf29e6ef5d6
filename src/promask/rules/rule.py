"""What the loop asks of a rule."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from promask.patterns import Pattern
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

    What a rule remembers between steps is its own; each member has a rule of its own.
    """

    def begin(self, theta: Units, step: int) -> float:
        """Start a step, which counts from 1, and tell its temperature."""

    def draw(self, count: int) -> UnitDraws:
        """Masks of zeros and ones, (count, *units)."""

    def observe(self, masks: UnitDraws, gradients: UnitDraws, spectra: Spectra) -> None:
        """Take note of the masks just drawn, of dL/dm for the loss of each, and of the images."""

    def propose(self) -> Units:
        """The probabilities after this step, before they are projected onto the budget."""
