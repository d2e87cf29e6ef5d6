"""The contract of a reconstruction, and what the built-in ones share."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Integer
from torch import Tensor

from promask.errors import InputError
from promask.operators.encoding import combine_coils
from promask.operators.fourier import (
    collapse_constant_axes,
    kspace_from_spectrum,
    shift_mask,
    space_axes,
    spectrum_from_kspace,
)
from promask.operators.trajectory import Trajectory
from promask.types import AnyImages, Batch, CoilImages, Cut, KspaceMask, Maps, Spectra


@runtime_checkable
class Fittable(Protocol):
    """A reconstruction with a prior from training data."""

    @property
    def prior(self) -> Tensor | None:
        """What was fitted; None before."""

    def fitted(self, series: Iterable[AnyImages], parts: Sequence[int] | None = None, /) -> "Reconstruction":
        """The same with a prior from fully sampled images, (batch, channel, *space) each.

        `parts` tells to which part of the patients each of them belongs: then there are also priors without each.
        """


@runtime_checkable
class Reconstruction(Protocol):
    """(k-space, mask) -> image, differentiable in the mask: the contract of all reconstructions, also your own.

    K-space and mask are centred: DC is at index n // 2, and `promask.operators.fourier.to_image` is the inverse
    transform. Images and coil sensitivities are in image space, which has no such order.

    Series of frames are reconstructed frame by frame, unless an attribute `temporal = True` says otherwise: then
    arrays have an axis of frames before those of space, along which coil sensitivities have length 1.
    """

    @property
    def name(self) -> str:
        """As on the command line, in messages and in records."""

    @property
    def uses_maps(self) -> bool:
        """Whether coils are combined by their sensitivities."""

    @property
    def iterative(self) -> bool:
        """Whether it infers samples that were not acquired, as iterative and learned reconstructions do."""

    def reference(self, images: CoilImages, maps: Maps | None, /) -> AnyImages:
        """Return what the reconstruction aims at.

        Args:
            images: Fully sampled images, (batch, coil or channel, *space).
            maps: Coil sensitivities, (batch or 1, coil, *space), if channels are coils and the sensitivities
                known.

        Returns:
            Images of the shape that a call returns.
        """

    def __call__(self, kspace: Spectra, mask: KspaceMask, maps: Maps | None = None, /) -> AnyImages:
        """Reconstruct images.

        Args:
            kspace: Fully sampled and centred, (batch, coil or channel, *space).
            mask: Centred, (batch or 1, 1, *space) or (*space): zeros and ones, or weights between them.
            maps: Coil sensitivities; without them, every channel is an image of its own.

        Returns:
            Images, (batch, channel, *space); one channel where coils are combined.
        """


class SpectralReconstruction(ABC):
    """A built-in reconstruction: centred when it is called, in FFT order (DC at index 0) inside the loop.

    Those that use coil sensitivities are iterative unless they say otherwise.
    """

    uses_maps: ClassVar[bool] = True
    combines_coils: ClassVar[bool] = False
    """Whether it has no meaning without several coils."""
    iterative: ClassVar[bool] = True
    slicewise: ClassVar[bool] = True
    """Whether volumes may be reconstructed slice by slice, along an axis that is not undersampled."""
    temporal: ClassVar[bool] = False
    """Whether it needs series of frames, and reconstructs them together."""
    trajectories: ClassVar[bool] = False
    """Whether it can do with spokes and spirals, beside the Cartesian grid."""
    linear: ClassVar[bool] = False
    """Whether the images are linear in k-space, with a quadratic `penalty`."""
    arrays: ClassVar[tuple[str, ...]] = ()
    """Fields that are no settings: arrays that are fitted to data."""

    def __post_init__(self) -> None:
        check_settings(getattr(self, "iterations", None), getattr(self, "regularisation", None))

    def at(self, cut: Cut | None, parts: Integer[Tensor, " batch"] | None = None) -> "SpectralReconstruction":
        """The same for slices of volumes, where it depends on their position or on the scale of the volumes.

        Args:
            cut: Where the slices of the next call were cut out of their volumes; None: they are whole.
            parts: To which part of the patients each belongs, where a prior must not have seen them.

        Returns:
            A reconstruction for these slices.
        """
        return self

    def reference(self, images: CoilImages, maps: Maps | None) -> AnyImages:
        """S^H x, the coils combined; without sensitivities, the images themselves."""
        return images if maps is None else combine_coils(images, maps)

    @abstractmethod
    def from_spectra(self, spectra: Spectra, mask: KspaceMask, maps: Maps | None = None) -> AnyImages:
        """The same as a call, for k-space and mask in FFT order.

        Those that are good for `trajectories` take one as a further argument: then the last axes of k-space are
        candidates and their samples, and the mask is constant along the latter.

        Args:
            spectra: Fully sampled, (batch, coil or channel, *space).
            mask: (batch or 1, 1, *space) or (*space). It may be a broadcast view: along axes where it does not
                change, there is less to do.
            maps: Coil sensitivities, (batch or 1, coil, *space); None if every channel is an image of its own.

        Returns:
            Images, (batch, channel, *space); one channel where coils are combined.
        """

    def __call__(self, kspace: Spectra, mask: KspaceMask, maps: Maps | None = None) -> AnyImages:
        """Reconstruct images from centred k-space; see `Reconstruction`."""
        axes = space_axes(kspace.ndim - 2 - self.temporal)
        return self.from_spectra(
            spectrum_from_kspace(kspace, axes), shift_mask(mask, axes, torch.fft.ifftshift), maps
        )


def is_temporal(recon: Reconstruction) -> bool:
    """Whether a reconstruction needs series of frames, and reconstructs them together."""
    return bool(getattr(recon, "temporal", False))


def reconstruct_batch(recon: Reconstruction, batch: Batch, mask: KspaceMask) -> AnyImages:
    """The images of a batch, for a mask in FFT order, (batch or 1, 1, *space) or (*space)."""
    geometry = batch.geometry
    about = (geometry.indexes, geometry.trajectory)
    return reconstruct_spectra(at_batch(recon, batch), batch.spectra, mask, batch.maps, *about)


def at_batch(recon: Reconstruction, batch: Batch) -> Reconstruction:
    """The reconstruction for the samples of a batch: where they were cut out, and with priors from other patients.

    Args:
        recon: Any reconstruction.
        batch: The samples.

    Returns:
        The same, if it does not depend on them.
    """
    at = getattr(recon, "at", None)
    if at is None or (batch.cut is None and batch.parts is None):
        return recon
    found: Reconstruction = at(batch.cut, batch.parts)
    return found


def reconstruct_spectra(
    recon: Reconstruction,
    spectra: Spectra,
    mask: KspaceMask,
    maps: Maps | None = None,
    indexes: int = 0,
    trajectory: Trajectory | None = None,
) -> AnyImages:
    """The images of any reconstruction, for k-space and mask in FFT order: what the loop calls.

    Args:
        recon: The reconstruction.
        spectra: Fully sampled, (batch, coil or channel, *space).
        mask: (batch or 1, 1, *space) or (*space).
        maps: Coil sensitivities, (batch or 1, coil, *space); None if every channel is an image of its own.
        indexes: 1 if the first axis of space counts frames or contrasts, which are reconstructed one by one unless
            the reconstruction is temporal; otherwise 0.
        trajectory: What the last two axes of k-space, candidates and their samples, lie on; None: k-space is
            Cartesian.

    Returns:
        Images, (batch, channel, *space).
    """
    if indexes and not is_temporal(recon):
        return _one_by_one(recon, spectra, mask, maps, trajectory)
    if trajectory is not None:
        check_trajectory(recon, trajectory)
        along: Callable[..., AnyImages] = recon.from_spectra  # type: ignore[attr-defined]
        return along(spectra, mask, maps, trajectory)
    if isinstance(recon, SpectralReconstruction):
        return recon.from_spectra(spectra, mask, maps)
    axes = space_axes(spectra.ndim - 2 - indexes)
    return recon(kspace_from_spectrum(spectra, axes), shift_mask(mask, axes, torch.fft.fftshift), maps)


def check_trajectory(recon: Reconstruction, trajectory: Trajectory) -> None:
    """Refuse a reconstruction that is for Cartesian k-space alone."""
    if not getattr(recon, "trajectories", False):
        raise InputError(
            f"{recon.name} reconstructs Cartesian k-space, but the pattern is {trajectory.kind}: choose gridding, "
            f"cg-sense, cs or cs-tv, or for frames view-sharing, kt-sense, kt-cs, kt-tv or l+s."
        )


def _one_by_one(
    recon: Reconstruction,
    spectra: Spectra,
    mask: KspaceMask,
    maps: Maps | None,
    trajectory: Trajectory | None = None,
) -> AnyImages:
    """Each frame or contrast as an item of the batch; a mask that is a broadcast view stays one."""
    batch, _, frames, *space = spectra.shape
    mask = mask.reshape(-1, 1, *mask.shape[mask.ndim - 1 - len(space) :]) if mask.ndim < spectra.ndim else mask
    mask, _ = collapse_constant_axes(mask, space_axes(len(space)))
    items = mask.expand(batch, -1, frames, *mask.shape[3:]).transpose(1, 2).flatten(0, 1)
    if maps is not None:
        maps = maps.squeeze(2)
        maps = maps if len(maps) == 1 else maps.repeat_interleave(frames, 0)
    made = reconstruct_spectra(
        *(recon, spectra.transpose(1, 2).flatten(0, 1), items.expand(*items.shape[:2], *space), maps),
        trajectory=trajectory,
    )
    return made.unflatten(0, (batch, frames)).transpose(1, 2)


def check_settings(iterations: int | None, regularisation: float | None) -> None:
    """Refuse what no reconstruction can do."""
    if iterations is not None and iterations < 1:
        raise InputError(f"iterations must be a whole number from 1, but is {iterations}.")
    if regularisation is not None and not 0 <= regularisation < math.inf:
        raise InputError(f"regularisation must be a number of at least 0, but is {regularisation}.")
