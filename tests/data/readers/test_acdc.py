"""ACDC in its true layout."""

import numpy as np
import pytest
from layouts import LEVELS, SWAPPED, nifti, numbers_of, parts, patient, refusal, stacked, upright
from PIL import Image

from helpers import check_data_set
from promask.data.file_set import prepare
from promask.data.reading import Reading
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.errors import InputWarning


def test_acdc_folders_are_the_parts(database):
    for root in (database, database.parent):
        data = load(f"acdc:{root}")
        assert parts(data) == [["patient001", "patient002", "patient003"], ["patient101"]]
    check_data_set(data)
    train, name = choose_part(data, None, "train")
    assert (len(train), name, data.shape) == (9, "train", (1, 256, 256))
    assert [sample.label is None for sample in data] == [group == "patient101" for group in data.groups]
    train, test = parts(load(f"acdc:{database / 'training'}"))
    assert (len(train), len(test)) == (2, 1), "without a testing folder, patients are chosen"


@pytest.mark.parametrize(
    ("depth", "slices", "expected"),
    [(7, None, [2, 3, 4]), (5, None, [2]), (7, (0, 2), [0, 1]), (7, (None, None), range(7)), (7, (-1, None), [6])],
)
def test_acdc_slices(tmp_path, depth, slices, expected):
    diastole = patient(tmp_path, 1, size=(256, 256), depth=depth, ed=4)
    data = load(f"acdc:{tmp_path}", Reading(slices=slices))
    assert numbers_of(data) == list(expected)
    np.testing.assert_array_equal(stacked(data, "image")[:, 0], upright(diastole)[list(expected)])


@pytest.mark.parametrize("size", [(216, 256), (256, 216), (154, 224), (233, 181), (428, 512), (97, 97)])
def test_acdc_resizing(tmp_path, size):
    file = patient(tmp_path, 1, size, depth=5)
    noise = np.random.default_rng(0).random((*size, 5), np.float32)  # shows whether shrinking is smoothed
    nifti(file, noise)
    sample = load(f"acdc:{tmp_path}")[0]
    image, label = upright(file)[2], upright(file.with_name("patient001_frame01_gt.nii.gz"))[2]
    wanted = [round(n * 256 / min(size)) for n in image.shape]
    cut = tuple(slice(n // 2 - 128, n // 2 + 128) for n in wanted)
    bilinear = Image.fromarray(image).resize(wanted[::-1], Image.Resampling.BILINEAR)
    np.testing.assert_allclose(sample.image[0], np.asarray(bilinear)[cut], atol=1e-4)
    nearest = [(2 * np.arange(n) + 1) * before // (2 * n) for n, before in zip(wanted, label.shape, strict=True)]
    expected = label[np.ix_(*nearest)][cut]
    assert (sample.label.numpy() == expected).mean() > 0.9999, "ties may go either way"
    assert set(np.unique(sample.label)) == set(np.unique(expected)) == {0, 1, 2, 3}


@pytest.mark.parametrize("affine", [(-1, -1, 8), (1, 1, 8), (-1, 1, 8), (1, -1, -8), SWAPPED], ids=range(5))
def test_acdc_labels_lie_on_their_images(tmp_path, affine):
    file = patient(tmp_path, 1, (256, 256), depth=5, affine=affine)
    sample = load(f"acdc:{tmp_path}")[0]
    np.testing.assert_array_equal(sample.image[0], upright(file)[2])
    np.testing.assert_array_equal(sample.label, np.digitize(sample.image[0].numpy(), LEVELS))


@pytest.mark.parametrize(
    ("name", "kept", "message"),
    [
        ("patient002_frame01.nii.gz", None, "patient002_frame01.nii.gz is missing"),
        ("patient002_frame01_gt.nii.gz", None, "patient002_frame01_gt.nii.gz is missing"),
        ("patient002_frame01.nii.gz", slice(5000), "patient002_frame01.nii.gz is damaged"),
        ("Info.cfg", None, "patient002/Info.cfg"),
        ("Info.cfg", slice(5, None), "patient002/Info.cfg does not tell the frame"),
    ],
)
def test_acdc_bad_patients(database, name, kept, message):
    file = database / "training" / "patient002" / name
    file.write_bytes(file.read_bytes()[kept]) if kept else file.unlink()
    assert message in refusal(f"acdc:{database}")
    with pytest.warns(InputWarning, match="patient002"):
        left = prepare(load(f"acdc:{database}", Reading(skip_bad=True)))
    assert set(left.groups) == {"patient001", "patient003", "patient101"}
