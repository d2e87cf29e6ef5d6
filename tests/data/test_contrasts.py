"""Contrasts as an axis of their own: their order, their names, their scan, their scale, and what is refused."""

import numpy as np
import pytest
import torch

from promask.data.reading import Reading
from promask.data.series import SeriesSet
from promask.data.simulate import simulated_maps
from promask.data.sources import load, read_part
from promask.errors import InputError
from promask.problem.batches import SpectraSet
from promask.recon.cg_sense import CgSense
from promask.sampling.pattern import Pattern

RANDOM = np.random.default_rng(0)
BRAINS = (RANDOM.random((3, 4, 9, 8)) * np.array([1, 10, 100, 1000])[:, None, None]).astype(np.float32)
"""(slice, contrast, y, x), of very different scales."""
NAMES = ("T1", "T1POST", "T2", "FLAIR")
PER = {"per": "contrast"}


@pytest.fixture
def file(tmp_path):
    """Four contrasts with their names, of three patients."""
    path = tmp_path / "brains.npz"
    np.savez(path, image=BRAINS, channels=NAMES, subject=["a", "b", "c"])
    return path


def test_contrasts_of_a_slice_are_one_sample(file):
    _, data, _, description = read_part(file, Reading(**PER), part="all")
    assert (len(data), data.shape, data.geometry.indexed) == (3, (1, 4, 9, 8), "contrast")
    assert data.geometry.contrasts == NAMES
    for index in range(3):
        assert np.array_equal(data[index].image.numpy()[0], BRAINS[index])
    assert "3 slices of 3 subjects, 4 contrasts (T1, T1POST, T2, FLAIR)" in description.sentence()
    assert load(file).shape == (4, 9, 8), "channels that share one mask, unless asked for"


def test_contrasts_beside_coils_are_joined():
    kspace = RANDOM.standard_normal((2, 3, 5, 9, 8, 2)).astype(np.float32).view(np.complex64)[..., 0]
    data = load(kspace, Reading(axes="slice contrast coil ky kx", **PER))
    assert (data.shape, data.geometry.channels) == ((5, 3, 9, 8), "coil")
    alone = load(kspace, Reading(axes="slice contrast coil ky kx"))
    assert torch.equal(data[1].image[:, 2], alone[5].image)


def test_each_contrast_is_scanned_by_the_same_coils(file):
    data = load(file, Reading(coils=6, noise=0.01, **PER))
    assert isinstance(data, SeriesSet)
    sample = data[1]
    assert (data.shape, data.geometry.channels) == ((6, 4, 9, 8), "coil")
    assert torch.equal(sample.maps[:, 0], simulated_maps(6, (9, 8)))
    assert torch.allclose(sample.clean, sample.maps * torch.from_numpy(BRAINS[1]))
    noise = torch.view_as_real(sample.image - sample.clean).movedim(1, 0).flatten(1).std(1)
    assert (noise / (0.01 * BRAINS[1].max()) - 1).abs().max() < 0.2, "the same in dark contrasts"


def test_sensitivities_are_those_of_the_contrast_of_most_signal():
    rows, columns = np.mgrid[-12:12, -12:12]
    body = (np.hypot(rows, columns) < 9) * (1 + 0.3 * np.cos(rows / 2))
    coils = simulated_maps(4, (24, 24)).numpy()
    kspace = np.fft.fftshift(
        np.fft.fft2(np.fft.ifftshift(coils * (body * np.array([1, -1])[:, None, None, None]), axes=(-2, -1))),
        axes=(-2, -1),
    )
    _, data, *_ = read_part(
        kspace[None].astype(np.complex64), Reading(axes="slice contrast coil ky kx", **PER), recon=CgSense()
    )
    maps = data[0].maps[:, 0]
    inside = torch.from_numpy(body > 0)
    agreement = (maps.conj() * torch.from_numpy(coils)).sum(0).abs()[inside]
    assert agreement.min() > 0.99, "the mean over contrasts of opposite phase is nothing"


def test_contrasts_count_alike_in_learning(file):
    data = SpectraSet(load(file, Reading(**PER)), torch.device("cpu"))
    batch = next(data.pieces(torch.arange(3)))
    peaks = batch.targets.flatten(3).amax(3)
    assert torch.allclose(peaks, torch.ones_like(peaks))
    wanted = np.fft.fft2(BRAINS[1, 2] / BRAINS[1, 2].max(), norm="ortho")
    assert np.allclose(batch.spectra[1, 0, 2].abs(), np.abs(wanted), atol=1e-5)
    energy = data.mean_energy(Pattern.on((4, 9, 8), load(file, Reading(**PER)).geometry))
    assert energy.shape == (4, 9)
    assert energy[:, 0].max() < 2 * energy[:, 0].min()


def test_echo_times_are_known_in_ms(tmp_path):
    np.savez(tmp_path / "echoes.npz", image=BRAINS, echo_time_ms=[6.3, 12.6, 18.9, 25.2], te=[1, 2, 3, 4])
    assert load(tmp_path / "echoes.npz", Reading(**PER)).geometry.echo_times == (6.3, 12.6, 18.9, 25.2)
    np.savez(tmp_path / "unknown.npz", image=BRAINS, te=[0.1, 0.2, 0.3, 0.4])
    assert load(tmp_path / "unknown.npz", Reading(**PER)).geometry.echo_times == (), "seconds or ms?"


def test_lists_that_do_not_fit_are_not_read(tmp_path):
    np.savez(tmp_path / "odd.npz", image=BRAINS, channels=["a", "b"], contrasts=["T1", "t1", "x", "y"])
    assert load(tmp_path / "odd.npz", Reading(axes="slice contrast y x", **PER)).geometry.contrasts == ()


BAD = {
    "no contrasts": (
        BRAINS[:, 0],
        {"axes": "slice y x"},
        "has no contrasts that could have patterns",
    ),
    "frames": (BRAINS, {"axes": "slice frame y x"}, "has frames as well as contrasts"),
    "another role": (BRAINS, {"axes": "slice contrast y x", "per": "frame"}, "`per` must be contrast"),
}


@pytest.mark.parametrize(("array", "settings", "sentence"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_one_sentence(array, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        load(array, Reading(**PER | settings))
