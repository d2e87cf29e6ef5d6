"""What a comparison is about, and what follows for its methods."""

from collections.abc import Mapping
from dataclasses import dataclass

from promask.baselines import BASELINES
from promask.errors import InputError
from promask.tasks import COMPLEX_LOSSES, LOSSES, SEGMENTATION

RECONSTRUCTION = "reconstruction"


@dataclass(frozen=True)
class Purpose:
    """What methods may minimise, and which are compared without a choice."""

    usual_loss: str
    """Of methods that learn; it is not part of their names."""
    losses: tuple[str, ...]
    """All that can be asked for."""
    own_losses: tuple[str, ...]
    """Those of them that say what the comparison is about."""
    usual_methods: tuple[str, ...]


_NOT_LEARNED = tuple(name for name, baseline in BASELINES.items() if not baseline.learns)
PURPOSES: Mapping[str, Purpose] = {
    RECONSTRUCTION: Purpose(
        usual_loss="mse",
        losses=(*LOSSES, *COMPLEX_LOSSES),
        own_losses=(*LOSSES, *COMPLEX_LOSSES),
        usual_methods=(*BASELINES, "igs:2d", "promask:1d", "promask"),
    ),
    # Through a network, methods that look at all images for every few units take hours.
    SEGMENTATION: Purpose(
        usual_loss=SEGMENTATION,
        losses=(SEGMENTATION, *LOSSES, *COMPLEX_LOSSES),
        own_losses=(SEGMENTATION,),
        usual_methods=(
            *_NOT_LEARNED,
            "energy:1d",
            "igs:mse",
            "promask:1d:mse",
            "promask:mse",
            "promask:1d",
            "promask",
        ),
    ),
}


def find_purpose(name: str) -> Purpose:
    """A purpose of the table."""
    if name not in PURPOSES:
        raise InputError(f"Unknown task {name!r}: choose one of {', '.join(PURPOSES)}.")
    return PURPOSES[name]
