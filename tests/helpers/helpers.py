"""Images, coil sensitivities and random numbers for tests."""

import numpy as np
import torch

from promask.data.sample_sets import ArraySet
from promask.operators.fourier import space_axes, to_image
from promask.problem.batches import SpectraSet
from promask.sampling.pattern import Pattern
from promask.types import SampleSet


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def smooth_images(count=3, channels=1, size=(16, 12), seed=0, phase=True, dtype=torch.complex128):
    """Random images whose k-space decays from the centre, as in MRI."""
    pattern = Pattern(tuple(size), tuple(range(len(size))))
    noise = torch.randn((count, channels, *size), generator=seeded(seed), dtype=dtype)
    images = to_image(noise / (1 + 20 * pattern.distance()).to(noise.real.dtype), space_axes(len(size)))
    return images if phase else images.abs()


def samples_of(images):
    return SpectraSet(ArraySet(images, "test"), torch.device("cpu"))


def assert_global_random_state_is_untouched(action):
    torch.manual_seed(1)
    np.random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    action()
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()


def coil_maps(coils, space, seed=5):
    """Smooth complex sensitivities, (1, coil, *space), whose squares sum to 1."""
    maps = 0.3 + smooth_images(1, coils, space, seed=seed)
    return maps / torch.linalg.vector_norm(maps, dim=1, keepdim=True)


def check_data_set(data: SampleSet):
    assert len(data) == len(data.groups) > 0
    assert data.name
    for index in {0, len(data) // 2, len(data) - 1}:
        sample = data[index]
        assert tuple(sample.image.shape) == data.shape
        assert sample.image.dtype in (torch.float32, torch.complex64)
        assert torch.isfinite(sample.image).all()
        assert sample.image.abs().max() > 0
        assert sample.group == data.groups[index]
        assert sample.name
        assert sample.label is None or tuple(sample.label.shape) == data.shape[1:]
