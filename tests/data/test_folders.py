"""Folders: whose a file is, which part it belongs to, what is an image and what a label."""

import numpy as np
import pytest
from file_writers import (
    IMAGE,
    SERIES,
    VOLUME,
    WRITERS,
    close,
    images_of,
    labels_of,
    put,
    random,
    read,
    refusal,
    same,
    write_all,
    write_dicom,
    write_nifti,
    write_npz,
)

from promask.data.file_set import prepare
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.errors import InputError, InputWarning


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["sub-01/sub-01_run-1_T1w.npy", "sub-01/sub-01_run-2_T1w.npy", "sub-02/a.npy"], "sub-01 sub-01 sub-02"),
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
    close(images_of(prepare(data))[:, 0], np.concatenate([IMAGE + index for index in range(len(names))]))


def test_parts_in_folders(tmp_path):
    write_all(tmp_path, ["Test/a.npy", "train/b.npy", "train/sub/b2.npy", "val/a.npy"])
    write_dicom(tmp_path / "Test" / "c.dcm", SERIES[0])
    write_dicom(tmp_path / "train" / "d.dcm", SERIES[1], patient="ID-78")
    data = load(tmp_path)
    assert list(data.held_out) == [True] * 6 + [False] * 12 + [True] * 6 + [False, True]
    train = images_of(prepare(choose_part(data, None, default="train")[0]))[:, 0]
    close(train, np.concatenate([IMAGE + 1, IMAGE + 2, SERIES[1:2].astype(np.float32)]))


def test_formats_in_one_folder(tmp_path):
    for name, write in WRITERS.items():
        write(tmp_path / name, {"image": IMAGE})
    np.save(tmp_path / "c.npy", IMAGE)
    write_nifti(tmp_path / "d.NII.GZ", IMAGE[:, ::-1].transpose(2, 1, 0))
    data = read(tmp_path)
    same(images_of(data)[:, 0], np.concatenate([IMAGE] * 6))
    assert list(data.groups) == [name for name in "57aacd" for _ in range(6)]


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
        prepare(data)
    with pytest.warns(InputWarning, match=rf"Left out: .*c\.{ending} is damaged"):
        good = read(tmp_path, skip_bad=True)
    assert len(good) == 2 / 3 * len(data)
    assert not any(f"c.{ending}" in good[index].name for index in range(len(good)))


def test_labels_are_labels_of_nifti_only(tmp_path):
    write_all(tmp_path, ["a.npy", "a_seg.npy"])
    assert len(read(tmp_path)) == 2 * len(IMAGE)


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
    train, _ = choose_part(load(tmp_path), None, default="train")
    assert set(train.groups) == {"sub-2"}


def test_numbers_that_begin_anew_are_other_people(tmp_path):
    write_all(tmp_path, ["a/train/0.npy", "a/train/1.npy", "a/train/2.npy", "a/test/0.npy", "a/test/1.npy"])
    train, _ = choose_part(load(tmp_path / "a"), None, default="train")
    assert len(train) == 3 * len(IMAGE)
    for part in ("train", "test"):  # and so are those in the files, if no one would be left to learn from
        (tmp_path / "b" / part).mkdir(parents=True)
        write_npz(tmp_path / "b" / part / f"{part}.npz", {"image": IMAGE, "subject": np.arange(6)})
    train, _ = choose_part(load(tmp_path / "b"), None, default="train")
    assert len(train) == len(IMAGE)


def test_files_beside_the_parts(tmp_path):
    write_all(tmp_path, ["train/0.npy", "test/1.npy", "mean.npy"])
    assert "mean.npy lies beside them: move it" in refusal(tmp_path)


def test_files_beside_folders_of_patients(tmp_path):
    write_all(tmp_path, ["a_1.npy", "a_2.npy", "b_1.npy", "old/c.npy"])
    assert list(dict.fromkeys(load(tmp_path).groups)) == ["a", "b", "old"]
