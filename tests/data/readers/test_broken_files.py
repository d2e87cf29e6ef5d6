"""Files that are broken, differ from others or cannot be read: one sentence that names them."""

import os

import numpy as np
import pytest
from file_writers import (
    BIG,
    IMAGE,
    SCAN,
    close,
    fit,
    images,
    images_of,
    lines_of,
    put,
    read,
    refusal,
    same,
    write_all,
    write_cfl,
    write_dicom,
    write_h5,
    write_mrd,
    write_nifti,
    write_npz,
    write_v5,
    write_v7_3,
)
from twix_writer import twix_lines, write_twix

from helpers import check_data_set
from promask.data.file_set import prepare
from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputError, InputWarning

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
    "a.dat": lambda path: write_twix(path, twix_lines(SCAN[..., :8, :, :]), (8, 8, 1)),
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
    """A file with a few wrong bytes is refused in one sentence, or read; if it has checksums, as what it held."""
    path, settings = tmp_path / name, {"holds": "image"} if name == "a.cfl" else {}
    WHOLE[name](path)
    right = images(path, **settings)
    content, generator = np.frombuffer(path.read_bytes(), np.uint8), np.random.default_rng(1)
    for _ in range(12):
        flipped = content.copy()
        flipped[(len(content) * generator.random(4) ** 3).astype(int)] = generator.integers(256, size=4)
        put(path, flipped.tobytes())
        try:
            found = images(path, **settings)
        except InputError:
            assert refusal(path, **settings).isprintable()
            continue
        assert np.isfinite(found).all()
        if name in ("a.npz", "5.mat", "a.nii.gz"):
            same(found, right)


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
            prepare(data)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "is damaged"), (b"broken", "is damaged"), ("zero", "is zero everywhere"), ("nan", "holds NaN")],
)
def test_one_bad_file_among_many(tmp_path, content, words):
    for index in range(40):
        np.save(tmp_path / f"{index:03}.npy", IMAGE[0, :4, :3] + index)
    bad = tmp_path / "023.npy"
    if isinstance(content, bytes):
        bad.write_bytes(content)
    else:
        np.save(bad, np.full((4, 3), 0 if content == "zero" else np.nan, np.float32))
    assert words in refusal(tmp_path, bad)
    with pytest.warns(InputWarning, match=r"Left out: .*023\.npy") as caught:
        data = read(tmp_path, skip_bad=True)
    assert len(caught) == 1
    close(images_of(data)[:, 0], np.stack([IMAGE[0, :4, :3] + index for index in range(40) if index != 23]))
    assert "023" not in data.groups


def test_files_of_different_shapes(tmp_path):
    write_all(tmp_path, ["a.npy", "b.npy"])
    np.save(tmp_path / "c.npy", IMAGE[:, 1:])
    text = refusal(tmp_path, "c.npy")
    assert "shape [1, 8, 8] and not [1, 9, 8]" in text
    assert "`size`" in text
    wanted = np.concatenate([fit(images, (7, 7)) for images in (IMAGE, IMAGE + 1, IMAGE[:, 1:])])
    close(images(tmp_path, size=(7, 7))[:, 0], wanted)
    with pytest.warns(InputWarning, match=r"c\.npy .*left out"):
        close(images(tmp_path, skip_bad=True)[:, 0], np.concatenate([IMAGE, IMAGE + 1]))


def test_scans_that_differ_in_what_is_judged(tmp_path):
    write_mrd(tmp_path / "a.h5", lines_of(SCAN), (9, 8, 1))
    write_mrd(tmp_path / "b.h5", lines_of(SCAN), (9, 8, 1), recon=(5, 8, 1))
    assert "[5, 8]" in refusal(tmp_path, "b.h5")


def test_options_that_mean_nothing(tmp_path):
    write_nifti(tmp_path / "a.nii")
    assert "leave out `holds`" in refusal(tmp_path / "a.nii", holds="kspace")
    assert "is for a fourth axis" in refusal(tmp_path / "a.nii", axes="x y z")
    data = load(tmp_path / "a.nii", Reading(size=(8, 8)))
    assert load(data, Reading(size=(8, 8))) is load(data, Reading()) is data
    with pytest.raises(InputError, match=r"was loaded with `size` \(8, 8\), and cannot be read with \(9, 9\)"):
        load(data, Reading(size=(9, 9)))
