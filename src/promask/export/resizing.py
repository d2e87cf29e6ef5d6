"""A mask carried to another matrix size."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from promask.errors import InputError
from promask.export.formats import mask_of
from promask.export.mask_file import ExportedMask
from promask.geometry import scaled_extent
from promask.patterns import Pattern


def resized(source: Any, shape: Sequence[int]) -> ExportedMask:
    """The mask of a run, a file or an array for k-space of another shape, with exactly the budget there.

    The probabilities of a run, or the zeros and ones of a mask, are stretched around the centre of k-space, and
    the largest are acquired. A run's fully acquired centre keeps its width.

    >>> resized([0, 0, 1, 1, 0, 0], [12]).mask.nonzero().flatten()
    tensor([4, 5, 6, 7])
    """
    mask, run = mask_of(source)
    old, shape = mask.pattern, tuple(shape)
    if len(shape) != len(old.shape) or min(shape) < 1:
        raise InputError(
            f"A mask of shape {list(old.shape)} cannot be carried to shape {list(shape)}: "
            f"give a size for each of its axes."
        )
    if shape == old.shape:
        return mask
    ends = [scaled_extent(*sizes) for sizes in zip(old.extent, old.shape, shape, strict=True)]
    new = Pattern(shape, old.free, tuple(ends))
    acquired = old.restrict(mask.mask)
    values = (acquired if run is None else run.probabilities).to(torch.float64)
    for position, axis in enumerate(old.free):
        weights = _weights(old.shape[axis], shape[axis], old.extent[axis])
        values = torch.tensordot(weights, values, ([1], [position])).movedim(0, position)
    if acquired[tuple(n // 2 for n in old.unit_shape)]:
        values[tuple(n // 2 for n in new.unit_shape)] = 1  # an average over its surroundings may have lost it
    always = new.centre(0 if run is None else run.config.centre)
    budget = new.budget(mask.asked or mask.achieved)
    if always.sum() > budget:
        raise InputError(
            f"The centre of the run holds {int(always.sum())} units, but the budget at shape {list(shape)} is "
            f"{budget}: choose a larger shape."
        )
    units = new.largest(values.masked_fill(always, 2), budget)
    return ExportedMask(new.expand(units), new.free, new.extent, mask.asked)


def _weights(old: int, new: int, covered: tuple[int, int]) -> Float[Tensor, "new old"]:
    """How much of each old unit goes into each new one: its share of the new one's footprint.

    A footprint of one old unit, the least there is, makes this linear interpolation.
    """
    start, stop = covered
    ratio = old / new
    at = ((torch.arange(new, dtype=torch.float64) - new // 2) * ratio + old // 2).clamp(start, stop - 1)
    distance = (at[:, None] - torch.arange(old)).abs()
    weights = ((max(ratio, 1) + 1) / 2 - distance).clamp(0, 1)
    weights[:, :start] = 0
    weights[:, stop:] = 0
    return weights / weights.sum(1, keepdim=True)
