"""A mask for other matrix sizes, and as the function that fastMRI, DIRECT and MONAI ask for a mask."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from promask.data.atomic import as_tensor
from promask.errors import InputError
from promask.export.files import load_mask
from promask.export.mask_file import ExportedMask
from promask.operators.fourier import space_axes, to_image
from promask.operators.trajectory import Trajectory
from promask.sampling.distribution import MaskDistribution
from promask.sampling.limits import Limits
from promask.types import AnyArray, Mask, UnitMask, scaled_extent


def resized(source: Any, shape: Sequence[int]) -> ExportedMask:
    """Carry a mask to k-space of another shape, with exactly the number of samples that the acceleration gives.

    The probabilities of a run, or the zeros and ones of a mask, are stretched around the centre of k-space, and
    the largest are acquired. The calibration region of a run keeps its width. Spokes and interleaves keep their
    number and their angles: they become longer, or shorter.

    >>> resized([0, 0, 1, 1, 0, 0], [12]).mask.nonzero().flatten()
    tensor([4, 5, 6, 7])

    Args:
        source: Whatever `write_mask` takes.
        shape: The size of each axis of the new k-space; of spokes and interleaves, that of the new images.

    Returns:
        The mask of that shape.
    """
    mask, learned = load_mask(source)
    old, shape = mask.pattern if learned is None else learned.distribution.pattern, tuple(shape)
    if old.trajectory is not None:
        return _same_angles(mask, old.trajectory, shape)
    if len(shape) != len(old.shape) or min(shape) < 1:
        raise InputError(
            f"A mask of shape {list(old.shape)} cannot be carried to shape {list(shape)}: "
            f"give a size for each of its axes."
        )
    if shape == old.shape:
        return mask
    if old.indexed and shape[0] != old.shape[0]:
        raise InputError(
            f"A mask of {old.shape[0]} {old.indexed}s cannot be carried to {shape[0]}: only the size of each can "
            f"change."
        )
    ends = [scaled_extent(*sizes) for sizes in zip(old.extent, old.shape, shape, strict=True)]
    acquired = old.restrict(mask.mask)
    new = replace(old, shape=shape, extent=tuple(ends))
    if learned is None and old.varies and len(acquired.flatten(1).sum(1).unique()) == 1:
        new = replace(new, limits=Limits(equal_per=0))  # as many in every frame as in every other one
    values = (acquired if learned is None else learned.distribution.probabilities).to(torch.float64)
    for position, axis in list(enumerate(old.free))[old.varies :]:
        weights = _weights(old.shape[axis], shape[axis], old.extent[axis])
        values = torch.tensordot(weights, values, ([1], [position])).movedim(0, position)
    frames: list[int | slice] = [slice(None)] * old.varies
    middle, centre = ((*frames, *(n // 2 for n in each.unit_shape[old.varies :])) for each in (old, new))
    values[centre] = torch.where(acquired[middle], 1, values[centre])  # an average may have lost it
    always = new.centre(0 if learned is None else learned.centre)
    budget = new.budget(mask.asked or mask.achieved)
    if always.sum() > budget:
        raise InputError(
            f"The calibration region of the run holds {int(always.sum())} samples, but at shape {list(shape)} "
            f"only {budget} are acquired: choose a larger shape."
        )
    units = new.largest(values.masked_fill(always, torch.inf), budget)
    return ExportedMask.of_pattern(new.expand(units), new, mask.asked)


def _same_angles(mask: ExportedMask, trajectory: Trajectory, shape: tuple[int, ...]) -> ExportedMask:
    """The same rotations of a trajectory for images of another size."""
    old = mask.pattern
    if len(shape) != len(old.image_shape) or shape[:-2] != old.image_shape[:-2]:
        raise InputError(
            f"{trajectory.noun.capitalize()} for images of {list(old.image_shape)} cannot be carried to "
            f"{list(shape)}: only the size of slices can change."
        )
    other = Trajectory.of(trajectory.kind, (shape[-2], shape[-1]), trajectory.candidates)
    new = replace(old, shape=(*old.shape[:-1], other.samples), extent=(), trajectory=other)
    return ExportedMask.of_pattern(new.expand(old.restrict(mask.mask)), new)


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


Seed = int | Sequence[int] | None


def as_mask_func(source: Any, random: bool = False) -> "MaskFunction":
    """Make a mask function, as fastMRI, DIRECT and MONAI call it.

    >>> function = as_mask_func(torch.tensor([False, True, True, False]))
    >>> mask, low_frequencies = function((1, 8, 4, 2))
    >>> mask.shape, low_frequencies
    (torch.Size([1, 1, 4, 1]), 2)

    Args:
        source: Whatever `write_mask` takes.
        random: For runs: each call draws a mask of exactly the number of samples from the learned probabilities.

    Returns:
        The function.
    """
    mask, learned = load_mask(source)
    if mask.trajectory is not None:
        raise InputError(
            f"A mask function is for Cartesian k-space, but this mask is of {mask.trajectory.noun}: export their "
            f"coordinates with the format mri-nufft."
        )
    if mask.indexed and (random or mask.pattern.varies):
        raise InputError(
            f"A mask function is for slices, but this mask is for {mask.mask.shape[0]} {mask.indexed}s: multiply "
            f"k-space (..., {mask.indexed}, H, W) with the mask itself."
        )
    if mask.indexed:
        mask = _any_frame(mask)
    if not random:
        return MaskFunction(mask)
    if learned is None:
        raise InputError("Random masks are drawn from the probabilities of a run, but this is a mask: give a run.")
    return MaskFunction(mask, learned.distribution)


def _any_frame(mask: ExportedMask) -> ExportedMask:
    """The mask of one frame of a series, whose frames all have the same."""
    return ExportedMask(
        mask.mask[0],
        tuple(axis - 1 for axis in mask.free),
        mask.extent[1:],
        mask.asked,
        mask.version,
        mask.directions[1:],
        None if mask.readout is None else mask.readout - 1,
    )


@dataclass(frozen=True)
class MaskFunction:
    """One mask, or random ones from a distribution, for whoever calls.

    Args:
        exported: The mask.
        distribution: What random masks are drawn from; None for the mask itself.
    """

    exported: ExportedMask
    distribution: MaskDistribution | None = None

    def __call__(self, shape: Any, offset: int | None = None, seed: Seed = None, return_acs: Any = None) -> Any:
        """Return the mask in the way of the package that calls.

        Args:
            shape: Of k-space, (..., H, W, 2), as fastMRI and DIRECT give it; or k-space itself, as MONAI does.
            offset: Has no effect.
            seed: The same seed gives the same random mask; None gives a new one.
            return_acs: Given by DIRECT: whether only the calibration region is wanted.

        Returns:
            What `floats`, `booleans` or `masked` return.
        """
        if isinstance(shape, torch.Tensor | np.ndarray):
            return self.masked(shape, seed)
        if return_acs is not None:
            return self.booleans(shape, return_acs, seed)
        return self.floats(shape, seed)

    def floats(self, shape: Sequence[int], seed: Seed = None) -> tuple[AnyArray, int]:
        """Return the mask as fastMRI wants it.

        Args:
            shape: Of k-space, (..., H, W, 2).
            seed: The same seed gives the same random mask; None gives a new one.

        Returns:
            A mask to multiply k-space with, (1, ..., W, 1) for lines or (1, ..., H, W, 1), and the width of its
            centre: that of the largest block, centred as fastMRI does it, in which every sample is acquired.
        """
        mask = self._fitting(shape, seed)
        width = _centre_width(self.exported.pattern.restrict(mask))
        space = (mask.shape[-1],) if self.exported.lines else tuple(mask.shape)
        values = mask[(0,) * (mask.ndim - 1)] if self.exported.lines else mask
        return values.to(torch.float32, copy=True).reshape(*[1] * (len(shape) - 1 - len(space)), *space, 1), width

    def booleans(self, shape: Sequence[int], return_acs: bool = False, seed: Seed = None) -> AnyArray:
        """Return the mask as DIRECT wants it.

        Args:
            shape: Of k-space without coils, (..., H, W, 2).
            return_acs: Whether only the calibration region is wanted.
            seed: The same seed gives the same random mask; None gives a new one.

        Returns:
            The mask, (1, ..., H, W, 1), with one axis more, for the coils.
        """
        mask = self._fitting(shape, seed)
        pattern = self.exported.pattern
        if return_acs:
            centre = torch.zeros(pattern.unit_shape, dtype=torch.bool)
            centre[_block(pattern.unit_shape, _centre_width(pattern.restrict(mask)))] = True
            mask = pattern.expand(centre)
        space = tuple(shape[-3:-1]) if self.exported.lines else tuple(mask.shape)
        values = mask[(0,) * (mask.ndim - 1)] if self.exported.lines else mask
        return values.expand(space).clone().reshape(*[1] * (len(shape) - len(space)), *space, 1)

    def masked(self, kspace: Any, seed: Seed = None) -> tuple[AnyArray, AnyArray]:
        """Mask k-space as MONAI wants it.

        Args:
            kspace: Complex, (..., coil, H, W), or real, (..., coil, H, W, 2).
            seed: The same seed gives the same random mask; None gives a new one.

        Returns:
            Masked k-space, and the zero-filled magnitude image, (..., H, W): the root of the sum of squares over
            the coils.
        """
        kspace = as_tensor(kspace) if isinstance(kspace, np.ndarray) else kspace
        in_pairs = not kspace.is_complex()
        if in_pairs and (kspace.ndim == 0 or kspace.shape[-1] != 2):
            raise InputError(
                f"Real k-space of shape {list(kspace.shape)} must end with an axis of real and imaginary parts."
            )
        mask, _ = self.floats(kspace.shape if in_pairs else (*kspace.shape, 2), seed)
        mask = (mask if in_pairs else mask[..., 0]).to(kspace.device)
        masked = kspace * mask + 0.0  # no signed zeros, as in fastMRI
        dimensions = max(2, self.exported.mask.ndim)
        values = torch.complex(masked[..., 0], masked[..., 1]) if in_pairs else masked
        image = to_image(values, space_axes(dimensions)).abs()
        return masked, image if image.ndim == dimensions else image.square().sum(-dimensions - 1).sqrt()

    def _fitting(self, shape: Sequence[int], seed: Seed) -> Mask:
        """The mask, if it fits k-space of this shape, (..., *space, 2); of lines, only the last axis must."""
        space = tuple(self.exported.mask.shape)
        needed = 1 if self.exported.lines else len(space)
        if len(shape) < max(2, len(space)) + 1 or tuple(shape[-1 - needed : -1]) != space[-needed:]:
            raise InputError(
                f"The mask is for k-space of shape {list(space)} and does not fit {list(shape)}, which should be "
                f"(..., H, W, 2): promask.export.resized carries masks to another size."
            )
        if self.distribution is None:
            return self.exported.mask
        return self.distribution.sample_exact(1, _number(seed))[0]


def _number(seed: Seed) -> int:
    """A seed for PyTorch; fastMRI's are the characters of a file name."""
    if seed is None:
        return secrets.randbits(63)
    if isinstance(seed, Sequence):
        return int(np.random.SeedSequence(list(seed)).generate_state(1, np.uint64)[0] >> 1)
    return int(seed)


def _block(shape: Sequence[int], width: int) -> tuple[slice, ...]:
    """The central block, where fastMRI and DIRECT put theirs."""
    return tuple(slice((n - width + 1) // 2, (n - width + 1) // 2 + width) for n in shape)


def _centre_width(units: UnitMask) -> int:
    width = 0
    while width < min(units.shape) and units[_block(units.shape, width + 1)].all():
        width += 1
    return width
