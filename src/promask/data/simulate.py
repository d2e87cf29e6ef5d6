"""What a scanner would measure of an image: with a smooth phase, receive coils around it, and noise."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Complex, Float
from torch import Tensor

from promask.data.axes import COIL, CONTRAST
from promask.data.preprocess import remove_unmeasured
from promask.data.reading import Reading
from promask.errors import InputError
from promask.operators.fourier import combined_magnitude
from promask.operators.trajectory import Trajectory
from promask.operators.trajectory_transform import TrajectoryTransform
from promask.types import Geometry, Image, Sample, SampleSpectra

RADIUS = 1.5
"""Of the ring of coils; the field of view reaches from -1 to 1 along every axis."""
NOISE = 0x6E6F697365
"""Part of the seed of noise, so that its random numbers differ from others with the same seed."""
PHASE = 0x7068617365
"""The same of the phase."""
TINY = 1e-12
"""What a standard deviation is at least, so that a single pixel can be divided by it."""
WAVES = 2
"""The phase consists of waves of at most so many half periods along each direction of the field of view."""


@lru_cache(maxsize=8)
def simulated_maps(coils: int, space: tuple[int, ...]) -> Complex[Tensor, "{coils} *space"]:
    """Simulate the smooth sensitivities of loop coils on a cylinder around the object, as of a birdcage.

    The axis of the cylinder is the first axis of volumes, along which there are several rings of coils.

    >>> maps = simulated_maps(8, (32, 24))
    >>> maps.shape, bool((maps.abs().square().sum(0) - 1).abs().max() < 1e-6)
    (torch.Size([8, 32, 24]), True)

    Args:
        coils: The number of coils.
        space: The size of the images, with two or three axes.

    Returns:
        Sensitivities, (coils, *space), whose sum of squares over the coils is 1.
    """
    grid = torch.meshgrid(*(_positions(n) for n in space), indexing="ij")
    across = grid[-2:]
    rings = 1 if len(space) == 2 else max(1, round(math.sqrt(coils / 2)))
    maps = []
    for coil in range(coils):
        # One after the other around the cylinder, so that neighbours lie in different rings.
        angle, height = 2 * math.pi * coil / coils, (2 * (coil % rings) + 1) / rings - 1
        to_coil = [across[0] - RADIUS * math.sin(angle), across[1] - RADIUS * math.cos(angle)]
        along = [grid[0] - height] if rings > 1 else []
        distance = torch.stack([*to_coil, *along]).square().sum(0).sqrt()
        # The field circles around the wire; a birdcage drives its coils one after the other.
        phase = torch.atan2(to_coil[1], -to_coil[0]) - angle
        maps.append(torch.polar(1 / distance, phase))
    stacked = torch.stack(maps)
    return (stacked / torch.linalg.vector_norm(stacked, dim=0)).to(torch.complex64)


@lru_cache(maxsize=8)
def _simulated(coils: int, space: tuple[int, ...], indexes: int) -> Image:
    """The same for samples whose first axes, so many of them, are not encoded: of length 1 along these."""
    maps = simulated_maps(coils, space[indexes:])
    return maps.unsqueeze(1) if indexes else maps


def _positions(count: int) -> Tensor:
    """From -1 to 1, with 0 at count // 2, the centre."""
    return (torch.arange(count, dtype=torch.float64) - count // 2) / (count / 2)


def scan_shape(shape: tuple[int, ...], reading: Reading, name: str) -> tuple[int, ...]:
    """The shape of samples, (channel, *space), after the simulated scan."""
    if reading.coils is None or (reading.per == CONTRAST and shape[0] > 1):  # of series, each contrast is scanned
        return shape
    if shape[0] != 1:
        raise InputError(
            f"{name} has {shape[0]} channels, but coils can only be simulated around images of one channel: leave "
            f"out `coils`, or give each contrast a pattern of its own with `per`."
        )
    return (reading.coils, *shape[1:])


def scan_geometry(geometry: Geometry, reading: Reading, space: Sequence[int]) -> Geometry:
    """The geometry of samples after the simulated scan: their channels are coils, k-space is along a trajectory.

    `space` is the size of the images; of series, that of their frames.
    """
    in_channels = reading.per == CONTRAST and geometry.channels == CONTRAST
    if reading.trajectory is not None:
        trajectory = Trajectory.of(reading.trajectory, (space[-2], space[-1]), reading.candidates)
        geometry = replace(geometry, extent=(), readout=None, trajectory=trajectory)
    elif reading.candidates is not None:
        raise InputError("`candidates` is for spokes and spirals: choose the pattern radial or spiral.")
    return geometry if reading.coils is None or in_channels else replace(geometry, channels=COIL)


def simulate_scan(sample: Sample, maps: Image | None, index: int, reading: Reading, geometry: Geometry) -> Sample:
    """The sample with its coil sensitivities, seen by the simulated coils if there are any, with phase and noise.

    Simulated coils have the sensitivities `maps`, or else those of a birdcage. `index` is the place of the sample
    in its data set, which determines its phase and its noise. The frames of a series share their sensitivities
    and their phase.
    """
    image, clean, extent = sample.image, sample.clean, geometry.extent
    if reading.phase > 0:
        angle = reading.phase * smooth_phase(tuple(image.shape[1 + geometry.indexes :]), index)
        turned = torch.polar(torch.ones_like(angle), angle)
        image = remove_unmeasured(turned * image, extent)
        clean = None if clean is None else remove_unmeasured(turned * clean, extent)
    if reading.coils is not None:
        if maps is None:
            maps = _simulated(reading.coils, tuple(image.shape[1:]), geometry.indexes)
        image = remove_unmeasured(maps * image, extent)
        clean = None if clean is None else remove_unmeasured(maps * clean, extent)
    if reading.noise > 0:
        clean = image if clean is None else clean
        largest = combined_magnitude(clean, 0).max()
        image = image + reading.noise * largest * remove_unmeasured(_noise(tuple(image.shape), index), extent)
    kspace = None
    if geometry.trajectory is not None:
        kspace = _acquire(image if clean is None else clean, geometry, index, reading)
    return replace(sample, image=image, maps=maps, clean=clean, kspace=kspace)


def _acquire(image: Image, geometry: Geometry, index: int, reading: Reading) -> SampleSpectra:
    """The samples of all candidates of a trajectory, (coil, *kspace), with noise.

    With more samples along a spoke, in the same time, each has more noise.
    """
    assert geometry.trajectory is not None
    stacked = image.ndim - 1 - geometry.indexes == 3
    kspace = TrajectoryTransform(geometry.trajectory, stacked).sample(image.to(torch.complex64)[None])[0]
    if reading.noise > 0:
        level = (
            reading.noise * float(combined_magnitude(image, 0).max()) * math.sqrt(geometry.trajectory.oversampling)
        )
        kspace += level * _noise(tuple(kspace.shape), index)
    return kspace


def smooth_phase(space: tuple[int, ...], index: int) -> Float[Tensor, "*space"]:
    """Draw a phase that varies slowly over the field of view, as that of an inhomogeneous field does.

    >>> phase = smooth_phase((32, 24), index=0)
    >>> phase.shape, f"{phase.std():.2f}", bool(phase.diff(dim=0).abs().max() < 0.5)
    (torch.Size([32, 24]), '1.00', True)

    Args:
        space: The size of the image.
        index: The place of the sample in its data set: each has a phase of its own.

    Returns:
        Angles with mean 0 and standard deviation 1, (*space).
    """
    random = np.random.default_rng((PHASE, index))
    total = torch.zeros(space, dtype=torch.float64)
    for halves in itertools.product(range(WAVES + 1), repeat=len(space)):
        shifts, wave = random.uniform(0, 2 * math.pi, len(space)), torch.ones((), dtype=torch.float64)
        for n, half, shift in zip(space, halves, shifts, strict=True):
            wave = wave[..., None] * torch.cos(torch.pi * half * torch.arange(n) / n + shift * (half > 0))
        if any(halves):
            total += random.standard_normal() / math.hypot(*halves) ** 2 * wave
    return ((total - total.mean()) / total.std(correction=0).clamp_min(TINY)).float()


def _noise(shape: tuple[int, ...], index: int) -> Image:
    """Complex noise with standard deviation 1 in either part, in k-space as in the image."""
    generator = np.random.default_rng((NOISE, index))
    parts = generator.standard_normal((*shape, 2), np.float32)
    return torch.view_as_complex(torch.from_numpy(parts))
