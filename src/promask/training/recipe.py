"""How large a network is, and how long it is trained."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from promask.errors import InputError
from promask.segmentation.network import WIDTHS


@dataclass(frozen=True)
class Recipe:
    """What presets differ in."""

    widths: tuple[int, ...] = WIDTHS
    epochs: int = 20
    """Times that every image to learn from is seen, at most."""
    patience: int = 8
    """Epochs without a better Dice on the validation part after which training ends; at least a third of all."""
    batch: int = 4
    """Images per step."""

    @property
    def stamina(self) -> int:
        """The same, as it is for so many epochs: small structures are not found for a while."""
        return max(self.patience, self.epochs // 3)

    def __post_init__(self) -> None:
        for name in ("epochs", "patience", "batch"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1, but is {value!r}.")


PRESETS: Mapping[str, Recipe] = {
    "default": Recipe(),
    "small": Recipe(widths=(8, 16, 32, 64), epochs=10, batch=2),
}
"""`small` is for a first try: few images per step make many steps in a short time."""


def find_recipe(preset: str | Recipe, epochs: int | None = None) -> Recipe:
    """The recipe of a preset, or the one given, perhaps with another number of epochs."""
    if isinstance(preset, str):
        if preset not in PRESETS:
            raise InputError(f"Unknown preset {preset!r}: choose one of {', '.join(PRESETS)}.")
        preset = PRESETS[preset]
    return preset if epochs is None else replace(preset, epochs=epochs)
