"""What is a coil, which maps it has, and what of a reconstruction is remembered."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers import coil_maps, seeded, smooth_images
from promask import InputError, compare, evaluate, learn
from promask.data.preprocess import collate
from promask.data.reading import Reading
from promask.data.sample_sets import ArraySet
from promask.data.sensitivities import calibrate
from promask.data.sources import load
from promask.learners.exchange import loss_and_insertions
from promask.losses.image import ImageLoss
from promask.problem.batches import SpectraSet
from promask.problem.objective import loss_and_slopes
from promask.recon.cg_sense import CgSense
from promask.recon.compressed_sensing import CompressedSensing
from promask.recon.network import Network
from promask.recon.partial_fourier import PartialFourier
from promask.sampling.pattern import Pattern
from promask.types import Batch, Geometry

CPU = torch.device("cpu")
MASK = torch.rand(32, 32, generator=seeded()) < 0.5


def hearts(**settings):
    return load("cardiac", Reading(size=(32, 32), slices=(0, 8), **settings))


def test_noise_makes_no_coils_of_contrasts():
    pair = smooth_images(4, 2, (32, 32), phase=False, dtype=torch.complex64)
    for noise in (0.0, 0.001):
        samples = SpectraSet(
            load(pair, Reading(noise=noise, axes="slice contrast y x")), CPU, recon=CompressedSensing()
        )
        assert samples.kept.targets.shape == (4, 2, 32, 32)
        assert samples.kept.maps is None


def test_contrasts_are_not_mixed():
    pair = smooth_images(4, 2, (32, 32), phase=False).float()
    with pytest.raises(InputError, match="has 2 contrasts and no coils, but rss combines several coils"):
        evaluate(MASK, pair, recon="rss", axes="slice contrast y x")


def test_a_folder_in_which_some_files_hold_maps(tmp_path):
    data = hearts(coils=4)
    images = np.stack([data[index].image.numpy() for index in range(8)])
    np.savez(tmp_path / "a.npz", image=images[:4], maps=data[0].maps.numpy())
    np.savez(tmp_path / "b.npz", image=images[4:])
    axes = "slice coil y x"
    ready = calibrate(load(str(tmp_path), Reading(axes=axes)), CgSense())
    assert all(ready[index].maps is not None for index in range(8))
    assert evaluate(MASK, str(tmp_path), "all", recon="cg-sense", axes=axes).images == 8
    learn(str(tmp_path), 4, recon="cg-sense", steps=2, part="all", axes=axes)


def test_maps_of_some_samples_are_refused():
    data = hearts(coils=4)
    with pytest.raises(InputError, match="has no coil sensitivities, but others have"):
        collate([data[0], replace(data[1], maps=None)], CgSense().uses_maps)


class Interleaved(ArraySet):
    """Maps of two subjects, in turn."""

    def __getitem__(self, index):
        return replace(super().__getitem__(index), maps=MAPS[index % 2])


MAPS = [coil_maps(3, (32, 32), seed)[0].to(torch.complex64) for seed in (1, 2)]


@pytest.mark.parametrize("memory", [0, 2**30])
def test_each_sample_has_its_own_maps(memory):
    truth = smooth_images(3, 1, (32, 32), dtype=torch.complex64)
    images = torch.stack([MAPS[index % 2] * truth[index] for index in range(3)])
    samples = SpectraSet(Interleaved(images, "test"), CPU, recon=CgSense(), memory=memory, phase=True)
    found = torch.cat([piece.targets for piece in samples.pieces(torch.tensor([2, 1, 0]))])
    assert torch.allclose(found, truth.flip(0), atol=1e-5)


def test_a_network_is_frozen_while_it_is_measured():
    module = torch.nn.Sequential(torch.nn.BatchNorm2d(2), torch.nn.Dropout(0.5)).train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    first, second = (evaluate(MASK, hearts(), recon=Network(module)).psnr for _ in range(2))
    assert first == second
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_the_weights_of_a_network_are_a_condition_of_a_comparison(tmp_path):
    torch.manual_seed(0)
    one, other = (torch.nn.Conv2d(2, 2, 1) for _ in range(2))
    settings = {"methods": ["energy"], "out": tmp_path / "c", "seeds": 1}
    compare(hearts(), [4], recon=Network(one), **settings)
    compare(hearts(), [4], recon=Network(one), **settings)
    with pytest.raises(InputError, match="with another reconstruction"):
        compare(hearts(), [4], recon=Network(other), **settings)


class Magnitude:
    """Least squares without its phase."""

    name, uses_maps, iterative = "magnitude", True, True

    def reference(self, images, maps):
        return images.abs()

    def __call__(self, kspace, mask, maps=None):
        return CgSense()(kspace, mask, maps).abs()


def test_real_images_have_no_way_back_to_kspace():
    spectra = torch.fft.fft2(smooth_images(2, 1, (16, 12)), norm="ortho")
    batch = Batch(spectra, torch.fft.ifft2(spectra, norm="ortho").abs())
    pattern, task = Pattern((16, 12), (0, 1)), ImageLoss("mse")
    masks = (torch.rand(2, 16, 12, generator=seeded()) < 0.5).double()
    worth = loss_and_insertions(masks, batch, pattern, task, Magnitude()).gradients
    assert torch.equal(worth, loss_and_slopes(masks, batch, pattern, task, Magnitude()).gradients)


def test_padding_does_not_count_as_missing():
    """Whatever the image says about padding, other units are worth the same."""
    spectra = torch.fft.fft2(smooth_images(1, 1, (16, 12)), norm="ortho")
    geometry = Geometry(extent=((0, 16), (3, 12)))
    batch = Batch(spectra, torch.fft.ifft2(spectra, norm="ortho").abs(), geometry)
    padded, whole = (Pattern((16, 12), (0, 1), extent) for extent in (geometry.extent, ()))
    padding = torch.fft.ifftshift(padded.padding())
    masks = (torch.rand(1, 16, 12, generator=seeded()) < 0.5).double() * ~padding
    inside = loss_and_insertions(masks, batch, padded, ImageLoss("mse"), CgSense()).gradients
    # Where nothing but the padding differs, it must not matter what k-space holds there.
    noisy = Batch(spectra + 1e3 * padding, batch.targets, geometry)
    again = loss_and_insertions(masks, noisy, padded, ImageLoss("mse"), CgSense()).gradients
    assert torch.allclose(inside[0][~padding], again[0][~padding])
    everywhere = loss_and_insertions(masks, noisy, whole, ImageLoss("mse"), CgSense()).gradients
    assert not torch.allclose(inside[0][~padding], everywhere[0][~padding])


def test_all_settings_of_a_reconstruction_are_remembered(tmp_path):
    run = learn(hearts(), 4, recon=PartialFourier(calibration=8, iterations=4), steps=2)
    again = type(run).load(run.save(tmp_path / "run"))
    assert again.reconstruction() == PartialFourier(calibration=8, iterations=4)
    assert again.config.iterations is None
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["about"]["reconstruction"]["settings"]["calibration"] == 8
