"""Masks in files: every format, read by others and read back."""

import contextlib
import csv
import json
import pickle
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import torch
from file_writers import needs_bart
from masks import CARTESIAN, PATTERNS, exported, run_on
from PIL import Image

import promask
from helpers import coil_maps, smooth_images
from promask import InputError, Pattern, __version__
from promask.data.arrays import from_images
from promask.export import FORMATS, check_mask_file, read_mask, write_mask
from promask.export.bart import write_scan
from promask.export.files import load_mask
from promask.export.mask_file import ExportedMask
from promask.nn import ProbabilisticMask
from promask.operators.fourier import to_kspace
from promask.recon.cg_sense import CgSense
from promask.types import Sample


def read_cfl(stem):
    """BART's format, by its documentation."""
    shape = [int(n) for n in stem.with_suffix(".hdr").read_text().split("\n")[1].split()]
    return np.fromfile(stem.with_suffix(".cfl"), "<c8").reshape(shape, order="F")


def write_cfl(stem, array):
    stem.with_suffix(".hdr").write_text(f"# Dimensions\n{' '.join(map(str, array.shape))}\n")
    stem.with_suffix(".cfl").write_bytes(array.astype("<c8").tobytes(order="F"))


def test_what_is_known_of_a_mask():
    mask = exported("padded lines")
    units = 11 - 2
    assert mask.achieved == units / int(units / 2.5)
    assert mask.record().values() == {
        "acceleration_asked": 2.5,
        "acceleration_achieved": 3.0,
        "shape": [10, 13],
        "axes": "axis 0: H (rows, fully sampled), axis 1: W (columns, undersampled)",
        "free_axes": [1],
        "extent": [[0, 10], [2, 11]],
        "centring": "DC at index n // 2 of every axis",
        "version": __version__,
    }
    assert (
        exported("volume")
        .record()
        .values()["axes"]
        .startswith("axis 0: D (slices, fully sampled), axis 1: H (rows, undersampled)")
    )
    assert "acceleration_asked" not in ExportedMask.of_mask(mask.mask).record().values()


def test_free_axes_are_those_along_which_a_mask_varies():
    for name, pattern in PATTERNS.items():
        if name != "thin":
            assert ExportedMask.of_mask(exported(name).mask).free == pattern.free
    assert ExportedMask.of_mask(torch.ones(3, 4, dtype=torch.bool)).free == (0, 1)
    assert ExportedMask.of_mask(np.eye(3, dtype=np.int16), free=[0, 1]).achieved == 3


@pytest.mark.parametrize(
    ("mask", "settings", "message"),
    [
        (np.full((3, 3), 0.5), {}, "only 0 and 1"),
        (np.full((3, 3), np.nan), {}, "only 0 and 1"),
        (np.array(["a"]), {}, "only 0 and 1"),
        (None, {}, "only 0 and 1"),
        (np.zeros((3, 3)), {}, "acquires nothing"),
        (np.ones((1, 2, 3, 4, 5)), {}, "1 to 3 axes"),
        (np.ones(()), {}, "1 to 3 axes"),
        (np.ones((3, 3)), {"asked": 0.5}, "at least 1"),
        (np.eye(3), {"free": [1]}, "whole units"),
        (np.eye(3), {"extent": [(0, 4), (0, 3)]}, "extent"),
    ],
)
def test_masks_that_are_none(mask, settings, message):
    with pytest.raises(InputError, match=message):
        ExportedMask.of_mask(mask, **settings)


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("to", CARTESIAN)
def test_round_trip(tmp_path, to, name):
    mask = exported(name)
    if to == "png" and (mask.mask.ndim < 2 or len(mask.free) > 2):
        with pytest.raises(InputError, match=r"m\.png .* two axes; choose another format"):
            write_mask(mask, tmp_path / "m", to)
        return
    path = write_mask(mask, tmp_path / "new" / "m", to)
    assert path == tmp_path / "new" / f"m{FORMATS[to].suffix}"
    back = read_mask(path)
    assert torch.equal(back.mask, mask.mask)
    if to != "npy":
        assert (back.free, back.extent, back.asked, back.version) == (mask.free, mask.extent, 2.5, __version__)
        assert back.record().values() == mask.record().values()
    unknown = ExportedMask.of_mask(mask.mask)
    assert read_mask(write_mask(unknown, path)).asked is None
    assert {file.suffix for file in path.parent.iterdir()} <= {path.suffix, ".hdr"}


@pytest.mark.parametrize("name", ["locations", "columns", "rows", "odd", "padded lines"])
def test_other_programs_read_the_same_bits(tmp_path, name):
    mask = exported(name)
    bits = mask.mask.numpy()
    paths = {to: write_mask(mask, tmp_path / to, to) for to in CARTESIAN}

    array = np.load(paths["npy"])
    assert array.dtype == bool
    assert (array == bits).all()

    variables = scipy.io.loadmat(paths["mat"])
    assert ("mask", bits.shape, "logical") in scipy.io.whosmat(paths["mat"])
    assert (variables["mask"] == bits).all()
    assert variables["acceleration_asked"] == 2.5
    assert variables["centring"] == ["DC at index n // 2 of every axis"]
    assert variables["free_axes"].tolist() == [list(mask.free)]

    complex_values = read_cfl(paths["bart"])
    assert complex_values.ndim == 16
    assert (complex_values.squeeze() == bits).all()

    with Image.open(paths["png"]) as picture:
        assert picture.mode == "L"
        assert picture.size == bits.shape[::-1]
        assert (np.asarray(picture) == bits * 255).all()
        assert picture.text["acceleration_asked"] == "2.5"
        assert picture.text["shape"] == str(list(bits.shape))

    with h5py.File(paths["fastmri"]) as file:
        stored = file["mask"][()]
        assert stored.dtype == np.uint8
        assert (stored == (bits[0] if mask.free == (1,) else bits)).all()
        assert file.attrs["acceleration"] == 2.5
        assert file.attrs["shape"].tolist() == list(bits.shape)


@pytest.mark.parametrize(("readout", "free", "words"), [(0, (1, 2), "ky kz"), (2, (0, 1), "kz ky")])
def test_of_a_volume_the_picture_is_the_plane_of_phase_encodes(tmp_path, readout, free, words):
    units = torch.rand(7, 9, generator=torch.Generator().manual_seed(0)) < 0.4
    directions = ("kx", "ky", "kz") if readout == 0 else ("kz", "ky", "kx")
    pattern = Pattern((5, 7, 9) if readout == 0 else (7, 9, 5), free, directions=directions, readout=readout)
    mask = ExportedMask.of_pattern(pattern.expand(units), pattern, asked=2.5)
    path = write_mask(mask, tmp_path / "m.png")
    with Image.open(path) as picture:
        assert (np.asarray(picture) == units.numpy() * 255).all()
        assert f"{picture.text['down']} {picture.text['across']}" == words
    back = read_mask(path)
    assert torch.equal(back.mask, mask.mask)
    assert back.record() == mask.record()


@needs_bart
def test_bart_reconstructs_volumes_with_every_mask_of_phase_encodes(tmp_path):
    space = (12, 16, 14)
    maps = coil_maps(4, space)[0].to(torch.complex64)
    image = smooth_images(1, 1, space, dtype=torch.complex64)[0]
    kspace, of_maps = write_scan(Sample(maps * image, None, "a", "a", maps=maps), tmp_path)
    units = torch.rand(16, 14, generator=torch.Generator().manual_seed(0)) < 0.5
    units[6:10, 5:9] = True
    pattern = Pattern(space, (1, 2), directions=("kx", "ky", "kz"), readout=0)
    write_mask(ExportedMask.of_pattern(pattern.expand(units), pattern), tmp_path / "mask.cfl")
    for words in (
        ["fmac", kspace.stem, "mask", "acquired"],
        ["pics", "-l2", "-r0.003", "-i30", "-S", "-p", "mask", "acquired", of_maps.stem, "image"],
    ):
        subprocess.run(["bart", *words], check=True, capture_output=True, cwd=tmp_path)
    found = read_cfl(tmp_path / "image").reshape(space)
    everything = to_kspace((maps * image)[None], (-3, -2, -1))
    ours = CgSense(iterations=30)(everything, pattern.expand(units).float(), maps[None])[0, 0].numpy()
    overlap = np.vdot(ours, found)  # the sign is a matter of where transforms put their origin
    assert np.linalg.norm(found - ours * overlap / abs(overlap)) < 0.01 * np.linalg.norm(found)


def test_the_order_of_phase_encodes(tmp_path):
    text = write_mask(exported("columns"), tmp_path / "m.csv").read_text().splitlines()
    comments = [line for line in text if line.startswith("#")]
    assert "# acceleration_asked: 2.5" in comments
    assert "# shape: [16, 12]" in comments
    rows = list(csv.DictReader(text[len(comments) :]))
    index = exported("columns").mask[0].nonzero().flatten().tolist()
    assert [int(row["order"]) for row in rows] == list(range(4))
    assert [int(row["index_1"]) for row in rows] == index
    assert [int(row["k_1"]) for row in rows] == [i - 6 for i in index]
    by_centric = sorted(rows, key=lambda row: int(row["centric"]))
    assert [int(row["k_1"]) for row in by_centric] == sorted([i - 6 for i in index], key=lambda k: (abs(k), k))


def test_the_order_of_phase_encodes_on_two_axes(tmp_path):
    path = write_mask(ExportedMask.of_mask(torch.ones(2, 2, 3, dtype=torch.bool), free=(1, 2)), tmp_path / "m.csv")
    rows = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    # DC is at (1, 1).
    assert rows == [
        "order,index_1,index_2,k_1,k_2,centric",
        "0,0,0,-1,-1,4",
        "1,0,1,-1,0,1",
        "2,0,2,-1,1,5",
        "3,1,0,0,-1,2",
        "4,1,1,0,0,0",
        "5,1,2,0,1,3",
    ]


def test_names_of_files(tmp_path):
    mask = exported()
    assert write_mask(mask, tmp_path / "a.hdr") == tmp_path / "a.hdr"
    assert (tmp_path / "a.cfl").is_file()
    assert write_mask(mask, str(tmp_path / "b.hdf5")).is_file()
    assert write_mask(mask, tmp_path / "c.v1.mat").is_file()
    assert write_mask(mask, tmp_path / "D.NPY").is_file()
    for name in ("a.hdr", "a.cfl", "b.hdf5", "c.v1.mat", "D.NPY"):
        assert torch.equal(read_mask(tmp_path / name).mask, mask.mask)


def test_places_that_cannot_be_written(tmp_path):
    mask = exported()
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "file").write_text("mine")
    for path, to, message in [
        (tmp_path / "m", None, "choose one of npy, mat, bart, png, csv, fastmri"),
        (tmp_path / "m.txt", None, "choose one of npy"),
        (tmp_path / "m.npy", "dicom", "Unknown format 'dicom': choose one of npy"),
        (tmp_path / "m.npy", "mat", r"m\.npy cannot be of the format mat: let its name end with \.mat"),
        (tmp_path / "m.x4", "npy", r"m\.x4 cannot .* end with \.npy"),
        (tmp_path, "npy", "is a folder"),
        (Path("/"), "npy", "is a folder"),
        (tmp_path / "folder", "npy", "is a folder"),
        (tmp_path / "file" / "m.npy", None, "Cannot write"),
    ]:
        with pytest.raises(InputError, match=message):
            write_mask(mask, path, to)
        with pytest.raises(InputError, match=message):
            check_mask_file(path, to)
    assert check_mask_file(tmp_path / "m", "mat") == tmp_path / "m.mat"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder.npy"]


@pytest.mark.parametrize("to", CARTESIAN)
def test_a_file_is_whole_or_not_there(tmp_path, monkeypatch, to):
    mask = exported()
    before = write_mask(exported("odd"), tmp_path / "old", to)
    content = before.read_bytes()

    def half_written(*arguments, **settings):
        for file in tmp_path.iterdir():
            if file.name.startswith(".") and file.stat().st_size == 0:
                file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.save", half_written)
    monkeypatch.setattr("scipy.io.savemat", half_written)
    monkeypatch.setattr("h5py.File.create_dataset", half_written)
    monkeypatch.setattr("PIL.Image.Image.save", half_written)
    monkeypatch.setattr("pathlib.Path.write_text", half_written)
    for name in ("old", "new"):
        with pytest.raises(InputError, match=r"Cannot write .*: No space left on device"):
            write_mask(mask, tmp_path / name, to)
    assert before.read_bytes() == content
    assert {file.stem for file in tmp_path.iterdir()} == {"old"}


def test_half_of_a_pair_is_not_left(tmp_path, monkeypatch):
    def fails(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", fails)
    with pytest.raises(InputError, match="No space left"):
        write_mask(exported(), tmp_path / "m.cfl")
    assert list(tmp_path.iterdir()) == []


def test_whatever_holds_a_mask_can_be_written(tmp_path):
    run = run_on(PATTERNS["columns"])
    layer = ProbabilisticMask((16, 12), acceleration=2.5, pattern="1d", init=run.probabilities.numpy())
    folder = run.save(tmp_path / "run")
    sources = {
        "run": run,
        "layer": layer,
        "exported": exported("columns"),
        "array": run.mask.numpy(),
        "folder": folder,
    }
    for name, source in sources.items():
        back = read_mask(write_mask(source, tmp_path / f"{name}.cfl"))
        assert torch.equal(back.mask, run.mask)
        assert back.free == (1,)
        assert back.asked == (None if name == "array" else 2.5)
    with pytest.raises(InputError, match="must hold only 0 and 1"):
        write_mask(run.probabilities, tmp_path / "probabilities.cfl")


def test_run_folders(tmp_path):
    run = run_on(PATTERNS["padded lines"])
    folder = run.save(tmp_path / "run")
    mask = read_mask(folder)
    assert torch.equal(mask.mask, run.mask)
    assert (mask.free, mask.extent, mask.asked) == ((1,), ((0, 10), (2, 11)), 2.5)
    (folder / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json is damaged"):
        read_mask(folder)
    (folder / "run.json").unlink()
    assert torch.equal(read_mask(str(folder)).mask, run.mask)
    (folder / "mask.npy").unlink()
    with pytest.raises(InputError, match="run is not a run"):
        read_mask(folder)


def test_a_mask_of_another_run(tmp_path):
    folder = run_on(PATTERNS["columns"]).save(tmp_path / "run")
    np.save(folder / "mask.npy", np.eye(16, 12))
    with pytest.raises(InputError, match=r"mask\.npy does not fit its run"):
        read_mask(folder)


def test_masks_of_others(tmp_path):
    lines = np.array([0, 1, 1, 0, 1])
    mask = np.array([[0, 1, 1], [1, 0, 0]])
    with h5py.File(tmp_path / "fastmri.h5", "w") as file:
        file["mask"] = lines.astype(np.float32)
        file["kspace"] = np.zeros((2, 4, 5), np.complex64)
        file.attrs["acceleration"] = 4
    scipy.io.savemat(tmp_path / "named.mat", {"mask": mask.astype(float), "shape": "round", "noise": np.ones(3)})
    scipy.io.savemat(tmp_path / "only.mat", {"pattern": mask.astype(np.uint8), "note": "mine"})
    with h5py.File(tmp_path / "new.mat", "w", userblock_size=512) as file:
        file["mask"] = mask.T.astype(np.uint8)
        file["note"] = np.array([[109], [101]], np.uint16)
        file["note"].attrs["MATLAB_class"] = np.bytes_("char")
    with h5py.File(tmp_path / "new_only.mat", "w", userblock_size=512) as file:
        file["pattern"] = mask.T.astype(float)
        file["note"] = np.array([[109], [101]], np.uint16)
        file["note"].attrs["MATLAB_class"] = np.bytes_("char")
    write_cfl(tmp_path / "bart", mask.reshape(2, 3, 1, 1, 1))
    write_cfl(tmp_path / "planes", mask.reshape(1, 2, 3, 1, 1))
    write_cfl(tmp_path / "line", lines.reshape(5, 1, 1))
    Image.fromarray((mask * 255).astype(np.uint8)).save(tmp_path / "grey.png")
    Image.fromarray(mask.astype(np.uint8)).save(tmp_path / "dark.png")
    Image.fromarray(mask.astype(bool)).save(tmp_path / "bits.png")
    Image.fromarray((mask * 65535).astype(np.uint16)).save(tmp_path / "deep.png")
    np.save(tmp_path / "lines.npy", lines)
    np.save(tmp_path / "big.npy", mask.astype(">f8"))
    np.save(tmp_path / "complex.npy", mask.astype(complex))
    for name, expected in {
        "fastmri.h5": lines,
        "lines.npy": lines,
        "line.cfl": lines[:, None],
        "planes.cfl": mask[None],
        **dict.fromkeys(["named.mat", "only.mat", "new.mat", "new_only.mat", "bart.cfl", "bart.hdr"], mask),
        **dict.fromkeys(["grey.png", "dark.png", "bits.png", "deep.png", "big.npy", "complex.npy"], mask),
    }.items():
        read = read_mask(tmp_path / name)
        assert read.mask.tolist() == (expected == 1).tolist(), name
        assert read.asked is None
    assert read_mask(tmp_path / "fastmri.h5").free == (0,)


def test_lines_of_others_can_be_evaluated(tmp_path):
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["mask"] = np.arange(12) % 2
    images = smooth_images(2, size=(16, 12), dtype=torch.complex64)[:, 0]
    assert promask.evaluate(read_mask(tmp_path / "m.h5").mask, from_images(images)).acceleration == 2


def truncated(path, share=0.6):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def edited(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def with_rows(path, rows):
    comments = [line for line in path.read_text().splitlines() if line.startswith("#") and "achieved" not in line]
    path.write_text("\n".join([*comments, *rows]))


def without_comments(path):
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith("#")))


DAMAGE = {
    "npy truncated": ("npy", truncated),
    "npy text": ("npy", lambda path: path.write_text("text")),
    "npy objects": ("npy", lambda path: path.write_bytes(pickle.dumps([1, 2]))),
    "npy grey": ("npy", lambda path: np.save(path, np.full((4, 4), 0.5))),
    "npy other bytes": ("npy", lambda path: np.save(path, np.full((4, 4), 7, np.uint8).view(bool))),
    "npy texts": ("npy", lambda path: np.save(path, np.array(["0", "1"]))),
    "npy empty": ("npy", lambda path: np.save(path, np.ones((0, 4)))),
    "mat truncated": ("mat", truncated),
    "mat cut early": ("mat", lambda path: truncated(path, 0.2)),
    "mat empty": ("mat", lambda path: path.write_bytes(b"")),
    "mat text": ("mat", lambda path: path.write_text("text " * 100)),
    "mat grey": ("mat", lambda path: scipy.io.savemat(path, {"mask": np.full((4, 4), 0.5)})),
    "mat two": ("mat", lambda path: scipy.io.savemat(path, {"a": np.ones((4, 4)), "b": np.ones((4, 4))})),
    "mat words": ("mat", lambda path: scipy.io.savemat(path, {"mask": "no"})),
    "mat other shape": (
        "mat",
        lambda path: scipy.io.savemat(path, {**exported().record().values(), "mask": exported().mask.numpy().T}),
    ),
    "cfl truncated": ("bart", truncated),
    "cfl alone": ("bart", lambda path: path.with_suffix(".hdr").unlink()),
    "hdr without dimensions": ("bart", lambda path: path.with_suffix(".hdr").write_text("# Command\nnone\n")),
    "hdr of words": ("bart", lambda path: path.with_suffix(".hdr").write_text("# Dimensions\nmany\n")),
    "hdr empty": ("bart", lambda path: path.with_suffix(".hdr").write_text("")),
    "hdr lies": ("bart", lambda path: edited(path.with_suffix(".hdr"), "# free_axes\n[0, 1]", "# free_axes\n[5]")),
    "cfl grey": ("bart", lambda path: write_cfl(path, np.full((4, 4), 0.5))),
    "cfl imaginary": ("bart", lambda path: write_cfl(path, np.full((4, 4), 1 + 1j))),
    "png empty": ("png", lambda path: path.write_bytes(b"")),
    "png truncated": ("png", truncated),
    "png grey": ("png", lambda path: Image.fromarray(np.arange(9, dtype=np.uint8).reshape(3, 3)).save(path)),
    "png colour": ("png", lambda path: Image.fromarray(np.zeros((3, 3, 3), np.uint8)).save(path)),
    "png black": ("png", lambda path: Image.fromarray(np.zeros((3, 3), np.uint8)).save(path)),
    "png jpeg": ("png", lambda path: Image.fromarray(np.zeros((3, 3), np.uint8)).save(path, format="JPEG")),
    "csv without comments": ("csv", without_comments),
    "csv truncated": ("csv", lambda path: truncated(path, 0.9)),
    "csv without end": ("csv", lambda path: path.write_text("\n".join(path.read_text().splitlines()[:-1]))),
    "csv out of range": ("csv", lambda path: with_rows(path, ["order,index_0,index_1", "0,3,12"])),
    "csv negative": ("csv", lambda path: with_rows(path, ["order,index_0,index_1", "0,3,-1"])),
    "csv twice": ("csv", lambda path: with_rows(path, ["order,index_0,index_1", "0,3,4", "1,3,4"])),
    "csv words": ("csv", lambda path: with_rows(path, ["order,index_0,index_1", "0,3,many"])),
    "csv short row": ("csv", lambda path: with_rows(path, ["order,index_0,index_1", "0,3"])),
    "csv no rows": ("csv", lambda path: with_rows(path, ["order,index_0,index_1"])),
    "csv other columns": ("csv", lambda path: with_rows(path, ["a,b", "0,3"])),
    "csv bytes": ("csv", lambda path: path.write_bytes(b"\xff\xfe\x00")),
    "csv wrong axes": ("csv", lambda path: edited(path, "free_axes: [0, 1]", "free_axes: [0, 7]")),
    "csv wrong shape": ("csv", lambda path: edited(path, "shape: [16, 12]", "shape: 5")),
    "csv wrong acceleration": ("csv", lambda path: edited(path, "asked: 2.5", "asked: -1")),
    "h5 truncated": ("fastmri", truncated),
    "h5 empty": ("fastmri", lambda path: path.write_bytes(b"")),
    "h5 text": ("fastmri", lambda path: path.write_text("text")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files(tmp_path, damage):
    to, break_it = DAMAGE[damage]
    path = write_mask(exported(), tmp_path / "broken", to)
    break_it(path)
    with pytest.raises(InputError, match=r"broken\.") as caught:
        read_mask(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("to", CARTESIAN)
def test_no_truncated_file_is_another_mask(tmp_path, to):
    mask = exported("odd")
    path = write_mask(mask, tmp_path / "m", to)
    content = path.read_bytes()
    pieces = 60 if to in ("mat", "fastmri") else 300  # those are read in a process of their own
    lengths = range(len(content) - 1, -1, -max(1, len(content) // pieces))
    refused = 0
    for length in lengths:
        path.write_bytes(content[:length])
        try:
            read = read_mask(path)
        except InputError:
            refused += 1
        else:
            assert torch.equal(read.mask, mask.mask)
    assert refused > 0.9 * len(lengths)
    path.write_bytes(content)
    assert torch.equal(read_mask(path).mask, mask.mask)


def test_hdf5_without_a_mask(tmp_path):
    for name, content in {"group": lambda file: file.create_group("mask"), "none": lambda file: None}.items():
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            content(file)
        with pytest.raises(InputError, match=f"{name}.h5 holds no data set called mask"):
            read_mask(tmp_path / f"{name}.h5")


def test_files_that_are_none(tmp_path):
    (tmp_path / "m.txt").write_text("0 1")
    for name, message in {
        "m.txt": "m.txt is not a mask file",
        "none.npy": "none.npy is neither a run folder",
    }.items():
        with pytest.raises(InputError, match=message):
            read_mask(tmp_path / name)


def test_bits_that_flip_are_noticed_or_harmless(tmp_path):
    """Whatever the bytes, a mask or an InputError: never another exception.

    Not so in HDF5, whose library may never come back from a damaged text.
    """
    generator = np.random.default_rng(0)
    for to in set(CARTESIAN) - {"fastmri"}:
        path = write_mask(exported(), tmp_path / "m", to)
        content = np.frombuffer(path.read_bytes(), np.uint8)
        for _ in range(40):
            changed = content.copy()
            changed[generator.integers(len(content), size=3)] = generator.integers(256, size=3)
            path.write_bytes(changed.tobytes())
            with contextlib.suppress(InputError):
                assert read_mask(path).mask.ndim <= 3


def bart(folder, *arguments):
    return subprocess.run(["bart", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@needs_bart
@pytest.mark.parametrize("name", ["locations", "columns", "rows", "odd", "padded lines", "volume"])
def test_bart_reads_the_mask(tmp_path, name):
    mask = exported(name)
    write_mask(mask, tmp_path / "mask.cfl")
    wanted = [*map(str, mask.mask.shape), *["1"] * (16 - mask.mask.ndim)]
    assert bart(tmp_path, "show", "-m", "mask").split("AoD:")[1].split() == wanted
    values = np.random.default_rng(0).standard_normal((*mask.mask.shape, *[1] * (3 - mask.mask.ndim), 2, 2))
    kspace = values[..., 0] + 1j * values[..., 1]
    write_cfl(tmp_path / "kspace", kspace)
    bart(tmp_path, "fmac", "kspace", "mask", "masked")
    product = read_cfl(tmp_path / "masked").reshape(kspace.shape)
    bits = mask.mask.numpy().reshape(*kspace.shape[:3], 1)
    np.testing.assert_allclose(product, kspace * bits, rtol=1e-6)


@needs_bart
def test_bart_reconstructs_with_the_mask(tmp_path):
    mask = load_mask(run_on(Pattern((32, 32), (0, 1)), acceleration=2, centre=10))[0]
    write_mask(mask, tmp_path / "mask.cfl")
    bart(tmp_path, "phantom", "-x", "32", "-s", "4", "-k", "kspace")
    bart(tmp_path, "phantom", "-x", "32", "-S", "4", "sensitivities")
    said = bart(tmp_path, "pics", "-p", "mask", "kspace", "sensitivities", "image")
    assert "Acc: 2.00" in said
    bart(tmp_path, "pics", "kspace", "sensitivities", "whole")
    image, whole = (np.abs(read_cfl(tmp_path / name)).squeeze() for name in ("image", "whole"))
    assert np.linalg.norm(image - whole) < 0.2 * np.linalg.norm(whole)


@needs_bart
def test_masks_of_bart(tmp_path, commands):
    bart(tmp_path, "poisson", "-Y", "24", "-Z", "20", "-y", "1.5", "-z", "1.5", "-C", "6", "mask")
    mask = read_mask(tmp_path / "mask.cfl")
    assert mask.mask.shape == (1, 24, 20)
    assert mask.free == (1, 2)
    assert (mask.mask.numpy() == (read_cfl(tmp_path / "mask").reshape(1, 24, 20) == 1)).all()
    np.save(tmp_path / "images.npy", np.random.default_rng(0).random((4, 24, 20)).astype(np.float32))
    np.save(tmp_path / "same.npy", mask.mask[0].numpy())
    found, wanted = (
        json.loads(commands("evaluate", name, "images.npy", "--json")) for name in ("mask.cfl", "same.npy")
    )
    assert found == wanted
    assert found["acceleration"] == pytest.approx(480 / mask.mask.sum())
