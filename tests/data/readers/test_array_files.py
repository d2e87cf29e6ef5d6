"""Arrays in files: NumPy, MATLAB, HDF5 and BART, written by others and read by promask."""

import itertools
import re
import subprocess

import h5py
import numpy as np
import pytest
import scipy.io
from file_writers import (
    BIG,
    COMPLEX,
    IMAGE,
    KSPACE,
    LABEL,
    WRITERS,
    close,
    fit,
    images,
    images_of,
    inverse,
    labels_of,
    matlab_order,
    named,
    needs_bart,
    put,
    random,
    read,
    refusal,
    same,
    transform,
    write_cfl,
    write_characters,
    write_h5,
    write_v7_3,
)

from helpers import check_data_set
from promask.data.file_set import prepare
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.errors import InputError, InputWarning


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
    train, test = (set(choose_part(data, part, default="all")[0].groups) for part in ("train", "test"))
    assert train | test == set(data.groups)
    assert train
    assert test
    assert not train & test


def test_kspace_of_coils(saved):
    path = saved(kspace=KSPACE)
    axes = named("slice coil ky kx", path)
    close(images(path, axes=axes), COMPLEX)
    emulated = read(path, kspace="emulated", size=(6, 11), axes=axes)
    assert emulated.shape == (1, 6, 11)
    close(images_of(emulated)[:, 0], fit(np.sqrt((abs(COMPLEX) ** 2).sum(1)), (6, 11)))
    with pytest.warns(InputWarning, match=r"largest value at \[4, 0\] of \[9, 8\], far from the middle"):
        read(saved(kspace=np.roll(KSPACE, 4, -1)), axes=axes)


def test_one_image_and_volumes(saved):
    close(images(saved(image=IMAGE[0])), IMAGE[None, :1])
    volumes = random.random((2, 5, 4, 3)).astype(np.float32)
    path = saved(image=volumes)
    wanted = np.moveaxis(volumes, 1, -1) if path.suffix == ".mat" else volumes  # as its users see the directions
    close(images(path, volumes=True), wanted[:, None])
    close(images(saved(image=volumes[0]), volumes=True), wanted[None, :1])
    path = saved(kspace=transform(volumes, (-3, -2, -1)))
    close(images(path, axes=named("slice kz ky kx", path)), wanted[:, None].astype(np.complex64))


def test_which_array_and_as_what(saved):
    path = saved(knee=COMPLEX, hip=KSPACE)
    encoded, plain = named("slice coil ky kx", path), named("slice coil y x", path)
    close(images(path, array="knee", axes=plain), COMPLEX)
    close(images(path, array="hip", axes=encoded), COMPLEX)
    assert "nothing says whether it holds k-space or images" in refusal(path, array="hip")
    assert re.search(r"holds (knee|hip) \[.*\], (hip|knee) \[.*\]: choose one", refusal(path, holds="image"))
    assert "no array 'liver', but" in refusal(path, array="liver")
    subjects = np.arange(4)
    path = saved(kspace=KSPACE, image=2 * COMPLEX, subject=subjects)
    close(images(path), 2 * COMPLEX)
    close(images(path, holds="kspace"), COMPLEX)
    close(images(saved(image=KSPACE, subject=subjects), holds="kspace"), COMPLEX)
    close(images(saved(kspace=COMPLEX, subject=subjects), holds="image"), COMPLEX)
    close(abs(COMPLEX), images(saved(image=COMPLEX), kspace="emulated", axes=plain))
    close(abs(IMAGE - 0.5)[:, None], images(saved(image=IMAGE - 0.5), kspace="emulated"))


@pytest.mark.parametrize("ends", [(1, 3), (-2, None), (None, -4), (2, -1), (0, 100)])
def test_slices(saved, ends):
    data = read(saved(image=IMAGE, label=LABEL, subject=np.arange(6)), slices=ends)
    same(images_of(data)[:, 0], IMAGE[slice(*ends)])
    same(labels_of(data), LABEL[slice(*ends)])
    assert list(data.groups) == [str(number) for number in range(6)[slice(*ends)]]
    assert "no slices to take" in refusal(saved(image=IMAGE), slices=(6, 9))


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
    found = images(tmp_path / "a.npy", axes="slice y x")[:, 0]
    assert found.dtype == wanted
    same(found, values.astype(wanted))
    np.savez(tmp_path / "a.npz", image=values)
    same(images(tmp_path / "a.npz", axes="slice y x")[:, 0], found)


@pytest.mark.parametrize("dtype", ["i2", ">i2", "f4", "f8"])
@pytest.mark.parametrize("pairs", ["fields", "last axis"])
@pytest.mark.parametrize("ending", ["npz", "h5"])
def test_kspace_as_pairs(tmp_path, dtype, pairs, ending):
    kspace = np.round(1000 * KSPACE)
    stored = np.stack([kspace.real, kspace.imag], -1).astype(dtype)
    if pairs == "fields":
        stored = stored.view([("real", dtype), ("imag", dtype)])[..., 0]
    WRITERS[f"a.{ending}"](tmp_path / f"a.{ending}", {"kspace": stored})
    axes = "slice coil ky kx" if pairs == "fields" else "slice coil ky kx re/im"
    close(images(tmp_path / f"a.{ending}", axes=axes), inverse(kspace))


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
        ({"label": LABEL}, "neither 'image' nor 'kspace', but label"),
        ({"image": np.where(np.arange(6)[:, None, None] == 3, np.nan, IMAGE)}, "slice 3 holds NaN"),
        (
            {"kspace": np.where(np.arange(4)[:, None, None, None] == 2, 0, KSPACE), "subject": np.arange(4)},
            "slice 2 is zero",
        ),
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


def bart(folder, *words):
    subprocess.run(["bart", *map(str, words)], cwd=folder, check=True, capture_output=True)


def cfl(path):
    shape = [int(word) for word in path.with_suffix(".hdr").read_text().splitlines()[1].split()]
    return np.fromfile(path, np.complex64).reshape(shape, order="F")


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


def test_loading_does_not_read_arrays(tmp_path):
    """A wrong byte inside the data of a .npz file is found when they are read."""
    np.savez(tmp_path / "a.npz", image=BIG)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[len(content) // 2] ^= 255
    data = load(put(tmp_path / "a.npz", bytes(content)))
    assert data.shape == (1, 40, 30)
    with pytest.raises(InputError, match=r"a\.npz is damaged"):
        prepare(data)


def test_arrays_in_groups(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["scans/knee"], file["scans/brain"] = IMAGE, 2 * IMAGE
    same(images(tmp_path / "a.h5", array="scans/brain")[:, 0], 2 * IMAGE)


def test_objects_that_nobody_asked_for(tmp_path):
    np.savez(tmp_path / "a.npz", image=IMAGE, note=np.array([{"made": "here"}]))
    same(images(tmp_path / "a.npz")[:, 0], IMAGE)


def test_the_same_bytes_under_another_reader(tmp_path):
    """MATLAB's order is another one, though the file may be the same."""
    square = IMAGE[:, :8, :8]
    write_h5(tmp_path / "a.h5", {"image": square})
    (tmp_path / "a.mat").write_bytes((tmp_path / "a.h5").read_bytes())
    same(images(tmp_path / "a.h5")[:, 0], square)
    same(images(tmp_path / "a.mat")[:, 0], square.swapaxes(1, 2))


def test_bart_without_an_ending(tmp_path):
    write_cfl(tmp_path / "ksp.cfl", KSPACE[0].transpose(1, 2, 0)[:, :, None])
    for name in ("ksp", "ksp.hdr", "ksp.cfl"):
        close(images(tmp_path / name, holds="kspace")[0], COMPLEX[0])


def annotated(saved, **arrays):
    """Which classes were not annotated in each sample."""
    data = load(saved(image=IMAGE, label=LABEL.clip(0, 2), **arrays))
    return [data[index].unlabelled for index in range(len(data))]


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64])
def test_classes_that_were_not_annotated(saved, kind):
    """Arrays called has_ and the name of a class say where it was annotated."""
    walls, blood = np.array([1, 0, 1, 1, 0, 1]).astype(kind), np.array([1, 1, 1, 0, 0, 1]).astype(kind)
    assert annotated(saved) == [()] * 6
    assert annotated(saved, has_wall=walls) == [(), ("wall",), (), (), ("wall",), ()]
    both = [set(names) for names in annotated(saved, has_wall=walls, has_blood=blood)]
    assert both == [set(), {"wall"}, set(), {"blood"}, {"wall", "blood"}, set()]


def test_annotations_of_the_slices_taken(saved):
    path = saved(image=IMAGE, label=LABEL, subject=np.arange(6), has_wall=np.array([1, 0, 1, 1, 0, 0], bool))
    for ends in ((1, 5), (-2, None), (4, 5)):
        data = read(path, slices=ends)
        wanted = [("wall",) if number in (1, 4, 5) else () for number in range(6)[slice(*ends)]]
        assert [data[index].unlabelled for index in range(len(data))] == wanted
    test, _ = choose_part(load(path), "test", default="test")
    for index, group in enumerate(test.groups):
        assert test[index].unlabelled == (("wall",) if group in "145" else ())


def test_annotations_are_none_of_the_images(saved):
    """Nor are they taken for one if the images have another name, however many axes they have."""
    path = saved(heart=IMAGE, label=LABEL, has_wall=np.ones((6, 1), bool), has_blood=np.ones(6, bool))
    same(images(path)[:, 0], IMAGE)


def test_annotations_without_labels(saved):
    data = load(saved(image=IMAGE, has_wall=np.zeros(6, bool)))
    assert data[0].unlabelled == ()


@pytest.mark.parametrize(
    "values", [np.ones(5, bool), np.ones(7, bool), np.ones(1, bool), np.full(6, 0.5), np.ones(LABEL.shape, bool)]
)
def test_annotations_that_are_not_one_for_each_image(saved, values):
    path = saved(image=IMAGE, label=LABEL, has_wall=values)
    assert "has 6 images, but has_wall is not one truth value for each" in refusal(path)


def test_bad_slices_take_their_annotations_with_them(saved):
    values = IMAGE.copy()
    values[1] = 0
    path = saved(image=values, label=LABEL, has_wall=np.array([1, 0, 1, 1, 0, 1], bool))
    with pytest.warns(InputWarning, match="slice 1"):
        data = read(path, skip_bad=True)
    assert [data[index].unlabelled for index in range(len(data))] == [(), (), (), ("wall",), ()]
