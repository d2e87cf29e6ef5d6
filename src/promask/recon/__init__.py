"""Reconstructions: (k-space, mask) -> image, differentiable in the mask.

A new one is one file and one line in the table.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from promask.errors import InputError
from promask.recon.base import Reconstruction
from promask.recon.cg_sense import CgSense
from promask.recon.compressed_sensing import CompressedSensing
from promask.recon.network import Network
from promask.recon.partial_fourier import PartialFourier
from promask.recon.zero_filled import ZERO_FILLED, RootSumOfSquares, Sense, ZeroFilled, check_settings, zero_filled

__all__ = [
    "RECONSTRUCTIONS",
    "ZERO_FILLED",
    "CgSense",
    "CompressedSensing",
    "Network",
    "PartialFourier",
    "Reconstruction",
    "RootSumOfSquares",
    "Sense",
    "ZeroFilled",
    "make_reconstruction",
    "settings_of",
    "with_settings",
    "zero_filled",
]

RECONSTRUCTIONS: Mapping[str, Callable[[], Reconstruction]] = {
    "zero-filled": ZeroFilled,
    "rss": RootSumOfSquares,
    "sense": Sense,
    "cg-sense": CgSense,
    "cs": CompressedSensing,
    "cs-tv": lambda: CompressedSensing("total-variation"),
    "partial-fourier": PartialFourier,
}


def make_reconstruction(
    recon: Any, iterations: int | None = None, regularisation: float | None = None
) -> Reconstruction:
    """A reconstruction from its name, with settings of its own where none are given; or one that is made already.

    >>> make_reconstruction("cg-sense", iterations=5)
    CgSense(regularisation=0.003, iterations=5)
    """
    settings: dict[str, Any] = {"iterations": iterations, "regularisation": regularisation}
    given = {name: value for name, value in settings.items() if value is not None}
    check_settings(iterations, regularisation)
    if not isinstance(recon, str):
        if isinstance(recon, type) or not isinstance(recon, Reconstruction):
            raise InputError(
                f"{recon!r} is no reconstruction: give a name, an object of promask.recon, or a module as "
                f"promask.recon.Network(module)."
            )
        if given:
            raise InputError(f"The reconstruction is made already: give {', '.join(given)} to it.")
        return recon
    if recon == Network.name:
        raise InputError(
            "A network that reconstructs must be given in Python: recon=promask.recon.Network(module)."
        )
    if recon not in RECONSTRUCTIONS:
        raise InputError(f"Unknown reconstruction {recon!r}: choose one of {', '.join(RECONSTRUCTIONS)}.")
    return with_settings(RECONSTRUCTIONS[recon](), given)


def with_settings(recon: Reconstruction, settings: Mapping[str, Any]) -> Reconstruction:
    """The same reconstruction with other settings."""
    known = settings_of(recon)
    for name in settings:
        if name not in known:
            raise InputError(f"The reconstruction {recon.name} has no {name}: leave it out.")
    return dataclasses.replace(recon, **settings) if settings else recon  # type: ignore[type-var]


def settings_of(recon: Reconstruction) -> dict[str, Any]:
    """The settings by which a reconstruction of the table can be made again; those of others are not known.

    >>> settings_of(CgSense())
    {'regularisation': 0.003, 'iterations': 10}
    """
    known = RECONSTRUCTIONS.get(recon.name)
    if known is None or not isinstance(recon, type(known())) or not dataclasses.is_dataclass(recon):
        return {}
    return dataclasses.asdict(recon)
