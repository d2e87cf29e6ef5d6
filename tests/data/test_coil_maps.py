"""Coil maps that a user has: beside the data, in a file of their own, or in memory."""

import numpy as np
import pytest
import torch
from file_writers import (
    COMPLEX,
    KSPACE,
    WRITERS,
    fit,
    needs_bart,
    read,
    refusal,
    transform,
    write_cfl,
)

from helpers import check_data_set
from promask.data.arrays import from_images, from_kspace
from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputError

random = np.random.default_rng(1)
MAPS = (random.normal(size=(4, 3, 9, 8)) + 1j * random.normal(size=(4, 3, 9, 8))).astype(np.complex64)
MAPS[:, :, 0, :2] = 0
NORM = np.linalg.norm(MAPS, axis=1, keepdims=True)
UNIT = np.divide(MAPS, NORM, out=np.zeros_like(MAPS), where=NORM > 0)
"""Of sum of squares one, or zero."""


AXES = "slice coil ky kx"


def maps_of(data):
    return np.stack([data[index].maps.numpy() for index in range(len(data))])


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def write_maps(path, maps):
    """A file of maps alone, in the order of its format."""
    if path.suffix == ".npy":
        np.save(path, maps)
    elif path.suffix == ".cfl":
        first = maps if maps.ndim == 4 else maps[None]
        # (x, y, z, coil, set, ...), with a second set that is nothing
        arranged = np.stack([first, 0 * first]).transpose(3, 4, 2, 0, 1)[:, :, None]
        write_cfl(path, arranged)
    else:
        WRITERS[path.name](path, {"other": np.zeros(3), "maps": maps})
    return str(path)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("shared", [True, False])
def test_maps_beside_the_data(tmp_path, writer, shared):
    path = tmp_path / writer
    WRITERS[writer](path, {"kspace": KSPACE, "maps": MAPS[1] if shared else MAPS})
    data = read(path)
    check_data_set(data)
    wanted = UNIT[[1] * 4] if shared else UNIT
    close(maps_of(data), wanted)
    close(maps_of(read(path, slices=(1, 3))), wanted[1:3])
    close(maps_of(read(path, size=(6, 10))), fit(wanted, (6, 10)))
    assert read(path, kspace="emulated")[0].maps is None, "magnitudes have no coils"
    assert read(path, kspace="emulated", coils=2)[0].maps.shape == (2, 9, 8)


@pytest.mark.parametrize("name", ["maps.npy", "a.npz", "a.h5", "5.mat", "7.mat", "maps.cfl"])
@pytest.mark.parametrize("shared", [True, False])
def test_maps_in_a_file_of_their_own(tmp_path, name, shared):
    np.savez(tmp_path / "data.npz", kspace=KSPACE)
    file = write_maps(tmp_path / name, MAPS[1] if shared else MAPS)
    wanted = UNIT[[1] * 4] if shared else UNIT
    for data in (tmp_path / "data.npz", KSPACE):
        close(maps_of(read(data, axes=AXES, maps=file)), wanted)
        close(maps_of(read(data, axes=AXES, maps=file, slices=(1, 3))), wanted[1:3])
        close(maps_of(read(data, axes=AXES, maps=file, size=(6, 10))), fit(wanted, (6, 10)))
    # Maps that have the final size already, and one for each sample that is taken.
    fitted = write_maps(tmp_path / name, fit(MAPS[1] if shared else MAPS[1:3], (6, 10)))
    found = maps_of(read(tmp_path / "data.npz", axes=AXES, maps=fitted, size=(6, 10), slices=(1, 3)))
    close(found, fit(wanted[1:3], (6, 10)))


def test_the_only_array_of_a_file_is_taken(tmp_path):
    np.savez(tmp_path / "a.npz", sens=MAPS[0])
    close(load(KSPACE, Reading(axes=AXES, maps=tmp_path / "a.npz"))[2].maps, UNIT[0])


def test_maps_for_all_files_of_a_folder(tmp_path):
    (tmp_path / "data").mkdir()
    for index in range(4):
        np.savez(tmp_path / "data" / f"s{index}.npz", kspace=KSPACE[index][None])
    for file, wanted in [("one.npy", UNIT[[2] * 4]), ("each.npy", UNIT)]:
        np.save(tmp_path / file, MAPS[2] if file == "one.npy" else MAPS)
        close(maps_of(read(tmp_path / "data", axes=AXES, maps=tmp_path / file)), wanted)
    np.save(tmp_path / "few.npy", MAPS[:3])
    text = refusal(tmp_path / "data", axes=AXES, maps=tmp_path / "few.npy")
    assert "few.npy holds coil sensitivities for 3 samples" in text


def test_a_file_of_maps_comes_before_those_beside_the_data(tmp_path):
    np.savez(tmp_path / "data.npz", kspace=KSPACE, maps=MAPS[:, :2])
    np.save(tmp_path / "maps.npy", MAPS[3])
    close(read(tmp_path / "data.npz", axes=AXES, maps=tmp_path / "maps.npy")[0].maps, UNIT[3])
    refusal(tmp_path / "data.npz", axes=AXES)


def test_slices_of_a_volume_of_bart(tmp_path):
    """Maps of a volume, (x, y, z, coil, set), are those of its slices, or of itself."""
    write_cfl(tmp_path / "k.cfl", transform(COMPLEX, axes=(0, 2, 3)).transpose(2, 3, 0, 1))
    volume = MAPS.transpose(2, 3, 0, 1)
    write_cfl(tmp_path / "m.cfl", np.stack([volume, 0 * volume], axis=-1))
    for name in ("m.cfl", "m.hdr", "m"):
        close(maps_of(read(tmp_path / "k.cfl", holds="kspace", maps=tmp_path / name)), UNIT)
    of_volume = read(tmp_path / "k.cfl", holds="kspace", volumes=True, maps=tmp_path / "m.cfl")
    close(of_volume[0].maps, UNIT.transpose(1, 2, 3, 0))


@needs_bart
def test_maps_of_bart_itself(tmp_path, monkeypatch):
    import subprocess

    monkeypatch.chdir(tmp_path)
    for words in ("phantom -x 64 -s 4 -k k", "ecalib -m 2 -a k maps"):
        subprocess.run(["bart", *words.split()], check=True, capture_output=True)
    sample = read("k.cfl", holds="kspace", maps="maps")[0]
    combined = (sample.maps.conj() * sample.image).sum(0)
    assert combined.abs().square().sum() > 0.98 * sample.image.abs().square().sum()


def test_coils_of_given_maps_are_simulated(tmp_path):
    images = random.random((4, 9, 8)).astype(np.float32)
    np.save(tmp_path / "maps.npy", MAPS)
    data = load(images, Reading(coils=3, maps=tmp_path / "maps.npy"))
    close(data[2].image, UNIT[2] * images[2])
    np.savez(tmp_path / "a.npz", image=images, maps=MAPS)
    close(read(tmp_path / "a.npz", coils=3)[2].image, UNIT[2] * images[2])


def test_maps_in_memory():
    for maps, wanted in [
        (MAPS, UNIT),
        (MAPS[0], UNIT[[0] * 4]),
        (torch.tensor(MAPS), UNIT),
        (MAPS.tolist(), UNIT),
    ]:
        data = from_kspace(KSPACE, maps=maps)
        check_data_set(data)
        close(maps_of(data), wanted)
        close(maps_of(from_images(data.images, maps=maps)), wanted)
    volume = from_images(torch.rand(2, 3, 4, 9, 8), volumes=True, maps=MAPS.swapaxes(0, 1))
    assert volume[0].maps.shape == (3, 4, 9, 8)


@pytest.mark.parametrize(
    ("maps", "settings", "words"),
    [
        (MAPS[:, :2], {}, r"have shape [4, 2, 9, 8], but the samples of"),
        (MAPS[..., :7], {}, r"have shape [4, 3, 9, 7], but the samples of"),
        (MAPS[..., :7], {"size": (5, 5)}, r"have shape [4, 3, 9, 7], but the samples of"),
        (MAPS[0, 0], {}, r"have shape [9, 8], but the samples of"),
        (MAPS[None], {}, r"have shape [1, 4, 3, 9, 8], but the samples of"),
        (MAPS[:3], {}, "holds coil sensitivities for 3 samples, but"),
        (MAPS, {"kspace": "emulated"}, "leave out `maps`"),
        (MAPS, {"kspace": "emulated", "coils": 4}, "have shape [4, 3, 9, 8], but the samples of"),
        (np.where(MAPS == 0, np.nan, MAPS), {}, "hold NaN or infinite values"),
        (0 * MAPS, {}, "are zero everywhere"),
        (np.array(["a"]), {}, "are not numbers"),
        (MAPS[:0], {}, "are not numbers, or there are none"),
    ],
)
def test_bad_maps(tmp_path, maps, settings, words):
    np.savez(tmp_path / "data.npz", kspace=KSPACE)
    np.save(tmp_path / "maps.npy", maps)
    with pytest.raises(InputError) as caught:
        read(tmp_path / "data.npz", axes=AXES, maps=tmp_path / "maps.npy", **settings)[0]
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("maps", [MAPS[:3], MAPS[:, :2], MAPS[0, 0], np.array(["a"])])
def test_bad_maps_beside_the_data(tmp_path, maps):
    np.savez(tmp_path / "data.npz", kspace=KSPACE, maps=maps)
    sentence = refusal(tmp_path / "data.npz", axes=AXES)
    assert "need sensitivities of shape [3, 9, 8], or one for each of the 4" in sentence
    with pytest.raises(InputError, match="coil sensitivities of the array"):
        from_kspace(KSPACE, maps=maps)


def test_damaged_maps_beside_the_data(tmp_path):
    np.savez(tmp_path / "data.npz", kspace=KSPACE, maps=np.full(MAPS.shape, np.inf))
    assert "hold NaN or infinite values" in refusal(tmp_path / "data.npz")


def test_single_channels_need_coils_for_maps(tmp_path):
    np.save(tmp_path / "maps.npy", MAPS)
    with pytest.raises(InputError, match=r"\[1, 9, 8\]: set `coils` to simulate coils with these"):
        load(np.abs(MAPS[:, 0]) + 1, Reading(maps=tmp_path / "maps.npy"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("nowhere.npy", None, "nowhere.npy is not a file"),
        ("a.txt", b"1 2 3", "Coil sensitivities cannot be read from"),
        ("a.npy", b"123", "damaged"),
        ("a.npz", b"PK", "damaged"),
        ("a.mat", b"123", "damaged"),
        ("a.cfl", b"123", "Cannot read"),
    ],
)
def test_files_that_hold_no_maps(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words):
        load(KSPACE, Reading(axes=AXES, maps=tmp_path / name))


def test_a_file_without_maps(tmp_path):
    np.savez(tmp_path / "a.npz", kspace=KSPACE, image=KSPACE)
    with pytest.raises(InputError, match="holds no array 'maps', but kspace, image"):
        load(KSPACE, Reading(axes=AXES, maps=tmp_path / "a.npz"))


def test_names_of_arrays_are_no_options(commands, tmp_path):
    """The command line makes options of arguments in backquotes; `kspace` and `maps` are names of arrays, too."""
    np.savez(tmp_path / "a.npz", one=np.arange(3), two=np.arange(4))
    assert "holds neither 'image' nor 'kspace', but one, two." in commands(
        "learn", "a.npz", "--accel", 4, "--out", "run", status=2
    )
    np.savez(tmp_path / "b.npz", image=np.ones((2, 9, 8)), maps=np.ones((3, 4)))
    sentence = commands("learn", "b.npz", "--accel", 4, "--out", "run", status=2)
    assert "The array 'maps' of b.npz has shape [3, 4]" in sentence
    assert "give others with --maps" in sentence
