"""The layouts of ACDC, BraTS and fastMRI in small files."""

import hashlib
import json

import h5py
import nibabel
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from promask.data.file_set import prepare
from promask.data.reading import Reading
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.errors import InputError


def stacked(data, what):
    return np.stack([getattr(data[index], what) for index in range(len(data))])


def numbers_of(data):
    return [int(data[index].name.rpartition(" ")[2]) for index in range(len(data))]


def parts(data):
    return [sorted(set(choose_part(data, part, "all")[0].groups)) for part in ("train", "test")]


def patients(names):
    """What stands for these patients: the beginning of a hash."""
    return sorted(f"patient-{hashlib.sha256(name.encode()).hexdigest()[:12]}" for name in names)


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
        prepare(load(data, Reading(**reading)))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600
    return str(error.value)


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


def make_database(tmp_path):
    for number in (1, 2, 3):
        patient(tmp_path / "database" / "training", number)
    patient(tmp_path / "database" / "testing", 101, depth=6, gt=False)
    return tmp_path / "database"


SWAPPED = np.array([[0, 2.0, 0, 0], [-2.0, 0, 0, 0], [0, 0, 8.0, 0], [0, 0, 0, 1]])

PLANE = (24, 20)

BEFORE_2023 = ("BraTS20_Training_{:03d}", "_", ("flair", "t1", "t1ce", "t2"), (0, 2, 1, 4))

SINCE_2023 = ("BraTS-GLI-{:05d}-000", "-", ("t2f", "t1n", "t1c", "t2w"), (0, 2, 1, 3))


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

ROWS, WIDTH, REGION = 40, 37, (20, 20)

MEASURED = slice(3, 33)


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


def make_knees(tmp_path):
    """Three patients to learn from, one with two scans, and two held out."""
    folders = ["train"] * 4 + ["val"] * 2
    for index, (folder, patient) in enumerate(zip(folders, "abbcde", strict=True)):
        path = tmp_path / "knees" / f"singlecoil_{folder}" / f"file100000{index}.h5"
        scan(path, measured(seed=index), patient=patient)
    return tmp_path / "knees"


def rewrite(path, **changes):
    with h5py.File(path, "r+") as file:
        for name, values in changes.items():
            file.pop(name, None)
            if values is not None:
                file[name] = values


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
