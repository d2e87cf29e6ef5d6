"""Coil maps from the data themselves, compared with sigpy's and with those of simulated coils."""

import numpy as np
import pytest
import sigpy
import sigpy.mri.app
import torch

from helpers import check_data_set
from promask.data.builtin.cardiac import cardiac
from promask.data.file_set import prepare
from promask.data.reading import Reading
from promask.data.sample_sets import Subset, choose_part, reading_of
from promask.data.sensitivities import espirit_maps, with_maps
from promask.data.simulate import simulated_maps
from promask.data.sources import load
from promask.errors import InputError

HEARTS = cardiac(subjects=3, slices=1, size=72, phase=True).image


def coil_images(coils=8, noise=0.0, seed=0):
    image = torch.tensor(HEARTS[0])
    maps = simulated_maps(coils, tuple(image.shape))
    random = torch.randn(maps.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.complex64)
    return maps * image + noise * random, maps


def inner(first, second):
    return (first.conj() * second).sum(0).abs()


@pytest.mark.parametrize(("noise", "energy"), [(0, 0.995), (0.01, 0.98)])
def test_maps_are_the_true_ones(noise, energy):
    images, maps = coil_images(noise=noise)
    found = espirit_maps(images)
    assert found.dtype == torch.complex64
    strength = torch.linalg.vector_norm(found, dim=0)
    assert ((strength - 1).abs().minimum(strength) < 1e-5).all(), "one, or zero where nothing is seen"
    # ESPIRiT's maps go around the field of view: at its border they cannot be true.
    inside = (slice(4, -4), slice(4, -4))
    heart = torch.tensor(abs(HEARTS[0]) > 0.1)[inside]
    assert inner(found, maps)[inside][heart].min() > 0.98
    assert inner(found, images).square().sum() > energy * images.abs().square().sum()


@pytest.mark.parametrize(("calibration", "shape"), [(24, (72, 72)), (16, (60, 72)), (24, (72, 65))])
def test_maps_are_those_of_sigpy(calibration, shape):
    images = coil_images(5, noise=0.002)[0][:, : shape[0], : shape[1]].contiguous()
    kspace = sigpy.fft(images.numpy(), axes=(-2, -1))
    app = sigpy.mri.app.EspiritCalib(
        kspace, calib_width=calibration, max_iter=1000, show_pbar=False, output_eigenvalue=True
    )
    published, eigenvalues = (torch.tensor(values) for values in app.run())
    found = espirit_maps(images, calibration)
    eigenvalues = eigenvalues.reshape(shape)
    sure = (eigenvalues - 0.95).abs() > 1e-3
    seen = found.abs().sum(0) > 0
    assert torch.equal(seen[sure], (eigenvalues > 0.95)[sure])
    assert seen.double().mean() > 0.5
    # Where two eigenvalues are nearly alike, sigpy's power iterations have not come to an end.
    agreement = inner(found, published)[seen & sure]
    assert (agreement > 0.999).double().mean() > 0.998
    assert agreement.min() > 0.95


def test_the_phase_of_the_maps_is_smooth():
    """Where the maps are known, the combined image has the phase of the object, and no jumps."""
    images, _ = coil_images()
    combined = (espirit_maps(images).conj() * images).sum(0)[4:-4, 4:-4]
    turns = torch.angle(combined[1:] * combined[:-1].conj())
    bright = (combined[1:].abs() > 0.2) & (combined[:-1].abs() > 0.2)
    assert turns[bright].abs().quantile(0.99) < 0.5


def test_volumes():
    grid = torch.meshgrid(*[torch.linspace(-1, 1, n) for n in (20, 22, 24)], indexing="ij")
    ball = torch.exp(-3 * sum(each.square() for each in grid)) * (1 + 0.3 * torch.sin(9 * grid[2]))
    maps = simulated_maps(4, tuple(ball.shape))
    found = espirit_maps(maps * ball, calibration=12)
    assert inner(found, maps)[ball > 0.4].min() > 0.98


def test_small_images():
    images = simulated_maps(3, (10, 5)) * torch.rand(10, 5, generator=torch.Generator().manual_seed(0))
    assert espirit_maps(images).shape == (3, 10, 5)


# Data sets


def coil_data(tmp_path, **more):
    images = torch.stack([simulated_maps(4, (72, 72)) * torch.tensor(image) for image in HEARTS])
    np.savez(tmp_path / "a.npz", image=images.numpy(), subject=list("abc"), **more)
    return prepare(load(tmp_path / "a.npz"))


def test_a_data_set_with_maps(tmp_path, capfd):
    told = []
    plain = coil_data(tmp_path)
    data = with_maps(plain, lambda done, count: told.append((done, count)))
    check_data_set(data)
    told.clear()
    data = with_maps(plain, lambda done, count: told.append((done, count)))
    assert not told, "nothing is done before it is needed"
    for name in ("name", "shape", "groups", "held_out", "geometry"):
        assert getattr(data, name) == getattr(plain, name)
    assert len(data) == len(plain)
    assert reading_of(data) == reading_of(plain)
    first = data[1]
    assert torch.equal(first.maps, espirit_maps(first.image))
    assert torch.equal(first.image, plain[1].image)
    assert data[1].maps is first.maps, "calibrated once"
    assert torch.equal(Subset(data, [2, 1])[1].maps, first.maps)
    assert told == [(1, 3)]
    assert choose_part(data, None, default="train") == (data, "all"), "what was chosen is not split again"
    whole = with_maps(load(tmp_path / "a.npz"))
    assert len(choose_part(whole, None, default="train")[0]) == 2
    assert capfd.readouterr() == ("", "")


def test_maps_that_are_known_are_kept(tmp_path):
    plain = coil_data(tmp_path, maps=simulated_maps(4, (72, 72)).numpy())
    told = []
    sample = with_maps(plain, lambda *numbers: told.append(numbers))[0]
    assert torch.equal(sample.maps, plain[0].maps)
    simulated = load(HEARTS, Reading(coils=3, axes="slice y x"))
    assert torch.equal(with_maps(simulated)[1].maps, simulated[1].maps)
    assert not told


def test_a_single_channel_has_maps_of_ones():
    for images in (HEARTS, abs(HEARTS)):
        sample = with_maps(load(images, Reading(axes="slice y x")))[1]
        assert torch.equal(sample.maps, torch.ones(1, 72, 72, dtype=torch.complex64))


def test_contrasts_are_no_coils():
    data = with_maps(load(torch.rand(2, 3, 8, 8), Reading(axes="slice contrast y x")))
    with pytest.raises(InputError, match="slice 0 has 3 channels of real numbers, so they are no coils"):
        data[0]
