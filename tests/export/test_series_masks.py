"""Masks of series of frames in files of other programs, and back."""

import csv
import shutil
import subprocess

import numpy as np
import pytest
import torch
from scipy.io import loadmat

import promask
from promask.errors import InputError
from promask.evaluation.evaluate import evaluate
from promask.export import ExportedMask, as_mask_func, read_mask, resized, write_mask, write_scan
from promask.learning.run import Run
from promask.sampling.pattern import Pattern
from promask.types import Geometry, Sample

SHAPE = (6, 16, 12)
AXES = ("frame", "ky", "kx")


@pytest.fixture
def mask():
    """Five of 16 lines in each of six frames."""
    generator = torch.Generator().manual_seed(0)
    units = torch.zeros(6, 16, dtype=torch.bool)
    for frame in units:
        frame[torch.randperm(16, generator=generator)[:5]] = True
    pattern = Pattern(SHAPE, (0, 1), directions=AXES, readout=2, indexed="frame")
    return ExportedMask.of_pattern(pattern.expand(units), pattern, 3.2)


@pytest.mark.parametrize("name", ["mask.mat", "mask.cfl", "mask.csv", "mask.png"])
def test_every_format_gives_the_mask_back(mask, name, tmp_path):
    found = read_mask(write_mask(mask, tmp_path / name))
    assert torch.equal(found.mask, mask.mask)
    assert (found.free, found.directions, found.readout, found.indexed) == ((0, 1), AXES, 2, "frame")
    assert found.asked == 3.2


@pytest.mark.parametrize("name", ["mask.mat", "mask.cfl", "mask.csv", "mask.png"])
def test_lines_that_all_frames_share(name, tmp_path):
    pattern = Pattern(SHAPE, (1,), directions=AXES, indexed="frame")
    shared = ExportedMask.of_pattern(pattern.expand(torch.arange(16) % 3 == 0), pattern)
    found = read_mask(write_mask(shared, tmp_path / name))
    assert torch.equal(found.mask, shared.mask)
    assert (found.free, found.indexed) == ((1,), "frame")


def test_arrays_are_as_they_are(mask, tmp_path):
    assert np.array_equal(np.load(write_mask(mask, tmp_path / "mask.npy")), mask.mask.numpy())
    assert np.array_equal(loadmat(write_mask(mask, tmp_path / "mask.mat"))["mask"], mask.mask.numpy())


def test_bart_has_frames_in_dimension_10(mask, tmp_path):
    path = write_mask(mask, tmp_path / "mask.cfl")
    header = path.with_suffix(".hdr").read_text().splitlines()
    assert header[1] == "12 16 1 1 1 1 1 1 1 1 6 1 1 1 1 1"  # kx, ky, ..., frame
    values = np.fromfile(path, "<c8").reshape((12, 16, 6), order="F")
    assert np.array_equal(values.real.transpose(2, 1, 0) == 1, mask.mask.numpy())


@pytest.mark.skipif(shutil.which("bart") is None, reason="BART is not installed")
def test_bart_reads_the_mask_of_each_frame(mask, tmp_path):
    write_mask(mask, tmp_path / "mask.cfl")

    def bart(*words):
        done = subprocess.run(["bart", *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout

    assert bart("show", "-d", "10", "mask").strip() == "6"
    for frame in range(6):
        bart("slice", "10", str(frame), "mask", "frame")
        found = read_mask(tmp_path / "frame.cfl").mask
        assert np.array_equal(found.numpy(), mask.mask[frame].numpy().T)
    bart("copy", "mask", "again")  # without the record
    again = read_mask(tmp_path / "again.cfl")
    assert again.indexed == "frame"
    assert np.array_equal(again.mask.numpy(), mask.mask.numpy().transpose(0, 2, 1))


@pytest.mark.skipif(shutil.which("bart") is None, reason="BART is not installed")
def test_bart_undersamples_a_scan_with_the_mask(mask, tmp_path):
    image = torch.randn(3, *SHAPE, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))
    maps = torch.ones(3, 1, 16, 12, dtype=torch.complex64) / 3**0.5
    write_mask(mask, tmp_path / "mask.cfl")
    write_scan(Sample(image, None, "", "", maps=maps), tmp_path, Geometry(axes=AXES, indexed="frame"))
    for words in (["fmac", "kspace", "mask", "some"], ["fft", "-i", "-u", "3", "some", "images"]):
        subprocess.run(["bart", *words], cwd=tmp_path, check=True)
    assert np.fromfile(tmp_path / "maps.cfl", "<c8").size == 3 * 16 * 12
    found = np.fromfile(tmp_path / "images.cfl", "<c8").reshape((12, 16, 3, 6), order="F")
    kspace = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image.numpy(), axes=(-2, -1))), axes=(-2, -1))
    kspace = kspace * mask.mask.numpy()
    wanted = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(kspace, axes=(-2, -1))), axes=(-2, -1))
    assert np.allclose(found.transpose(2, 3, 1, 0), wanted, atol=1e-4)


def test_the_order_begins_anew_in_each_frame(mask, tmp_path):
    lines = write_mask(mask, tmp_path / "mask.csv").read_text().splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert list(rows[0]) == ["frame", "order", "index_1", "k_1", "centric"]
    for frame in range(6):
        of_frame = [row for row in rows if int(row["frame"]) == frame]
        acquired = mask.mask[frame, :, 0].nonzero().flatten().tolist()
        assert [int(row["index_1"]) for row in of_frame] == acquired
        assert [int(row["order"]) for row in of_frame] == list(range(5))
        outwards = sorted(of_frame, key=lambda row: int(row["centric"]))
        distances = [abs(int(row["k_1"])) for row in outwards]
        assert distances == sorted(distances)


def test_a_picture_has_frames_downwards(mask, tmp_path):
    from PIL import Image

    with Image.open(write_mask(mask, tmp_path / "mask.png")) as picture:
        assert (picture.info["down"], picture.info["across"]) == ("frame", "ky")
        assert np.array_equal(np.asarray(picture) > 0, mask.mask[:, :, 0].numpy())


def test_fastmri_has_no_frames(mask, tmp_path):
    with pytest.raises(InputError, match="cannot hold a mask of 6 frames"):
        write_mask(mask, tmp_path / "mask.h5")


def test_two_phase_encodings_of_each_frame(tmp_path):
    units = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(0)) < 0.5
    pattern = Pattern((3, 4, 5, 6), (0, 1, 2), directions=("frame", "kz", "ky", "kx"), readout=3, indexed="frame")
    volumes = ExportedMask.of_pattern(pattern.expand(units), pattern)
    for name in ("mask.mat", "mask.cfl", "mask.csv"):
        found = read_mask(write_mask(volumes, tmp_path / name))
        assert torch.equal(found.mask, volumes.mask)
        assert found.indexed == "frame"
    header = (tmp_path / "mask.hdr").read_text().splitlines()
    assert header[1].split()[:11] == ["6", "5", "4", *["1"] * 7, "3"]
    assert read_mask(write_mask(volumes, tmp_path / "mask.npy")).indexed == "frame"  # there is no fourth direction


def test_sizes_change_and_frames_do_not(mask):
    larger = resized(mask, (6, 32, 24))
    assert larger.mask.shape == (6, 32, 24)
    assert larger.mask[:, :, 0].sum(1).tolist() == [10] * 6
    assert larger.indexed == "frame"
    with pytest.raises(InputError, match="6 frames cannot be carried to 8"):
        resized(mask, (8, 16, 12))


def test_mask_functions_are_for_slices(mask):
    with pytest.raises(InputError, match="this mask is for 6 frames"):
        as_mask_func(mask)
    pattern = Pattern(SHAPE, (2,), indexed="frame")
    shared = ExportedMask.of_pattern(pattern.expand(torch.arange(12) % 2 == 0), pattern)
    found, _ = as_mask_func(shared)((4, 16, 12, 2))
    assert found.flatten().tolist() == [1, 0] * 6


def test_a_run_comes_back_with_its_period(tmp_path):
    frames = torch.rand(4, 10, 16, 12, generator=torch.Generator().manual_seed(0))
    settings = {"axes": "slice frame y x", "pattern": "kt", "period": 5, "equal_per": "frame=5"}
    run = promask.learn(frames, 4, learner="best-response", steps=2, part="all", **settings)
    run.save(tmp_path / "run")
    again = Run.load(tmp_path / "run")
    pattern = again.distribution.pattern
    assert pattern == run.distribution.pattern
    assert (pattern.indexed, pattern.period, pattern.limits.equal_group) == ("frame", 5, 5)
    assert again.probabilities.shape == (5, 16)
    assert torch.equal(again.mask, run.mask)
    assert torch.equal(again.mask[:5], again.mask[5:])
    exported = read_mask(tmp_path / "run")
    assert (exported.indexed, exported.free) == ("frame", (0, 1))
    assert read_mask(run.export(tmp_path / "mask.csv")).mask.sum() == run.mask.sum()
    assert resized(run, (10, 32, 24)).mask[:5].sum() == 5 * 32 // 4 * 24
    found = evaluate(again, frames, "all", axes="slice frame y x")
    assert found.data.shape == (1, 10, 16, 12)
