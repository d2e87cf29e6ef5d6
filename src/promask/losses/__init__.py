"""Tasks: what the reconstructed image is for, as a loss."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from torch import nn

from promask.errors import InputError
from promask.losses.base import Task, needs_phase
from promask.losses.image import COMPLEX_LOSSES, LOSSES, ImageLoss
from promask.losses.segmentation import SEGMENTATION, Segmentation, frozen, segmentation_by
from promask.losses.weighted_sum import Mixture, Term
from promask.recon.base import Reconstruction as Reconstructor
from promask.recon.network import Network
from promask.segmentation.classes import Classes
from promask.types import Loss

__all__ = [
    "COMPLEX_LOSSES",
    "LOSSES",
    "SEGMENTATION",
    "Classes",
    "ImageLoss",
    "Mixture",
    "Segmentation",
    "Task",
    "Term",
    "frozen",
    "make_task",
    "needs_phase",
    "networks_frozen",
    "segmentation_by",
    "segmentation_in",
    "with_network",
]


def make_task(loss: str | Loss, segmentation: Segmentation | None = None) -> Task:
    """A task from the text for it: a loss, `segmentation`, or a weighted sum of such.

    >>> make_task("0.3*mse + 0.7*ssim").name
    '0.3*mse + 0.7*ssim'
    """
    if not isinstance(loss, str) or not ("*" in loss or "+" in loss):
        return _single(loss, segmentation)
    terms = []
    for text in re.split(r"(?<!\d[eE])\+", loss):  # not at the plus of 1e+6
        weight, times, name = text.partition("*")
        try:
            number = float(weight)
        except ValueError as error:
            raise InputError(_unclear(loss)) from error
        if not times or not 0 < number < float("inf"):
            raise InputError(_unclear(loss))
        terms.append(Term(number, _single(name.strip(), segmentation)))
    return Mixture(terms)


def _single(loss: str | Loss, segmentation: Segmentation | None) -> Task:
    if loss != SEGMENTATION:
        return ImageLoss(loss)
    if segmentation is None:
        raise InputError("A segmentation needs a network: give one with --network FILE.")
    return segmentation


def _unclear(text: str) -> str:
    return f"A sum of losses must be like '0.5*segmentation + 0.5*mse', with positive weights, but is {text!r}."


def segmentation_in(task: Task) -> Segmentation | None:
    """The segmentation that a task is, or is a part of."""
    tasks = [term.task for term in task.terms] if isinstance(task, Mixture) else [task]
    return next((each for each in tasks if isinstance(each, Segmentation)), None)


@contextmanager
def networks_frozen(task: Task | None = None, recon: Reconstructor | None = None) -> Iterator[None]:
    """The networks of a task and of a reconstruction, in evaluation mode, without gradients to their weights."""
    segmentation = None if task is None else segmentation_in(task)
    with (
        frozen(segmentation.network) if segmentation is not None else nullcontext(),
        frozen(recon.module) if isinstance(recon, Network) else nullcontext(),
    ):
        yield


def with_network(task: Task, network: nn.Module) -> Task:
    """The same task, judged by another network of the same kind."""
    if isinstance(task, Mixture):
        return Mixture([replace(term, task=with_network(term.task, network)) for term in task.terms])
    return Segmentation(network, task.loss, task.classes) if isinstance(task, Segmentation) else task
