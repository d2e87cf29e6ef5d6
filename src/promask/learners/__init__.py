"""Learners: how probabilities are learned from images. A new one is one file and one line in the table."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from promask.errors import InputError
from promask.learners.angular_density import AngularDensityRace
from promask.learners.base import Description, History, Learner, State
from promask.learners.best_response import BestResponse
from promask.learners.exchange import Exchange
from promask.learners.gradient import GradientLearner
from promask.learners.gumbel_adam import GumbelAdam
from promask.learners.shape_race import ShapeRace
from promask.learners.swap import Swap

__all__ = [
    "FORMER_NAMES",
    "LEARNERS",
    "PUBLISHED",
    "AngularDensityRace",
    "BestResponse",
    "Description",
    "Exchange",
    "GradientLearner",
    "GumbelAdam",
    "History",
    "Learner",
    "ShapeRace",
    "State",
    "Swap",
    "describe",
    "make_learner",
    "unknown_learner",
    "usual_learner",
]

LEARNERS: Mapping[str, type[Any]] = {
    kind.name: kind for kind in (BestResponse, Exchange, GumbelAdam, ShapeRace, Swap, AngularDensityRace)
}
PUBLISHED = GumbelAdam.name
"""The learner of the paper."""
FORMER_NAMES: Mapping[str, str] = {
    "response": BestResponse.name,
    "published": GumbelAdam.name,
    "exchange": Exchange.name,
    "shape": ShapeRace.name,
}
"""What learners are called under `rule` in run.json."""


def usual_learner(network: bool, iterative: bool, temporal: bool = False, rotations: bool = False) -> str:
    """The name of the learner that suits a problem.

    Args:
        network: Whether a segmentation network judges the images: its gradients are noisy, and dear.
        iterative: Whether the reconstruction is iterative: what a unit is worth depends on its neighbours.
        temporal: Whether it reconstructs frames together.
        rotations: Whether spokes or interleaves are chosen.

    Returns:
        A name of the table `LEARNERS`.
    """
    if rotations:
        return AngularDensityRace.name
    if temporal:
        return Swap.name
    return ShapeRace.name if network else Exchange.name if iterative else BestResponse.name


def make_learner(learner: Any, settings: Any) -> Learner:
    """Make a learner from its name, or check one that was given.

    Args:
        learner: A name of the table `LEARNERS`, or an object that keeps the contract of `Learner`.
        settings: An object with the fields of the learner as attributes, such as a `Config`; not used for objects.

    Returns:
        The learner, or the object itself.

    Raises:
        InputError: If there is no such learner, or the object is none.
    """
    if not isinstance(learner, str):
        if isinstance(learner, type) or not isinstance(learner, Learner):
            raise InputError(f"{learner!r} is no learner: give a name, {', '.join(LEARNERS)}, or an object.")
        return learner
    if learner not in LEARNERS:
        raise unknown_learner(learner)
    kind = LEARNERS[learner]
    known = (field.name for field in fields(kind) if hasattr(settings, field.name))
    learner_of_table: Learner = kind(**{name: getattr(settings, name) for name in known})
    return learner_of_table


def unknown_learner(name: str) -> InputError:
    """The error for a name that is not in the table.

    Args:
        name: The unknown name.

    Returns:
        The error, to be raised; its message lists the known names.
    """
    known = ", ".join(LEARNERS)
    return InputError(f"Unknown learner {name!r}: choose one of {known}, or give an object as `learner`.")


def describe(learner: Any) -> Description:
    """Describe a learner.

    Args:
        learner: A name, or an object; its description is the attribute `about`.

    Returns:
        The description; the default one for a learner that has none.
    """
    kind = LEARNERS.get(learner) if isinstance(learner, str) else learner
    found: Description = getattr(kind, "about", Description())
    return found
