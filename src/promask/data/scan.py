"""What a scanner would measure of a sample: with coils around it, and with noise."""

from dataclasses import replace

import numpy as np
import torch

from promask.data.coils import simulated_maps
from promask.data.stack import covered
from promask.errors import InputError
from promask.fourier import space_axes, to_image, to_kspace
from promask.geometry import Geometry
from promask.reading import Reading
from promask.types import Image, Sample

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
