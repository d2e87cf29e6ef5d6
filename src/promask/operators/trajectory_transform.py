"""The Fourier transform along a trajectory, as reconstructions use it: all candidates there, some of them back."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Complex, Float, Integer, Num
from torch import Tensor

from promask.operators.fourier import from_spectrum, spectrum
from promask.operators.nufft import Nufft, convolve
from promask.operators.trajectory import Trajectory

POWER_STEPS = 12
"""Of the iteration that finds the largest eigenvalue."""
TINY = 1e-30
"""What a norm is at least, so that it can be divided by."""


@dataclass(frozen=True, eq=False)
class TrajectoryTransform:
    """sqrt(W) F: images to the weighted samples of all candidates.

    Images are (batch, coil, ..., y, x) and samples (batch, coil, ..., candidate, sample): between them may be
    frames, or, in a stack of trajectories, the axis z of volumes, which is kz in k-space, after the candidates:
    (batch, coil, candidate, kz, sample). A mask has one weight for each candidate, and length 1 along samples.

    Args:
        trajectory: The candidates.
        stacked: Whether volumes are encoded along z as well.
        compensated: Whether W are the areas of samples in k-space, as gridding needs them, and not the square
            roots that iterative reconstructions do better with.
    """

    trajectory: Trajectory
    stacked: bool = False
    compensated: bool = False

    @property
    def weights(self) -> Float[Tensor, " sample"]:
        """W, the same for all candidates."""
        return self.trajectory.areas if self.compensated else self.trajectory.weights

    def sample(self, images: Num[Tensor, "batch coil *space"]) -> Complex[Tensor, "batch coil *samples"]:
        """F: what the scanner would measure of images, without weights."""
        planes = spectrum(images, (-3,)) if self.stacked else images
        found = _nufft(self.trajectory)(planes).unflatten(-1, self.trajectory.points.shape[:2])
        return found.movedim(-3, -2) if self.stacked else found

    def __call__(self, images: Num[Tensor, "batch coil *space"]) -> Complex[Tensor, "batch coil *samples"]:
        """The weighted samples of images."""
        found = self.sample(images)
        return found.mul_(self.root.to(found.real))

    @cached_property
    def root(self) -> Float[Tensor, " sample"]:
        """sqrt(W)."""
        return self.weights.sqrt()

    def adjoint(
        self, kspace: Complex[Tensor, "batch coil *samples"], mask: Float[Tensor, "batch_or_1 1 *weights"]
    ) -> Complex[Tensor, "batch coil *space"]:
        """F^H sqrt(W) m of weighted samples: candidates of weight 0 cost nothing."""
        samples, weights = self._planes(kspace), self._planes(mask)[:, 0, ..., 0]
        images = kspace.new_zeros(*samples.shape[:-2], *self.trajectory.matrix)
        for place, own in _alike(weights):
            chosen = own.nonzero().flatten()
            if len(chosen):
                factor = own[chosen, None] * self.root.to(own)
                picked = samples[place].index_select(-2, chosen) * factor
                images[place] = _nufft(self.trajectory, chosen).adjoint(picked.flatten(-2))
        return from_spectrum(images, (-3,)) if self.stacked else images

    def invert(self, kspace: Complex[Tensor, "batch coil *samples"]) -> Complex[Tensor, "batch coil *space"]:
        """The images of the weighted samples of all candidates: F^-1, nearly."""
        complete = TrajectoryTransform(self.trajectory, self.stacked, compensated=True)
        everything = kspace.real.new_ones(1, 1, *kspace.shape[2:-1], 1)
        return complete.adjoint(kspace * (complete.root / self.root).to(kspace.real), everything)

    def normal(
        self, images: Num[Tensor, "batch coil *space"], mask: Num[Tensor, "batch_or_1 1 *weights"]
    ) -> Complex[Tensor, "batch coil *space"]:
        """F^H W m F of images, by Fourier transforms on the doubled grid."""
        kernels = self._kernels(mask)
        planes = spectrum(images, (-3,)) if self.stacked else images
        found = convolve(planes if planes.is_complex() else planes.to(planes.dtype.to_complex()), kernels)
        return from_spectrum(found, (-3,)) if self.stacked else found

    def misfit(
        self,
        images: Num[Tensor, "batch coil *space"],
        kspace: Complex[Tensor, "batch coil *samples"],
        mask: Float[Tensor, "batch_or_1 1 *weights"],
    ) -> Complex[Tensor, "batch coil *space"]:
        """F^H sqrt(W) m (sqrt(W) F x - y); what does not depend on the images is kept for the next call."""
        key = (*_identity(kspace), *_identity(mask))
        if self._memory.get("right", (None,))[0] != key:
            self._memory["right"] = key, self.adjoint(kspace, mask), kspace, mask
        return self.normal(images, mask).sub_(self._memory["right"][1])

    def largest_eigenvalue(self, mask: Float[Tensor, "batch_or_1 1 *weights"]) -> Float[Tensor, "batch_or_1 ..."]:
        """That of F^H W m F, nearly: one for each item of the mask, in a shape that images can be divided by.

        It is found by power iterations. Its derivative is that of the quotient for the eigenvector.
        """
        kernels = self._kernels(mask.detach())
        shape = (*kernels.shape[:-2], *self.trajectory.matrix)
        vector = torch.ones(shape, dtype=kernels.dtype.to_complex(), device=mask.device)
        for _ in range(POWER_STEPS):
            vector = vector / torch.linalg.vector_norm(vector, dim=(-2, -1), keepdim=True).clamp_min(TINY)
            before, vector = vector, convolve(vector, kernels)
        found = (before.conj() * vector).real.sum((-2, -1), keepdim=True)
        if mask.requires_grad:
            samples = _nufft(self.trajectory)(before).unflatten(-1, self.trajectory.points.shape[:2])
            strengths = (samples.abs().square() * self.weights.to(found)).sum(-1, keepdim=True)
            found = (self._planes(mask) * strengths).sum((-2, -1), keepdim=True)
        return found.amax(tuple(range(1, found.ndim)), keepdim=True).clamp_min(TINY)

    def _kernels(self, mask: Num[Tensor, "batch_or_1 1 *weights"]) -> Float[Tensor, "..."]:
        """Of each plane; those of the last mask are kept."""
        key = _identity(mask)
        if self._memory.get("kernels", (None,))[0] != key:
            self._memory["kernels"] = key, self._find_kernels(self._planes(mask)[:, 0, ..., 0].real), mask
        return self._memory["kernels"][1]

    def _find_kernels(self, weights: Float[Tensor, "batch_or_1 *leading candidate"]) -> Float[Tensor, "..."]:
        """The same; images that come one after the other often have the same mask."""
        content = weights.contiguous().cpu().numpy().tobytes()
        about = (self.trajectory, self.compensated, weights.shape, weights.dtype, weights.device, content)
        if _last_kernels and _last_kernels[0][0] == about:
            return _last_kernels[0][1]
        twice = [2 * n for n in self.trajectory.matrix]
        kernels = weights.new_zeros(len(weights), 1, *weights.shape[1:-1], *twice)
        for place, own in _alike(weights, each=True):
            chosen = own.nonzero().flatten()
            if len(chosen):
                heavy = own[chosen, None] * self.weights.to(own)
                kernels[place] = _nufft(self.trajectory, chosen).kernel(heavy.flatten())
        _last_kernels[:] = [(about, kernels)]
        return kernels

    def _planes(self, values: Tensor) -> Tensor:
        """With the axis kz, if there is one, before that of the candidates."""
        return values.movedim(-2, -3) if self.stacked else values

    @cached_property
    def _memory(self) -> dict[str, Any]:
        return {}


def _alike(weights: Tensor, each: bool = False) -> list[tuple[Any, Tensor]]:
    """Where the planes of a batch are that have the same weights, and these weights, (candidate,).

    With `each`, the places are those of arrays that have one plane for each of the weights.
    """
    batch, *leading = weights.shape[:-1]
    rows: Iterable[Any] = [slice(None)] if batch == 1 and not each else range(batch)
    places = itertools.product(rows, *map(range, leading))
    return [
        ((row, slice(None), *others), weights[(0 if batch == 1 else int(row), *others)]) for row, *others in places
    ]


def _identity(values: Tensor) -> tuple[Any, ...]:
    return values.data_ptr(), values._version, tuple(values.shape), values.stride(), values.dtype


_last_kernels: list[tuple[Any, Tensor]] = []
"""Of the last weights, with what they are of."""
_last: list[tuple[Trajectory, Nufft]] = []
"""The transform of all candidates that was used last: its points are many."""


def _nufft(trajectory: Trajectory, chosen: Integer[Tensor, " chosen"] | None = None) -> Nufft:
    """The transform to the samples of some of the candidates, or of all."""
    if chosen is not None:
        return Nufft(trajectory.points[chosen.cpu()].flatten(0, 1), trajectory.matrix)
    if not _last or _last[0][0] != trajectory:
        _last[:] = [(trajectory, Nufft(trajectory.points.flatten(0, 1), trajectory.matrix))]
    return _last[0][1]
