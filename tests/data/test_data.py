import numpy as np
import pytest
import torch

from helpers import assert_global_random_state_is_untouched, check_data_set, smooth_images
from promask.data.arrays import from_images, from_kspace
from promask.data.builtin.cardiac import cardiac
from promask.data.builtin.knee import knee
from promask.data.file_set import prepare
from promask.data.reading import Reading
from promask.data.sample_sets import choose_part
from promask.data.sources import BUILT_IN, load
from promask.errors import InputError
from promask.operators.fourier import to_kspace


@pytest.fixture(scope="module", params=BUILT_IN)
def built_in(request):
    return load(request.param)


def test_built_in_properties(built_in):
    check_data_set(built_in)
    images = torch.stack([built_in[index].image for index in range(len(built_in))])
    assert images.min() >= 0
    assert 0.9 < images.max() < 1.5


def test_built_in_splits_do_not_share_a_group(built_in):
    train, test = (choose_part(built_in, part, default="all")[0] for part in ("train", "test"))
    if len(built_in) == 1:
        assert len(train) == len(test) == 1
        return
    assert not set(train.groups) & set(test.groups)
    assert len(train) + len(test) == len(built_in)
    assert 0.1 <= len(test) / len(built_in) <= 0.3


def test_the_brain_is_labelled():
    brain = load("brain")
    assert brain.shape == (1, 224, 192)
    for label, name in ((1, "grey"), (2, "white")):
        share = (brain.labels == label).sum() / (brain.images[:, 0] > 0.2).sum()
        assert 0.2 < share < 0.7, name
    brightness = [float(brain.images[:, 0][brain.labels == label].mean()) for label in (0, 1, 2)]
    assert brightness == sorted(brightness), "on T1, white matter is brighter than grey"
    for image, label in zip(brain.images[:, 0], brain.labels, strict=True):
        assert (image[label > 0] > 0.2).double().mean() > 0.98, "labels lie on the brain"
        assert (label[image > 0.5] > 0).double().mean() > 0.95, "and cover it"
    assert load("brain", Reading(volumes=True)).shape == (1, 60, 112, 96)


@pytest.mark.parametrize(("anatomy", "labels"), [(cardiac, 3), (knee, 5)])
class TestProcedural:
    def test_seeds_and_subjects(self, anatomy, labels):
        few, more = anatomy(subjects=2, slices=3, size=64), anatomy(subjects=4, slices=3, size=64)
        assert (few.image == more.image[:6]).all()
        assert few.subject == more.subject[:6]
        assert len(set(more.subject)) == 4
        assert abs(few.image[1] - few.image[4]).mean() > 0.03, "subjects differ"
        assert (few.image != anatomy(subjects=2, slices=3, size=64, seed=1).image).any()
        assert_global_random_state_is_untouched(lambda: anatomy(subjects=1, slices=1, size=64))

    def test_labels_name_tissues_of_their_own_brightness(self, anatomy, labels):
        made = anatomy(subjects=3, slices=6, size=96)
        assert set(np.unique(made.label)) == set(range(labels + 1))
        brightness = [float(made.image[made.label == label].mean()) for label in range(1, labels + 1)]
        if anatomy is cardiac:  # blood is bright and muscle dark
            right, muscle, left = brightness
            assert min(right, left) > 1.5 * muscle
        else:  # marrow is bright, cartilage grey, menisci are dark
            *bones, cartilage, meniscus = brightness
            assert min(bones) > cartilage > meniscus

    @pytest.mark.parametrize("size", [64, 97, 256])
    def test_sizes(self, anatomy, labels, size):
        assert anatomy(subjects=1, slices=1, size=size).image.shape == (1, size, size)

    def test_noise(self, anatomy, labels):
        clean, noisy = (anatomy(subjects=1, slices=1, size=96, noise=noise).image for noise in (0.0, 0.05))
        assert 0.005 < np.std(noisy - clean) < 0.05

    def test_phase_is_smooth_and_leaves_the_magnitude(self, anatomy, labels):
        real, complex_ = anatomy(subjects=1, slices=2, size=96), anatomy(subjects=1, slices=2, size=96, phase=True)
        assert complex_.image.dtype == np.complex64
        np.testing.assert_allclose(abs(complex_.image), real.image, atol=1e-5)
        bright = abs(complex_.image[:, 1:]) > 0.2
        turns = np.angle(complex_.image[:, 1:] * complex_.image[:, :-1].conj())[bright]
        assert np.median(abs(turns)) < 0.2
        kspace = np.fft.fft2(complex_.image[0])
        twins = np.roll(kspace[::-1, ::-1], (1, 1), (0, 1)).conj()
        assert abs(kspace - twins).max() > 0.1 * abs(kspace).max(), "with phase, k-space is not Hermitian"


# Arrays


def test_shapes_of_arrays():
    assert load(np.random.default_rng(0).random((5, 8, 6))).shape == (1, 8, 6)
    assert len(load(np.random.default_rng(0).random((8, 6)))) == 1
    contrasts = Reading(axes="slice contrast y x")
    assert load(np.random.default_rng(0).random((5, 3, 8, 6)), contrasts).shape == (3, 8, 6)
    assert load(np.random.default_rng(0).random((4, 8, 6)), Reading(volumes=True)).shape == (1, 4, 8, 6)
    assert load(np.random.default_rng(0).random((2, 4, 8, 6)), Reading(volumes=True)).shape == (1, 4, 8, 6)
    contrasts = Reading(axes="slice contrast z y x")
    assert load(np.random.default_rng(0).random((2, 3, 4, 8, 6)), contrasts).shape == (3, 4, 8, 6)
    check_data_set(load([torch.rand(8, 6), torch.rand(8, 6)]))


def test_kspace_and_images_are_the_same_data():
    images = smooth_images(3, channels=2, dtype=torch.complex64)
    data = from_kspace(to_kspace(images, (-2, -1)))
    torch.testing.assert_close(data.images, images)
    volumes = smooth_images(2, size=(4, 6, 5), dtype=torch.complex64)
    data = from_kspace(to_kspace(volumes, (-3, -2, -1))[:, 0], volumes=True)
    torch.testing.assert_close(data.images, volumes)


def images_of(data):
    return torch.stack([data[index].image for index in range(len(data))])


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


IMAGE = np.random.default_rng(0).integers(0, 4000, (6, 8, 7)).astype(np.uint16)


def test_npz_with_everything(tmp_path):
    path = save(tmp_path / "a.npz", image=IMAGE, label=IMAGE > 2000, subject=np.array(list("aabbcc")))
    data = load(str(path))
    check_data_set(data)
    assert data.groups == list("aabbcc")
    assert data[3].name == f"{path}, slice 3"
    np.testing.assert_array_equal(images_of(data)[:, 0], IMAGE)
    np.testing.assert_array_equal(torch.stack([sample.label for sample in data]), IMAGE > 2000)


def test_npz_with_slice_ids(tmp_path):
    ids = np.array(["SC-HF-1_0003", "SC-HF-1_0004", "SC-HF-2_0001", "x_1_2", "x_1", "y_9"])
    assert load(save(tmp_path / "a.npz", image=IMAGE, slice_id=ids)).groups == ["SC-HF-1"] * 2 + [
        "SC-HF-2",
        "x",
        "x",
        "y",
    ]


def test_plain_slice_numbers_are_no_patients(tmp_path):
    data = load(save(tmp_path / "a.npz", image=IMAGE, slice_id=np.arange(6)))
    assert len(set(data.groups)) == 1
    assert len(choose_part(data, None, default="train")[0]) == 6


def test_npz_with_kspace(tmp_path):
    images = smooth_images(2, dtype=torch.complex64)
    kspace = to_kspace(images, (-2, -1))[:, 0].numpy()
    found = load(save(tmp_path / "a.npz", kspace=kspace), Reading(axes="slice ky kx"))
    torch.testing.assert_close(images_of(found), images)


@pytest.mark.parametrize("dtype", ["u1", "i2", ">i2", "f2", "<f8", ">f4", "?"])
def test_npy_of_any_kind_of_number(tmp_path, dtype):
    values = (IMAGE % 2).astype(dtype)
    np.save(tmp_path / "a.npy", values)
    np.testing.assert_array_equal(images_of(load(tmp_path / "a.npy"))[:, 0], values.astype(np.float32))


def broken(index, value):
    images = IMAGE.astype(np.float32)
    images[index] = value
    return images


@pytest.mark.filterwarnings("ignore:The k-space of")
@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"image": broken((4, 1, 1), np.nan)}, "a.npz, slice 4 holds NaN or infinite"),
        ({"image": broken((2, 1, 1), -np.inf)}, "a.npz, slice 2 holds NaN or infinite"),
        ({"image": broken(0, 0)}, "a.npz, slice 0 is zero everywhere"),
        ({"image": broken(5, 3)}, "a.npz, slice 5 has the same value everywhere"),
        ({"image": np.float64(1e60) * IMAGE}, "a.npz, slice 0 holds NaN or infinite"),
        (
            {"kspace": broken((3, 0, 0), np.nan).astype(complex), "subject": np.arange(6)},
            "a.npz, slice 3 holds NaN or infinite",
        ),
        ({"kspace": IMAGE[:0].astype(complex)}, "holds no images"),
        ({"kspace": IMAGE[0, 0].astype(complex)}, r"has shape \[7\]"),
        ({"image": IMAGE, "label": np.full(IMAGE.shape, "a")}, "must be whole numbers"),
        ({"image": IMAGE, "label": np.full(IMAGE.shape, 0.5)}, "must be whole numbers"),
        ({"image": IMAGE, "label": np.full(IMAGE.shape, np.nan)}, "must be whole numbers"),
        ({"kspace": IMAGE}, "is not complex"),
        ({"image": IMAGE[0, 0]}, r"has shape \[7\]"),
        ({"image": IMAGE[None, None, None]}, "name its axes with `axes`"),
        ({"image": IMAGE[:0]}, "holds no images"),
        ({"image": IMAGE[:, :0]}, r"holds no images: its shape is \[6, 0, 7\]"),
        ({"image": np.array(["a"])}, "numbers are expected"),
        ({"image": IMAGE, "label": IMAGE[:, :4]}, r"labels of .* have shape \[6, 4, 7\]"),
        ({"image": IMAGE, "subject": np.array(["a", "b"])}, "has 6 images, but names 2 subjects"),
        ({"knee": IMAGE[0, 0], "t": IMAGE[0, 0]}, "neither 'image' nor 'kspace', but knee, t"),
        ({"image": np.array([object()])}, "holds object values"),
    ],
)
def test_bad_npz(tmp_path, arrays, message):
    with pytest.raises(InputError, match=message):
        prepare(load(save(tmp_path / "a.npz", **arrays)))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", b"PK\x03\x04 truncated", "damaged"),
        ("a.npz", b"", "damaged"),
        ("a.npy", b"\x93NUMPY\x01\x00", "damaged"),
        ("a.npy", b"not an array", "damaged"),
        ("a.txt", b"1 2 3", "a.txt cannot be read: promask reads .npz, .npy"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        load(tmp_path / name)


def test_other_refusals():
    for data, message in [
        ("spleen", r"neither a file nor a built-in data set \(brain, head, cardiac, knee, cine\)"),
        ("acdc:nowhere", "nowhere is not a folder"),
        ("head+phase", "no phase"),
        (3, "Cannot load data from a int"),
        ([], "empty"),
        ([{"image": 1}], "items of the list must be images"),
        ([torch.rand(3, 4), torch.rand(4, 3)], "differ in shape"),
    ]:
        with pytest.raises(InputError, match=message):
            load(data)


# Splits


def test_a_part_is_not_split_again():
    data = from_images(smooth_images(30, size=(8, 8), dtype=torch.complex64), subjects=list("abcdefghij") * 3)
    part, name = choose_part(data, "train", default="test")
    assert choose_part(part, None, default="train") == (part, "all")
    assert name == "train"


@pytest.mark.parametrize("count", [2, 3, 5, 24, 100])
def test_slices_of_one_subject_are_split_by_blocks(count):
    data = from_images(smooth_images(count, size=(8, 8), dtype=torch.complex64))
    assert choose_part(data, None, default="test") == (data, "all"), (
        "nothing is known, so nothing is held out unasked"
    )
    train, test = (choose_part(data, part, default="all")[0] for part in ("train", "test"))
    assert sorted([*train.indices, *test.indices]) == list(range(count))
    assert len(test) >= 1
    assert len(train) >= 1
    if count >= 24:
        borders = sum(after - before > 1 for before, after in zip(test.indices, test.indices[1:], strict=False))
        assert borders == 1, "two blocks of neighbours"


def test_the_split_by_patient_is_fixed():
    """The choice depends on the names alone, whatever their order."""
    images = smooth_images(30, size=(8, 8), dtype=torch.complex64)
    names = [f"patient{index // 3:03d}" for index in range(30)]
    forward = choose_part(from_images(images, subjects=names), "test", default="all")[0]
    backward = choose_part(from_images(images, subjects=names[::-1]), "test", default="all")[0]
    assert sorted(set(forward.groups)) == sorted(set(backward.groups)) == ["patient007", "patient008"]


def test_numbers_that_are_not_small(tmp_path):
    """Complex numbers as pairs, along the last axis, and whole numbers: all are k-space."""
    images = smooth_images(3, dtype=torch.complex64)
    kspace = 1e4 * to_kspace(images, (-2, -1))[:, 0].numpy()
    whole = np.stack([kspace.real, kspace.imag], axis=-1).round().astype(np.int16)
    fields = np.zeros(kspace.shape, dtype=[("real", "i2"), ("imag", "i2")])
    fields["real"], fields["imag"] = whole[..., 0], whole[..., 1]
    for index, array in enumerate((kspace, whole, fields)):
        axes = "slice ky kx re/im" if array is whole else "slice ky kx"
        found = images_of(load(save(tmp_path / f"{index}.npz", kspace=array), Reading(axes=axes)))
        torch.testing.assert_close(found, 1e4 * images, atol=2, rtol=0)
