"""Masks of spokes and interleaves in files: read back, read by other programs, and compared with BART."""

import json
import math
import subprocess
from dataclasses import replace

import ismrmrd
import numpy as np
import pytest
import scipy.io
import torch
from file_writers import needs_bart
from masks import ALONG, CARTESIAN, exported, run_on

from promask import InputError
from promask.cli.main import main
from promask.data import Reading, load
from promask.export import FORMATS, ExportedMask, as_mask_func, read_mask, resized, write_mask, write_scan
from promask.export.bart import read_bart, write_pair
from promask.learning.run import Run
from promask.operators.trajectory import Trajectory
from promask.operators.trajectory_transform import TrajectoryTransform
from promask.recon import CgSense, Gridding
from promask.recon.base import reconstruct_spectra
from promask.sampling.pattern import Pattern
from promask.types import Geometry, Sample

KEEPING = [name for name in FORMATS if FORMATS[name].read is not None and name not in ("npy", "fastmri")]
"""The formats that keep a trajectory."""


@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize("to", KEEPING)
def test_round_trip(tmp_path, to, name):
    mask = exported(name)
    back = read_mask(write_mask(mask, tmp_path / "m", to))
    assert torch.equal(back.mask, mask.mask)
    assert (back.trajectory, back.free, back.asked) == (mask.trajectory, mask.free, 2.5)
    assert back.record() == mask.record()


@pytest.mark.parametrize("name", ALONG)
def test_a_run_folder(tmp_path, name):
    run = run_on(ALONG[name])
    folder = run.save(tmp_path / "run")
    assert Run.load(folder).distribution.pattern == ALONG[name]
    mask = read_mask(folder)
    assert mask.trajectory == ALONG[name].trajectory
    assert torch.equal(mask.mask, run.mask)
    acquired = int(ALONG[name].restrict(run.mask).sum())
    assert mask.achieved == run.acceleration == ALONG[name].full / acquired


def test_accelerations_are_relative_to_nyquist():
    pattern = ALONG["spokes"]
    mask = ExportedMask.of_pattern(pattern.expand(torch.arange(96) < 13), pattern)
    assert mask.achieved == 26 / 13  # pi / 2 * 16 spokes, rounded up


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "rosette"}, "Unknown trajectory"),
        ({"kind": 3}, "Unknown trajectory"),
        ({"candidates": 95}, "does not fit"),
        ({"candidates": "many"}, "missing or wrong"),
        ({"samples": -4}, "at least"),
        ({"matrix": [16]}, "missing or wrong"),
        ({"matrix": [16, 16.5]}, "missing or wrong"),
        ({"matrix": [10**9, 10**9]}, "not plausible"),
        ({"matrix": None}, "missing or wrong"),
    ],
)
def test_a_forged_record_is_one_sentence(tmp_path, change, message):
    folder = run_on(ALONG["spokes"]).save(tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    record["pattern"]["trajectory"] |= change
    (folder / "run.json").write_text(json.dumps(record))
    for read in (Run.load, read_mask):
        with pytest.raises(InputError, match=message) as caught:
            read(folder)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("whole", ["radial", [], 5])
def test_a_trajectory_that_is_no_record(tmp_path, whole):
    folder = run_on(ALONG["spokes"]).save(tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    record["pattern"]["trajectory"] = whole
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="run"):
        Run.load(folder)


def test_the_same_spokes_in_every_format(tmp_path):
    """By their definition: angles from x towards y, k = r (cos, sin), r from -1/2 in steps of 1 / samples."""
    mask = exported("spokes")
    index = mask.mask[:, 0].nonzero().flatten().numpy()
    angles = index * np.pi / 96
    radius = (np.arange(32) - 16) / 32
    kx, ky = (np.outer(wave, radius) for wave in (np.cos(angles), np.sin(angles)))
    paths = {to: write_mask(mask, tmp_path / to, to) for to in (*KEEPING, "angles", "mri-nufft")}

    variables = scipy.io.loadmat(paths["mat"])
    np.testing.assert_allclose(variables["angles"][0], angles)
    assert variables["indices"][0].tolist() == index.tolist()
    np.testing.assert_allclose(variables["trajectory"], (kx + 1j * ky).T, atol=1e-12)

    numbers = np.fromfile(paths["bart"], "<c8").reshape(3, 32, len(index), order="F")
    np.testing.assert_allclose(numbers, [kx.T * 14, ky.T * 16, 0 * kx.T], atol=1e-5)  # the matrix is 16 x 14

    np.testing.assert_allclose(np.load(paths["angles"]), angles)
    points = np.load(paths["mri-nufft"])
    assert points.dtype == np.float32
    np.testing.assert_allclose(points, np.stack([ky, kx], 2), atol=1e-6)  # in the order of the axes of the image

    rows = [line.split(",") for line in paths["csv"].read_text().splitlines() if not line.startswith("#")]
    assert rows[0] == ["order", "index", "angle_degrees"]
    np.testing.assert_allclose([float(row[2]) for row in rows[1:]], np.degrees(angles), atol=1e-6)
    assert [int(row[1]) for row in rows[1:]] == index.tolist()

    with ismrmrd.Dataset(str(paths["mrd"]), mode="r") as measured:
        header = ismrmrd.xsd.CreateFromDocument(measured.read_xml_header())
        shots = [measured.read_acquisition(n) for n in range(measured.number_of_acquisitions())]
    assert header.encoding[0].trajectory.value == "radial"
    assert [shot.idx.kspace_encode_step_1 for shot in shots] == index.tolist()
    assert {shot.center_sample for shot in shots} == {16}
    np.testing.assert_allclose([shot.traj for shot in shots], np.stack([kx, ky], 2), atol=1e-6)
    assert not np.any([shot.data for shot in shots])


def test_frames_and_stacks(tmp_path):
    frames, stack = exported("spokes of frames"), exported("stack of stars")
    own = [each.nonzero().flatten() for each in frames.mask[..., 0]]
    table = np.load(write_mask(frames, tmp_path / "frames", "angles"))
    assert table[:, 1].tolist() == [float(n) for n in range(3) for _ in own[0]]
    np.testing.assert_allclose(table[:, 0], torch.cat(own) * torch.pi / 96)
    points = np.load(write_mask(frames, tmp_path / "points", "mri-nufft"))
    assert points.shape == (3, len(own[0]), 32, 2)
    write_mask(frames, tmp_path / "t", "bart")
    assert (tmp_path / "t.hdr").read_text().split("\n")[1].split() == [
        *("3", "32", str(len(own[0])), *["1"] * 7),
        *("3", "1", "1", "1", "1", "1"),
    ]

    index, kz = (each.numpy() for each in stack.mask[..., 0].nonzero().T)
    table = np.load(write_mask(stack, tmp_path / "stack", "angles"))
    np.testing.assert_allclose(table, np.stack([index * np.pi / 96, kz - 3], 1))
    points = np.load(write_mask(stack, tmp_path / "volume", "mri-nufft"))
    np.testing.assert_allclose(points[:, 7, 0], (kz - 3) / 6, atol=1e-6)
    write_mask(stack, tmp_path / "v", "bart")
    numbers = np.fromfile(tmp_path / "v.cfl", "<c8").reshape(3, 32, -1, order="F")
    np.testing.assert_allclose(numbers[2, 0].real, kz - 3, atol=1e-5)


def test_frames_with_unequal_numbers(tmp_path):
    pattern = ALONG["spokes of frames"]
    units = torch.zeros(3, 96, dtype=torch.bool)
    units[0, :5], units[1, 7] = True, True
    mask = ExportedMask.of_pattern(pattern.expand(units), pattern)
    for to in ("bart", "mri-nufft"):
        with pytest.raises(InputError, match="from 0 to 5 spokes"):
            write_mask(mask, tmp_path / "m", to)
    for to in ("csv", "mat", "mrd"):
        assert torch.equal(read_mask(write_mask(mask, tmp_path / "m", to)).mask, mask.mask)


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match=r"m\.h5 cannot hold spokes"):
        write_mask(exported("spokes"), tmp_path / "m", "fastmri")
    for to in FORMATS.keys() - set(CARTESIAN):
        with pytest.raises(InputError, match="is Cartesian"):
            write_mask(exported("columns"), tmp_path / "m", to)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="mri-nufft"):
        as_mask_func(exported("spokes"))
    with pytest.raises(InputError, match="only the size of slices can change"):
        resized(exported("spokes"), (4, 96, 40))


@pytest.mark.parametrize("kind", ["spokes", "stack of stars", "spokes of frames"])
def test_angles_are_those_of_images_of_another_size(kind):
    """The inner half of each spoke for twice the matrix is that of the matrix."""
    mask = exported(kind)
    shape = (*mask.pattern.image_shape[:-2], *(2 * n for n in mask.trajectory.matrix))
    larger = resized(mask, shape)
    assert larger.pattern.image_shape == shape
    assert torch.equal(larger.pattern.restrict(larger.mask), mask.pattern.restrict(mask.mask))
    assert torch.allclose(larger.trajectory.angles, mask.trajectory.angles)
    middle = larger.trajectory.samples // 2
    inner = larger.trajectory.points[:, middle - mask.trajectory.samples // 2 :][:, : mask.trajectory.samples]
    assert torch.allclose(2 * inner, mask.trajectory.points)


def bart_numbers(path, change):
    values = np.fromfile(path, "<c8")
    change(values)
    values.tofile(path)


DAMAGE = {
    "bart turned": ("bart", lambda path: bart_numbers(path, lambda v: np.multiply(v, 0.99, out=v))),
    "bart nan": ("bart", lambda path: bart_numbers(path, lambda v: v.fill(np.nan))),
    "csv index": ("csv", lambda path: path.write_text(path.read_text() + "99,96,0\n")),
    "csv twice": ("csv", lambda path: path.write_text(path.read_text() + path.read_text().splitlines()[-1])),
    "csv matrix": ("csv", lambda path: path.write_text(path.read_text().replace("[16, 14]", "[16]"))),
    "csv large": ("csv", lambda path: path.write_text(path.read_text().replace("[16, 14]", "[99999, 9999999]"))),
    "csv kind": ("csv", lambda path: path.write_text(path.read_text().replace("kind: radial", "kind: rose"))),
    "mrd empty": ("mrd", lambda path: path.write_bytes(b"")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files(tmp_path, damage):
    to, break_it = DAMAGE[damage]
    path = write_mask(exported("spokes"), tmp_path / "broken", to)
    break_it(path)
    with pytest.raises(InputError) as caught:
        read_mask(path)
    assert "\n" not in str(caught.value)


def test_the_command(tmp_path, capsys):
    folder = run_on(ALONG["spokes"]).save(tmp_path / "run")
    with pytest.raises(SystemExit) as stop:
        main(["export", str(folder), "--to", "mri-nufft", "--out", str(tmp_path / "points")])
    assert stop.value.code == 0
    assert "points.npy: mask, [96, 32], x2.6" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["export", str(folder), "--to", "fastmri", "--out", str(tmp_path / "mask")])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def scanned(kind, tmp_path):
    """A scan with the samples of all candidates, the mask of every eighth, and both as BART's files."""
    data = load("knee", Reading(size=(48, 48), coils=4, trajectory=kind))
    sample, pattern = data[0], Pattern.on((48, 48), data.geometry)
    units = torch.arange(pattern.units) % 8 == 3
    mask = ExportedMask.of_pattern(pattern.expand(units), pattern)
    write_mask(mask, tmp_path / "traj", "bart")
    kspace, maps = write_scan(sample, tmp_path, data.geometry, mask)
    assert (kspace.name, maps.name) == ("kspace.cfl", "maps.cfl")
    return sample, mask


def bart(folder, *words):
    subprocess.run(["bart", *words], cwd=folder, check=True, capture_output=True)


@needs_bart
@pytest.mark.parametrize("kind", ["radial", "spiral"])
def test_bart_measures_the_same_samples(tmp_path, kind):
    sample, mask = scanned(kind, tmp_path)
    write_pair(sample.image.numpy().transpose(2, 1, 0)[:, :, None], tmp_path / "image.cfl")
    kspace, _ = read_bart(tmp_path / "kspace.cfl")
    assert kspace.shape == (1, mask.trajectory.samples, int(mask.mask[:, 0].sum()), 4)
    bart(tmp_path, "nufft", "-s", "traj", "image", "sums")  # sums as the definition has them
    sums = read_bart(tmp_path / "sums.cfl")[0].reshape(kspace.shape) / 48
    assert np.linalg.norm(sums - kspace) < 1e-5 * np.linalg.norm(kspace)
    bart(tmp_path, "nufft", "traj", "image", "gridded")  # BART's interpolation, which is less exact
    gridded = read_bart(tmp_path / "gridded.cfl")[0].reshape(kspace.shape)
    assert np.linalg.norm(gridded - kspace) < 1e-2 * np.linalg.norm(kspace)


@needs_bart
def test_bart_measures_the_same_samples_of_frames_and_stacks(tmp_path):
    def numbers(name):
        shape = [int(n) for n in (tmp_path / f"{name}.hdr").read_text().split("\n")[1].split()]
        return np.fromfile(tmp_path / f"{name}.cfl", "<c8").reshape(shape, order="F")

    def compared(name, image):
        mask = exported(name)
        kspace = TrajectoryTransform(mask.trajectory, name == "stack of stars").sample(image[None])[0]
        sample = Sample(image, None, "one", "one", kspace=kspace)
        indexed = Geometry().series("frame", 3) if mask.indexed else Geometry()
        write_mask(mask, tmp_path / "traj", "bart")
        write_scan(sample, tmp_path, replace(indexed, trajectory=mask.trajectory), mask)
        return numbers("kspace")

    random = torch.Generator().manual_seed(0)
    volume, series = (torch.randn(2, n, 16, 16, generator=random, dtype=torch.complex64) for n in (6, 3))
    kspace = compared("stack of stars", volume)
    write_pair(volume.numpy().transpose(3, 2, 1, 0), tmp_path / "image.cfl")
    bart(tmp_path, "nufft", "-s", "traj", "image", "sums")
    sums = numbers("sums").reshape(kspace.shape) / math.sqrt(6 * 16 * 16)
    assert np.linalg.norm(sums - kspace) < 1e-5 * np.linalg.norm(kspace)

    kspace = compared("spokes of frames", series)
    for frame in range(3):
        write_pair(series[:, frame].numpy().transpose(2, 1, 0)[:, :, None], tmp_path / "image.cfl")
        bart(tmp_path, "slice", "10", str(frame), "traj", "own")
        bart(tmp_path, "nufft", "-s", "own", "image", "sums")
        own = kspace[..., frame, :, :, :, :, :].squeeze()
        assert np.linalg.norm(numbers("sums").squeeze() / 16 - own) < 1e-5 * np.linalg.norm(own)


@needs_bart
def test_pics_gives_the_same_image(tmp_path):
    sample, mask = scanned("radial", tmp_path)
    bart(tmp_path, "pics", "-l2", "-r", "0.003", "-t", "traj", "kspace", "maps", "image")
    theirs = read_bart(tmp_path / "image.cfl")[0].reshape(48, 48).T  # x, y

    def likeness(one, other):
        return abs(np.vdot(one, other)) / np.linalg.norm(one) / np.linalg.norm(other)

    for recon, least in ((CgSense(), 0.995), (Gridding(), 0.95)):
        made = reconstruct_spectra(recon, sample.kspace[None], mask.mask, sample.maps[None], 0, mask.trajectory)
        ours = made[0, 0].numpy()
        assert likeness(ours, theirs) > least
        assert likeness(ours, theirs) > likeness(ours.T, theirs) + 0.03


@needs_bart
def test_spokes_are_those_of_bart(tmp_path):
    """Which begins along y and goes on towards x."""
    spokes = Trajectory.of("radial", (16, 16), candidates=4)
    pattern = Pattern((4, 32), (0,), trajectory=spokes)
    everything = torch.ones(pattern.shape, dtype=torch.bool)
    write_mask(ExportedMask.of_pattern(everything, pattern), tmp_path / "ours", "bart")
    bart(tmp_path, "traj", "-r", "-c", "-o", "2", "-x", "16", "-y", "4", "theirs")
    ours, theirs = (
        np.fromfile(tmp_path / f"{name}.cfl", "<c8").reshape(3, 32, 4, order="F") for name in ("ours", "theirs")
    )
    np.testing.assert_allclose(ours[:, :, [2, 1, 0]], theirs[:, :, :3], atol=1e-5)
    np.testing.assert_allclose(ours[:, 1:, 3], theirs[:, :0:-1, 3], atol=1e-5)  # the other way round
