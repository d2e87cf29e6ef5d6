"""How much noise a mask and a reconstruction leave in the image, relative to the fully sampled scan.

Noise amplification is the standard deviation of a pixel with the mask over that of the fully sampled scan, whose
coils are combined by their sensitivities and nothing else. The g-factor is the same divided by the root of the
acceleration, which is what fewer samples cost in any case. A reconstruction that smooths or regularises can have
less than 1.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from promask.data.device import CPU
from promask.data.hybrid import largest_magnitude, slice_at
from promask.errors import InputError
from promask.evaluation.images import mask_in_fft_order
from promask.evaluation.point_spread import spread_function
from promask.losses import freeze_networks
from promask.operators.encoding import combine_coils
from promask.operators.fourier import space_axes, spectrum
from promask.operators.trajectory import Trajectory
from promask.recon.base import Reconstruction, reconstruct_spectra
from promask.types import AnyArray, Cut, Geometry, Image, Mask, Sample

REPLICAS = 16
"""The number of pseudo-replicas unless another one is asked for."""
SIGMA = 1e-3
"""The standard deviation of their noise, relative to the largest magnitude of the fully sampled image."""
OBJECT = 0.05
"""The magnitude above which a pixel belongs to the object, relative to the largest."""
AT_A_TIME = 4
"""Replicas that are reconstructed together."""
LARGEST_GROUP = 1024
"""Pixels that may be folded onto each other and still be told apart by a matrix of their own."""


@dataclass(frozen=True)
class NoiseMap:
    """The noise amplification of every pixel, and how it was found.

    Args:
        amplification: (*space), of one slice, or of one line in all frames: NaN outside of the object.
        acceleration: Of the mask.
        recon: The name of the reconstruction.
        method: `replicas`: the standard deviation over pseudo-replicas; `analytic`: from the sensitivities alone.
        replicas: How many of them; 0 for an analytic result.
        sigma: The noise of the replicas, relative to the largest magnitude of the fully sampled image.
        where: Of a volume, the position along the readout; and which sample it is, where that is known.
        sense: For a mask that is a lattice, the exact one of unfolding by SENSE.
        indexed: Of a series, what its first axis counts: `frame` or `contrast`; otherwise empty.
    """

    amplification: Float[Tensor, "*space"]
    acceleration: float
    recon: str
    method: str
    replicas: int = 0
    sigma: float | None = None
    where: str = ""
    sense: "NoiseMap | None" = None
    indexed: str = ""

    @property
    def g_factor(self) -> Float[Tensor, "*space"]:
        """The amplification divided by the root of the acceleration, (*space)."""
        return self.amplification / math.sqrt(self.acceleration)

    def summary(self) -> dict[str, Any]:
        """Plain values, as commands print them with `--json`: both maps over the object, and how they arose."""
        about: dict[str, Any] = {"recon": self.recon, "method": self.method, "replicas": self.replicas}
        about |= {"sigma": self.sigma, "where": self.where, "acceleration": self.acceleration}
        about |= {"amplification": _statistics(self.amplification), "g_factor": _statistics(self.g_factor)}
        return about if self.sense is None else about | {"sense": self.sense.summary()}


def _statistics(values: Float[Tensor, "*space"]) -> dict[str, float | None]:
    known = values[~values.isnan()].double().numpy()
    found = [np.mean(known), *np.quantile(known, [0.5, 0.95]), np.max(known)] if known.size else [math.nan] * 4
    names = ("mean", "median", "percentile_95", "maximum")
    return {name: float(each) if np.isfinite(each) else None for name, each in zip(names, found, strict=True)}


def slice_of(
    sample: Sample, mask: Mask, position: int | None = None, indexes: int = 0
) -> tuple[Sample, AnyArray, str]:
    """The slice of a volume whose noise is looked at: across an axis along which the mask does not change.

    Args:
        sample: A slice, a volume, or a series, (coil, *space).
        mask: Its mask, (*space).
        position: Where along that axis; None: in the middle.
        indexes: 1 for a series, whose first axis counts frames, and is not cut across.

    Returns:
        The slice, its mask, and where it lies in words; of a series, a line in all frames. A slice stays what it
        is, and so does a volume whose mask changes along all axes.
    """
    whole = [axis for axis in _constant_axes(mask) if axis >= indexes]
    if mask.ndim < 3 or not whole:
        return sample, mask, ""
    axis, n = whole[0], mask.shape[whole[0]]
    position = n // 2 if position is None else position
    if not 0 <= position < n:
        raise InputError(f"`position` must be from 0 to {n - 1}, but is {position}.")
    cut = slice_at(replace(sample, label=None), axis, position, largest_magnitude(sample))
    return cut, mask.select(axis, 0), f"position {position} of {n} along axis {axis}"


def measure_noise(
    sample: Sample,
    mask: Mask,
    recon: Reconstruction,
    acceleration: float,
    replicas: int = REPLICAS,
    position: int | None = None,
    seed: int = 0,
    device: torch.device = CPU,
    indexed: str = "",
    trajectory: Trajectory | None = None,
) -> NoiseMap:
    """Measure the noise amplification of a reconstruction by pseudo-replicas (Robson et al. 2008).

    White complex noise is added to the fully sampled k-space of all coils, again and again, and each replica is
    reconstructed with the mask. Along a trajectory, it is added to the samples of all candidates; as those of a
    spoke are read in the time of a Cartesian line, each has the more noise, the more of them there are. Then the
    acceleration of the g-factor is what a fully sampled Cartesian scan acquires over what is acquired.

    Args:
        sample: The fully sampled scan, (coil, *space), with its coil sensitivities.
        mask: (*space), centred.
        recon: A reconstruction that combines coils by their sensitivities.
        acceleration: Of the mask.
        replicas: How many, at least 2; the standard deviation of a pixel has a relative error of 1 / (2
            sqrt(replicas)).
        position: Of a volume, along the readout; None: in the middle.
        seed: The same seed gives the same noise.
        device: Where PyTorch computes.
        indexed: Of a series, what its first axis counts; empty for slices and volumes.
        trajectory: What samples lie on; None: k-space is Cartesian.

    Returns:
        The noise amplification of every pixel of the object; of a series whose frames have lines, those of one
        position along them in all frames, (frame, *space).

    Raises:
        InputError: If there are no coil sensitivities, or fewer than 2 replicas.
    """
    if replicas < 2:
        raise InputError(f"`replicas` must be at least 2, but is {replicas}.")
    if sample.maps is None or not recon.uses_maps:
        raise InputError(
            f"The noise of {sample.name} with {recon.name} cannot be measured: it needs coil sensitivities, and a "
            f"reconstruction that uses them."
        )
    indexes = int(bool(indexed))
    sample, mask, where = (sample, mask, "") if trajectory else slice_of(sample, mask, position, indexes)
    assert sample.maps is not None
    cut, at = Cut.of([sample.place]), getattr(recon, "at", None)
    recon = recon if cut is None or at is None else at(cut)
    images, maps = (each[None].to(torch.complex64).to(device) for each in (sample.image, sample.maps))
    full = combine_coils(images, maps)
    sigma = SIGMA * float(full.abs().max())
    level = sigma
    if trajectory is None:
        kspace = spectrum(images, space_axes(mask.ndim - indexes))
    else:
        assert sample.kspace is not None
        kspace, level = sample.kspace[None].to(device), sigma * math.sqrt(trajectory.oversampling)
        read = int(mask.sum()) / trajectory.oversampling
        acceleration = math.prod(sample.image.shape[1:]) / read
    weights = mask_in_fft_order(mask, Geometry(indexed=indexed, trajectory=trajectory)).to(kspace.real)
    generator = torch.Generator().manual_seed(seed)
    spread = RunningVariance()
    with torch.no_grad(), freeze_networks(recon=recon):
        for start in range(0, replicas, AT_A_TIME):
            count = min(AT_A_TIME, replicas - start)
            noise = torch.randn((count, *kspace.shape[1:]), generator=generator, dtype=torch.complex64)
            noisy = kspace + level * noise.to(device)
            found = reconstruct_spectra(recon, noisy, weights, maps, indexes, trajectory)
            for image in found[:, 0].cpu():
                spread.add(image)
    # Sensitivities have a sum of squares of 1: the noise of the fully sampled scan is that of k-space.
    amplification = spread.deviation().to(torch.float32) / sigma
    inside = object_of(sample)
    amplification[~inside] = math.nan
    sense = None
    if not indexed and trajectory is None:
        sense = sense_noise(sample.maps, mask, acceleration, inside, largest_group=len(sample.maps))
    return NoiseMap(amplification, acceleration, recon.name, "replicas", replicas, SIGMA, where, sense, indexed)


class RunningVariance:
    """The variance of images that come one by one (Welford 1962), without keeping them."""

    def __init__(self) -> None:
        self.count = 0
        self._mean: Tensor = torch.zeros(())
        self._squares: Tensor = torch.zeros(())

    def add(self, image: Tensor) -> None:
        """Take one more image into account: real or complex, all of one shape."""
        image = image.to(torch.complex128)
        self.count += 1
        before = image - self._mean
        self._mean = self._mean + before / self.count
        self._squares = self._squares + (before.conj() * (image - self._mean)).real

    def deviation(self) -> Tensor:
        """The standard deviation of each pixel; of complex numbers, of both parts together."""
        return (self._squares / (self.count - 1)).sqrt()


def object_of(sample: Sample) -> Mask:
    """Where there is signal, and the coils are known to receive it.

    Args:
        sample: With coil sensitivities, (coil, *space).

    Returns:
        (*space).
    """
    assert sample.maps is not None
    image = sample.image if sample.clean is None else sample.clean
    magnitudes = combine_coils(image[None], sample.maps[None])[0, 0].abs()
    received = torch.linalg.vector_norm(sample.maps, dim=0) > 0
    return received & (magnitudes > OBJECT * magnitudes.max())


def sense_noise(
    maps: Image,
    mask: Mask,
    acceleration: float,
    inside: Mask | None = None,
    regularisation: float = 0.0,
    largest_group: int = LARGEST_GROUP,
) -> NoiseMap | None:
    """Compute the noise amplification of SENSE exactly, from the coil sensitivities (Pruessmann et al. 1999).

    A mask folds pixels onto each other where its point-spread function is not 0. On a lattice that are few, and
    the covariance of each group is the inverse of a small matrix, as in the textbook. With other masks all pixels
    of an image are one group, for which this is the least-squares solution that CG-SENSE tends to.

    Args:
        maps: Coil sensitivities, (coil, *space), whose sum of squares is 1 where coils receive anything.
        mask: (*space), centred. Along axes where it does not change, every position is computed by itself.
        acceleration: Of the mask.
        inside: Pixels that are reconstructed, (*space); None: all that coils receive.
        regularisation: As that of CG-SENSE; 0 for SENSE.
        largest_group: How many pixels may be folded onto each other.

    Returns:
        The noise amplification of every pixel; None where more pixels are folded onto each other than can be told
        apart, or than there are coils for.
    """
    constant = _constant_axes(mask)[: mask.ndim - 1]
    varying = tuple(axis for axis in range(mask.ndim) if axis not in constant)
    received = torch.linalg.vector_norm(maps, dim=0) > 0
    inside = received if inside is None else inside & received
    # Positions along axes that are not undersampled come first, then the others, all in one row each.
    order = (*constant, *varying)
    space = [mask.shape[axis] for axis in order]
    lines, pixels = math.prod(space[: len(constant)]), math.prod(space[len(constant) :])
    in_rows = maps.to(torch.complex128).permute(0, *(axis + 1 for axis in order)).reshape(-1, lines, pixels)
    known = inside.permute(order).reshape(lines, pixels)
    units = mask[tuple(0 if axis in constant else slice(None) for axis in range(mask.ndim))]
    folded = _folded(units, largest_group)
    if folded is None:
        return None
    groups, folding = folded
    result = torch.full((lines, pixels), math.nan, dtype=torch.float64)
    identity = torch.eye(groups.shape[1], dtype=torch.complex128)
    for line in range(lines):
        coils = (in_rows[:, line] * known[line])[:, groups].movedim(0, -1)  # (group, pixel, coil)
        normal = folding * (coils.conj() @ coils.transpose(-1, -2))
        empty = (~known[line])[groups].to(torch.complex128)
        inverse, failed = torch.linalg.inv_ex(normal + regularisation * identity + torch.diag_embed(empty))
        covariance = inverse @ normal @ inverse.mH
        variances = covariance.diagonal(dim1=-2, dim2=-1).real
        if failed.any() or not variances.isfinite().all():
            return None
        result[line, groups] = variances.clamp_min(0).sqrt()
        result[line, ~known[line]] = math.nan
    back = [order.index(axis) for axis in range(mask.ndim)]
    amplification = result.reshape(space).permute(back).to(torch.float32)
    name = "sense" if regularisation == 0 else "least squares"
    return NoiseMap(amplification, acceleration, name, "analytic")


def _folded(units: Mask, largest: int) -> tuple[Tensor, Tensor] | None:
    """Groups of pixels that are folded onto each other, (groups, pixels of one), and how, (pixels, pixels).

    None if there are too many of them.
    """
    spread = spread_function(units) * (float(units.sum()) / units.numel())
    together = spread.abs() > 1e-9
    shape = torch.tensor(units.shape)
    if int(together.sum()) * int(units.sum()) != units.numel():  # not a lattice
        together = torch.ones_like(together)
    offsets = together.nonzero() - shape // 2
    if len(offsets) > largest:
        return None
    pixels = torch.ones_like(together).nonzero()
    strides = torch.tensor([math.prod(units.shape[axis + 1 :]) for axis in range(units.ndim)])
    alike = (((pixels[:, None] + offsets) % shape) * strides).sum(-1)
    groups = alike[alike.amin(1) == torch.arange(len(alike))]
    difference = (offsets[:, None] - offsets + shape // 2) % shape
    return groups, spread[tuple(difference.movedim(-1, 0))]


def _constant_axes(mask: Mask) -> list[int]:
    return [axis for axis in range(mask.ndim) if (mask == mask.narrow(axis, 0, 1)).all()]
