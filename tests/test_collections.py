"""The data sets of the paper, from small files in their true layouts."""

import json
import shutil

import h5py
import nibabel
import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter

from helpers import check_data_set
from promask import evaluate, learn
from promask.cli import main
from promask.data import COLLECTIONS, choose_part, load, prepared
from promask.data.fastmri_plus import Box, read_boxes
from promask.errors import InputError, InputWarning
from promask.patterns import Pattern
from promask.reading import Reading


def stacked(data, what):
    return np.stack([getattr(data[index], what) for index in range(len(data))])


def numbers_of(data):
    return [int(data[index].name.rpartition(" ")[2]) for index in range(len(data))]


def parts(data):
    return [sorted(set(choose_part(data, part, "all")[0].groups)) for part in ("train", "test")]


def smooth(*shape, seed=0):
    """Positive numbers that vary slowly along the last two axes."""
    noise = np.random.default_rng(seed).random(shape)
    values = gaussian_filter(noise, [0] * (len(shape) - 2) + [6, 6], mode="wrap")
    return ((values - values.min()) / np.ptp(values) + 0.1).astype(np.float32)


def nifti(path, values, affine=(-1, -1, 1)):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(values, np.diag([*affine, 1.0]) if len(affine) == 3 else affine), path)


def upright(path):
    """(slice, row, column), rows from the front and columns from the left of the body, by nibabel."""
    canonical = np.asarray(nibabel.as_closest_canonical(nibabel.load(path)).dataobj)
    return np.swapaxes(canonical, 0, 2)[:, ::-1]


def refusal(data, **reading):
    """What is said when the data are read: one sentence."""
    with pytest.raises(InputError) as error:
        prepared(load(data, Reading(**reading)))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600
    return str(error.value)


# ACDC

LEVELS = [0.4, 0.6, 0.8]


def patient(part, number, size=(216, 256), depth=7, ed=1, gt=True, affine=(-1.5, -1.5, 10.0)):
    """The folder of a patient, with the frames at the end of diastole and of systole; labels are thresholds."""
    folder = part / f"patient{number:03d}"
    for frame in (ed, ed + 11):
        image = np.moveaxis(smooth(depth, *size, seed=[number, frame]), 0, 2)
        nifti(folder / f"{folder.name}_frame{frame:02d}.nii.gz", image, affine)
        if gt:
            labels = np.digitize(image, LEVELS).astype(np.uint8)
            nifti(folder / f"{folder.name}_frame{frame:02d}_gt.nii.gz", labels, affine)
    info = f"ED: {ed}\nES: {ed + 11}\nGroup: DCM\nHeight: 184.0\nNbFrame: 30\nWeight: 95.0\n"
    (folder / "Info.cfg").write_text(info)
    return folder / f"{folder.name}_frame{ed:02d}.nii.gz"


@pytest.fixture
def database(tmp_path):
    for number in (1, 2, 3):
        patient(tmp_path / "database" / "training", number)
    patient(tmp_path / "database" / "testing", 101, depth=6, gt=False)
    return tmp_path / "database"


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


SWAPPED = np.array([[0, 2.0, 0, 0], [-2.0, 0, 0, 0], [0, 0, 8.0, 0], [0, 0, 0, 1]])


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
        left = prepared(load(f"acdc:{database}", Reading(skip_bad=True)))
    assert set(left.groups) == {"patient001", "patient003", "patient101"}


# BraTS

PLANE = (24, 20)
BEFORE_2023 = ("BraTS20_Training_{:03d}", "_", ("flair", "t1", "t1ce", "t2"), (0, 2, 1, 4))
SINCE_2023 = ("BraTS-GLI-{:05d}-000", "-", ("t2f", "t1n", "t1c", "t2w"), (0, 2, 1, 3))
"""The folders, and the labels of the challenge for nothing, oedema, core, and what enhances."""


def brain(number, plane=PLANE, depth=155):
    """Four contrasts with a few values far off, and regions: 0 nothing to 3 what enhances."""
    random = np.random.default_rng(number)
    contrasts = random.integers(0, 1000, (*plane, depth, 4)).astype(np.int16) * np.int16([1, 2, 3, 4])
    contrasts[0, 0, :3] = 30000
    return contrasts, random.integers(0, 4, (*plane, depth)).astype(np.uint8)


def index_of(root, *names):
    entries = [{"image": f"./imagesTr/{name}.nii.gz", "label": f"./labelsTr/{name}.nii.gz"} for name in names]
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset.json").write_text(json.dumps({"name": root.name, "training": entries}))


def decathlon(root, numbers=(1, 2, 3), plane=PLANE):
    names = [f"BRATS_{number:03d}" for number in numbers]
    for number, name in zip(numbers, names, strict=True):
        for folder, values in zip(("imagesTr", "labelsTr"), brain(number, plane), strict=True):
            nifti(root / folder / f"{name}.nii.gz", values)
    index_of(root, *names)
    return root


def all_tasks(root):
    decathlon(root / "Task01_BrainTumour")
    for task in ("Task02_Heart", "Task03_Liver", "Task05_Prostate", "Task10_Colon"):
        index_of(root / task, "la_003")


def challenge(root, layout, number=1):
    name, join, ends, stored = layout
    name = name.format(number)
    contrasts, regions = brain(number)
    for index, end in enumerate(ends):
        nifti(root / name / f"{name}{join}{end}.nii.gz", contrasts[..., index])
    nifti(root / name / f"{name}{join}seg.nii.gz", np.array(stored, np.uint8)[regions])


LAYOUTS = {
    "decathlon": decathlon,
    "all tasks": all_tasks,
    "2020": lambda root: challenge(root / "MICCAI_BraTS2020_TrainingData", BEFORE_2023),
    "2023": lambda root: challenge(root, SINCE_2023),
}


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
        assert set(prepared(load(data, Reading(skip_bad=True))).groups) == {"BRATS_001"}


def test_brats_odd_volumes(tmp_path):
    data = f"brats:{decathlon(tmp_path, (1,), (4, 4))}"
    assert "155 slices, but those of 200:210" in refusal(data, slices=(200, 210))
    contrasts = brain(1, (4, 4))[0].astype(np.float32)
    contrasts[..., 2] = 0
    contrasts[2, 2, 70, 2] = 500
    nifti(tmp_path / "imagesTr" / "BRATS_001.nii.gz", contrasts)
    assert prepared(load(data))[10].image[2].unique(return_counts=True)[1].tolist() == [256**2 - 1, 1]


# fastMRI

ROWS, WIDTH, REGION = 40, 37, (20, 20)
MEASURED = slice(3, 33)
"""Of 37 columns: from 37 // 2 - 15, where the centre is at 15 of 30."""


def mrd_header(width=WIDTH, centre=15, maximum=29):
    return f"""<?xml version="1.0" encoding="utf-8"?>
<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD" xmlns:xs="http://www.w3.org/2001/XMLSchema"><encoding>
<encodedSpace><matrixSize><x>{ROWS}</x><y>{width}</y><z>1</z></matrixSize></encodedSpace>
<reconSpace><matrixSize><x>{REGION[0]}</x><y>{REGION[1]}</y><z>1</z></matrixSize></reconSpace><encodingLimits>
<kspace_encoding_step_0><minimum>0</minimum><maximum>639</maximum><center>320</center></kspace_encoding_step_0>
<kspace_encoding_step_1><minimum>0</minimum><maximum>{maximum}</maximum><center>{centre}</center>
</kspace_encoding_step_1></encodingLimits><trajectory>cartesian</trajectory></encoding></ismrmrdHeader>""".encode()


def centred_ifft(kspace):
    shifted = np.fft.ifftshift(kspace, axes=(-2, -1))
    return np.fft.fftshift(np.fft.ifft2(shifted, norm="ortho"), axes=(-2, -1))


def cropped(images):
    rows, columns = ((n - wanted) // 2 for n, wanted in zip(images.shape[-2:], REGION, strict=True))
    return images[..., rows : rows + REGION[0], columns : columns + REGION[1]]


def measured(slices=3, coils=None, width=WIDTH, columns=MEASURED, seed=0):
    """The k-space of smooth images with phase, zero outside of the measured columns."""
    random = np.random.default_rng(seed)
    shape = (slices, ROWS, width) if coils is None else (slices, coils, ROWS, width)
    squares = (np.arange(ROWS)[:, None] - ROWS // 2) ** 2 + (np.arange(width) - width // 2) ** 2
    kspace = 1e-4 / (1 + squares) * (random.normal(size=shape) + 1j * random.normal(size=shape))
    kspace[..., : columns.start] = kspace[..., columns.stop :] = 0
    return kspace.astype(np.complex64)


def scan(path, kspace=None, stored=True, patient="p1", header=None, **more):
    """A file of fastMRI; its reference image is three times as bright, to be told from one computed here."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kspace = measured() if kspace is None else kspace
    with h5py.File(path, "w") as file:
        file["kspace"], file["ismrmrd_header"] = kspace, header or mrd_header()
        if stored:
            image = 3 * cropped(abs(centred_ifft(kspace))).astype("f4")
            image = image if kspace.ndim == 3 else np.linalg.norm(image, axis=1)
            file["reconstruction_esc" if kspace.ndim == 3 else "reconstruction_rss"] = image
            file.attrs.update({"max": image.max(), "norm": np.linalg.norm(image)})
        file.attrs.update({"acquisition": "CORPD_FBK", "patient_id": patient})
        for name, values in more.items():
            file[name] = values
    return path


@pytest.fixture
def knees(tmp_path):
    """Three patients to learn from, one with two scans, and two held out."""
    folders = ["train"] * 4 + ["val"] * 2
    for index, (folder, patient) in enumerate(zip(folders, "abbcde", strict=True)):
        path = tmp_path / "knees" / f"singlecoil_{folder}" / f"file100000{index}.h5"
        scan(path, measured(seed=index), patient=patient)
    return tmp_path / "knees"


def test_fastmri_folders_are_the_parts(knees):
    data = load(f"fastmri:{knees}")
    check_data_set(data)
    assert len(data) == 18
    assert parts(data) == [["a", "b", "c"], ["d", "e"]]
    train, test = parts(load(f"fastmri:{knees / 'singlecoil_train'}"))
    assert sorted([*train, *test]) == ["a", "b", "c"]
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
    assert run.about["data"]["groups"] == 3
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


def rewrite(path, **changes):
    with h5py.File(path, "r+") as file:
        for name, values in changes.items():
            file.pop(name, None)
            if values is not None:
                file[name] = values


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask": np.ones(WIDTH, bool)}, "undersampled"),
        ({"kspace": abs(measured())}, "type float32, but complex"),
        ({"kspace": measured()[0]}, "shape [40, 37]"),
        ({"kspace": None}, "no `kspace`"),
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
        assert len(prepared(load(f"fastmri:{knees}", Reading(skip_bad=True, kspace=kspace)))) == 15


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
        left = prepared(load(f"fastmri:{knees}", Reading(skip_bad=True)))
    assert sorted(set(left.groups)) == list("abcde")
    assert len(load(f"fastmri:{knees}", Reading(kspace="emulated"))) == 21, "the images have one size"


# fastMRI+

TABLE = """file,slice,study_level,x,y,width,height,label
file1000000,1,No,4,2,9,6,Meniscus Tear
file1000000,1,No,5,3,2,3,Bone- Subchondral edema
file1000000,0,Yes,,,,,Artifact
file1000004,2,No,15,12,9,12,Cartilage - Full Thickness loss/defect
file9999999,0,No,1,1,2,2,Joint Effusion
"""


def drawn(*boxes):
    """Labels as the annotators saw them, turned upside down."""
    seen = np.zeros(REGION, int)
    for rows, columns, number in boxes:
        seen[rows, columns] = number
    return seen[::-1]


FIRST = drawn((slice(2, 8), slice(4, 13), 4), (slice(3, 6), slice(5, 7), 1))
SECOND = drawn((slice(12, 20), slice(15, 20), 2))


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
    assert parts(data) == [["a"], ["d"]]
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


# All of them


@pytest.mark.parametrize(
    ("collection", "learned", "held_out"),
    [("acdc", (9, 3), 2), ("brats", (2, 2), 1), ("fastmri", (12, 3), 6), ("fastmri+", (1, 1), 1)],
)
def test_command_line(request, tmp_path, capsys, collection, learned, held_out):
    more = []
    if collection == "acdc":
        root = request.getfixturevalue("database")
    elif collection == "brats":
        root, more = decathlon(tmp_path / "brains"), ["--slices", "70:71"]
    else:
        root = request.getfixturevalue("knees")
        (root / "knee.csv").write_text(TABLE)
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as stop:
        main(["learn", f"{collection}:{root}", "--accel", "8", "--steps", "3", "--out", str(out), *more])
    assert stop.value.code == 0, capsys.readouterr().err
    about = json.loads((out / "run.json").read_text())["about"]
    assert about["data"]["source"] == f"{collection}:{root}"
    assert (about["data"]["part"], about["data"]["images"], about["data"]["groups"]) == ("train", *learned)
    assert (about["evaluation"]["part"], about["evaluation"]["images"]) == ("test", held_out)


def test_refusals(tmp_path):
    wanted = ["patient001", "dataset.json", "singlecoil_train", "singlecoil_train"]
    for collection, word in zip(COLLECTIONS, wanted, strict=True):
        (tmp_path / collection).mkdir()
        assert word in refusal(f"{collection}:{tmp_path / collection}")
    patient(tmp_path, 1)
    challenge(tmp_path, BEFORE_2023)
    scan(tmp_path / "file1000000.h5")
    (tmp_path / "knee.csv").write_text(TABLE)
    for collection in COLLECTIONS:
        assert "leave out the volumes" in refusal(f"{collection}:{tmp_path}", volumes=True)
