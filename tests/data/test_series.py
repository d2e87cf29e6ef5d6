"""Series of frames as samples: their order, their scan, their names, and what is refused."""

import numpy as np
import pytest
import torch

from promask.data.reading import Reading
from promask.data.sensitivities import espirit_maps, with_maps
from promask.data.series import SeriesSet
from promask.data.simulate import simulated_maps
from promask.data.sources import load, read_part
from promask.errors import InputError
from promask.recon.kt_sense import KtSense

RANDOM = np.random.default_rng(0)
CINE = RANDOM.random((3, 5, 9, 8)).astype(np.float32)
"""(slice, frame, y, x)."""


@pytest.mark.parametrize("axes", ["slice frame y x", "frame slice y x", "y x frame slice"])
@pytest.mark.parametrize("in_file", [False, True])
def test_frames_of_a_slice_are_one_sample(tmp_path, axes, in_file):
    names = ["slice", "frame", "y", "x"]
    array = np.ascontiguousarray(CINE.transpose([names.index(name) for name in axes.split()]))
    source = array
    if in_file:
        source = tmp_path / "cine.npy"
        np.save(source, array)
    _, data, _, description = read_part(source, Reading(axes=axes))
    assert (len(data), data.shape, data.geometry.indexed) == (3, (1, 5, 9, 8), "frame")
    assert data.geometry.axes == ("frame", "ky", "kx")
    for index in range(3):
        assert np.array_equal(data[index].image.numpy()[0], CINE[index])
    assert "3 slices, 5 frames, y (9), x (8)" in description.sentence()
    assert len(load(source, Reading(axes=axes, each_frame=True))) == 15


def test_slices_are_chosen_with_all_their_frames():
    data = load(CINE, Reading(axes="slice frame y x", slices=(1, 3)))
    assert len(data) == 2
    assert np.array_equal(data[1].image.numpy()[0], CINE[2])


def test_a_series_is_scanned_as_a_whole():
    data = load(CINE, Reading(axes="slice frame y x", coils=4, noise=0.1))
    assert isinstance(data, SeriesSet)
    sample = data[1]
    assert sample.image.shape == (4, 5, 9, 8)
    assert sample.maps.shape == (4, 1, 9, 8), "all frames have the same sensitivities"
    assert torch.allclose(sample.clean, sample.maps * torch.from_numpy(CINE[1]), atol=1e-6)
    noise = sample.image - sample.clean
    wanted = 0.1 * CINE[1].max()
    assert torch.isclose(torch.view_as_real(noise).std(), torch.tensor(wanted), rtol=0.1)
    frames = torch.view_as_real(noise).movedim(1, 0).flatten(1).std(1)
    assert (frames / wanted - 1).abs().max() < 0.25, "equally strong in all frames"
    assert torch.equal(data[1].image, sample.image), "the same noise each time"


def test_sensitivities_in_a_file_are_those_of_slices(tmp_path):
    maps = RANDOM.standard_normal((3, 2, 9, 8, 2)).astype(np.float32).view(np.complex64)[..., 0]
    np.save(tmp_path / "maps.npy", maps)
    data = load(CINE, Reading(axes="slice frame y x", coils=2, maps=str(tmp_path / "maps.npy")))
    wanted = maps / np.linalg.norm(maps, axis=1, keepdims=True)
    assert np.allclose(data[2].maps[:, 0].numpy(), wanted[2], atol=1e-6)


def test_sensitivities_of_a_series_are_those_of_its_mean_over_time():
    """ESPIRiT knows nothing of frames: they are not a direction of space."""
    y, x = np.mgrid[-1:1:24j, -1:1:20j]
    still = np.exp(-3 * (y**2 + x**2))
    frames = np.stack([still * (1 + 0.2 * np.cos(2 * np.pi * t / 4) * (y > 0)) for t in range(4)])
    scan = simulated_maps(3, (24, 20)).numpy()[:, None] * frames
    data = load(scan.astype(np.complex64), Reading(axes="coil frame y x"))
    sample = with_maps(data)[0]
    assert sample.maps.shape == (3, 1, 24, 20)
    assert torch.equal(sample.maps[:, 0], espirit_maps(sample.image.mean(1)))


def test_subjects_of_series(tmp_path):
    np.savez(tmp_path / "cine.npz", image=CINE, slice_id=["anna_1", "anna_2", "otto_1"])
    data = load(tmp_path / "cine.npz", Reading(axes="slice frame y x"))
    assert list(data.groups) == ["anna", "anna", "otto"]


def test_series_of_different_lengths(tmp_path):
    for name, frames in (("a", 5), ("b", 5), ("c", 4)):
        np.save(tmp_path / f"{name}.npy", CINE[:, :frames])
    with pytest.raises(InputError, match=r"c\.npy has a series of 4 frames, but others have 5"):
        load(tmp_path, Reading(axes="slice frame y x"))
    with pytest.warns(UserWarning, match=r"Left out: 3 series .* one of .*c\.npy with 4"):
        assert len(load(tmp_path, Reading(axes="slice frame y x", skip_bad=True))) == 6


def test_frames_are_needed_by_some(tmp_path):
    with pytest.raises(InputError, match="kt-sense reconstructs series of frames, but the array has none"):
        read_part(CINE[:, 0], recon=KtSense())


def test_a_bad_frame_leaves_out_its_series(tmp_path):
    spoilt = CINE.copy()
    spoilt[1, 2] = np.nan
    np.save(tmp_path / "cine.npy", spoilt)
    with pytest.raises(InputError, match="NaN"):
        read_part(tmp_path / "cine.npy", Reading(axes="slice frame y x"))
    with pytest.warns(UserWarning, match="Left out"):
        found = read_part(tmp_path / "cine.npy", Reading(axes="slice frame y x", skip_bad=True))
    assert len(found.samples) == 2
    assert np.array_equal(found.samples[1].image.numpy()[0], CINE[2])


def test_the_built_in_heart():
    whole, data, part, _ = read_part("cine", Reading(coils=2))
    assert (part, whole.shape, len(whole)) == ("train", (2, 20, 96, 96), 12)
    assert len(set(whole.groups)) == 12
    assert data[0].label is not None
    assert data[0].label.shape == (20, 96, 96)
