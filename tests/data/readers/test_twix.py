"""Raw data of Siemens, of both generations of software, in the layout of its bytes."""

import importlib.util

import numpy as np
import pytest
import twixtools
from file_writers import close, fit, images, images_of, inverse, put, random, read, refusal, transform
from twix_writer import (
    ALSO_IMAGE,
    CORRECTION,
    NOISE,
    REFERENCE,
    REFLECT,
    SYNC,
    header_of,
    measurement,
    twix_lines,
    write_twix,
)

from promask.data.reading import Reading
from promask.data.sources import load

WIDE = (2 + random.normal(size=(3, 2, 16, 9)) + 1j * random.normal(size=(3, 2, 16, 9))).astype(np.complex64)
"""Slices with coils; the readout is oversampled twofold, and the central half of it is the image."""
MATRIX = (16, 9, 1)
SCAN = transform(WIDE)[..., None]
IMAGES = WIDE[:, :, 4:12]
OTHERS = [(100 * np.ones((2, 16)), flag, {}, {}) for flag in (NOISE, CORRECTION, REFERENCE)]
"""Lines that are not part of the image."""
SIGNALS = (np.zeros((0, 0)), SYNC, {}, {"bytes": 288})


@pytest.mark.parametrize("newer", [True, False])
def test_slices(tmp_path, newer):
    lines = [*OTHERS, SIGNALS, *twix_lines(SCAN, REFERENCE | ALSO_IMAGE), *OTHERS]
    path = write_twix(tmp_path / "a.dat", lines, MATRIX, newer)
    data = read(path)
    close(images_of(data), IMAGES)
    close(images(path, slices=(-1, None)), IMAGES[-1:])
    close(images(path, kspace="emulated")[:, 0], np.linalg.norm(IMAGES, axis=1))
    geometry = data.geometry
    assert (geometry.axes, geometry.readout, geometry.channels) == (("kx", "ky"), 0, "coil")
    assert (geometry.extent, geometry.region, geometry.voxel) == (((0, 8), (0, 9)), (), (2.0, 3.0))


@pytest.mark.parametrize("newer", [True, False])
def test_twixtools_reads_the_same(tmp_path, newer):
    path = write_twix(tmp_path / "a.dat", [OTHERS[0], *twix_lines(SCAN)], MATRIX, newer)
    (scan,) = twixtools.read_twix(str(path), parse_pmu=False, parse_geometry=False, verbose=False)
    array = twixtools.map_twix(scan)["image"]
    array.flags["remove_os"] = array.flags["squeeze_singletons"] = True
    wanted = np.sqrt(2) * array[:].transpose(0, 2, 3, 1)  # which it scales otherwise
    close(images(path), inverse(wanted))


def test_the_last_measurement_is_the_image(tmp_path):
    before = [measurement(twix_lines(9 * SCAN[:1, :1]), header_of(MATRIX)) for _ in range(2)]
    path = write_twix(tmp_path / "a.dat", twix_lines(SCAN), MATRIX, before=before)
    close(images(path), IMAGES)


def test_averages_segments_and_reflected_lines(tmp_path):
    difference = random.normal(size=SCAN.shape)
    lines = [
        *twix_lines(SCAN + difference, counters={"Ave": 0, "Seg": 1}),
        *twix_lines(SCAN - difference, counters={"Ave": 1, "Seg": 3}),
    ]
    turned = [
        (v[:, ::-1], REFLECT, c, h) if index % 3 else (v, f, c, h) for index, (v, f, c, h) in enumerate(lines)
    ]
    path = write_twix(tmp_path / "a.dat", turned, MATRIX)
    assert load(path).files[0].counts == {"slice": 3, "frame": 1, "contrast": 1}
    close(images(path), IMAGES)


def test_slices_frames_and_contrasts(tmp_path):
    """Samples are numbered by slice, then by frame, then by contrast."""
    factors = random.random((3, 2, 2, 2, 3)).astype(np.float32)
    lines = [
        line
        for rep, phs, eco, set_ in np.ndindex(factors.shape[1:])
        for line in twix_lines(
            SCAN * factors[:, rep, phs, eco, set_][(slice(None), *[None] * 4)],
            counters={"Rep": rep, "Phs": phs, "Eco": eco, "Set": set_},
        )
    ]
    path = write_twix(tmp_path / "a.dat", lines, MATRIX)
    (file,) = load(path, Reading(each_frame=True)).files
    assert list(file.counts.items()) == [("slice", 3), ("frame", 4), ("contrast", 6)]
    close(
        images(path, each_frame=True),
        (factors.reshape(3, 24)[..., None, None, None] * IMAGES[:, None]).reshape(-1, 2, 8, 9),
    )
    some = [line for line in lines if line[2]["Rep"] == 0 or line[2]["Eco"] == 0]
    assert load(write_twix(tmp_path / "b.dat", some, MATRIX)).files[0].counts == {}


def test_partial_fourier_and_asymmetric_echo(tmp_path):
    """The first 3 of 9 lines, and the first 4 of 16 columns, were not measured: 2 of the 8 that remain."""
    kspace = SCAN.copy()
    kspace[..., :4, :, :] = kspace[..., :3, :] = 0
    noisy = np.pad(kspace[..., 4:, 3:, :], [(0, 0), (0, 0), (2, 0), (0, 0), (0, 0)], constant_values=99)
    lines = twix_lines(noisy, line=1, centre=6, cut=(2, 0))
    data = read(write_twix(tmp_path / "a.dat", lines, MATRIX))
    assert data.geometry.extent == ((2, 8), (3, 9))
    wanted = transform(fit(inverse(kspace[..., 0]), (8, 9)))
    wanted[..., :2, :] = 0
    close(images_of(data), inverse(wanted))


def test_volumes(tmp_path):
    volume = (2 + random.normal(size=(1, 2, 12, 6, 5)) + 0j).astype(np.complex64)
    lines = twix_lines(transform(volume, (-3, -2, -1)))
    changes = {
        "sKSpace.lPhaseEncodingLines": 4,
        "sKSpace.lPartitions": 5,
        "sSliceArray.asSlice[0].dPhaseFOV": 12.0,
        "sKSpace.dPhaseOversamplingForDialog": 0.5,
        "sKSpace.dSliceOversamplingForDialog": 0.25,
    }
    path = write_twix(tmp_path / "a.dat", lines, (12, 6, 5), **changes)
    whole, slices = read(path, volumes=True), read(path)
    close(images_of(whole), volume[:, :, 3:9])
    close(images_of(slices), volume[0, :, 3:9].transpose(3, 0, 1, 2))
    assert (whole.geometry.region, slices.geometry.region) == ((6, 4, 4), (6, 4))
    assert whole.geometry.axes == ("kx", "ky", "kz")
    assert whole.geometry.voxel == (2.0, 3.0, 5.0)
    echoes = [*lines, *twix_lines(transform(2 * volume, (-3, -2, -1)), counters={"Eco": 1})]
    path = write_twix(tmp_path / "a.dat", echoes, (12, 6, 5), **changes)
    (file,) = load(path).files
    assert list(file.counts.items()) == [("frame", 1), ("contrast", 2), ("slice", 5)]
    close(images(path)[5:], 2 * images_of(slices))


def test_readout_without_oversampling(tmp_path):
    path = write_twix(tmp_path / "a.dat", twix_lines(SCAN), MATRIX, oversampled=1)
    close(images(path), WIDE)


def test_header_that_tells_nothing(tmp_path):
    names = [line.partition("\t")[0] for line in header_of(MATRIX)["MeasYaps"].splitlines() if line[0] == "s"]
    path = write_twix(tmp_path / "a.dat", twix_lines(SCAN), MATRIX, **dict.fromkeys(names, "nothing"))
    data = read(path)
    close(images_of(data), IMAGES)
    assert data.geometry.voxel == ()


@pytest.mark.parametrize(
    ("lines", "changes", "words"),
    [
        ([line for line in twix_lines(SCAN) if line[2]["Lin"] % 2 == 0], {}, "has 5 of 9 lines; masks need full"),
        (twix_lines(SCAN)[:-1], {}, "undersampled"),
        (twix_lines(SCAN), {"sKSpace.ucTrajectory": "0x2"}, "radial trajectory"),
        (twix_lines(SCAN), {"sKSpace.ucTrajectory": 4}, "spiral trajectory"),
        (twix_lines(SCAN), {"sKSpace.ucTrajectory": 77}, "non-Cartesian trajectory"),
        (twix_lines(SCAN), {"regrid": 2}, "readout on ramps"),
        (OTHERS, {}, "no lines of an image"),
        ([], {}, "no lines of an image"),
        ([*twix_lines(SCAN), *twix_lines(SCAN[:, :1])], {}, "differ in their coils"),
        ([*twix_lines(SCAN), *twix_lines(SCAN[:, :, 2:])], {}, "their length"),
        (twix_lines(SCAN, line=20), {}, "do not cover the centre"),
        (twix_lines(SCAN, cut=(0, 12)), {}, "do not cover the centre"),
        (twix_lines(SCAN), {"sKSpace.lPhaseEncodingLines": 10**9}, "not plausible"),
    ],
)
def test_unusable_measurements(tmp_path, lines, changes, words):
    assert words in refusal(write_twix(tmp_path / "a.dat", lines, MATRIX, **changes))


@pytest.mark.parametrize("newer", [True, False])
def test_measurements_that_were_cut(tmp_path, newer):
    path = write_twix(tmp_path / "a.dat", twix_lines(SCAN), MATRIX, newer)
    whole = path.read_bytes()
    for length in (3, 9, 100, 10_241, 10_500, len(whole) // 2, len(whole) - 1000):
        if length < len(whole):
            assert "a raw data file of Siemens" in refusal(put(path, whole[:length]))


def test_without_twixtools(tmp_path, monkeypatch):
    path = write_twix(tmp_path / "a.dat", twix_lines(SCAN), MATRIX)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "needs twixtools: pip install 'promask[twix]'." in refusal(path)


def test_settings_for_arrays_are_refused(tmp_path):
    path = write_twix(tmp_path / "a.dat", twix_lines(SCAN), MATRIX)
    assert "leave out" in refusal(path, holds="image")
