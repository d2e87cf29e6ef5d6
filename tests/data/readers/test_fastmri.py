"""Files of fastMRI: acquired and emulated k-space, and padding."""

import numpy as np
import pytest
import torch
from layouts import (
    MEASURED,
    REGION,
    ROWS,
    WIDTH,
    centred_ifft,
    cropped,
    measured,
    mrd_header,
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
from promask import evaluate, learn
from promask.data.file_set import prepare
from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputWarning
from promask.sampling.pattern import Pattern


def test_fastmri_folders_are_the_parts(knees):
    data = load(f"fastmri:{knees}")
    check_data_set(data)
    assert len(data) == 18
    assert parts(data) == [patients("abc"), patients("de")]
    train, test = parts(load(f"fastmri:{knees / 'singlecoil_train'}"))
    assert sorted([*train, *test]) == patients("abc")
    scan(knees / "singlecoil_test" / "file1000009.h5", mask=np.ones(WIDTH, bool))
    assert len(load(f"fastmri:{knees}")) == 18, "undersampled files are not looked for"


@pytest.mark.parametrize("coils", [None, 3])
def test_fastmri_acquired(tmp_path, coils):
    kspace = measured(coils=coils)
    path = scan(tmp_path / "file1.h5", kspace)
    for data in (load(path), load(f"fastmri:{tmp_path}")):
        images = stacked(data, "image")
        expected = centred_ifft(kspace).reshape(3, coils or 1, ROWS, WIDTH)
        assert images.dtype == np.complex64
        np.testing.assert_allclose(images, expected, atol=1e-6 * abs(expected).max())
        assert (data.geometry.extent, data.geometry.region) == (((0, ROWS), (3, 33)), REGION)
        assert numbers_of(data) == [0, 1, 2]


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("coils", [None, 3])
def test_fastmri_emulated(tmp_path, coils, stored):
    kspace = measured(coils=coils)
    scan(tmp_path / "file1.h5", kspace, stored)
    data = load(f"fastmri:{tmp_path}", Reading(kspace="emulated"))
    magnitudes = cropped(abs(centred_ifft(kspace)))
    combined = magnitudes if coils is None else np.linalg.norm(magnitudes, axis=1)
    assert stacked(data, "image").dtype == np.float32
    np.testing.assert_allclose(stacked(data, "image")[:, 0], combined * (3 if stored else 1), rtol=1e-4)
    assert (data.shape, data.geometry.extent, data.geometry.region) == ((1, *REGION), (), ())


@pytest.mark.parametrize(
    ("width", "centre", "maximum", "columns"),
    [(372, 166, 331, (20, 352)), (368, 184, 367, (0, 368)), (37, 15, 29, (3, 33)), (36, 18, 30, (0, 31))],
)
def test_fastmri_padding(tmp_path, width, centre, maximum, columns):
    """On the left: encoded matrix // 2 - centre; on the right: from there + maximum + 1, as fastMRI has it."""
    kspace = measured(1, width=width, columns=slice(*columns))
    data = load(scan(tmp_path / "a.h5", kspace, header=mrd_header(width, centre, maximum)))
    assert data.geometry.extent == ((0, ROWS), columns)
    assert Pattern.named("1d", data.shape[1:], extent=data.geometry.extent).units == columns[1] - columns[0]


def test_fastmri_padding_is_not_acquired(knees):
    run = learn(f"fastmri:{knees}", 4, pattern="1d", steps=5)
    lines = run.mask[0]
    assert torch.equal(run.mask, lines.expand(ROWS, WIDTH))
    assert lines[MEASURED].sum() == lines.sum() == 30 // 4
    assert run.record.data.groups == 3
    wasteful = lines.clone()
    wasteful[[0, 36]] = True
    for mask in (run.mask, wasteful):
        assert evaluate(mask, f"fastmri:{knees}").acceleration == pytest.approx(30 / 7)


def test_fastmri_images_are_judged_on_the_reconstructed_matrix(tmp_path):
    kspace = measured(1)
    mask = np.random.default_rng(1).random((ROWS, WIDTH)) < 0.4
    found = evaluate(mask, scan(tmp_path / "a.h5", kspace)).nmse
    image, target = (cropped(abs(centred_ifft(kspace[0] * chosen))) for chosen in (mask, 1))
    image, target = ((values - target.min()) / np.ptp(target) for values in (image, target))
    np.testing.assert_allclose(found, [((image.clip(0, 1) - target) ** 2).sum() / (target**2).sum()], rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask": np.ones(WIDTH, bool)}, "undersampled"),
        ({"kspace": abs(measured())}, "type float32, but complex"),
        ({"kspace": measured()[0]}, "shape [40, 37]"),
        ({"kspace": None}, "no array 'kspace'"),
        ({"ismrmrd_header": b"<ismrmrdHeader><encoding>"}, "header"),
        ({"ismrmrd_header": mrd_header(centre=40)}, "measured columns at -22 to 8"),
        ({"ismrmrd_header": mrd_header(maximum=36)}, "measured columns at 3 to 40"),
        ({"ismrmrd_header": mrd_header().replace(b"encodingLimits", b"nothing")}, "which columns were measured"),
        ({"reconstruction_esc": smooth(2, *REGION)}, "reconstruction_esc"),
        ({"reconstruction_esc": smooth(*REGION)}, "reconstruction_esc"),
    ],
)
@pytest.mark.parametrize("kspace", ["acquired", "emulated"])
def test_fastmri_bad_files(knees, kspace, changes, message):
    path = knees / "singlecoil_train" / "file1000001.h5"
    rewrite(path, **changes)
    text = refusal(f"fastmri:{knees}", kspace=kspace)
    assert str(path) in text
    assert message in text
    with pytest.warns(InputWarning, match="file1000001"):
        assert len(prepare(load(f"fastmri:{knees}", Reading(skip_bad=True, kspace=kspace)))) == 15


@pytest.mark.parametrize("length", [0, 1000, -1000])
def test_fastmri_truncated_files(tmp_path, length):
    path = scan(tmp_path / "a.h5")
    path.write_bytes(path.read_bytes()[:length])
    for data in (path, f"fastmri:{tmp_path}"):
        assert f"{path} is damaged" in refusal(data)


def test_fastmri_files_of_another_width(knees):
    header = mrd_header(width=35, centre=14)
    path = scan(knees / "singlecoil_val" / "file2.h5", measured(width=35), patient="f", header=header)
    assert f"{path} has samples of shape [1, 40, 35] and not [1, 40, 37]" in refusal(f"fastmri:{knees}")
    with pytest.warns(InputWarning, match=r"file2\.h5"):
        left = prepare(load(f"fastmri:{knees}", Reading(skip_bad=True)))
    assert sorted(set(left.groups)) == patients("abcde")
    assert len(load(f"fastmri:{knees}", Reading(kspace="emulated"))) == 21, "the images have one size"
