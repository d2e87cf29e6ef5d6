"""What `promask inspect` finds: measured on k-space whose noise, zeros and centre are known."""

import numpy as np
import pytest
import torch
from file_writers import transform

from promask.cli.inspect import next_commands
from promask.data.inspection import inspect, measure_kspace
from promask.data.reading import Reading
from promask.errors import InputWarning
from promask.figures.inspection import inspection_figure
from promask.operators.fourier import to_image, to_kspace

random = np.random.default_rng(0)
DISC = (np.hypot(*np.meshgrid(np.arange(64) - 32, np.arange(96) - 48)) < 24).astype(np.float32)
"""96 x 64, with values from 0 to 1."""


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_the_noise_level_is_that_of_the_noise_added(noise):
    """In the units of `noise`: the standard deviation of either part, relative to the largest magnitude."""
    smooth = to_image(to_kspace(torch.from_numpy(DISC), (-2, -1)) * torch.hann_window(64) ** 8, (-2, -1))
    noisy = smooth / smooth.abs().max() + noise * torch.from_numpy(random.normal(size=(4, 96, 64, 2)) @ [1, 1j])
    largest = float(torch.linalg.vector_norm(noisy, dim=0).max())
    assert measure_kspace(noisy).noise == pytest.approx(noise / largest, rel=0.1)


def test_zeros_and_the_centre():
    kspace = torch.from_numpy(transform(DISC + 0.1 * random.normal(size=DISC.shape)))[None]
    found = measure_kspace(to_image(kspace, (-2, -1)))
    assert (found.peak, found.centred, found.zeros, found.fully_sampled) == ((48, 32), True, 0, True)
    lines = kspace * (torch.arange(64) % 3 == 0)
    found = measure_kspace(to_image(lines, (-2, -1)))
    assert found.zeros == pytest.approx(2 / 3, abs=0.02)
    assert not found.fully_sampled
    padded = kspace.clone()
    padded[:, :10] = 0
    assert measure_kspace(to_image(padded, (-2, -1))).extent == ((10, 96), (0, 64))
    assert not measure_kspace(to_image(torch.fft.ifftshift(kspace, (-2, -1)), (-2, -1))).centred


def test_what_is_said_of_raw_data(tmp_path):
    kspace = transform(random.normal(size=(6, 8, 24, 20)) + 2)
    np.savez(tmp_path / "raw.npz", kspace=kspace, subject=["a", "a", "b", "b", "c", "c"])
    found = inspect(tmp_path / "raw.npz", Reading(readout="ky"))
    assert found.description.sentence() == (
        "kspace: 6 slices of 3 subjects, 8 coils, readout ky (24), phase encoding kx (20), "
        "coil sensitivities by ESPIRiT"
    )
    facts = dict(found.facts())
    assert facts["subjects"] == "3; 4 samples to learn from, 2 held out"
    assert facts["roles of axes"] == "known by the rule for arrays"
    assert facts["sampling"] == "fully sampled"
    assert [(array.name, array.shape, array.dtype) for array in found.arrays] == [
        ("kspace", (6, 8, 24, 20), "complex64"),
        ("subject", (6,), "text"),
    ]
    plain = found.to_json()
    assert plain["description"]["coils"] == 8
    assert plain["measured"]["fully_sampled"]
    named = inspect(tmp_path / "raw.npz").description
    assert (named.readout, named.sentence().endswith("readout not known, coil sensitivities by ESPIRiT")) == (
        None,
        True,
    )


def test_what_is_asked(tmp_path):
    np.save(tmp_path / "raw.npy", transform(random.normal(size=(8, 24, 20))))
    found = inspect(tmp_path / "raw.npy")
    assert found.description is None
    assert [choice.value for choice in found.choices] == ["slice ky kx", "coil ky kx", "slice y x", "coil y x"]
    assert "nothing says whether it holds k-space or images" in found.question
    assert found.arrays[0].shape == (8, 24, 20)


def test_what_cannot_be_used(tmp_path):
    kspace = transform(random.normal(size=(3, 24, 20)) + 2) * (np.arange(20) % 2)
    np.savez(tmp_path / "raw.npz", kspace=kspace)
    found = inspect(tmp_path / "raw.npz", Reading(axes="slice ky kx"))
    assert "is undersampled" in found.problem
    assert found.arrays[0].name == "kspace"
    images = random.random((5, 24, 20))
    images[2] = 0
    np.savez(tmp_path / "some.npz", image=images)
    assert "slice 2 is zero" in inspect(tmp_path / "some.npz").problem
    with pytest.warns(InputWarning, match="Left out"):
        assert inspect(tmp_path / "some.npz", Reading(skip_bad=True)).description.slices == 5
    (tmp_path / "bad.npz").write_bytes(b"PK")
    assert "damaged" in inspect(tmp_path / "bad.npz").problem


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("brain", "images: 60 slices"),
        ("cardiac+phase", "k-space emulated from complex images"),
        ("head", "k-space emulated from magnitude images"),
    ],
)
def test_built_in_data(data, words):
    found = inspect(data, Reading(size=(64, 64), slices=(0, 8)) if data != "brain" else Reading())
    assert words.split(":")[0] in found.description.sentence()
    assert found.files == 0
    assert found.measured is None


def test_simulated_coils_are_said_to_be(tmp_path):
    sentence = inspect("head", Reading(coils=8, noise=0.01, size=(32, 32), slices=(0, 2))).description.sentence()
    assert "8 simulated coils" in sentence
    assert "noise 0.01 added" in sentence
    assert "coil sensitivities as simulated" in sentence


def test_the_picture(tmp_path):
    """Combined image and k-space, then each coil; of a single channel only the first two."""
    np.savez(tmp_path / "raw.npz", kspace=transform(random.normal(size=(1, 5, 24, 20)) + 2), subject=["a"])
    figure = inspection_figure(inspect(tmp_path / "raw.npz", Reading(readout="ky")))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["root sum of squares", "k-space, dB", *(f"coil {n} of 5" for n in range(1, 6))]
    assert (figure.axes[1].get_ylabel(), figure.axes[1].get_xlabel()) == ("ky, readout", "kx")
    assert len(inspection_figure(inspect(torch.rand(2, 16, 16))).axes) == 2


def test_frames_are_learned_with_patterns_of_each_frame():
    (command,) = next_commands(inspect("cine", Reading(coils=4)), {"--coils": "4"})
    assert command == "promask learn cine --coils 4 --pattern kt --recon kt-sense --accel 4 --out runs/cine"
    (command,) = next_commands(inspect("cine", Reading()), {})
    assert "--coils 8 --pattern kt --recon kt-sense" in command
