"""Sensitivities of receive coils: simulated, and made ready for use.

What a scanner would measure of a sample: with coils around it, and with noise.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Complex, Num
from torch import Tensor

from promask.data.reading import Reading
from promask.data.stack import covered, fitted
from promask.errors import InputError
from promask.operators.fourier import space_axes, to_image, to_kspace
from promask.types import Geometry, Image, Sample

RADIUS = 1.5
"""Of the ring of coils; the field of view reaches from -1 to 1 along every axis."""
NOTHING = 1e-6
"""Sensitivities below this share of the largest one are taken as none."""


@lru_cache(maxsize=8)
def simulated_maps(coils: int, space: tuple[int, ...]) -> Complex[Tensor, "{coils} *space"]:
    """Smooth sensitivities of loops on a cylinder around the object, as of a birdcage; sum of squares 1.

    The cylinder goes along the first axis of volumes, on which there are several rings of coils.

    >>> maps = simulated_maps(8, (32, 24))
    >>> maps.shape, bool((maps.abs().square().sum(0) - 1).abs().max() < 1e-6)
    (torch.Size([8, 32, 24]), True)
    """
    places = torch.meshgrid(*(_places(n) for n in space), indexing="ij")
    across = places[-2:]
    rings = 1 if len(space) == 2 else max(1, round(math.sqrt(coils / 2)))
    maps = []
    for coil in range(coils):
        # One after the other around the cylinder, so that neighbours lie in different rings.
        angle, height = 2 * math.pi * coil / coils, (2 * (coil % rings) + 1) / rings - 1
        to_coil = [across[0] - RADIUS * math.sin(angle), across[1] - RADIUS * math.cos(angle)]
        along = [places[0] - height] if rings > 1 else []
        distance = torch.stack([*to_coil, *along]).square().sum(0).sqrt()
        # The field circles around the wire; a birdcage drives its coils one after the other.
        phase = torch.atan2(to_coil[1], -to_coil[0]) - angle
        maps.append(torch.polar(1 / distance, phase))
    stacked = torch.stack(maps)
    return (stacked / torch.linalg.vector_norm(stacked, dim=0)).to(torch.complex64)


def _places(count: int) -> Tensor:
    """From -1 to 1, with 0 at count // 2, the centre."""
    return (torch.arange(count, dtype=torch.float64) - count // 2) / (count / 2)


def usable_maps(
    maps: Num[Tensor, "coil *raw"], size: Sequence[int], source: str
) -> Complex[Tensor, "coil *space"]:
    """Maps as samples have them: complex, of this size, and of sum of squares 1 wherever they are not zero."""
    maps = maps.to(torch.complex64)
    strength = torch.linalg.vector_norm(maps, dim=0)
    if not torch.isfinite(strength).all():
        raise InputError(f"The coil maps of {source} hold NaN or infinite values: mend them.")
    largest = strength.max()
    if largest == 0:
        raise InputError(f"The coil maps of {source} are zero everywhere: there is no coil to receive with.")
    seen = strength > NOTHING * largest
    return fitted(torch.where(seen, maps / strength.where(seen, largest), 0), size)


NOISE = 0x6E6F697365
"""Tells the random numbers of noise from others with the same seed."""


def scanned_shape(shape: tuple[int, ...], reading: Reading, name: str) -> tuple[int, ...]:
    """The shape of samples, (channel, *space), when they are scanned."""
    if reading.coils is None:
        return shape
    if shape[0] != 1:
        raise InputError(
            f"{name} has {shape[0]} channels, but coils can only be simulated around images of one channel: leave "
            f"out --coils."
        )
    return (reading.coils, *shape[1:])


def scanned(sample: Sample, maps: Image | None, index: int, reading: Reading, geometry: Geometry) -> Sample:
    """The sample with its coil maps, seen by coils if they are simulated, and with noise.

    Coils that are simulated have these maps, or else those of a birdcage. `index` is the place of the sample in
    its set, which determines its noise.
    """
    image, clean = sample.image, sample.clean
    if reading.coils is not None:
        maps = simulated_maps(reading.coils, tuple(image.shape[1:])) if maps is None else maps
        image = _measured(maps * image, geometry)
        clean = None if clean is None else _measured(maps * clean, geometry)
    if reading.noise > 0:
        clean = image if clean is None else clean
        largest = torch.linalg.vector_norm(clean, dim=0).max()
        image = image + reading.noise * largest * _measured(_noise(tuple(image.shape), index), geometry)
    return replace(sample, image=image, maps=maps, clean=clean)


def _noise(shape: tuple[int, ...], index: int) -> Image:
    """Complex noise, of standard deviation 1 in either part, in k-space as in the image."""
    generator = np.random.default_rng((NOISE, index))
    parts = generator.standard_normal((*shape, 2), np.float32)
    return torch.view_as_complex(torch.from_numpy(parts))


def _measured(image: Image, geometry: Geometry) -> Image:
    """The image without what lies in the padding of k-space, which is never measured."""
    if not geometry.extent:
        return image
    axes = space_axes(image.ndim - 1)
    return to_image(covered(to_kspace(image, axes), geometry.extent), axes)
