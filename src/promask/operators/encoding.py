"""The scanner as a linear operator, E = F S, with its adjoint; steps and solvers that use it.

Conjugate gradients are those of Hestenes and Stiefel (1952), for a batch of equations at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from promask.operators.fourier import collapse_constant_axes, from_spectrum, real_product, space_axes, spectrum
from promask.operators.trajectory import Trajectory
from promask.operators.trajectory_transform import TrajectoryTransform
from promask.types import AnyImages, CoilImages, ComplexImages, KspaceMask, Maps, Spectra


@runtime_checkable
class Transform(Protocol):
    """F: from the images of all coils to k-space, on a grid or along a trajectory, with weights in the mask."""

    def __call__(self, images: AnyImages, /) -> Spectra:
        """F x."""

    def adjoint(self, kspace: Spectra, mask: KspaceMask, /) -> ComplexImages:
        """F^H m y."""

    def invert(self, kspace: Spectra, /) -> ComplexImages:
        """F^-1 y, of all that could be acquired."""

    def normal(self, images: AnyImages, mask: KspaceMask, /) -> ComplexImages:
        """F^H m F x."""

    def misfit(self, images: AnyImages, kspace: Spectra, mask: KspaceMask, /) -> ComplexImages:
        """F^H m (F x - y)."""

    def largest_eigenvalue(self, mask: KspaceMask, /) -> Float[Tensor, "..."]:
        """That of F^H m F, nearly, for each item of the mask."""


@dataclass(frozen=True)
class GridTransform:
    """The Fourier transform on the Cartesian grid, over some of the last axes.

    Along axes where a mask does not change, it commutes with the transform, and nothing needs to be transformed:
    lines are cheaper than single locations.
    """

    axes: tuple[int, ...]

    def __call__(self, images: AnyImages) -> Spectra:
        """F x."""
        return spectrum(images, self.axes)

    def adjoint(self, kspace: Spectra, mask: KspaceMask) -> ComplexImages:
        """F^H m y."""
        return from_spectrum(kspace * mask, self.axes)

    def invert(self, kspace: Spectra) -> ComplexImages:
        """F^-1 y, of all that could be acquired."""
        return from_spectrum(kspace, self.axes)

    def normal(self, images: AnyImages, mask: KspaceMask) -> ComplexImages:
        """F^H m F x."""
        return from_spectrum(self(images).mul_(mask), self.axes)

    def misfit(self, images: AnyImages, kspace: Spectra, mask: KspaceMask) -> ComplexImages:
        """F^H m (F x - y)."""
        return from_spectrum(self(images).sub_(kspace).mul_(mask), self.axes)

    def largest_eigenvalue(self, mask: KspaceMask) -> Float[Tensor, "..."]:
        """The largest that F^H m F can have: 1."""
        return mask.new_ones(())


@dataclass(frozen=True)
class Encoding:
    """E = F S: coil maps, then a Fourier transform; without maps, of each channel."""

    maps: Maps | None
    transform: Transform

    def __call__(self, images: AnyImages) -> Spectra:
        """The fully sampled k-space of every coil."""
        return self.transform(self.to_coils(images))

    def adjoint(self, kspace: Spectra, mask: KspaceMask) -> ComplexImages:
        """E^H m y: the images of all coils, combined."""
        return self.from_coils(self.transform.adjoint(kspace, mask))

    def invert(self, kspace: Spectra) -> ComplexImages:
        """The images of all that could be acquired, combined."""
        return self.from_coils(self.transform.invert(kspace))

    def normal(self, images: AnyImages, mask: KspaceMask) -> ComplexImages:
        """E^H m E, in which the mask counts as a weight of each location."""
        return self.from_coils(self.transform.normal(self.to_coils(images), mask))

    def misfit(self, images: AnyImages, kspace: Spectra, mask: KspaceMask) -> ComplexImages:
        """E^H m (E x - y)."""
        return self.from_coils(self.transform.misfit(self.to_coils(images), kspace, mask))

    def to_coils(self, images: AnyImages) -> CoilImages:
        """S x: what every coil sees."""
        return images if self.maps is None else self.maps * images

    def from_coils(self, images: CoilImages) -> ComplexImages:
        """S^H, in place."""
        return images if self._conjugate is None else images.mul_(self._conjugate).sum(1, keepdim=True)

    @cached_property
    def _conjugate(self) -> Maps | None:
        return None if self.maps is None else self.maps.conj().resolve_conj()


def combine_coils(images: CoilImages, maps: Maps) -> ComplexImages:
    """S^H: the sum over the coils of conj(s) x, (batch, 1, *space)."""
    dtype = torch.promote_types(images.dtype, maps.dtype)
    return torch.linalg.vecdot(maps.to(dtype), images.to(dtype), dim=1).unsqueeze(1)


def coil_product(left: Spectra, right: Spectra) -> Float[Tensor, "batch 1 *space"]:
    """Re(conj(left) right), summed over the coils."""
    if left.shape[1] == 1:
        return real_product(left, right)
    return torch.linalg.vecdot(left, right, dim=1).real.unsqueeze(1)


def mask_gradient(left: Spectra, right: Spectra, mask_shape: torch.Size) -> Tensor:
    """Re(conj(left) right), summed over the coils and whatever else the mask is broadcast along."""
    return coil_product(left, right).sum_to_size(mask_shape)


def to_hybrid_space(
    kspace: Spectra, mask: KspaceMask, indexes: int = 0
) -> tuple[Spectra, KspaceMask, tuple[int, ...]]:
    """K-space over the axes along which the mask varies, and image space over the others; and the mask without
    those others, and the axes that are left. The first axes of space, `indexes` of them, are not encoded.

    >>> lines = torch.ones(5, 1, 1, 4).expand(5, 1, 3, 4)
    >>> kspace, mask, axes = to_hybrid_space(torch.ones(5, 1, 3, 4, dtype=torch.complex64), lines)
    >>> mask.shape, axes
    (torch.Size([5, 1, 1, 4]), (-1,))
    """
    axes = space_axes(kspace.ndim - 2 - indexes)
    mask, varying = collapse_constant_axes(mask, axes)
    constant = [axis for axis in axes if axis not in varying]
    return (from_spectrum(kspace, constant) if constant else kspace), mask, varying


def encode(
    spectra: Spectra,
    mask: KspaceMask,
    maps: Maps | None,
    trajectory: Trajectory | None = None,
    indexes: int = 0,
) -> tuple[Spectra, KspaceMask, Encoding]:
    """What iterative reconstructions work with: the data, the mask and the scanner, as small as they can be.

    On a grid, that is hybrid space. Along a trajectory, data are weighted, and the mask is divided by its mean:
    then E^H m E is of the same size for evenly spread spokes, however many there are.

    Args:
        spectra: K-space in FFT order, (batch, coil or channel, *kspace).
        mask: (batch or 1, 1, *kspace) or (*kspace), constant along the samples of a spoke.
        maps: Coil sensitivities, or None.
        trajectory: The candidates that samples lie on; None: on the Cartesian grid.
        indexes: 1 if the first axis counts frames, which are not encoded; otherwise 0.

    Returns:
        The data, the mask that belongs to them, and the encoding.
    """
    if trajectory is None:
        kspace, mask, axes = to_hybrid_space(spectra, mask, indexes)
        return kspace, mask, Encoding(maps, GridTransform(axes))
    transform, mask = along(trajectory, spectra, mask, indexes)
    mean = mask.mean(tuple(range(1, mask.ndim)), keepdim=True)
    mask = mask / mean.clamp_min(torch.finfo(mask.dtype).tiny)
    return spectra * transform.root.to(spectra.real), mask, Encoding(maps, transform)


def along(
    trajectory: Trajectory, spectra: Spectra, mask: KspaceMask, indexes: int = 0, compensated: bool = False
) -> tuple[TrajectoryTransform, KspaceMask]:
    """The transform along a trajectory for data, and the mask with one weight for each spoke."""
    stacked = spectra.ndim - 2 - indexes == 3
    whole = mask if mask.ndim == spectra.ndim else mask.expand(1, 1, *mask.shape)
    return TrajectoryTransform(trajectory, stacked, compensated), whole.narrow(-1, 0, 1).to(spectra.real)


class _GradientStep(Function):
    # The k-space of all coils is computed again on the way back, rather than kept.
    @staticmethod
    def forward(ctx: Any, image: Tensor, mask: Tensor, kspace: Tensor, encoding: Encoding) -> Tensor:
        ctx.save_for_backward(image, mask, kspace)
        ctx.encoding = encoding
        return image - encoding.misfit(image, kspace, mask)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        image, mask, kspace = ctx.saved_tensors
        back = ctx.encoding(gradient)
        of_mask = None
        if ctx.needs_input_grad[1]:
            of_mask = mask_gradient(back, ctx.encoding(image).neg_().add_(kspace), mask.shape)
        return gradient - ctx.encoding.adjoint(back, mask), of_mask, None, None


def gradient_step(image: ComplexImages, mask: KspaceMask, kspace: Spectra, encoding: Encoding) -> ComplexImages:
    """x - E^H m (E x - y): differentiable in the image and in the mask, not in k-space.

    It is a step of length 1 along the gradient of |sqrt(m) (E x - y)|^2 / 2; with a single coil, k-space then
    holds the samples where the mask is 1. K-space and mask are those of `to_hybrid_space`, for the axes of the
    encoding.
    """
    result: Tensor = _GradientStep.apply(image, mask, kspace, encoding)  # type: ignore[no-untyped-call]
    return result


Numbers = Float[Tensor, "batch numbers"]


def conjugate_gradients(normal: Callable[[AnyImages], AnyImages], right: AnyImages, iterations: int) -> AnyImages:
    """An approximate solution of A x = b for each item of a batch, for a positive definite A.

    >>> conjugate_gradients(lambda x: 2 * x, torch.ones(1, 1, 3), iterations=1)
    tensor([[[0.5000, 0.5000, 0.5000]]])

    Complex numbers count as pairs of real ones, so that A may treat their parts differently.
    """
    right = right.contiguous()  # what follows are views of it
    solution, residual, direction = torch.zeros_like(right), right.clone(), right.clone()
    of_solution, of_residual, of_direction = map(_numbers, (solution, residual, direction))
    size = _inner(of_residual, of_residual)
    smallest = torch.finfo(size.dtype).tiny
    for _ in range(iterations):
        change = _numbers(normal(direction))
        step = size / _inner(of_direction, change).clamp_min(smallest)
        of_solution.addcmul_(of_direction, step)
        of_residual.addcmul_(change, step, value=-1)
        before, size = size, _inner(of_residual, of_residual)
        of_direction.mul_(size / before.clamp_min(smallest)).add_(of_residual)
    return solution


def _numbers(images: AnyImages) -> Numbers:
    """All real numbers of each item: a view."""
    images = images.contiguous()
    return (torch.view_as_real(images) if images.is_complex() else images).flatten(1)


def _inner(left: Numbers, right: Numbers) -> Float[Tensor, "batch 1"]:
    return torch.bmm(left.unsqueeze(1), right.unsqueeze(2)).squeeze(2)
