"""The annotations of fastMRI+: boxes and label masks."""

import shutil

import numpy as np
import pytest
from layouts import (
    FIRST,
    SECOND,
    TABLE,
    cropped,
    numbers_of,
    parts,
    patients,
    refusal,
    rewrite,
    scan,
    smooth,
    stacked,
)

from helpers import check_data_set
from promask.data.readers.fastmri import Box, read_boxes
from promask.data.reading import Reading
from promask.data.sources import load


@pytest.mark.parametrize("place", ["knee.csv", "Annotations/knee.csv"])
@pytest.mark.parametrize("kspace", ["acquired", "emulated"])
@pytest.mark.parametrize("stored", [True, False])
def test_fastmri_plus_labels(knees, place, kspace, stored):
    (knees / place).parent.mkdir(exist_ok=True)
    (knees / place).write_text(TABLE)
    for path in [] if stored else knees.rglob("*.h5"):
        rewrite(path, reconstruction_esc=None)
    data = load(f"fastmri+:{knees}", Reading(kspace=kspace))
    check_data_set(data)
    assert numbers_of(data) == [1, 2]
    assert parts(data) == [patients("a"), patients("d")]
    for label, expected in zip(stacked(data, "label"), (FIRST, SECOND), strict=True):
        np.testing.assert_array_equal(cropped(label), expected)
        assert (label > 0).sum() == (expected > 0).sum(), "nothing outside"
    every = load(f"fastmri:{knees}", Reading(kspace=kspace))
    assert len(every) == 18
    assert [index for index, label in enumerate(stacked(every, "label")) if label.any()] == [1, 14]
    np.testing.assert_array_equal(stacked(every, "label")[[1, 14]], stacked(data, "label"))


def test_boxes(tmp_path):
    (tmp_path / "knee.csv").write_text("\ufeff" + TABLE, encoding="utf-8")
    first, *others = read_boxes(tmp_path / "knee.csv")
    assert (first, len(others)) == (Box("file1000000", 1, 4, 2, 9, 6, "Meniscus Tear"), 3)
    assert first.place(rows=20) == (slice(12, 18), slice(4, 13))
    for x, width, columns in ((-3, 5, [0, 1]), (-9, 5, []), (4, -6, []), (18, 5, [18, 19])):
        place = Box("a", 0, x, 0, width, 2, "Cyst").place(20)
        assert np.arange(20)[place[1]].tolist() == columns, "what sticks out is cut off"


def test_fastmri_plus_of_images_larger_than_kspace(tmp_path):
    """The boxes are counted on the stored image, whatever part of it k-space covers."""
    scan(tmp_path / "file1000000.h5", stored=False, reconstruction_esc=smooth(3, 20, 45))
    (tmp_path / "knee.csv").write_text(TABLE)
    expected = np.pad(FIRST, ((0, 0), (0, 25)))
    emulated, acquired = (load(f"fastmri+:{tmp_path}", Reading(kspace=k))[0] for k in ("emulated", "acquired"))
    np.testing.assert_array_equal(emulated.label, expected)
    np.testing.assert_array_equal(acquired.label[10:30], expected[:, 4:41])


def test_fastmri_plus_tables(knees):
    """Of several tables the one about these files counts; others are ignored."""
    assert "holds no annotations" in refusal(f"fastmri+:{knees}")
    (knees / "scanners.csv").write_bytes("Gerät,Größe\nÄra,3\n".encode("latin-1"))
    (knees / "empty.csv").write_text("")
    (knees / "knee_file_list.csv").write_text("file1000000\nfile1000001\n")
    assert load(f"fastmri:{knees}")[1].label is None
    (knees / "brain.csv").write_text(TABLE.replace("file100000", "file_brain_AXT2_").replace("Bone", "Zygoma"))
    assert "annotates none of the 6 files" in refusal(f"fastmri+:{knees}")
    (knees / "knee.csv").write_text(TABLE.replace("file1000000,", "file1000000.h5,"))
    np.testing.assert_array_equal(cropped(load(f"fastmri+:{knees}")[0].label), FIRST)


def test_fastmri_plus_files_of_the_same_content(knees):
    """Labels belong to the name of a file, even if its content was made ready under another one."""
    folder = knees / "singlecoil_train"
    shutil.copy(folder / "file1000000.h5", folder / "file1000001.h5")
    (knees / "knee.csv").write_text(TABLE)
    labels = stacked(load(f"fastmri:{knees}"), "label")
    assert [label.any() for label in labels[:6]] == [False, True, False, False, False, False]


@pytest.mark.parametrize("rest", ["one,No,1,2,3,4,A", "1,No,1,,3,4,A", "1,No,inf,2,3,4,A", "1", "1,No,1,2,3,4"])
def test_fastmri_plus_broken_lines(knees, rest):
    head, *lines = TABLE.splitlines()
    (knees / "knee.csv").write_text("\n".join([head, lines[0], "", f"file1000000,{rest}", *lines[1:]]))
    for collection in ("fastmri", "fastmri+"):
        assert f"Line 4 of {knees / 'knee.csv'}" in refusal(f"{collection}:{knees}")
