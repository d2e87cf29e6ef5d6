"""Reconstructions: (k-space, mask) -> image, differentiable in the mask.

A new one is one file and one line in the table.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from promask.errors import InputError, one_line
from promask.recon.base import Reconstruction, check_settings, is_temporal
from promask.recon.cg_sense import CgSense
from promask.recon.compressed_sensing import CompressedSensing
from promask.recon.gridding import Gridding
from promask.recon.kt_sense import KtSense
from promask.recon.network import Network
from promask.recon.partial_fourier import PartialFourier
from promask.recon.temporal_sparsity import LowRankPlusSparse, TemporalCompressedSensing
from promask.recon.view_sharing import ViewSharing
from promask.recon.zero_filled import RootSumOfSquares, Sense, ZeroFilled

__all__ = [
    "RECONSTRUCTIONS",
    "CgSense",
    "CompressedSensing",
    "Gridding",
    "KtSense",
    "LowRankPlusSparse",
    "Network",
    "PartialFourier",
    "Reconstruction",
    "RootSumOfSquares",
    "Sense",
    "TemporalCompressedSensing",
    "ViewSharing",
    "ZeroFilled",
    "is_built_in",
    "make_reconstruction",
    "names_temporal",
]

RECONSTRUCTIONS: Mapping[str, Callable[[], Reconstruction]] = {
    "zero-filled": ZeroFilled,
    "rss": RootSumOfSquares,
    "sense": Sense,
    "gridding": Gridding,
    "cg-sense": CgSense,
    "cs": CompressedSensing,
    "cs-tv": lambda: CompressedSensing("total-variation"),
    "partial-fourier": PartialFourier,
    "temporal-average": lambda: ViewSharing(math.inf),
    "view-sharing": ViewSharing,
    "kt-sense": KtSense,
    "kt-cs": TemporalCompressedSensing,
    "kt-tv": lambda: TemporalCompressedSensing(transform="temporal-variation"),
    "l+s": LowRankPlusSparse,
}


def make_reconstruction(
    recon: Any, iterations: int | None = None, regularisation: float | None = None
) -> Reconstruction:
    """Return a reconstruction by its name, or check one that was given.

    >>> make_reconstruction("cg-sense", iterations=5)
    CgSense(regularisation=0.003, iterations=5)

    Args:
        recon: A name of the table, or an object that keeps the contract of `Reconstruction`.
        iterations: For iterative ones; None for their default.
        regularisation: For those that have one; None for their default.

    Returns:
        The reconstruction, or the object itself.

    Raises:
        InputError: If there is no such reconstruction, or it has no such setting.
    """
    settings = {"iterations": iterations, "regularisation": regularisation}
    chosen = {name: value for name, value in settings.items() if value is not None}
    check_settings(iterations, regularisation)
    if not isinstance(recon, str):
        if isinstance(recon, type) or not isinstance(recon, Reconstruction):
            raise InputError(
                f"{one_line(repr(recon))} is no reconstruction: give a name, an object of promask.recon, or a "
                f"module as promask.recon.Network(module)."
            )
        if chosen:
            raise InputError(f"The reconstruction is made already: give {', '.join(chosen)} to it.")
        return recon
    if recon == Network.name:
        raise InputError(
            "A network that reconstructs must be given in Python: recon=promask.recon.Network(module)."
        )
    if recon not in RECONSTRUCTIONS:
        raise InputError(f"Unknown reconstruction {recon!r}: choose one of {', '.join(RECONSTRUCTIONS)}.")
    return with_settings(RECONSTRUCTIONS[recon](), chosen)


def with_settings(recon: Reconstruction, settings: Mapping[str, Any]) -> Reconstruction:
    """A copy of a reconstruction with other settings."""
    known = settings_of(recon)
    for name in settings:
        if name not in known:
            raise InputError(f"The reconstruction {recon.name} has no {name}: leave it out.")
    return dataclasses.replace(recon, **settings) if settings else recon  # type: ignore[type-var]


def settings_of(recon: Reconstruction) -> dict[str, Any]:
    """The settings by which a reconstruction of the table can be made again; none for those of others.

    What is infinite, the name tells, and JSON cannot.

    >>> settings_of(CgSense()), settings_of(ViewSharing(math.inf))
    ({'regularisation': 0.003, 'iterations': 10}, {})
    """
    if not (is_built_in(recon) and dataclasses.is_dataclass(recon)):
        return {}
    names = (each.name for each in dataclasses.fields(recon) if each.name not in getattr(recon, "arrays", ()))
    return {name: value for name in names if (value := getattr(recon, name)) != math.inf}


def names_temporal(name: str) -> bool:
    """Whether a name is that of a reconstruction that reconstructs frames together.

    >>> names_temporal("kt-sense"), names_temporal("cg-sense")
    (True, False)

    Args:
        name: The name of any reconstruction.

    Returns:
        False also for those that are not in the table.
    """
    return name in RECONSTRUCTIONS and is_temporal(RECONSTRUCTIONS[name]())


def is_built_in(recon: Reconstruction) -> bool:
    """Whether a reconstruction can be made again from its name and its settings.

    Args:
        recon: Any reconstruction.

    Returns:
        True for those of the table `RECONSTRUCTIONS`.
    """
    known = RECONSTRUCTIONS.get(recon.name)
    return known is not None and type(recon) is type(known())
