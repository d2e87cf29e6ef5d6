"""Simulated coils, phase and noise: what a scanner would measure of images."""

import numpy as np
import pytest
import sigpy.mri
import torch
from layouts import MEASURED, measured, scan

from helpers import assert_global_random_state_is_untouched, check_data_set, smooth_images
from promask.cli.main import main
from promask.data import cache
from promask.data.arrays import from_kspace
from promask.data.builtin.cardiac import cardiac
from promask.data.file_set import prepare
from promask.data.reading import Reading
from promask.data.sample_sets import ArraySet, Subset, choose_part
from promask.data.simulate import simulated_maps, smooth_phase
from promask.data.sources import load, read_part
from promask.errors import InputError
from promask.operators.fourier import space_axes, to_kspace
from promask.types import Sample

HEART = cardiac(subjects=2, slices=2, size=64).image
SPACES = [(64, 64), (48, 37), (16, 20, 24)]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("coils", [1, 2, 5, 8, 32])
def test_maps_are_complex_and_of_sum_of_squares_one(coils, space):
    maps = simulated_maps(coils, space)
    assert maps.shape == (coils, *space)
    assert maps.dtype == torch.complex64
    torch.testing.assert_close(maps.abs().square().sum(0), torch.ones(space))
    assert maps is simulated_maps(coils, space), "they are made once"


def test_maps_are_those_of_sigpy():
    """The same coils, which sigpy counts from the other axis, and the same magnitudes."""
    published = np.abs(sigpy.mri.birdcage_maps((8, 64, 64), r=1.5))
    maps = simulated_maps(8, (64, 64)).abs().numpy()
    for coil in range(8):
        assert np.abs(maps[coil] - published).max((1, 2)).min() < 1e-5


@pytest.mark.parametrize("space", [(64, 64), (48, 64), (32, 32, 32)])
def test_maps_are_smooth(space):
    """Nearly all of a smoothly windowed map lies in the centre of k-space."""
    axes = space_axes(len(space))
    window = torch.ones(space)
    for axis, n in enumerate(space):
        shape = [n if each == axis else 1 for each in range(len(space))]
        window = window * torch.hann_window(n).reshape(shape)
    energy = to_kspace(simulated_maps(8, space) * window, axes).abs().square()
    inside = (..., *(slice(n // 2 - 12, n // 2 + 12) for n in space))
    assert (energy[inside].sum(axes) / energy.sum(axes)).min() > 0.9999


@pytest.mark.parametrize("space", [(64, 64), (24, 24, 24)])
def test_coils_differ(space):
    maps = simulated_maps(8, space)
    for first in range(8):
        for second in range(first):
            assert (maps[first].abs() - maps[second].abs()).abs().max() > 0.2
            relative = maps[first] * maps[second].conj()
            assert (relative / relative.abs()).flatten().std() > 0.1, "and not by a constant phase alone"


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("coils", "acceleration", "worst"), [(8, 2, 4), (8, 4, 50), (16, 4, 50), (4, 2, 5)])
def test_coils_unfold_regular_lines(coils, acceleration, worst, axis):
    """The encoding of pixels that fold onto each other, written out: it can be inverted, unlike without coils."""
    size = 64
    maps = simulated_maps(coils, (size, size)).movedim(axis + 1, -1)
    folded = maps.reshape(coils, size, acceleration, size // acceleration).permute(1, 3, 0, 2)
    assert torch.linalg.cond(folded).max() < worst
    alone = torch.ones(1, acceleration)
    assert torch.linalg.matrix_rank(alone) == 1


def test_volumes_are_encoded_along_their_first_axis():
    maps = simulated_maps(8, (16, 16, 16))
    folded = maps.reshape(8, 2, 8, 16, 16).permute(2, 3, 4, 0, 1)
    assert torch.linalg.cond(folded).median() < 20


# Samples


def test_a_sample_is_what_coils_see():
    plain, data = load(HEART), load(HEART, Reading(coils=6))
    check_data_set(data)
    assert data.shape == (6, 64, 64)
    sample = data[2]
    assert torch.equal(sample.image, simulated_maps(6, (64, 64)) * plain[2].image)
    assert torch.equal(sample.maps, simulated_maps(6, (64, 64)))
    assert sample.clean is None
    combined = (sample.maps.conj() * sample.image).sum(0)
    torch.testing.assert_close(combined.abs(), plain[2].image[0], atol=1e-5, rtol=0)


def test_samples_have_no_maps_and_no_noise_unasked():
    sample = load(HEART)[0]
    assert sample.maps is None
    assert sample.clean is None
    assert not sample.image.is_complex()


@pytest.mark.parametrize("coils", [None, 8])
def test_noise_has_the_standard_deviation_that_was_asked_for(coils):
    data = load(1000 * HEART, Reading(coils=coils, noise=0.03))
    check_data_set(data)
    for sample, image in zip(data, HEART, strict=True):
        assert sample.image.is_complex()
        noise = (sample.image - sample.clean).numpy() / (0.03 * 1000 * image.max())
        kspace = np.fft.fft2(noise, norm="ortho")
        for values in (noise, kspace):
            for part in (values.real, values.imag):
                deviation = 1 / np.sqrt(part.size)
                assert abs(part.mean()) < 4 * deviation
                assert abs(part.std() - 1) < 4 * deviation
        assert abs((noise.real * noise.imag).mean()) < 4 / np.sqrt(noise.size)
        np.testing.assert_allclose(torch.linalg.vector_norm(sample.clean, dim=0), 1000 * image, rtol=1e-4)


def test_noise_depends_on_the_place_in_the_set_alone():
    data = load(np.stack([HEART[0]] * 3), Reading(noise=0.1))
    noise = [sample.image - sample.clean for sample in data]
    for index in range(3):
        assert torch.equal(data[index].image, noise[index] + data[index].clean)
        assert torch.equal(data[index].image, data[index].image)
        assert torch.equal(load(HEART[:1].repeat(3, 0), Reading(noise=0.1))[index].image, data[index].image)
        correlation = (noise[index] * noise[index - 1].conj()).mean() / noise[0].abs().square().mean()
        assert correlation.abs() < 0.06
    assert torch.equal(Subset(data, [2, 0])[0].image, data[2].image)
    assert torch.equal(data[-1].image, data[2].image)
    assert_global_random_state_is_untouched(lambda: data[0])


def test_files_are_scanned_as_arrays_are(tmp_path, monkeypatch):
    made = []
    write = cache._make
    monkeypatch.setattr(cache, "_make", lambda folder, *rest: made.append(folder) or write(folder, *rest))
    np.savez(tmp_path / "a.npz", image=HEART, subject=list("abcd"))
    np.save(tmp_path / "maps.npy", simulated_maps(3, (64, 64)).numpy())
    for settings in [
        {},
        {"coils": 4},
        {"noise": 0.1},
        {"phase": 1},
        {"coils": 3, "maps": tmp_path / "maps.npy", "noise": 0.2},
    ]:
        reading = Reading(**settings)
        data = prepare(load(tmp_path / "a.npz", reading))
        check_data_set(data)
        for sample, wanted in zip(data, load(HEART, reading), strict=True):
            for name in ("image", "maps", "clean"):
                torch.testing.assert_close(getattr(sample, name), getattr(wanted, name), atol=0, rtol=0)
    assert len(made) == 1, "the images are prepared once, whatever is made of them"


def test_built_in_data_and_parts():
    data = load("cardiac", Reading(coils=4, size=(48, 48)))
    assert data.shape == (4, 48, 48)
    part, _ = choose_part(data, "test", default="all")
    assert part[0].maps.shape == (4, 48, 48)


def test_padding_of_kspace_stays_empty(tmp_path):
    """Columns that no scanner measured hold neither noise nor what leaks there from simulated coils."""
    file = scan(tmp_path / "a.h5", measured())
    data = load(file, Reading(coils=4, phase=1, noise=0.5))
    sample = data[1]
    for image in (sample.image, sample.clean):
        energy = to_kspace(image, (-2, -1)).abs().square()
        measured_energy = energy[..., MEASURED].sum()
        energy[..., MEASURED] = 0
        assert energy.sum() < 1e-10 * measured_energy
    assert tuple(sample.image.shape) == data.shape == (4, 40, 37)


def test_emulated_coils(tmp_path):
    """The root sum of squares of what coils measured, seen by other coils; of files and of arrays."""
    kspace = to_kspace(smooth_images(2, channels=3, dtype=torch.complex64), (-2, -1))
    np.savez(tmp_path / "a.npz", kspace=kspace.numpy())
    root = from_kspace(kspace).images.abs().square().sum(1, keepdim=True).sqrt()
    settings = {"kspace": "emulated", "coils": 5, "axes": "slice coil ky kx"}
    for data in (load(tmp_path / "a.npz", Reading(**settings)), load(kspace, Reading(**settings))):
        assert data.shape == (5, 16, 12)
        torch.testing.assert_close(data[1].image, simulated_maps(5, (16, 12)) * root[1])


def test_volumes():
    data = load(torch.rand(2, 6, 8, 10), Reading(volumes=True, coils=4, noise=0.1))
    check_data_set(data)
    assert data[0].maps.shape == data[0].clean.shape == data.shape == (4, 6, 8, 10)


def test_a_dataset_of_samples_keeps_maps_and_clean_images():
    given = [load(HEART, Reading(coils=2, noise=0.1))[index] for index in range(4)]
    data = load(given)
    for sample, wanted in zip(data, given, strict=True):
        for name in ("image", "maps", "clean"):
            assert torch.equal(getattr(sample, name), getattr(wanted, name))
    without = Sample(given[0].image, None, "a", "b")
    mixed = load([without, *given[1:]])
    assert mixed[1].maps is None
    assert torch.equal(mixed[0].clean, without.image)
    assert torch.equal(mixed[1].clean, given[1].clean)


def test_a_dataset_of_noisy_samples_can_be_seen_by_coils():
    given = [load(HEART, Reading(noise=0.1))[index] for index in range(2)]
    sample = load(given, Reading(coils=4))[1]
    assert torch.equal(sample.clean, simulated_maps(4, (64, 64)) * given[1].clean)


# A smooth phase


@pytest.mark.parametrize("space", [*SPACES, (1, 64), (1,)])
def test_a_phase_is_smooth_and_of_standard_deviation_one(space):
    phase = smooth_phase(space, index=3)
    assert phase.shape == space
    assert phase.dtype == torch.float32
    assert torch.equal(phase, smooth_phase(space, index=3))
    if phase.numel() > 1:
        assert float(phase.mean()) == pytest.approx(0, abs=1e-5)
        assert float(phase.std(correction=0)) == pytest.approx(1, abs=1e-5)
        assert not torch.equal(phase, smooth_phase(space, index=4))
    for axis, n in enumerate(space):  # a wave of one period, at the most, has no steeper slope than this
        steepest = phase.diff(dim=axis).abs().max() if n > 1 else torch.zeros(())
        assert steepest <= 2 * torch.pi / n * phase.abs().max() * 1.5


def test_phases_turn_images_and_their_coils():
    """Magnitudes stay; k-space is no longer that of a real image, of which one half tells the other."""
    still, turned = (load(HEART, Reading(phase=phase))[1].image for phase in (0, 0.7))
    torch.testing.assert_close(turned.abs(), still.abs())
    torch.testing.assert_close(turned, still * torch.exp(0.7j * smooth_phase((64, 64), 1)))
    kspace = to_kspace(turned, (-2, -1))[:, 1:, 1:]  # without what has no twin
    assert (kspace.abs() - kspace.flip(-2, -1).abs()).abs().sum() > 0.1 * kspace.abs().sum()
    sample = load(HEART, Reading(phase=0.7, coils=4, noise=0.1))[1]
    torch.testing.assert_close(sample.clean, simulated_maps(4, (64, 64)) * turned)


def test_frames_share_their_phase():
    frames = torch.rand(2, 5, 16, 12) + 0.5
    series = load(frames, Reading(axes="slice frame y x", phase=1))
    expected = torch.polar(torch.ones(16, 12), smooth_phase((16, 12), 1))
    torch.testing.assert_close(series[1].image, frames[1, None] * expected)
    assert "smooth phase of 1 rad simulated" in read_part(series)[3].sentence()


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"coils": 0}, "`coils` must be a whole number of at least 1, such as 8, but is 0."),
        ({"coils": 2.5}, "`coils` must be a whole number of at least 1, such as 8, but is 2.5."),
        ({"coils": True}, "`coils` must be a whole number"),
        ({"noise": -0.1}, "`noise` must be a number of at least 0, such as 0.01, but is -0.1."),
        ({"noise": float("nan")}, "`noise` must be a number of at least 0"),
        ({"noise": float("inf")}, "`noise` must be a number of at least 0"),
        ({"noise": "much"}, "`noise` must be a number of at least 0"),
        ({"phase": -1}, "`phase` must be a number of at least 0, such as 1, but is -1."),
        ({"phase": float("inf")}, "`phase` must be a number of at least 0"),
        ({"maps": ""}, "`maps` must be the name of a file, but is ''."),
        ({"maps": 3}, "`maps` must be the name of a file, but is 3."),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        Reading(**settings)


def test_coils_are_not_simulated_around_coils(tmp_path):
    images = smooth_images(2, channels=3, dtype=torch.complex64)
    np.savez(tmp_path / "a.npz", kspace=to_kspace(images, (-2, -1)).numpy())
    for data, axes in ((tmp_path / "a.npz", "slice coil ky kx"), (images, "slice coil y x")):
        with pytest.raises(
            InputError, match="has 3 channels, but coils can only be simulated around images of one"
        ):
            load(data, Reading(coils=8, axes=axes))


def test_loaded_data_keep_their_settings():
    data = load(HEART, Reading(coils=4, noise=0.1))
    assert load(data, Reading(coils=4)) is data
    for settings in ({"coils": 5}, {"phase": 1}, {"noise": 0.2}, {"maps": "a.npy"}):
        with pytest.raises(InputError, match=f"was loaded with `{next(iter(settings))}`"):
            load(data, Reading(**settings))
    with pytest.raises(InputError, match="without noise have shape"):
        ArraySet(torch.rand(2, 1, 4, 4), "a", clean=torch.rand(2, 1, 4, 5))


def test_options(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", HEART)
    for words, sentence in [
        (["--coils", "0"], "coils must be a whole number of at least 1"),
        (["--noise", "-1"], "noise must be a number of at least 0"),
        (["--maps", "nowhere.npy"], "nowhere.npy is not a file"),
    ]:
        with pytest.raises(SystemExit) as stop:
            main(["baseline", "gaussian", "a.npy", "--accel", "4", "--out", "mask.npy", *words])
        assert stop.value.code == 2
        assert sentence in capsys.readouterr().err
