"""Raw radial data as scanners have them: files of every kind, what is said of them, and their images."""

import math
import subprocess

import h5py
import numpy as np
import pytest
import scipy.io
import torch
from file_writers import needs_bart
from PIL import Image

from helpers import coil_maps
from promask import InputError
from promask.cli.main import main
from promask.cli.reconstruct import ALONG, UNITS
from promask.data import Reading, inspect, load, raw_trajectory, read_raw_trajectory, reconstruct_raw
from promask.data.raw_trajectory import estimate_maps
from promask.export.bart import read_bart, write_pair
from promask.recon import RECONSTRUCTIONS, is_temporal, make_reconstruction

N, SPOKES, SAMPLES, COILS = 24, 21, 48, 4
ANGLES = (np.arange(SPOKES) * math.pi * (math.sqrt(5) - 1) / 2) % (2 * math.pi)
RADIUS = (np.arange(SAMPLES) - SAMPLES / 2 + 0.5) / SAMPLES
K = np.exp(1j * ANGLES)[:, None] * RADIUS
"""kx + i ky, (spoke, sample)."""
Y, X = (np.arange(N) - N // 2 for _ in range(2))
IMAGE = np.exp(-((Y[:, None] - 5) ** 2 + (X + 2) ** 2) / 10) + 0.7 * np.exp(-((Y[:, None] + 4) ** 2 + X**2) / 30)
MAPS = coil_maps(COILS, (N, N))[0].numpy()
WAVES = np.exp(-2j * np.pi * (K.imag[..., None, None] * Y[:, None] + K.real[..., None, None] * X)) / N
SCAN = np.einsum("psyx,cyx->cps", WAVES, MAPS * IMAGE).astype(np.complex64)
"""By the explicit sum, (coil, spoke, sample)."""


def write_mat(folder, samples=SCAN, places=K, **names):
    path = folder / "raw.mat"
    scipy.io.savemat(path, {"rawdata": samples.T, "k": places.T, **names})
    return path


def write_new_mat(folder):
    path = folder / "raw.mat"
    pairs = np.dtype([("real", "<f8"), ("imag", "<f8")])
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in (("rawdata", SCAN), ("k", K)):
            file[name] = values.astype(np.complex128).view(pairs)
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    return path


def write_h5(folder):
    path = folder / "raw.h5"
    with h5py.File(path, "w") as file:
        file["kspace"], file["trajectory"] = SCAN, np.stack([K.imag, K.real], -1)
    return path


def write_npz(folder):
    path = folder / "raw.npz"
    np.savez(path, kspace=SCAN.transpose(2, 1, 0), traj=np.stack([K.real.T, K.imag.T]))  # x first
    return path


def write_bart(folder):
    path = folder / "ksp.cfl"
    write_pair(SCAN.T[None], path)
    write_pair(np.stack([K.real.T, K.imag.T, 0 * K.real.T]) * N, folder / "traj.cfl")
    return path


WRITERS = {
    "mat": write_mat,
    "mat of version 7.3": write_new_mat,
    "h5": write_h5,
    "npz": write_npz,
    "bart": write_bart,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_file_holds_the_same(tmp_path, kind):
    raw = read_raw_trajectory(WRITERS[kind](tmp_path), size=N)
    np.testing.assert_allclose(raw.samples, SCAN, atol=1e-6)
    np.testing.assert_allclose(raw.points, np.stack([K.imag, K.real], -1), atol=1e-6)
    assert raw.matrix == (N, N)


def test_sizes(tmp_path):
    assert read_raw_trajectory(write_mat(tmp_path)).matrix == (SAMPLES, SAMPLES)  # 2x oversampled
    assert read_raw_trajectory(write_bart(tmp_path)).matrix == (N, N)
    assert read_raw_trajectory(write_mat(tmp_path), size=(30, 26)).matrix == (30, 26)
    for units, factor in (("fov", N), ("radian", 2 * math.pi)):
        raw = read_raw_trajectory(write_mat(tmp_path, places=K * factor), size=N, units=units)
        np.testing.assert_allclose(raw.points, np.stack([K.imag, K.real], -1), atol=1e-9)


def test_what_is_said(tmp_path):
    path = write_mat(tmp_path)
    found = inspect(str(path))
    shots = "spokes: 21 of 48 samples, 4 coils, radial"
    sentence = f"{shots}, undersampled: 21 of 76 spokes of a complete scan for 48 x 48"
    assert found.raw == read_raw_trajectory(path).sentence() == sentence
    assert (found.problem, found.question, found.description) == (None, None, None)
    assert ("spokes", sentence.partition(": ")[2]) in list(found.facts())
    assert found.to_json()["raw"] == sentence
    whole = read_raw_trajectory(path, size=12)
    assert whole.sentence().endswith("complete: 21 of 19 spokes of a complete scan for 12 x 12")
    turned = read_raw_trajectory(write_mat(tmp_path, places=K * np.exp(3j * np.abs(RADIUS))), size=48)
    assert turned.sentence().startswith("shots: 21 of 48 samples, 4 coils, not radial, undersampled: 1008 of 1810")


@pytest.mark.parametrize("kind", WRITERS)
def test_no_masks_are_learned_from_it(tmp_path, kind):
    path = WRITERS[kind](tmp_path)
    with pytest.raises(InputError, match="masks cannot be learned"):
        load(str(path), Reading())


def likeness(one, other):
    one, other = (np.abs(np.asarray(each)) for each in (one, other))
    return float((one * other).sum() / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize(("recon", "least"), [("gridding", 0.98), ("cg-sense", 0.99), ("cs", 0.985)])
def test_images(tmp_path, recon, least):
    raw = read_raw_trajectory(write_bart(tmp_path))
    np.save(tmp_path / "maps.npy", MAPS)
    for maps in (None, tmp_path / "maps.npy"):
        image = reconstruct_raw(raw, recon, maps=maps)
        assert image.shape == (N, N)
        assert likeness(image, IMAGE) > least
        assert likeness(image.T, IMAGE) < 0.9
    if recon == "gridding":
        assert float(image.abs().max()) == pytest.approx(IMAGE.max(), rel=0.1)


def test_maps_are_those_of_the_coils(tmp_path):
    maps = estimate_maps(read_raw_trajectory(write_bart(tmp_path))).numpy()
    true = MAPS / np.linalg.norm(MAPS, axis=0)
    agreement = np.abs((maps.conj() * true).sum(0))[0.2 * IMAGE.max() < IMAGE]
    assert agreement.mean() > 0.95


def test_one_coil_and_one_spoke(tmp_path):
    single = read_raw_trajectory(write_mat(tmp_path, samples=SCAN[0]), size=N)
    assert single.samples.shape == (1, SPOKES, SAMPLES)
    assert likeness(reconstruct_raw(single, "gridding"), MAPS[0] * IMAGE) > 0.97
    spoke = read_raw_trajectory(write_mat(tmp_path, samples=SCAN[:, :1], places=K[:1]))
    assert spoke.samples.shape == (COILS, 1, SAMPLES)
    assert reconstruct_raw(spoke, "gridding").isfinite().all()


def with_nan(values):
    values = values.copy()
    values[..., 3] = np.nan
    return values


BAD = {
    "outside": (lambda folder: write_mat(folder, places=K * 1.1), "leaves k-space: it reaches 0.53"),
    "in radians": (lambda folder: write_mat(folder, places=K * 2 * math.pi), "set `units` to fov or radian"),
    "nan in samples": (lambda folder: write_mat(folder, samples=with_nan(SCAN)), "NaN"),
    "nan in places": (lambda folder: write_mat(folder, places=with_nan(K)), "NaN"),
    "shorter spokes": (lambda folder: write_mat(folder, samples=SCAN[..., :40]), r"does not fit.* 21 x 48 places"),
    "fewer spokes": (lambda folder: write_mat(folder, places=K[:20]), "does not fit"),
    "several images": (lambda folder: write_mat(folder, samples=np.stack([SCAN, SCAN])), "does not fit"),
    "no samples": (lambda folder: write_mat(folder, samples=np.abs(SCAN)), "call its complex samples"),
    "nothing": (lambda folder: write_mat(folder, samples=0 * SCAN), "no samples of an image"),
    "all at the centre": (lambda folder: write_mat(folder, places=0 * K), "no samples of an image"),
    "volume": (lambda folder: write_mat(folder, places=np.stack([K.real, K.real, K.real])), "three-dimensional"),
    "no directions": (lambda folder: write_mat(folder, places=K.real), "axis of 2 or 3 directions"),
    "tiny steps": (lambda folder: write_mat(folder, places=K * 1e-8), "not plausible"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_one_sentence(tmp_path, capsys, case):
    write, message = BAD[case]
    path = write(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        read_raw_trajectory(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(SystemExit) as stop:
        main(["reconstruct", "raw", str(path), "--out", str(tmp_path / "image.png")])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "image.png").exists()


def test_samples_without_a_trajectory_and_the_reverse(tmp_path):
    path = write_bart(tmp_path)
    apart = tmp_path / "elsewhere.cfl"
    for suffix in (".cfl", ".hdr"):
        (tmp_path / f"traj{suffix}").rename(apart.with_suffix(suffix))
    with pytest.raises(InputError, match="no trajectory beside it"):
        read_raw_trajectory(path)
    assert read_raw_trajectory(path, apart).matrix == (N, N)
    assert read_raw_trajectory(tmp_path / "ksp", tmp_path / "elsewhere").matrix == (N, N)
    with pytest.raises(InputError, match="x, y, z"):
        read_raw_trajectory(path, path)
    np.savez(tmp_path / "raw.npz", kspace=SCAN, other=K)
    with pytest.raises(InputError, match="but no trajectory"):
        read_raw_trajectory(tmp_path / "raw.npz")
    np.save(tmp_path / "ksp.npy", SCAN)
    np.save(tmp_path / "k.npy", K)
    assert len(read_raw_trajectory(tmp_path / "ksp.npy", tmp_path / "k.npy").points) == SPOKES
    for name, message in (("none.mat", "not a file"), ("a.txt", "cannot be read from")):
        (tmp_path / "a.txt").write_text("0")
        with pytest.raises(InputError, match=message):
            read_raw_trajectory(tmp_path / name)


def test_what_cannot_be_reconstructed(tmp_path):
    raw = read_raw_trajectory(write_bart(tmp_path))
    for recon, message in (("sense", "Cartesian"), ("kt-cs", "frames")):
        with pytest.raises(InputError, match=message):
            reconstruct_raw(raw, recon)
    np.save(tmp_path / "maps.npy", MAPS[:, :20])
    with pytest.raises(InputError, match="coil sensitivities"):
        reconstruct_raw(raw, maps=tmp_path / "maps.npy")
    for size in (1, 100_000):
        with pytest.raises(InputError, match=r"size|plausible"):
            read_raw_trajectory(tmp_path / "ksp.cfl", size=size)
    with pytest.raises(InputError, match="`units` must be"):
        read_raw_trajectory(tmp_path / "ksp.cfl", units="cm")


def test_the_commands(tmp_path, capsys):
    path = write_mat(tmp_path)

    def said(*words, status=0):
        with pytest.raises(SystemExit) as stop:
            main([*map(str, words)])
        assert stop.value.code == status
        return capsys.readouterr()

    out = said("inspect", path).out
    assert "21 of 76 spokes of a complete scan" in out
    assert f"promask reconstruct raw {path} --out image.png" in out
    assert "masks cannot be learned" in said("learn", path, "--accel", 4, "--out", tmp_path / "run", status=2).err
    raw = read_raw_trajectory(path, size=N)
    expected = reconstruct_raw(raw, "gridding").numpy()
    for suffix in (".npy", ".npz", ".mat", ".cfl", ".png"):
        file = tmp_path / f"image{suffix}"
        found = said("reconstruct", "raw", path, "--recon", "gridding", "--size", N, "--out", file).out
        assert f"{file}: image, 24 x 24, gridding" in found
    np.testing.assert_allclose(np.load(tmp_path / "image.npy"), expected)
    np.testing.assert_allclose(np.load(tmp_path / "image.npz")["image"], expected)
    np.testing.assert_allclose(scipy.io.loadmat(tmp_path / "image.mat")["image"], expected)
    np.testing.assert_allclose(read_bart(tmp_path / "image.cfl")[0].T, expected)
    with Image.open(tmp_path / "image.png") as picture:
        assert likeness(picture, expected) > 0.99
    assert "let its name end" in said("reconstruct", "raw", path, "--out", tmp_path / "a.txt", status=2).err


def test_the_names_are_those_of_the_library():
    made = {name: make_reconstruction(name) for name in RECONSTRUCTIONS}
    able = [name for name, each in made.items() if getattr(each, "trajectories", False) and not is_temporal(each)]
    assert list(ALONG) == able
    assert UNITS == raw_trajectory.UNITS


@needs_bart
def test_pics_gives_the_same_image(tmp_path):
    path = write_bart(tmp_path)
    write_pair(MAPS.transpose(2, 1, 0)[:, :, None], tmp_path / "maps.cfl")
    command = ["bart", "pics", "-l2", "-r", "0.003", "-t", "traj", "ksp", "maps", "image"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    theirs = read_bart(tmp_path / "image.cfl")[0].reshape(N, N).T
    ours = reconstruct_raw(read_raw_trajectory(path), maps=tmp_path / "maps.cfl")
    assert likeness(ours, theirs) > 0.99
    assert likeness(ours.T, theirs) < 0.9
    assert torch.isfinite(ours).all()
