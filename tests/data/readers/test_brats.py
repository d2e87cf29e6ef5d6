"""BraTS in the layouts of the Decathlon and of the challenge."""

import numpy as np
import pytest
from layouts import (
    BEFORE_2023,
    LAYOUTS,
    SINCE_2023,
    brain,
    challenge,
    decathlon,
    nifti,
    numbers_of,
    parts,
    refusal,
)

from helpers import check_data_set
from promask.data.file_set import prepare
from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputWarning


@pytest.mark.parametrize("write", LAYOUTS.values(), ids=LAYOUTS)
def test_brats(tmp_path, write):
    write(tmp_path)
    data = load(f"brats:{tmp_path}")
    check_data_set(data)
    assert data.shape == (4, 256, 256)
    assert numbers_of(data)[:50] == list(range(60, 110))
    contrasts, regions = brain(1)
    low, high = np.percentile(contrasts.reshape(-1, 4), [0.1, 99.9], axis=0)
    scaled = np.clip((contrasts - low) / (high - low), 0, 1)
    for index in (0, 31, 49):
        # These files count x from the right of the body.
        image, label = (values[::-1, :, 60 + index].swapaxes(0, 1) for values in (scaled, regions))
        around = ((118, 118), (116, 116))
        expected = np.pad(image.transpose(2, 0, 1), ((0, 0), *around))
        np.testing.assert_allclose(data[index].image, expected, atol=1e-6)
        np.testing.assert_array_equal(data[index].label, np.pad(label, around))


def test_brats_split_is_fixed(tmp_path):
    forward, backward = (
        load(f"brats:{decathlon(tmp_path / str(order), range(1, 11)[::order], (2, 2))}") for order in (1, -1)
    )
    train, test = parts(forward)
    assert parts(backward) == [train, test]
    assert (len(train), len(test), len({*train, *test})) == (8, 2, 10)


def test_brats_scans_of_one_patient_stay_together(tmp_path):
    """The last number in the names since 2023 counts the scans of a patient."""
    for number, name in ((8, "BraTS-GLI-{:05d}-000"), (8, "BraTS-GLI-{:05d}-001"), (9, "BraTS-GLI-{:05d}-000")):
        challenge(tmp_path, (name, *SINCE_2023[1:]), number)
    data = load(f"brats:{tmp_path}")
    assert len(data) == 150
    assert sorted(set(data.groups)) == ["BraTS-GLI-00008", "BraTS-GLI-00009"]


@pytest.mark.parametrize("layout", [BEFORE_2023, SINCE_2023], ids=["2020", "2023"])
@pytest.mark.parametrize("index", [0, 2, None])
def test_brats_missing_files(tmp_path, layout, index):
    folder, join, ends, _ = layout
    for number in (1, 2):
        challenge(tmp_path, layout, number)
    name = folder.format(2)
    missing = tmp_path / name / f"{name}{join}{'seg' if index is None else ends[index]}.nii.gz"
    missing.unlink()
    assert f"{missing} is missing" in refusal(f"brats:{tmp_path}")
    with pytest.warns(InputWarning, match="is missing"):
        assert len(load(f"brats:{tmp_path}", Reading(skip_bad=True))) == 50


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"training": ["a"]}', "is damaged"),
        ('{"training": [{"image": "a"}]}', "is damaged"),
        ('{"training": []}', "dataset.json lists no"),
        ('{"training": [{"image": "../a.nii", "label": "b.nii"}]}', "a.nii, which is not in its folder"),
        ('{"training": [{"image": "a.nii", "label": "/etc/passwd"}]}', "/etc/passwd, which is not in its folder"),
        ('{"training": [{"image": "a.nii", "label": "b.nii"}]}', "a.nii is missing"),
    ],
)
def test_brats_bad_index(tmp_path, content, message):
    (tmp_path / "dataset.json").write_text(content)
    assert message in refusal(f"brats:{tmp_path}")


@pytest.mark.parametrize("labels", [np.full(2480, 4.0), np.arange(2480.0), np.full(2480, 0.5), np.ones(1600)])
def test_brats_bad_labels(tmp_path, labels):
    data, file = f"brats:{decathlon(tmp_path, (1, 2), (4, 4))}", tmp_path / "labelsTr" / "BRATS_002.nii.gz"
    nifti(file, labels.reshape(4, 4, -1))
    assert str(file) in refusal(data)
    with pytest.warns(InputWarning, match=r"BRATS_002\.nii\.gz"):
        assert set(prepare(load(data, Reading(skip_bad=True))).groups) == {"BRATS_001"}


def test_brats_odd_volumes(tmp_path):
    data = f"brats:{decathlon(tmp_path, (1,), (4, 4))}"
    assert "155 slices, but those of 200:210" in refusal(data, slices=(200, 210))
    contrasts = brain(1, (4, 4))[0].astype(np.float32)
    contrasts[..., 2] = 0
    contrasts[2, 2, 70, 2] = 500
    nifti(tmp_path / "imagesTr" / "BRATS_001.nii.gz", contrasts)
    assert prepare(load(data))[10].image[2].unique(return_counts=True)[1].tolist() == [256**2 - 1, 1]
