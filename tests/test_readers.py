"""Files of every generic format, written by other programs and read by promask."""

import contextlib
import gzip
import itertools
import os
import shutil
import subprocess

import h5py
import ismrmrd
import nibabel as nib
import numpy as np
import pydicom
import pytest
import scipy.io
from pydicom.uid import MRImageStorage, generate_uid

from helpers import check_data_set
from promask.data import choose_part, load, prepared
from promask.errors import InputError, InputWarning
from promask.reading import Reading

needs_bart = pytest.mark.skipif(shutil.which("bart") is None, reason="BART is not installed")
random = np.random.default_rng(0)
IMAGE = random.random((6, 9, 8)).astype(np.float32)
COMPLEX = (2 + random.normal(size=(4, 3, 9, 8)) + 1j * random.normal(size=(4, 3, 9, 8))).astype(np.complex64)
LABEL = random.integers(0, 4, (6, 9, 8))


def transform(images, axes=(-2, -1)):
    """Centred k-space, by NumPy."""
    shifted = np.fft.fftn(np.fft.ifftshift(images, axes), axes=axes, norm="ortho")
    return np.fft.fftshift(shifted, axes).astype(np.complex64)


def inverse(kspace):
    """Images of slices from centred k-space, by NumPy."""
    shifted = np.fft.ifft2(np.fft.ifftshift(kspace, (-2, -1)), norm="ortho")
    return np.fft.fftshift(shifted, (-2, -1)).astype(np.complex64)


KSPACE = transform(COMPLEX)


def read(path, **settings):
    return prepared(load(path, Reading(**settings)))


def images_of(data):
    return np.stack([data[index].image.numpy() for index in range(len(data))])


def labels_of(data):
    return np.stack([data[index].label.numpy() for index in range(len(data))])


def images(path, **settings):
    return images_of(read(path, **settings))


same = np.testing.assert_array_equal


def close(found, wanted):
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, atol=1e-5 * abs(wanted).max(), rtol=0)


def refusal(path, name=None, **settings):
    """The one sentence that a file is refused with; it names the file."""
    with pytest.raises(InputError) as caught:
        read(path, **settings)
    text = str(caught.value)
    assert str(name or path) in text
    assert "\n" not in text
    assert text.endswith(".")
    return text


def put(path, content):
    """Write a file of bytes, or cut the end off one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else path.read_bytes()[:content])
    return path


# Arrays by name: NumPy, HDF5 and MATLAB


def matlab_order(array):
    """(N, channel, H, W) as MATLAB has it, (H, W, channel, N)."""
    array = np.asarray(array)
    return array.transpose(-2, -1, *range(array.ndim - 3, -1, -1)) if array.ndim > 1 else array


def write_h5(path, arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            array = np.asarray(array)
            file[name] = array.astype(bytes) if array.dtype.kind == "U" else array


def write_v5(path, arrays):
    arrays = {name: matlab_order(array) for name, array in arrays.items()}
    cells = {name: array.astype(object) for name, array in arrays.items() if array.dtype.kind == "U"}
    scipy.io.savemat(path, arrays | cells, do_compression=True)


def write_v7_3(path, arrays):
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            array = matlab_order(array)
            if array.dtype.kind == "c":
                pairs = np.zeros(array.shape, [("real", array.real.dtype), ("imag", array.real.dtype)])
                pairs["real"], pairs["imag"] = array.real, array.imag
                array = pairs
            if array.dtype.kind == "U" and array.ndim == 1:  # a cell of texts: references to arrays of characters
                cells = [write_characters(file, f"#refs#/{name}{i}", [text]) for i, text in enumerate(array)]
                file.create_dataset(name, data=np.array([cells], h5py.ref_dtype), dtype=h5py.ref_dtype)
                file[name].attrs["MATLAB_class"] = np.bytes_("cell")
            else:
                file[name] = array.T.astype(bytes) if array.dtype.kind == "U" else array.T
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(128))


def write_characters(file, name, lines):
    file[name] = np.array([[ord(letter) for letter in line] for line in lines], np.uint16).T
    file[name].attrs["MATLAB_class"] = np.bytes_("char")
    return file[name].ref


def write_npz(path, arrays):
    np.savez_compressed(path, **arrays)


WRITERS = {"a.npz": write_npz, "a.h5": write_h5, "5.mat": write_v5, "7.mat": write_v7_3}


@pytest.fixture(params=WRITERS)
def saved(request, tmp_path):
    def save(**arrays):
        WRITERS[request.param](tmp_path / request.param, arrays)
        return tmp_path / request.param

    return save


def test_images_labels_and_subjects(saved):
    data = read(saved(image=IMAGE, label=LABEL, subject=["anna", "anna", "otto", "otto", "eva", "eva"]))
    check_data_set(data)
    assert list(data.groups) == ["anna", "anna", "otto", "otto", "eva", "eva"]
    same(images_of(data)[:, 0], IMAGE)
    same(labels_of(data), LABEL)
    assert data[3].name.endswith(", slice 3")


@pytest.mark.parametrize(
    ("ids", "groups"),
    [
        ({"subject": np.array([3, 3, 11, 11, 7, 7])}, "3 3 11 11 7 7"),
        ({"subject": np.array([3, 3, 11, 11, 7, 7.0])}, "3 3 11 11 7 7"),
        ({"slice_id": ["p1_0", "p1_1", "p2_0", "p2_1", "p2_2", "p3_0"]}, "p1 p1 p2 p2 p2 p3"),
    ],
)
def test_groups_do_not_depend_on_the_format_and_are_not_cut(saved, ids, groups):
    data = load(saved(image=IMAGE, **ids))
    assert list(data.groups) == groups.split()
    train, test = (set(choose_part(data, part, usual="all")[0].groups) for part in ("train", "test"))
    assert train | test == set(data.groups)
    assert train
    assert test
    assert not train & test


def test_kspace_of_coils(saved):
    path = saved(kspace=KSPACE)
    close(images(path), COMPLEX)
    emulated = read(path, kspace="emulated", size=(6, 11))
    assert emulated.shape == (1, 6, 11)
    close(images_of(emulated)[:, 0], fit(np.sqrt((abs(COMPLEX) ** 2).sum(1)), (6, 11)))
    with pytest.warns(InputWarning, match=r"largest value at \[4, 0\] of \[9, 8\], far from the middle"):
        read(saved(kspace=np.roll(KSPACE, 4, -1)))


def test_one_image_and_volumes(saved):
    close(images(saved(image=IMAGE[0])), IMAGE[None, :1])
    volumes = random.random((2, 5, 4, 3)).astype(np.float32)
    close(images(saved(image=volumes), volumes=True), volumes[:, None])
    close(images(saved(image=volumes[0]), volumes=True), volumes[None, :1])
    kspace = transform(volumes, (-3, -2, -1))
    close(images(saved(kspace=kspace), volumes=True), volumes[:, None].astype(np.complex64))


def test_which_array_and_as_what(saved):
    path = saved(knee=COMPLEX, hip=KSPACE)
    close(images(path, array="knee", holds="image"), COMPLEX)
    with pytest.warns(InputWarning, match="'hip' is taken as centred k-space"):
        close(images(path, array="hip"), COMPLEX)
    with pytest.warns(InputWarning, match="holds (knee, hip|hip, knee): (knee|hip) is taken"):
        load(path, Reading(holds="image"))
    assert "no array 'liver', but" in refusal(path, array="liver")
    path = saved(kspace=KSPACE, image=2 * COMPLEX)
    close(images(path), 2 * COMPLEX)
    close(images(path, holds="kspace"), COMPLEX)
    close(images(saved(image=KSPACE), holds="kspace"), COMPLEX)
    close(images(saved(kspace=COMPLEX), holds="image"), COMPLEX)
    close(abs(COMPLEX), images(saved(image=COMPLEX), kspace="emulated"))
    close(abs(IMAGE - 0.5)[:, None], images(saved(image=IMAGE - 0.5), kspace="emulated"))


@pytest.mark.parametrize("ends", [(1, 3), (-2, None), (None, -4), (2, -1), (0, 100)])
def test_slices(saved, ends):
    data = read(saved(image=IMAGE, label=LABEL, subject=np.arange(6)), slices=ends)
    same(images_of(data)[:, 0], IMAGE[slice(*ends)])
    same(labels_of(data), LABEL[slice(*ends)])
    assert list(data.groups) == [str(number) for number in range(6)[slice(*ends)]]
    assert "no slices to take" in refusal(saved(image=IMAGE), slices=(6, 9))


def fit(images, size):
    """Pixel by pixel: the one at n // 2 goes to m // 2."""
    result = np.zeros((*images.shape[: -len(size)], *size), images.dtype)
    space = images.shape[-len(size) :]
    for place in np.ndindex(*space):
        target = [i - n // 2 + m // 2 for i, n, m in zip(place, space, size, strict=True)]
        if all(0 <= t < m for t, m in zip(target, size, strict=True)):
            result[(..., *target)] = images[(..., *place)]
    return result


@pytest.mark.parametrize("size", [(5, 4), (4, 5), (12, 13), (13, 3), (9, 8), (7,)])
def test_size(tmp_path, size):
    np.savez(tmp_path / "a.npz", image=IMAGE, label=LABEL)
    data = read(tmp_path / "a.npz", size=size)
    both = size * 2 if len(size) == 1 else size
    same(images_of(data)[:, 0], fit(IMAGE, both))
    same(labels_of(data), fit(LABEL, both))
    refusal(tmp_path / "a.npz", "[2, 2, 2]", size=(2, 2, 2))


@pytest.mark.parametrize("dtype", ["u1", "i1", ">i2", "u4", "i8", "f2", ">f4", "f8", "g", "?", "c8", ">c16"])
@pytest.mark.parametrize("order", "CF")
def test_npy_and_types_of_numbers(tmp_path, dtype, order):
    values = np.asarray(LABEL.clip(0, 1), dtype, order=order)
    np.save(tmp_path / "a.npy", values)
    wanted = np.complex64 if np.dtype(dtype).kind == "c" else np.float32
    found = images(tmp_path / "a.npy", holds="image")[:, 0]
    assert found.dtype == wanted
    same(found, values.astype(wanted))
    np.savez(tmp_path / "a.npz", image=values)
    same(images(tmp_path / "a.npz")[:, 0], found)


@pytest.mark.parametrize("dtype", ["i2", ">i2", "f4", "f8"])
@pytest.mark.parametrize("pairs", ["fields", "last axis"])
@pytest.mark.parametrize("ending", ["npz", "h5"])
def test_kspace_as_pairs(tmp_path, dtype, pairs, ending):
    kspace = np.round(1000 * KSPACE)
    stored = np.stack([kspace.real, kspace.imag], -1).astype(dtype)
    if pairs == "fields":
        stored = stored.view([("real", dtype), ("imag", dtype)])[..., 0]
    WRITERS[f"a.{ending}"](tmp_path / f"a.{ending}", {"kspace": stored})
    close(images(tmp_path / f"a.{ending}"), inverse(kspace))


def test_characters_of_matlab(tmp_path):
    """A matrix of characters has a name in each row, in both versions."""
    names = ["p1", "p1", "p1", "q2", "q2", "q2"]
    scipy.io.savemat(tmp_path / "5.mat", {"image": matlab_order(IMAGE), "subject": np.array(names)})
    write_v7_3(tmp_path / "7.mat", {"image": IMAGE})
    with h5py.File(tmp_path / "7.mat", "r+") as file:
        write_characters(file, "subject", names)
    assert load(tmp_path / "5.mat").groups == load(tmp_path / "7.mat").groups == names


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"image": IMAGE, "label": LABEL[:5]}, "labels of"),
        ({"image": IMAGE, "label": LABEL[:, :, :7]}, "labels of"),
        ({"image": IMAGE, "label": LABEL + 0.5}, "whole numbers"),
        ({"image": IMAGE, "label": np.full(LABEL.shape, np.inf)}, "whole numbers"),
        ({"image": IMAGE, "label": np.full(LABEL.shape, 1e10)}, "whole numbers"),
        ({"image": IMAGE, "label": LABEL + 0j}, "whole numbers"),
        ({"image": IMAGE, "subject": np.arange(5)}, "names 5 subjects"),
        ({"image": np.full((4, 4), "text")}, "numbers are expected"),
        ({"kspace": IMAGE}, "not complex"),
        ({"label": LABEL}, "neither `image` nor `kspace`, but label"),
        ({"image": np.where(np.arange(6)[:, None, None] == 3, np.nan, IMAGE)}, "slice 3 holds NaN"),
        ({"kspace": np.where(np.arange(4)[:, None, None, None] == 2, 0, KSPACE)}, "slice 2 is zero"),
    ],
)
def test_unusable_arrays(saved, arrays, words):
    assert words in refusal(saved(**arrays))


def test_odd_content_beside_the_image(tmp_path):
    """Whatever else a file holds is left alone; two fields are complex numbers only if they are numbers."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["image"] = IMAGE
        file["nothing"] = h5py.Empty("f")
        file["type"] = np.dtype("f4")
        file["link"] = h5py.SoftLink("/nowhere")
        file.create_group("group")["image"] = IMAGE
    close(images(tmp_path / "a.h5")[:, 0], IMAGE)
    np.savez(tmp_path / "a.npz", image=np.zeros((4, 4), [("name", "S4"), ("value", "f4")]))
    assert "numbers are expected" in refusal(tmp_path / "a.npz")


# BART


def bart(folder, *words):
    subprocess.run(["bart", *map(str, words)], cwd=folder, check=True, capture_output=True)


def cfl(path):
    shape = [int(word) for word in path.with_suffix(".hdr").read_text().splitlines()[1].split()]
    return np.fromfile(path, np.complex64).reshape(shape, order="F")


def write_cfl(path, array):
    path.with_suffix(".hdr").write_text(f"# Dimensions\n{' '.join(map(str, array.shape))}\n")
    array.astype(np.complex64).ravel(order="F").tofile(path)
    return path


@needs_bart
def test_bart_slices(tmp_path):
    bart(tmp_path, "phantom", "-x", 20, "-s", 3, "square")
    bart(tmp_path, "resize", "-c", 1, 15, "square", "image")
    bart(tmp_path, "fft", "-u", 3, "image", "kspace")
    wanted = cfl(tmp_path / "image.cfl")[:, :, 0, :4].squeeze().transpose(2, 0, 1)[None]
    assert wanted.shape == (1, 3, 20, 15)
    close(images(tmp_path / "image.cfl", holds="image"), wanted)
    close(images(tmp_path / "kspace.cfl", holds="kspace"), wanted)
    with pytest.warns(InputWarning, match="taken as centred k-space"):
        close(images(tmp_path / "kspace.cfl"), wanted)
    rss = images(tmp_path / "kspace.cfl", holds="kspace", kspace="emulated")
    bart(tmp_path, "rss", 8, "image", "rss")
    close(rss[0, 0], cfl(tmp_path / "rss.cfl").squeeze().real)


@needs_bart
def test_bart_volumes(tmp_path):
    bart(tmp_path, "phantom", "-3", "-x", 8, "-s", 2, "cube")
    bart(tmp_path, "resize", "-c", 1, 7, 2, 5, "cube", "image")
    bart(tmp_path, "fft", "-u", 7, "image", "kspace")
    wanted = cfl(tmp_path / "image.cfl").squeeze().transpose(3, 0, 1, 2)
    assert wanted.shape == (2, 8, 7, 5)
    for name in ("image", "kspace"):
        close(images(tmp_path / f"{name}.cfl", holds=name, volumes=True), wanted[None])
        slices = images(tmp_path / f"{name}.cfl", holds=name, slices=(1, 4))
        close(slices, wanted.transpose(3, 0, 1, 2)[1:4])


def test_bart_counts_all_further_axes(tmp_path):
    values = random.normal(size=(4, 3, 2, 1, 2, 1, 3)) + 0j
    found = images(write_cfl(tmp_path / "a.cfl", values), holds="image")
    wanted = [values[:, :, z, 0, a, 0, b] for b, a, z in itertools.product(range(3), range(2), range(2))]
    close(found[:, 0], np.array(wanted, np.complex64))


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (None, "a.hdr, the header of"),
        (b"", "does not tell the dimensions"),
        (b"# Dimensions\n", "does not tell the dimensions"),
        (b"# Dimensions\n4 x\n", "does not tell the dimensions"),
        ("# Dimensions\n4 ²\n".encode(), "does not tell the dimensions"),
        (b"# Command\nones\n", "does not tell the dimensions"),
        (b"# Dimensions\n4 4 1 1 \n", "96 bytes do not make an array of shape [4, 4, 1, 1]"),
        (b"# Dimensions\n99999999999 99999999999 \n", "96 bytes do not make"),
    ],
)
def test_broken_bart(tmp_path, header, words):
    path = write_cfl(tmp_path / "a.cfl", np.arange(12).reshape(4, 3))
    path.with_suffix(".hdr").unlink() if header is None else put(path.with_suffix(".hdr"), header)
    assert words in refusal(path, holds="image")


# NIfTI

VOLUME = random.random((5, 6, 7)).astype(np.float32)
"""(x, y, z): to the right, to the front, up."""
PLANES = {  # rows from the top or the front, columns from the left or the back
    "axial": np.stack([VOLUME[:, ::-1, z].T for z in range(7)]),
    "coronal": np.stack([VOLUME[:, y, ::-1].T for y in range(6)]),
    "sagittal": np.stack([VOLUME[x, :, ::-1].T for x in range(5)]),
}


def write_nifti(path, volume=VOLUME, zooms=(1, 1, 1), stored="RAS"):
    """A volume of RAS, stored in another orientation by nibabel."""
    image = nib.Nifti1Image(volume, np.diag([*zooms, 1.0]))
    wanted = nib.orientations.axcodes2ornt(stored)
    nib.save(image.as_reoriented(nib.orientations.ornt_transform(nib.io_orientation(image.affine), wanted)), path)
    assert "".join(nib.aff2axcodes(nib.load(path).affine)) == stored
    return path


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


# ISMRMRD

HEADER = """<?xml version="1.0"?><ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD">
<experimentalConditions><H1resonanceFrequency_Hz>128000000</H1resonanceFrequency_Hz></experimentalConditions>
<encoding>{}<encodingLimits>{}</encodingLimits><trajectory>{}</trajectory></encoding></ismrmrdHeader>"""
SPACE = """<{0}><matrixSize><x>{1}</x><y>{2}</y><z>{3}</z></matrixSize>
<fieldOfView_mm><x>1</x><y>1</y><z>1</z></fieldOfView_mm></{0}>"""
LIMIT = "<{0}><minimum>0</minimum><maximum>{1}</maximum><center>{2}</center></{0}>"


def write_mrd(path, lines, matrix, recon=None, centre=None, trajectory="cartesian"):
    """Lines are (values, flag, counters, further fields of the head)."""
    spaces = SPACE.format("encodedSpace", *matrix) + SPACE.format("reconSpace", *(recon or matrix))
    centres = zip(matrix[1:], centre or [n // 2 for n in matrix[1:]], strict=True)
    limits = [LIMIT.format(f"kspace_encoding_step_{i}", n - 1, c) for i, (n, c) in enumerate(centres, start=1)]
    header = HEADER.format(spaces, "".join(limits), trajectory)
    ismrmrd.xsd.CreateFromDocument(header)  # it is valid
    path.unlink(missing_ok=True)
    file = ismrmrd.Dataset(path, "dataset")
    file.write_xml_header(header)
    for values, flag, counters, fields in lines:
        line = ismrmrd.Acquisition.from_array(values.astype(np.complex64), **fields)
        for name, value in counters.items():
            setattr(line.idx, name, value)
        if flag:
            line.set_flag(flag)
        file.append_acquisition(line)
    file.close()
    return path


def lines_of(kspace, **fields):
    """All lines of (slice, coil, readout, phase encoding 1, phase encoding 2), in any order."""
    fields = {"center_sample": kspace.shape[2] // 2} | fields
    places = list(np.ndindex(len(kspace), *kspace.shape[3:]))
    random.shuffle(places)
    return [
        (kspace[s, :, :, y, z], 0, {"slice": s, "kspace_encode_step_1": y, "kspace_encode_step_2": z}, fields)
        for s, y, z in places
    ]


SCAN = KSPACE[..., None]


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


def test_ismrmrd_counters_that_tell_samples_apart(tmp_path):
    names = ("slice", "set", "contrast", "phase", "repetition")
    lines = [
        (v, f, {names[index // 4]: 1 + index % 4, "kspace_encode_step_1": c["kspace_encode_step_1"]}, h)
        for index in range(20)
        for v, f, c, h in lines_of((1 + index) * SCAN[:1])
    ]
    found = images(write_mrd(tmp_path / "a.h5", lines, (9, 8, 1)))
    close(np.sort(abs(found[:, 0, 0, 0])), abs(COMPLEX[0, 0, 0, 0]) * np.arange(1, 21, dtype=np.float32))


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


# DICOM

SERIES = random.integers(0, 4000, (6, 9, 8)).astype(np.uint16)


def write_dicom(path, pixels, place=0, patient="ID-77", series="1.2.3", **fields):
    header = pydicom.Dataset()
    header.SOPClassUID, header.SOPInstanceUID = MRImageStorage, generate_uid()
    header.PatientID, header.PatientName, header.SeriesInstanceUID = patient, f"Doe^{patient}", series
    header.ImageOrientationPatient, header.ImagePositionPatient = [1, 0, 0, 0, 0, -1], [5, place, -5]
    header.Rows, header.Columns = pixels.shape[1:] if "NumberOfFrames" in fields else pixels.shape[:2]
    header.SamplesPerPixel, header.PhotometricInterpretation, header.PixelRepresentation = 1, "MONOCHROME2", 0
    header.BitsAllocated = header.BitsStored = 8 * pixels.itemsize
    header.HighBit = 8 * pixels.itemsize - 1
    header.PixelData = pixels.tobytes()
    for name, value in fields.items():
        setattr(header, name, value)
    header.file_meta = pydicom.dataset.FileMetaDataset()
    header.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    path.parent.mkdir(exist_ok=True)
    pydicom.dcmwrite(path, header, enforce_file_format=True)
    return path


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
    with pytest.raises(InputError, match="--size"):
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


# Broken files

BIG = random.random((6, 40, 30)).astype(np.float32)
WHOLE = {
    "a.npz": lambda path: write_npz(path, {"image": BIG}),
    "a.npy": lambda path: np.save(path, BIG),
    "a.h5": lambda path: write_h5(path, {"image": BIG}),
    "5.mat": lambda path: write_v5(path, {"image": BIG}),
    "7.mat": lambda path: write_v7_3(path, {"image": BIG}),
    "a.nii": lambda path: write_nifti(path, BIG),
    "a.nii.gz": lambda path: write_nifti(path, BIG),
    "a.cfl": lambda path: write_cfl(path, BIG[..., None].transpose(1, 2, 3, 0)),
    "a.dcm": lambda path: write_dicom(path, (1000 * BIG[0]).astype(np.uint16)),
    "a.mrd": lambda path: write_mrd(path, lines_of(SCAN), (9, 8, 1)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_broken_files(tmp_path, name):
    path = tmp_path / name
    WHOLE[name](path)
    settings = {"holds": "image"} if name == "a.cfl" else {}
    check_data_set(read(path, **settings))
    whole = path.read_bytes()
    for share in (0.999, 0.9, 0.5, 0.2, 0.02):
        refusal(put(path, whole[: int(share * len(whole))]), **settings)
    for content in (b"", b"x", b"These are only words.\n" * 100, bytes(4000)):
        refusal(put(path, content), **settings)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WHOLE)
def test_flipped_bytes_never_crash(tmp_path, name):
    """A file with a few wrong bytes is read, or refused."""
    path = tmp_path / name
    WHOLE[name](path)
    content, generator = np.frombuffer(path.read_bytes(), np.uint8), np.random.default_rng(1)
    for _ in range(12):
        flipped = content.copy()
        flipped[(len(content) * generator.random(4) ** 3).astype(int)] = generator.integers(256, size=4)
        with contextlib.suppress(InputError):
            read(put(path, flipped.tobytes()), holds="image", skip_bad=True)


def test_paths_that_are_no_files(tmp_path):
    (tmp_path / "x.npy").mkdir()
    refusal(tmp_path / "x.npy")
    put(tmp_path / "x.npy" / "notes.txt", b"text")
    assert "holds no file that promask reads (.npz, " in refusal(tmp_path / "x.npy")
    (tmp_path / "b.npy").symlink_to(tmp_path / "nowhere.npy")
    refusal(tmp_path / "b.npy")
    refusal(tmp_path)
    refusal(put(tmp_path / "x.npy" / "a.npy", b"broken").parent, "a.npy", skip_bad=True)
    np.save(tmp_path / "x.npy" / "a.npy", IMAGE)
    same(images(tmp_path)[:, 0], IMAGE)


def test_files_that_must_not_be_read(tmp_path, monkeypatch):
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)  # the folders above are not open to others
    for name, write in WHOLE.items():
        write(tmp_path / name)
        (tmp_path / name).chmod(0)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(65534)
        for name in WHOLE:
            with pytest.raises(InputError, match=f"Cannot read {name}: Permission denied"):
                load(name)
    finally:
        if is_root:
            os.seteuid(0)


def test_files_that_go_away(tmp_path):
    for name, write in WHOLE.items():
        path = tmp_path / name
        write(path)
        data = load(path, Reading(holds="image" if name == "a.cfl" else None))
        path.unlink()
        with pytest.raises(InputError, match=name):
            prepared(data)


# Folders


def write_all(folder, names, images=IMAGE):
    for index, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("wb") as file:
            np.save(file, images + index)


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["sub-01/anat/sub-01_T1w.npy", "sub-01/anat/sub-01_T2w.npy", "sub-02/a.npy"], "sub-01 sub-01 sub-02"),
        (["sub-01_ses-1.npy", "sub-01_ses-2.npy", "sub-02.npy"], "sub-01 sub-01 sub-02"),
        (["anna/1.npy", "anna/x/2.npy", "otto/1.npy"], "anna anna otto"),
        (["anna_1.npy", "anna_2.npy", "otto_1.npy"], "anna anna otto"),
        (["anna.npy", "eva.npy", "otto.npy"], "anna eva otto"),
        (["scan_1.npy", "scan_2.npy", "scan_3.npy"], "scan_1 scan_2 scan_3"),
        (["data/anna_1.npy", "data/anna_2.npy", "data/otto_1.npy"], "anna anna otto"),
        (["A.NPY", "b.npy", "c.Npy"], "A b c"),
        (["data/p1/t1.npy", "data/p1/t2.npy", "data/p2/t1.npy", "data/p3/t1.npy"], "p1 p1 p2 p3"),
        (["all/data/p1/scan.npy", "all/data/p2/scan.npy"], "p1 p2"),
    ],
)
def test_folders_tell_subjects(tmp_path, names, groups):
    write_all(tmp_path, names)
    for hidden in (".a.npy", ".git/b.npy"):
        put(tmp_path / hidden, b"text")
    data = load(tmp_path)
    assert list(data.groups) == [group for group in groups.split() for _ in range(6)]
    assert data.held_out is None
    close(images_of(prepared(data))[:, 0], np.concatenate([IMAGE + index for index in range(len(names))]))


def test_parts_in_folders(tmp_path):
    write_all(tmp_path, ["Test/a.npy", "train/b.npy", "train/sub/b2.npy", "val/a.npy"])
    write_dicom(tmp_path / "Test" / "c.dcm", SERIES[0])
    write_dicom(tmp_path / "train" / "d.dcm", SERIES[1], patient="ID-78")
    data = load(tmp_path)
    assert list(data.held_out) == [True] * 6 + [False] * 12 + [True] * 6 + [False, True]
    train = images_of(prepared(choose_part(data, None, usual="train")[0]))[:, 0]
    close(train, np.concatenate([IMAGE + 1, IMAGE + 2, SERIES[1:2].astype(np.float32)]))


def test_formats_in_one_folder(tmp_path):
    for name, write in WRITERS.items():
        write(tmp_path / name, {"image": IMAGE})
    np.save(tmp_path / "c.npy", IMAGE)
    write_nifti(tmp_path / "d.NII.GZ", IMAGE[:, ::-1].transpose(2, 1, 0))
    data = read(tmp_path)
    same(images_of(data)[:, 0], np.concatenate([IMAGE] * 6))
    assert list(data.groups) == [name for name in "57aacd" for _ in range(6)]


@pytest.mark.parametrize("content", [b"", b"broken", "zero", "nan"])
def test_one_bad_file_among_many(tmp_path, content):
    for index in range(200):
        np.save(tmp_path / f"{index:03}.npy", IMAGE[0, :4, :3] + index)
    bad = tmp_path / "123.npy"
    if isinstance(content, bytes):
        bad.write_bytes(content)
    else:
        np.save(bad, np.full((4, 3), 0 if content == "zero" else np.nan, np.float32))
    assert "--skip-bad" in refusal(tmp_path, bad) or isinstance(content, bytes)
    with pytest.warns(InputWarning, match=r"Left out: .*123\.npy") as caught:
        data = read(tmp_path, skip_bad=True)
    assert len(caught) == 1
    close(images_of(data)[:, 0], np.stack([IMAGE[0, :4, :3] + index for index in range(200) if index != 123]))
    assert "123" not in data.groups


@pytest.mark.parametrize("value", [0, np.nan])
def test_bad_slices(saved, value):
    images = IMAGE.copy()
    images[[1, 4]] = value
    path = saved(image=images, label=LABEL, subject=np.arange(6))
    assert "slice 1" in refusal(path)
    with pytest.warns(InputWarning, match="slice 1 .*, and 1 more"):
        data = read(path, skip_bad=True)
    same(images_of(data)[:, 0], IMAGE[[0, 2, 3, 5]])
    same(labels_of(data), LABEL[[0, 2, 3, 5]])
    assert list(data.groups) == list("0235")
    with pytest.warns(InputWarning, match="Left out"):
        text = refusal(path, skip_bad=True, slices=(1, 2))
    assert "[" not in text


def test_files_of_different_shapes(tmp_path):
    write_all(tmp_path, ["a.npy", "b.npy"])
    np.save(tmp_path / "c.npy", IMAGE[:, 1:])
    text = refusal(tmp_path, "c.npy")
    assert "shape [1, 8, 8] and not [1, 9, 8]" in text
    assert "--size" in text
    wanted = np.concatenate([fit(images, (7, 7)) for images in (IMAGE, IMAGE + 1, IMAGE[:, 1:])])
    close(images(tmp_path, size=(7, 7))[:, 0], wanted)
    with pytest.warns(InputWarning, match=r"c\.npy .*left out"):
        close(images(tmp_path, skip_bad=True)[:, 0], np.concatenate([IMAGE, IMAGE + 1]))


def test_scans_that_differ_in_what_is_judged(tmp_path):
    write_mrd(tmp_path / "a.h5", lines_of(SCAN), (9, 8, 1))
    write_mrd(tmp_path / "b.h5", lines_of(SCAN), (9, 8, 1), recon=(5, 8, 1))
    assert "[5, 8]" in refusal(tmp_path, "b.h5")


# Laziness


@pytest.mark.parametrize("ending", ["nii", "nii.gz", "dcm"])
def test_loading_a_folder_reads_no_values(tmp_path, ending):
    for name in "abc":
        if ending == "dcm":
            path = write_dicom(tmp_path / f"{name}.dcm", SERIES[0], series=f"1.{ord(name)}")
        else:
            path = write_nifti(tmp_path / f"{name}.{ending}", random.random((20, 20, 20)))
    put(path, int(0.8 * len(path.read_bytes())))
    data = load(tmp_path)
    with pytest.raises(InputError, match=rf"c\.{ending}"):
        prepared(data)
    with pytest.warns(InputWarning, match=rf"Left out: .*c\.{ending} is damaged"):
        good = read(tmp_path, skip_bad=True)
    assert len(good) == 2 / 3 * len(data)
    assert not any(f"c.{ending}" in good[index].name for index in range(len(good)))


def test_loading_does_not_read_arrays(tmp_path):
    """A wrong byte inside the data of a .npz file is found when they are read."""
    np.savez(tmp_path / "a.npz", image=BIG)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[len(content) // 2] ^= 255
    data = load(put(tmp_path / "a.npz", bytes(content)))
    assert data.shape == (1, 40, 30)
    with pytest.raises(InputError, match=r"a\.npz is damaged"):
        prepared(data)


def test_single_slices_of_nifti(tmp_path):
    """Two axes, or three of which one has length 1: a slice, whatever the voxels look like."""
    plane = VOLUME[:, :, 3]
    nib.Nifti1Image(plane, np.eye(4)).to_filename(tmp_path / "two.nii")
    nib.Nifti1Image(plane[:, :, None], np.diag([1, 5, 1, 1])).to_filename(tmp_path / "three.nii.gz")
    for name in ("two.nii", "three.nii.gz"):
        same(images(tmp_path / name)[0, 0], plane.T[::-1])


def test_arrays_in_groups(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["scans/knee"], file["scans/brain"] = IMAGE, 2 * IMAGE
    same(images(tmp_path / "a.h5", array="scans/brain")[:, 0], 2 * IMAGE)


def test_labels_are_labels_of_nifti_only(tmp_path):
    write_all(tmp_path, ["a.npy", "a_seg.npy"])
    assert len(read(tmp_path)) == 2 * len(IMAGE)


def test_objects_that_nobody_asked_for(tmp_path):
    np.savez(tmp_path / "a.npz", image=IMAGE, note=np.array([{"made": "here"}]))
    same(images(tmp_path / "a.npz")[:, 0], IMAGE)


def test_a_dicom_file_without_an_ending(tmp_path):
    pixels = (1000 * IMAGE[0]).astype(np.uint16)
    write_dicom(tmp_path / "IM0001", pixels)
    close(images(tmp_path / "IM0001")[0, 0], pixels.astype(np.float32))


def test_folders_that_may_not_be_subjects(tmp_path):
    write_all(tmp_path, [f"{contrast}/p{patient}.npy" for contrast in ("T1", "T2") for patient in range(3)])
    with pytest.warns(InputWarning, match="The folders T1, T2 are taken for subjects"):
        load(tmp_path)


def test_links_are_followed_once(tmp_path):
    write_all(tmp_path, ["store/a.npy", "store/b.npy"])
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans" / "linked").symlink_to(tmp_path / "store")
    (tmp_path / "store" / "back").symlink_to(tmp_path / "scans")
    assert len(load(tmp_path / "scans")) == 2 * len(IMAGE)


def test_labels_in_folders_of_their_own(tmp_path):
    """As in the Decathlon, beside the images, and as BIDS keeps them: never taken for images."""
    images = ("imagesTr/a.nii", "flat/b.nii", "own/c.NII")
    others = (
        "labelsTr/a.nii.gz",
        "flat/labels/b.nii",
        "own/c_seg.NII",
        "derivatives/x/b_dseg.nii",
        "own/d_seg.nii",
    )
    for name in (*images, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_nifti(tmp_path / name, np.round(3 * VOLUME) if name in others else VOLUME)
    write_dicom(tmp_path / "derivatives" / "x.dcm", SERIES[0])
    data = read(tmp_path)
    assert len(data) == 3 * VOLUME.shape[2]
    close(labels_of(data).astype(np.float32), np.round(3 * images_of(data)[:, 0]))


def test_patients_of_dicom_without_a_number(tmp_path):
    """Their places tell them apart, however the path is written."""
    for patient in range(3):
        for series in range(2):
            folder = tmp_path / f"p{patient}" / f"s{series}"
            folder.mkdir(parents=True)
            write_dicom(folder / "a.dcm", SERIES[0], patient="", series=f"1.2.{patient + 1}{series}")
    assert sorted(load(tmp_path).groups) == ["p0", "p0", "p1", "p1", "p2", "p2"]


def test_a_patient_in_both_folders_is_held_out(tmp_path):
    write_all(tmp_path, ["train/sub-1_T1.npy", "train/sub-2_T1.npy", "test/sub-1_T2.npy", "test/sub-3_T1.npy"])
    train, _ = choose_part(load(tmp_path), None, usual="train")
    assert set(train.groups) == {"sub-2"}


def test_numbers_that_begin_anew_are_other_people(tmp_path):
    write_all(tmp_path, ["a/train/0.npy", "a/train/1.npy", "a/train/2.npy", "a/test/0.npy", "a/test/1.npy"])
    train, _ = choose_part(load(tmp_path / "a"), None, usual="train")
    assert len(train) == 3 * len(IMAGE)
    for part in ("train", "test"):  # and so are those in the files, if no one would be left to learn from
        (tmp_path / "b" / part).mkdir(parents=True)
        write_npz(tmp_path / "b" / part / f"{part}.npz", {"image": IMAGE, "subject": np.arange(6)})
    train, _ = choose_part(load(tmp_path / "b"), None, usual="train")
    assert len(train) == len(IMAGE)


def test_files_beside_the_parts(tmp_path):
    write_all(tmp_path, ["train/0.npy", "test/1.npy", "mean.npy"])
    assert "mean.npy lies beside them: move it" in refusal(tmp_path)


def test_files_beside_folders_of_patients(tmp_path):
    write_all(tmp_path, ["a_1.npy", "a_2.npy", "b_1.npy", "old/c.npy"])
    assert list(dict.fromkeys(load(tmp_path).groups)) == ["a", "b", "old"]


def test_the_same_bytes_under_another_reader(tmp_path):
    """MATLAB's order is another one, though the file may be the same."""
    square = IMAGE[:, :8, :8]
    write_h5(tmp_path / "a.h5", {"image": square})
    (tmp_path / "a.mat").write_bytes((tmp_path / "a.h5").read_bytes())
    same(images(tmp_path / "a.h5")[:, 0], square)
    same(images(tmp_path / "a.mat")[:, 0], square.swapaxes(1, 2))


def test_options_that_mean_nothing(tmp_path):
    write_nifti(tmp_path / "a.nii")
    assert "leave out --array and --holds" in refusal(tmp_path / "a.nii", holds="kspace")
    data = load(tmp_path / "a.nii", Reading(size=(8, 8)))
    assert load(data, Reading(size=(8, 8))) is load(data, Reading()) is data
    with pytest.raises(InputError, match=r"was loaded with size \(8, 8\), and cannot be read with \(9, 9\)"):
        load(data, Reading(size=(9, 9)))


def test_bart_without_an_ending(tmp_path):
    write_cfl(tmp_path / "ksp.cfl", KSPACE[0].transpose(1, 2, 0)[:, :, None])
    for name in ("ksp", "ksp.hdr", "ksp.cfl"):
        close(images(tmp_path / name, holds="kspace")[0], COMPLEX[0])
