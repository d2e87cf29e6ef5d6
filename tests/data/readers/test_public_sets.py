"""Public data sets of raw k-space, in small files of their true layout."""

import h5py
import numpy as np
import pytest
from file_writers import close, transform, write_v7_3
from layouts import refusal

from promask.data.file_set import prepare
from promask.data.inspection import inspect
from promask.data.reading import Reading
from promask.data.sources import load

random = np.random.default_rng(0)
FRAMES, SLICES, COILS, WIDTH, HEIGHT = 2, 3, 4, 24, 20
IMAGES = (2 + random.normal(size=(FRAMES, SLICES, COILS, WIDTH, HEIGHT, 2)) @ [1, 1j]).astype(np.complex64)
"""(frame, slice, coil, x, y)."""


def write_mat(path, name, array):
    """MATLAB 7.3: the axes of MATLAB in the opposite order, complex numbers as two fields."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w", userblock_size=512) as file:
        if np.iscomplexobj(array):
            pairs = np.zeros(array.T.shape, [("real", "f4"), ("imag", "f4")])
            pairs["real"], pairs["imag"] = array.T.real, array.T.imag
            file[name] = pairs
        else:
            file[name] = array.T
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(128))
    return path


def stack(data):
    return np.stack([data[index].image.numpy() for index in range(len(data))])


def cmrxrecon(path, name, frames=True, coils=True):
    """(kx, ky, coil, slice, frame) in MATLAB."""
    kspace = transform(IMAGES if coils else IMAGES[:, :, 0]) if frames else transform(IMAGES[0])
    order = (3, 4, 2, 1, 0) if coils else (2, 3, 1, 0)
    return write_mat(path, name, kspace.transpose(order if frames else (2, 3, 1, 0)))


@pytest.mark.parametrize(("year", "name"), [(2023, "kspace_full"), (2024, "kspace_full"), (2025, "kspace")])
def test_cmrxrecon_cine(tmp_path, year, name):
    path = cmrxrecon(tmp_path / str(year) / "P001" / "cine_sax.mat", name)
    found = inspect(path).description
    assert (found.holds, found.slices, found.frames, found.coils) == ("kspace", SLICES, FRAMES, COILS)
    assert (found.axes, found.readout, found.understood) == (("kx", "ky"), "kx", "CMRxRecon")
    data = prepare(load(path, Reading(each_frame=True)))
    close(stack(data), IMAGES.reshape(-1, COILS, WIDTH, HEIGHT))


def test_cmrxrecon_weightings_black_blood_and_single_coil(tmp_path):
    found = inspect(cmrxrecon(tmp_path / "T1map.mat", "kspace_full")).description
    assert (found.frames, found.contrasts, found.coils) == (1, FRAMES, COILS)
    path = cmrxrecon(tmp_path / "blackblood.mat", "kspace", frames=False)
    close(stack(prepare(load(path))), IMAGES[0])
    path = cmrxrecon(tmp_path / "cine_lax.mat", "kspace_single_full", coils=False)
    found = inspect(path).description
    assert (found.slices, found.frames, found.coils) == (SLICES, FRAMES, 1)
    close(stack(prepare(load(path, Reading(each_frame=True)))), IMAGES[:, :, 0].reshape(-1, 1, WIDTH, HEIGHT))


@pytest.mark.parametrize(
    ("name", "words"),
    [("mask04", "is a mask"), ("mask", "is a mask"), ("kspace_sub08", "undersampled"), ("kus", "undersampled")],
)
def test_cmrxrecon_files_that_hold_no_full_kspace(tmp_path, name, words):
    array = np.ones((WIDTH, HEIGHT)) if name.startswith("mask") else transform(IMAGES[0, 0, 0])
    sentence = refusal(write_mat(tmp_path / "cine_sax_mask.mat", name, array))
    assert words in sentence
    assert "fully sampled k-space" in sentence


def test_a_variable_of_any_other_file_is_asked_for(tmp_path):
    """`kspace` alone is a common name: only the files of CMRxRecon are taken for theirs."""
    assert "name its axes" in refusal(cmrxrecon(tmp_path / "mine.mat", "kspace"))
    write_v7_3(tmp_path / "four.mat", {"kspace": transform(IMAGES[0])})
    assert "several ways" in refusal(tmp_path / "four.mat")


def test_cmrxrecon_patients_are_folders(tmp_path):
    for patient in ("P001", "P002", "P003"):
        cmrxrecon(tmp_path / "FullSample" / patient / "cine_sax.mat", "kspace_full")
    assert sorted(set(load(tmp_path).groups)) == ["P001", "P002", "P003"]


def test_m4raw(tmp_path):
    """The layout of fastMRI: images lie beside k-space, a header may be missing; files of a study share a name."""
    for study in ("2022061003", "2022061004"):
        for repetition in ("T101", "T102"):
            with h5py.File(tmp_path / f"{study}_{repetition}.h5", "w") as file:
                file["kspace"] = transform(IMAGES[0])
                file["reconstruction_rss"] = np.linalg.norm(IMAGES[0], axis=1)
    data = load(tmp_path)
    assert sorted(set(data.groups)) == ["2022061003", "2022061004"]
    assert (data.geometry.axes, data.geometry.readout, data.geometry.channels) == (("kx", "ky"), 0, "coil")
    close(stack(prepare(data))[:SLICES], IMAGES[0])


def test_calgary_campinas(tmp_path):
    """Hybrid space: without any shift, their own transform gives the image in its place. Two positions of 256."""
    height, depth, coils, measured = 218, 20, 12, 17  # kz is 170 and more in theirs
    images = random.normal(size=(2, coils, height, depth)) + 2
    signs = np.where(np.add.outer(np.arange(height), np.arange(depth)) % 2, -1, 1)
    stored = (transform(images) * signs).transpose(0, 2, 3, 1)
    stored[:, :, measured:] = 0
    pairs = np.stack([stored.real, stored.imag], -1).reshape(2, height, depth, 2 * coils).astype(np.float32)
    with h5py.File(tmp_path / "e1_P1.7.h5", "w") as file:
        shape = (256, height, depth, 2 * coils)
        file.create_dataset("kspace", shape, np.float32, chunks=(1, *shape[1:]))[128:130] = pairs
    theirs = np.fft.ifft2((pairs[..., 0::2] + 1j * pairs[..., 1::2]), axes=(1, 2), norm="ortho")
    reading = Reading(slices=(128, 130))
    data = prepare(load(tmp_path / "e1_P1.7.h5", reading))
    close(abs(stack(data)), abs(theirs.transpose(0, 3, 1, 2)).astype(np.float32))
    assert (data.geometry.axes, data.geometry.readout) == (("ky", "kz"), None)
    found = inspect(tmp_path / "e1_P1.7.h5", reading).description
    assert found.sentence() == (
        "kspace: 2 positions along x, 12 coils, phase encoding ky (218), "
        "phase encoding kz (17 of 20 acquired), coil sensitivities by ESPIRiT"
    )


def test_other_real_numbers_are_not_taken_for_calgary_campinas(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["kspace"] = random.normal(size=(5, 24, 20, 24))
    assert "unless real and imaginary parts alternate" in refusal(tmp_path / "a.h5")


def test_skm_tea(tmp_path):
    kspace = transform(IMAGES)  # (echo, x, coil, ky, kz)
    kspace[..., :2, :] = kspace[..., -2:, :] = 0
    maps = IMAGES[0] / np.linalg.norm(IMAGES[0], axis=1, keepdims=True)
    with h5py.File(tmp_path / "MTR_001.h5", "w") as file:
        file["kspace"] = kspace.transpose(1, 3, 4, 0, 2)
        file["maps"] = maps.transpose(0, 2, 3, 1)[..., None]
        file["target"] = IMAGES[:, :, :1].transpose(1, 3, 4, 0, 2)
        file["masks/poisson_6.0x"] = np.ones((WIDTH, HEIGHT))
    data = prepare(load(tmp_path / "MTR_001.h5"))
    assert len(data) == SLICES * FRAMES
    assert data.geometry.extent == ((2, WIDTH - 2), (0, HEIGHT))
    close(data[2 * FRAMES + 1].maps.numpy(), maps[2])
    wanted = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(kspace[1, 2], (-2, -1)), norm="ortho"), (-2, -1))
    close(data[2 * FRAMES + 1].image.numpy(), wanted.astype(np.complex64))
    found = inspect(tmp_path / "MTR_001.h5").description
    assert (found.slices, found.positions, found.contrasts, found.sensitivities) == (
        SLICES,
        "x",
        2,
        "beside the data",
    )


def test_radial_samples_are_not_taken_for_a_grid(tmp_path):
    np.savez(tmp_path / "radial.npz", rawdata=transform(IMAGES[0, 0]), k=np.ones((WIDTH, HEIGHT), complex))
    assert "do not lie on a Cartesian grid" in refusal(tmp_path / "radial.npz")
    assert load(tmp_path / "radial.npz", Reading(array="rawdata", axes="coil kx ky")).shape[0] == COILS
