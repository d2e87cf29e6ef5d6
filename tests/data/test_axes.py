"""The roles of axes: layouts of raw data and images as laboratories write them, each understood or asked for."""

import h5py
import numpy as np
import pytest
import scipy.io
import torch
from file_writers import close, transform, write_cfl

from promask.data.axes import Axes
from promask.data.file_set import prepare
from promask.data.inspection import inspect
from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputError, UncertainDataError

random = np.random.default_rng(0)
SLICES, COILS, FRAMES, HEIGHT, WIDTH = 3, 4, 2, 26, 20
IMAGES = (2 + random.normal(size=(FRAMES, SLICES, COILS, HEIGHT, WIDTH, 2)) @ [1, 1j]).astype(np.complex64)
"""(frame, slice, coil, y, x)."""
KSPACE = transform(IMAGES)
REAL = random.random((FRAMES, SLICES, COILS, HEIGHT, WIDTH)).astype(np.float32)
ORDER = ("frame", "slice", "coil", "y", "x")


def arranged(values, names):
    """The values with axes of these names, in this order; along the others, the first entry is taken."""
    plain = ["coil" if name == "contrast" else name.removeprefix("k") for name in names]
    kept = [name for name in ORDER if name in plain]
    taken = values[tuple(slice(None) if name in kept else 0 for name in ORDER)]
    return taken.transpose([kept.index(name) for name in plain])


def samples_of(values, axes):
    """The samples of an array with these axes, (N, channel, *space)."""
    names = axes.split()
    space = [name for name in names if name.removeprefix("k") in ("x", "y")]
    channel = [name for name in names if name in ("coil", "contrast")]
    found = arranged(values, [*(name for name in names if name not in (*space, *channel)), *channel, *space])
    return found.reshape(-1, COILS if channel else 1, *found.shape[-2:])


def stack(data):
    return np.stack([data[index].image.numpy() for index in range(len(data))])


def npy(path, array, **_):
    np.save(path / "a.npy", array)
    return path / "a.npy"


def npz(path, array, name="kspace", **beside):
    np.savez(path / "a.npz", **{name: array}, **beside)
    return path / "a.npz"


def h5(path, array, name="kspace", **beside):
    with h5py.File(path / "a.h5", "w") as file:
        for key, value in {name: array, **beside}.items():
            file[key] = value
    return path / "a.h5"


def mat(path, array, name="kspace", **beside):
    scipy.io.savemat(path / "a.mat", {name: array, **beside})
    return path / "a.mat"


ENCODED = {"coil ky kx", "slice ky kx", "coil y x", "slice y x"}
NAMED = "name its axes with `axes`"
COMPLEX_LAYOUTS = [
    # writer, axes, the name of the array and what lies beside it, and what must happen: choices, or a sentence
    (mat, "ky kx coil", {}, {"ky kx coil", "ky kx slice"}),
    (npy, "coil ky kx", {}, ENCODED),
    (npy, "slice ky kx", {}, ENCODED),
    (mat, "y x coil", {"name": "img"}, {"y x coil", "y x slice"}),
    (mat, "kx ky slice coil", {}, {"ky kx slice coil", "ky kx coil slice"}),
    (mat, "ky kx coil slice", {}, {"ky kx slice coil", "ky kx coil slice"}),
    (npz, "slice coil ky kx", {}, {"slice coil ky kx", "coil slice ky kx"}),
    (h5, "coil slice ky kx", {}, {"slice coil ky kx", "coil slice ky kx"}),
    (h5, "slice coil ky kx", {"subject": np.arange(SLICES)}, None),
    (npz, "slice coil ky kx", {"maps": IMAGES[0, 0]}, None),
    (npz, "coil slice ky kx", {"sens": IMAGES[0, 0]}, None),
    (npz, "slice coil y x", {"name": "image", "label": np.ones((SLICES, HEIGHT, WIDTH), int)}, None),
    (npy, "ky kx", {}, {"ky kx", "y x"}),
    (npz, "ky kx", {}, None),
    (npz, "ky kx", {"name": "knee"}, {"ky kx", "y x"}),
    (npz, "y x", {"name": "image"}, None),
    (mat, "ky kx", {"name": "ksp"}, None),
    (npz, "frame slice coil ky kx", {}, NAMED),
    (npz, "slice coil frame ky kx", {}, NAMED),
]
REAL_LAYOUTS = [
    (npy, "slice y x", {}, None),
    (npy, "y x slice", {}, {"slice y x", "y x slice"}),
    (mat, "y x slice", {"name": "image"}, None),
    (npz, "slice contrast y x", {"name": "image"}, {"slice contrast y x", "slice frame y x"}),
    (npz, "slice contrast y x", {"name": "image", "channels": np.array(list("abcd"))}, None),
    (npz, "slice contrast y x", {"name": "image", "echo_time_ms": np.arange(COILS)}, None),
    (npz, "slice frame y x", {"name": "image", "trigger_times": np.arange(FRAMES)}, None),
    (npz, "frame slice contrast y x", {"name": "image"}, NAMED),
]


@pytest.mark.parametrize(
    ("write", "axes", "beside", "wanted", "kind"),
    [(*each, KSPACE) for each in COMPLEX_LAYOUTS] + [(*each, REAL) for each in REAL_LAYOUTS],
    ids=[f"{write.__name__} {axes} {list(beside)}" for write, axes, beside, _ in COMPLEX_LAYOUTS + REAL_LAYOUTS],
)
def test_layouts(tmp_path, write, axes, beside, wanted, kind):
    """Each is read as it is meant, or asked for; named, it is read as it is meant."""
    of_images = "ky" not in axes.split()
    values = REAL if kind is REAL else IMAGES if of_images else KSPACE
    path = write(tmp_path, arranged(values, axes.split()), **beside)
    if wanted is not None:
        with pytest.raises(UncertainDataError if isinstance(wanted, set) else InputError) as caught:
            load(path)
        assert "\n" not in str(caught.value)
        if isinstance(wanted, set):
            assert {choice.value for choice in caught.value.choices} == wanted
            assert f'"{caught.value.choices[0].value}"' in str(caught.value)
        else:
            assert wanted in str(caught.value)
    data = prepare(load(path, Reading(each_frame=True, axes=None if wanted is None else axes)))
    close(stack(data), samples_of(REAL if kind is REAL else IMAGES, axes))
    assert data.geometry.channels == next((name for name in axes.split() if name in ("coil", "contrast")), "")
    assert list(data.geometry.axes) == [f"k{name[-1]}" for name in axes.split() if name[-1] in "xy"]
    known = wanted is not None and not of_images  # a user who names kx of k-space names the readout
    assert data.geometry.readout == (data.geometry.axes.index("kx") if known else None)


@pytest.mark.parametrize(("axes", "readout"), [("kx ky _ coil", 0), ("_ ky kz coil", None)])
def test_layouts_of_bart(tmp_path, axes, readout):
    names = axes.replace("kz", "kx").split()
    array = np.expand_dims(arranged(KSPACE, [name for name in names if name != "_"]), names.index("_"))
    data = prepare(load(write_cfl(tmp_path / "a.cfl", array), Reading(holds="kspace")))
    close(stack(data), samples_of(IMAGES, " ".join(name for name in names if name != "_")))
    directions = tuple(name for name in axes.split() if name[0] == "k")
    assert (data.geometry.axes, data.geometry.readout) == (directions, readout)


def test_parts_that_alternate(tmp_path):
    """Real and imaginary parts along an axis of length 2, or alternating with the coils."""
    pairs = np.stack([KSPACE[0].real, KSPACE[0].imag], -1)
    path = npz(tmp_path, pairs[:, 0])
    with pytest.raises(UncertainDataError) as caught:
        load(path)
    assert {choice.value for choice in caught.value.choices} == {"slice ky kx re/im", "coil ky kx re/im"}
    truth = IMAGES[0]
    named = prepare(load(path, Reading(axes="slice ky kx re/im")))
    close(stack(named), truth[:, :1])
    interleaved = np.moveaxis(pairs, 1, -2).reshape(SLICES, HEIGHT, WIDTH, 2 * COILS)
    path = npz(tmp_path, interleaved)
    with pytest.raises(InputError, match="not complex, unless real and imaginary parts alternate"):
        load(path)
    named = prepare(load(path, Reading(axes="slice ky kx re/im")))
    assert named.shape == (COILS, HEIGHT, WIDTH)
    assert named.geometry.channels == "coil"
    close(stack(named), truth)


def test_arrays_of_python_follow_the_same_rule():
    with pytest.raises(UncertainDataError, match="nothing says whether it holds k-space or images"):
        load(KSPACE[0, 0])
    assert load(REAL[0, 0]).shape == (1, HEIGHT, WIDTH)
    for array in (KSPACE[0], torch.from_numpy(KSPACE[0])):
        data = load(array, Reading(axes=["slice", "coil", "ky", "kx"]))
        close(data[1].image.numpy(), IMAGES[0, 1])
        assert data.geometry.readout == 1
    moved = np.moveaxis(KSPACE[0], 1, -1)
    close(load(moved, Reading(axes="slice ky kx coil"))[2].image.numpy(), IMAGES[0, 2])
    assert load(IMAGES[0], Reading(axes="subject coil y x")).groups == ["subject-0", "subject-1", "subject-2"]


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ("slice ky kx", "3 names, but .* has 4 axes: its shape is"),
        ("slice coil ky ky", "names ky twice"),
        ("slice coil ky phase", "unknown name 'phase': use subject, slice"),
        ("slice coil ky x", "two or three directions"),
        ("slice coil frame kx", "two or three directions"),
        ("slice _ ky kx", "_ for an axis of length 4"),
        ("re/im coil ky kx", "re/im for an axis of length 3"),
        ("coil re/im ky kx", "re/im for an axis of length 4 .* beside coil"),
        ("y ky kx slice", "names both y and ky"),
    ],
)
def test_axes_that_cannot_be(tmp_path, axes, words):
    with pytest.raises(InputError, match=words) as caught:
        load(npz(tmp_path, KSPACE[0]), Reading(axes=axes))
    assert "\n" not in str(caught.value)


def test_settings_that_contradict_the_axes(tmp_path):
    path = npz(tmp_path, KSPACE[0])
    with pytest.raises(InputError, match="which is images, but `holds` is kspace"):
        load(path, Reading(axes="slice coil y x", holds="kspace"))
    with pytest.raises(InputError, match="two directions, but `volumes` asks for three"):
        load(path, Reading(axes="slice coil ky kx", volumes=True))
    with pytest.raises(InputError, match=r"`readout` is kz, but the axes of .* are ky, kx"):
        load(path, Reading(axes="slice coil ky kx", readout="kz"))
    with pytest.raises(InputError, match="name real and imaginary parts re/im"):
        load(npz(tmp_path, REAL[0]), Reading(axes="slice coil ky kx"))


def test_the_readout_that_is_named(tmp_path):
    path = npz(tmp_path, KSPACE[0])
    readouts = {
        readout: load(path, Reading(axes="slice coil ky kx", readout=readout)).geometry.readout
        for readout in (None, "kx", "ky", "none")
    }
    assert readouts == {None: 1, "kx": 1, "ky": 0, "none": None}


def test_samples_beside_coils(tmp_path):
    """Frames and contrasts beside coils are samples, numbered as they are stored; slices are chosen by number."""
    path = npz(tmp_path, KSPACE)
    data = load(path, Reading(each_frame=True, axes="frame slice coil ky kx", slices=(1, 2)))
    assert len(data) == FRAMES
    close(data[1].image.numpy(), IMAGES[1, 1])
    data = load(path, Reading(axes="contrast slice coil ky kx"))
    close(data[SLICES + 2].image.numpy(), IMAGES[1, 2])
    assert inspect(path, Reading(axes="contrast slice coil ky kx")).description.contrasts == FRAMES


def test_subjects_of_slices_with_frames(tmp_path):
    subjects = np.array(["anna", "otto", "eva"])
    label = random.integers(0, 2, (SLICES, HEIGHT, WIDTH))
    array = arranged(REAL, ["slice", "frame", "y", "x"])
    path = npz(tmp_path, array, name="image", subject=subjects, label=label)
    data = load(path, Reading(each_frame=True, axes="slice frame y x"))
    assert list(data.groups) == ["anna", "anna", "otto", "otto", "eva", "eva"]
    assert (data[3].label.numpy() == label[1]).all()
    maps = IMAGES[0] / np.linalg.norm(IMAGES[0], axis=1, keepdims=True)
    path = npz(tmp_path, KSPACE, subject=subjects, label=label, maps=maps)
    data = load(path, Reading(each_frame=True, axes="frame slice coil ky kx"))
    assert list(data.groups) == ["anna", "otto", "eva"] * FRAMES
    for number in range(len(data)):
        assert (data[number].label.numpy() == label[number % SLICES]).all()
        close(data[number].maps.numpy(), maps[number % SLICES])


def test_hybrid_space(tmp_path):
    """Where one direction was transformed already, each position along it is a slice."""
    hybrid = np.moveaxis(KSPACE[0], 1, -1)
    data = load(npz(tmp_path, hybrid), Reading(axes="x ky kz coil"))
    close(data[1].image.numpy(), IMAGES[0, 1])
    assert (data.geometry.axes, data.geometry.readout, data.counts) == (("ky", "kz"), None, {"x": SLICES})


def test_roles_in_words():
    assert load(REAL[0, :, 0], Reading(volumes=True)).geometry.axes == ("kz", "ky", "kx")
    axes = Axes.parse("Slice, Echo t kx KY")
    assert axes.names == ("slice", "contrast", "frame", "kx", "ky")
    assert axes.reversed().names == ("ky", "kx", "frame", "contrast", "slice")
    assert (axes.samples, axes.channel) == (("slice", "frame"), ("contrast",))


def test_undersampled_arrays(tmp_path):
    lines = np.arange(WIDTH) % 2 == 0
    with pytest.raises(InputError, match=r"slice 0 is undersampled: 4\d % of its samples are zero"):
        prepare(load(npz(tmp_path, KSPACE[0] * lines), Reading(axes="slice coil ky kx")))
    padded = np.pad(KSPACE[0], [(0, 0), (0, 0), (0, 0), (3, 3)])
    with pytest.warns(UserWarning, match="is zero outside of 26 of 26, 20 of 26 samples"):
        prepare(load(npz(tmp_path, padded), Reading(axes="slice coil ky kx")))
