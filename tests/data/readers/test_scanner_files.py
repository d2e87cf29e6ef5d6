"""NIfTI, ISMRMRD and DICOM, written by others and read by promask."""

import gzip
import shutil

import h5py
import ismrmrd
import nibabel as nib
import numpy as np
import pydicom
import pytest
from file_writers import (
    COMPLEX,
    IMAGE,
    PLANES,
    SCAN,
    SERIES,
    VOLUME,
    close,
    fit,
    images,
    images_of,
    inverse,
    labels_of,
    lines_of,
    put,
    random,
    read,
    refusal,
    same,
    transform,
    write_dicom,
    write_mrd,
    write_nifti,
)

from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputError


@pytest.mark.parametrize(
    ("stored", "labels"),
    [("RAS", "RAS"), ("LAS", None), ("LPI", "LAS"), ("PSR", "RAS"), ("SAL", "SAL"), ("IRP", None), ("ASR", "SAR")],
)
def test_orientations(tmp_path, stored, labels):
    """It does not matter how a volume is stored; labels of unknown orientation have that of the image."""
    path = write_nifti(tmp_path / "a.nii", stored=stored)
    write_nifti(tmp_path / "a_seg.nii.gz", (10 * VOLUME).astype(np.uint8), stored=labels or stored)
    if labels is None:
        nib.save(nib.Nifti1Image(nib.load(tmp_path / "a_seg.nii.gz").get_fdata(), None), tmp_path / "a_seg.nii.gz")
    for plane, wanted in PLANES.items():
        data = read(path, plane=plane)
        same(images_of(data)[:, 0], wanted)
        same(labels_of(data), (10 * wanted).astype(np.uint8))
    same(images(path)[:, 0], PLANES["axial"])
    same(images(path, volumes=True)[0, 0], PLANES["axial"])


@pytest.mark.parametrize("stored", ["RAS", "LPI", "PSR"])
@pytest.mark.parametrize(
    ("zooms", "plane"),
    [((1, 1, 5), "axial"), ((1, 3, 1), "coronal"), ((3, 1, 1), "sagittal"), ((2, 2, 1), "axial")],
)
def test_the_plane_that_was_acquired(tmp_path, stored, zooms, plane):
    path = write_nifti(tmp_path / "a.nii.gz", zooms=zooms, stored=stored)
    same(images(path)[:, 0], PLANES[plane])
    same(images(path, slices=(-2, None))[:, 0], PLANES[plane][-2:])
    same(images(path, slices=(1, 3), volumes=True)[0, 0], PLANES[plane][1:3])
    assert "no slices to take" in refusal(path, slices=(8, 9), volumes=True)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "u2", "i4", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("endianness", "<>")
@pytest.mark.parametrize("kind", [nib.Nifti1Image, nib.Nifti2Image])
def test_nifti_numbers(tmp_path, dtype, endianness, kind):
    values = (100 * VOLUME).astype(dtype)
    header = kind.header_class(endianness=endianness)
    header.set_data_dtype(np.dtype(dtype).newbyteorder(endianness))
    image = kind(values, np.eye(4), header)
    assert image.header.endianness == endianness
    nib.save(image, tmp_path / "a.nii")
    found = images(tmp_path / "a.nii")
    wanted = values[:, ::-1].transpose(2, 1, 0)
    same(found[:, 0], wanted.astype(np.complex64 if dtype[0] == "c" else np.float32))


def test_scaled_nifti_with_contrasts(tmp_path):
    contrasts = random.integers(0, 1000, (5, 6, 7, 3)).astype(np.int16)
    image = nib.Nifti1Image(contrasts, np.eye(4))
    image.header.set_slope_inter(0.5, -10)
    nib.save(image, tmp_path / "a.nii.gz")
    stored = np.frombuffer(gzip.decompress((tmp_path / "a.nii.gz").read_bytes())[352:], np.int16)
    same(stored, contrasts.ravel(order="F"))
    wanted = (0.5 * contrasts[:, ::-1] - 10).transpose(2, 3, 1, 0)
    close(images(tmp_path / "a.nii.gz"), wanted.astype(np.float32))
    volume = read(tmp_path / "a.nii.gz", volumes=True)
    assert volume.shape == (3, 7, 6, 5)
    close(images_of(volume)[0], wanted.astype(np.float32).swapaxes(0, 1))


@pytest.mark.parametrize("end", ["_gt", "_seg", "_label"])
def test_labels_beside(tmp_path, end):
    path = write_nifti(tmp_path / "a.nii.gz")
    write_nifti(tmp_path / f"a{end}.nii.gz", (3 * VOLUME).astype(np.uint8))
    for source in (path, tmp_path):
        data = read(source, size=(4, 9))
        assert len(data) == 7
        same(labels_of(data), fit((3 * PLANES["axial"]).astype(int), (4, 9)))
    write_nifti(tmp_path / f"a{end}.nii.gz", VOLUME)
    assert "whole numbers" in refusal(path)
    write_nifti(tmp_path / f"a{end}.nii.gz", np.ones((5, 6, 8), np.uint8))
    assert f"a{end}.nii.gz have shape [5, 6, 8]" in refusal(path)
    put(tmp_path / f"a{end}.nii.gz", b"")
    refusal(path, f"a{end}.nii.gz")
    (tmp_path / f"a{end}.nii.gz").unlink()
    assert all(sample.label is None for sample in (read(path)[0], read(tmp_path)[6]))


def test_nifti_that_is_no_volume_of_numbers(tmp_path):
    colours = np.zeros((4, 4, 4), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    nib.save(nib.Nifti1Image(colours, np.eye(4)), tmp_path / "a.nii")
    assert "numbers are expected" in refusal(tmp_path / "a.nii")
    for shape in [(4,), (4, 4, 4, 2, 2)]:
        nib.save(nib.Nifti1Image(np.ones(shape, np.float32), np.eye(4)), tmp_path / "a.nii")
        assert "a volume of 3 axes is expected" in refusal(tmp_path / "a.nii")
    content = bytearray(write_nifti(tmp_path / "a.nii").read_bytes())
    content[70:72] = (1).to_bytes(2, "little")  # the type of single bits, which nibabel does not read
    refusal(put(tmp_path / "a.nii", bytes(content)))


def test_ismrmrd_slices(tmp_path):
    noise = [(100 * np.ones((3, 32)), flag, {}, {}) for flag in (19, 24, 30, 31)]
    path = write_mrd(tmp_path / "a.h5", [*noise, *lines_of(SCAN)], (9, 8, 1))
    data = read(path)
    assert data.geometry.region == ()
    close(images_of(data), COMPLEX)
    close(images(path, slices=(-1, None)), COMPLEX[-1:])
    shutil.copy(path, tmp_path / "a.mrd")
    close(images(tmp_path / "a.mrd", kspace="emulated")[:, 0], np.linalg.norm(COMPLEX, axis=1))


def test_ismrmrd_averages_and_reversed_lines(tmp_path):
    difference = random.normal(size=SCAN.shape)
    lines = [*lines_of(SCAN + difference), *lines_of(SCAN - difference)]
    turned = [
        (values[:, ::-1], ismrmrd.ACQ_IS_REVERSE, counters, fields) if index % 3 else (values, 0, counters, fields)
        for index, (values, _, counters, fields) in enumerate(lines)
    ]
    close(images(write_mrd(tmp_path / "a.h5", turned, (9, 8, 1))), COMPLEX)


def test_ismrmrd_slices_frames_and_contrasts(tmp_path):
    """Samples are numbered by slice, then by frame, then by contrast; segments are no samples."""
    names = ("repetition", "phase", "contrast", "set")
    factors = 1 + np.arange(24, dtype=np.float32).reshape(2, 1, 3, 2, 2)
    lines = [
        (values * factors[(counters["slice"], *place)], flag, counters | which | {"segment": index % 3}, fields)
        for place in np.ndindex(factors.shape[1:])
        for which in [dict(zip(names, place, strict=True))]
        for index, (values, flag, counters, fields) in enumerate(lines_of(SCAN[:2]))
    ]
    path = write_mrd(tmp_path / "a.h5", lines, (9, 8, 1))
    assert list(load(path, Reading(each_frame=True)).files[0].counts.items()) == [
        ("slice", 2),
        ("frame", 3),
        ("contrast", 4),
    ]
    wanted = factors.reshape(2, 12)[..., None, None, None] * COMPLEX[:2, None]
    close(images(path, each_frame=True), wanted.reshape(-1, 3, 9, 8))


def test_ismrmrd_counters_that_tell_samples_apart(tmp_path):
    names = ("slice", "set", "contrast", "phase", "repetition")
    lines = [
        (v, f, {names[index // 4]: 1 + index % 4, "kspace_encode_step_1": c["kspace_encode_step_1"]}, h)
        for index in range(20)
        for v, f, c, h in lines_of((1 + index) * SCAN[:1])
    ]
    found = images(write_mrd(tmp_path / "a.h5", lines, (9, 8, 1)))
    close(np.sort(abs(found[:, 0, 0, 0])), abs(COMPLEX[0, 0, 0, 0]) * np.arange(1, 21, dtype=np.float32))
    assert load(tmp_path / "a.h5").files[0].counts == {}, "not every combination was measured"


def test_ismrmrd_padding_and_oversampling(tmp_path):
    """A matrix of 18 x 13, of which readout 2 to 18 and columns 4 to 12 were measured, with noise around them."""
    full = transform(2 + random.normal(size=(4, 3, 18, 13)))
    kspace = np.zeros_like(full)
    kspace[..., 2:18, 4:12] = full[..., 2:18, 4:12]
    noisy = np.pad(kspace[..., 2:18, 4:12, None], [(0, 0), (0, 0), (3, 1), (0, 0), (0, 0)], constant_values=99)
    lines = lines_of(noisy, center_sample=10, discard_pre=3, discard_post=1)
    path = write_mrd(tmp_path / "a.h5", lines, (18, 13, 1), recon=(9, 12, 1), centre=(2, 0))
    data = read(path)
    assert data.geometry.extent == ((2, 18), (4, 12))
    assert data.geometry.region == (9, 12)
    wanted = inverse(kspace)
    close(images_of(data), wanted)
    emulated = read(path, kspace="emulated")
    assert emulated.shape == (1, 9, 12)
    assert emulated.geometry.extent == ()
    close(images_of(emulated)[:, 0], fit(np.linalg.norm(wanted, axis=1), (9, 12)))


def test_ismrmrd_asymmetric_echo(tmp_path):
    """Lines that begin late are shorter: what was not read before them is padding."""
    kspace = SCAN.copy()
    kspace[:, :, :3] = 0
    path = write_mrd(tmp_path / "a.h5", lines_of(kspace[:, :, 3:], center_sample=1), (9, 8, 1))
    data = read(path)
    assert data.geometry.extent == ((3, 9), (0, 8))
    assert (data.geometry.axes, data.geometry.readout, data.geometry.channels) == (("kx", "ky"), 0, "coil")
    np.testing.assert_allclose(data.geometry.voxel, (1 / 9, 1 / 8))
    close(images_of(data), inverse(kspace[..., 0]))


def test_ismrmrd_volumes(tmp_path):
    volume = COMPLEX[:2].reshape(1, 2, 6, 9, 4)
    path = write_mrd(tmp_path / "a.h5", lines_of(transform(volume, (-3, -2, -1))), (6, 9, 4), recon=(4, 9, 4))
    whole, slices = read(path, volumes=True), read(path)
    close(images_of(whole), volume)
    close(images_of(slices), volume[0].transpose(3, 0, 1, 2))
    assert whole.geometry.region == (4, 9, 4)
    assert slices.geometry.region == (4, 9)


@pytest.mark.parametrize(
    ("lines", "changes", "words"),
    [
        ([line for line in lines_of(SCAN) if line[2]["kspace_encode_step_1"] != 3], {}, "has 7 of 8 lines"),
        (lines_of(SCAN)[:-1], {}, "undersampled"),
        (lines_of(SCAN), {"trajectory": "radial"}, "radial trajectory"),
        (lines_of(SCAN), {"matrix": (9, 7, 1)}, "do not fit the matrix [9, 7, 1]"),
        (lines_of(SCAN), {"matrix": (8, 8, 1)}, "do not fit the matrix"),
        (lines_of(SCAN, center_sample=7), {}, "do not fit the matrix"),
        ([(np.ones((3, 9)), ismrmrd.ACQ_IS_NOISE_MEASUREMENT, {}, {})], {}, "no lines of an image"),
    ],
)
def test_unusable_ismrmrd(tmp_path, lines, changes, words):
    assert words in refusal(write_mrd(tmp_path / "a.h5", lines, **{"matrix": (9, 8, 1)} | changes))


def test_ismrmrd_headers(tmp_path):
    """Without a size of the image all of it counts; a damaged header is an error."""
    path = write_mrd(tmp_path / "a.h5", lines_of(SCAN), (9, 8, 1))
    with h5py.File(path, "r+") as file:
        text = file["dataset/xml"][0].decode()
        start, end = text.index("<reconSpace>"), text.index("</encodingLimits>")
        file["dataset/xml"][0] = text[:start] + "<encodingLimits>" + text[end:]
    close(images(path), COMPLEX)
    assert load(path).geometry.region == ()
    with h5py.File(path, "r+") as file:
        file["dataset/xml"][0] = text[:-30]
    assert "header of" in refusal(path)


@pytest.mark.parametrize("name", ["{}.dcm", "{}.IMA", "scan{}", "1.2.840.{}"])
def test_dicom_series(tmp_path, name):
    """Files in any order, of which the places in the body tell the order."""
    for number, index in enumerate([3, 0, 5, 1, 4, 2]):
        write_dicom(tmp_path / name.format(number), SERIES[index], 2.5 * index, InstanceNumber=number,
                    RescaleSlope=0.5, RescaleIntercept=-100)  # fmt: skip
    write_dicom(tmp_path / "DICOMDIR", SERIES[0], PixelData=b"", Rows=None, Columns=None)
    wanted = 0.5 * SERIES.astype(np.float32) - 100
    same(images(tmp_path)[:, 0], wanted)
    same(images(tmp_path, slices=(1, -2))[:, 0], wanted[1:-2])
    same(images(tmp_path, volumes=True)[0, 0], wanted)
    assert "no slices to take" in refusal(tmp_path, volumes=True, slices=(9, 10))


def test_dicom_patients_and_series(tmp_path):
    for index, (patient, series) in enumerate([("A1", "1.1"), ("B2", "1.2"), ("A1", "1.3"), ("A1", "1.1")]):
        write_dicom(tmp_path / f"{index}.dcm", SERIES[index], -index, patient, series)
    data = read(tmp_path)
    same(images_of(data)[:, 0], SERIES[[3, 0, 1, 2]])
    first, second, other, third = data.groups
    assert first == second == third != other
    assert not any(
        word in text
        for text in [*data.groups, *(data[index].name for index in range(4))]
        for word in ("A1", "B2", "Doe")
    )
    with pytest.raises(InputError, match="`size`"):
        load(tmp_path, Reading(volumes=True))


def test_dicom_without_places_and_patients(tmp_path):
    for index in range(4):
        fields = {"ImagePositionPatient": None, "PatientID": "", "InstanceNumber": 4 - index}
        write_dicom(tmp_path / str(index // 2) / f"{index}.dcm", SERIES[index], series=f"1.{index // 2}", **fields)
    data = read(tmp_path)
    same(images_of(data)[:, 0], SERIES[[1, 0, 3, 2]])
    assert [data.groups.index(group) for group in data.groups] == [0, 0, 2, 2], "folders tell the patients"


def test_dicom_with_frames(tmp_path, monkeypatch):
    path = write_dicom(tmp_path / "a.dcm", SERIES, NumberOfFrames=6)
    opened = []
    original = pydicom.dcmread
    monkeypatch.setattr(pydicom, "dcmread", lambda *args, **kwargs: opened.append(1) or original(*args, **kwargs))
    for source in (path, tmp_path):
        same(images(source)[:, 0], SERIES)
    assert len(opened) <= 4, "the frames are read at once"


def test_unusable_dicom(tmp_path):
    colour = {"SamplesPerPixel": 3, "PhotometricInterpretation": "RGB", "PlanarConfiguration": 0}
    path = write_dicom(tmp_path / "a.dcm", np.zeros((4, 5, 3), np.uint8), **colour)
    assert "colour" in refusal(path)
    path = write_dicom(tmp_path / "a.dcm", SERIES[0])
    load(put(path, len(path.read_bytes()) - 50))
    assert "damaged" in refusal(path)
    refusal(write_dicom(path, SERIES[0], PixelData=b"", Rows=None, Columns=None))
    refusal(put(path, 200))
    write_dicom(path, SERIES[0])
    write_dicom(tmp_path / "b.dcm", SERIES[0, 2:])
    assert "have shapes [(7, 8), (9, 8)]" in refusal(tmp_path, "a.dcm")


def test_single_slices_of_nifti(tmp_path):
    """Two axes, or three of which one has length 1: a slice, whatever the voxels look like."""
    plane = VOLUME[:, :, 3]
    nib.Nifti1Image(plane, np.eye(4)).to_filename(tmp_path / "two.nii")
    nib.Nifti1Image(plane[:, :, None], np.diag([1, 5, 1, 1])).to_filename(tmp_path / "three.nii.gz")
    for name in ("two.nii", "three.nii.gz"):
        same(images(tmp_path / name)[0, 0], plane.T[::-1])


def test_a_dicom_file_without_an_ending(tmp_path):
    pixels = (1000 * IMAGE[0]).astype(np.uint16)
    write_dicom(tmp_path / "IM0001", pixels)
    close(images(tmp_path / "IM0001")[0, 0], pixels.astype(np.float32))
