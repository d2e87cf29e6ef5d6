"""Frames of slices: in every format, the counts tell where a sample lies, and `slices` never cuts a series."""

import itertools

import file_writers
import h5py
import nibabel as nib
import numpy as np
import pydicom
import pytest
import scipy.io
from file_writers import (
    close,
    images_of,
    lines_of,
    refusal,
    same,
    transform,
    write_cfl,
    write_dicom,
    write_mrd,
)

from promask.data.inspection import inspect
from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputError

random = np.random.default_rng(0)
SLICES, FRAMES, HEIGHT, WIDTH = 3, 4, 9, 8
CINE = random.integers(1, 4000, (SLICES, FRAMES, HEIGHT, WIDTH)).astype(np.uint16)
COILS, ECHOES = 2, 2
MEASURED = (2 + random.normal(size=(SLICES, FRAMES, ECHOES, COILS, HEIGHT, WIDTH, 2)) @ [1, 1j]).astype(
    np.complex64
)
"""(slice, frame, contrast, coil, readout, phase encoding)."""
PLACES = list(itertools.product(range(SLICES), range(FRAMES)))


def images(path, **settings):
    """Frame by frame, as readers give them."""
    return file_writers.images(path, each_frame=True, **settings)


def counts_of(source, **settings):
    """As a list, as the order counts."""
    (file,) = load(source, Reading(each_frame=True, **settings)).files
    return list(file.counts.items())


def by_counts(source, **settings):
    """Each sample by what its number says according to the counts: {(slice, frame, contrast): image}."""
    data = load(source, Reading(each_frame=True, **settings))
    (file,) = data.files
    shape = tuple(file.counts.values())
    places = [dict(zip(file.counts, np.unravel_index(number, shape), strict=True)) for number in file.numbers]
    keys = [tuple(int(place.get(role, 0)) for role in ("slice", "frame", "contrast")) for place in places]
    return dict(zip(keys, images_of(file_writers.read(source, each_frame=True, **settings)), strict=True))


def check(source, wanted, **settings):
    """Samples lie where the counts say, (slice, frame, contrast, *sample), and `slices` takes whole series."""
    for slices in (None, (1, 3), (0, 1), (-1, None)):
        chosen = range(len(wanted))[slice(*(slices or (None,)))]
        found = by_counts(source, **settings, slices=slices)
        assert set(found) == set(itertools.product(chosen, *map(range, wanted.shape[1:3])))
        for place, image in found.items():
            close(image, wanted[place])
    assert "no slices to take" in refusal(source, **settings, slices=(len(wanted), None))


def write_series(folder, time, places=PLACES, **fields):
    """A file for each image, in no order: neither names nor instance numbers tell it, unless `time` does."""
    order = random.permutation(len(places))
    for name, index in enumerate(order):
        place, frame = places[index]
        own = {"InstanceNumber": name + 1, **time(frame, name)}
        write_dicom(folder / f"{name}.dcm", CINE[place, frame], -10 * place, **own, **fields)
    return folder


def trigger(frame, name):
    return {"TriggerTime": f"{42.5 * frame}", "AcquisitionTime": f"10{59 - name:02d}30"}


TIMES = {
    "trigger": (trigger, {}),
    "nominal": (lambda frame, name: {"NominalCardiacTriggerDelayTime": 40.0 * frame}, {"TriggerTime": "0"}),
    "position": (lambda frame, name: {"TemporalPositionIdentifier": frame + 1}, {}),
    "equal trigger": (lambda frame, name: {"TemporalPositionIdentifier": frame + 1}, {"TriggerTime": "17"}),
    "some equal": (
        lambda frame, name: {"TriggerTime": [5, 7, 5, 6][frame], "TemporalPositionIdentifier": frame},
        {"EchoTime": "1.5"},
    ),
    "acquisition": (lambda frame, name: {"AcquisitionTime": f"09000{frame}.5"}, {"CardiacNumberOfImages": FRAMES}),
    "content": (
        lambda frame, name: {"ContentTime": f"09000{frame}"},
        {"NumberOfTemporalPositions": FRAMES, "AcquisitionTime": "085900", "TriggerTime": "0"},
    ),
}


@pytest.mark.parametrize("name", TIMES)
def test_dicom_cine(tmp_path, name):
    """Slices in the order of their places, frames in the order of time."""
    time, fields = TIMES[name]
    write_series(tmp_path / "series", time, **fields)
    wanted = CINE[::-1].reshape(-1, 1, HEIGHT, WIDTH)  # the last slice was put at the lowest place
    same(images(tmp_path / "series"), wanted)
    assert counts_of(tmp_path / "series") == [("slice", SLICES), ("frame", FRAMES)]


def test_dicom_cine_by_number(tmp_path):
    for index, (place, frame) in enumerate(reversed(PLACES)):
        fields = {"InstanceNumber": 100 - index, "CardiacNumberOfImages": FRAMES}
        write_dicom(tmp_path / f"{index}.dcm", CINE[place, frame], place, **fields)
    same(images(tmp_path)[:, 0], CINE.reshape(-1, HEIGHT, WIDTH))
    assert counts_of(tmp_path) == [("slice", SLICES), ("frame", FRAMES)]


def test_slices_of_a_dicom_cine(tmp_path):
    """Slices come with all their frames; a volume is that of one frame, with the chosen slices."""
    write_series(tmp_path, trigger)
    cine = CINE[::-1]
    same(images(tmp_path, slices=(1, 2))[:, 0], cine[1])
    same(images(tmp_path, slices=(-2, None))[:, 0], cine[1:].reshape(-1, HEIGHT, WIDTH))
    assert load(tmp_path, Reading(each_frame=True, slices=(1, 2))).files[0].numbers == [4, 5, 6, 7]
    same(images(tmp_path, volumes=True)[:, 0], cine.swapaxes(0, 1))
    same(images(tmp_path, volumes=True, slices=(0, 2))[:, 0], cine[:2].swapaxes(0, 1))
    assert counts_of(tmp_path, volumes=True) == [("frame", FRAMES)]
    for volumes in (False, True):
        assert "no slices to take" in refusal(tmp_path, volumes=volumes, slices=(3, 4))
    found = inspect(tmp_path).description
    assert (found.slices, found.frames) == (SLICES, FRAMES)


def test_one_slice_of_frames_without_a_position(tmp_path):
    """Where an image lies may be told by a single number."""
    fields = {"ImagePositionPatient": None, "ImageOrientationPatient": None}
    for place, frame in PLACES:
        own = {"SliceLocation": f"{-8 * place}", "TriggerTime": f"{-frame}"}
        write_dicom(tmp_path / f"{place}{frame}.dcm", CINE[place, frame], **fields, **own)
    same(images(tmp_path)[:, 0], CINE[::-1, ::-1].reshape(-1, HEIGHT, WIDTH))
    one = tmp_path / "one"
    for frame in range(FRAMES):
        write_dicom(one / f"{frame}.dcm", CINE[0, frame], TriggerTime=f"{frame}")
    assert counts_of(one) == [("slice", 1), ("frame", FRAMES)]


def test_planes_that_cross(tmp_path):
    """Two long axes lie at one place across themselves, but in other directions."""
    directions = [[1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, -1]]
    for place, frame in itertools.product(range(2), range(FRAMES)):
        own = {"ImageOrientationPatient": directions[place], "TriggerTime": f"{frame}", "InstanceNumber": place}
        write_dicom(tmp_path / f"{place}{frame}.dcm", CINE[place, frame], ImagePositionPatient=[0, 0, 0], **own)
    same(images(tmp_path)[:, 0], CINE[:2].reshape(-1, HEIGHT, WIDTH))
    assert counts_of(tmp_path) == [("slice", 2), ("frame", FRAMES)]


def test_slices_with_other_numbers_of_frames(tmp_path):
    folder = write_series(tmp_path / "series", trigger, places=[*PLACES[:3], *PLACES[4:-2]])  # 3, 4 and 2 frames
    sentence = refusal(folder)
    assert "Slice 1 " in sentence
    assert "has 4 frames, but slice 0 has 2" in sentence
    assert "`slices`" in sentence
    same(images(folder, slices=(1, 2))[:, 0], CINE[1])
    same(images(folder, slices=(2, 3))[:, 0], CINE[0, :3])
    write_dicom(tmp_path / "good" / "a.dcm", CINE[0, 0], series="9.9")
    with pytest.warns(UserWarning, match="Left out: Slice 1 "):
        assert len(load(tmp_path, Reading(each_frame=True, skip_bad=True))) == 1


NO_FRAMES = {
    "nothing tells": {},
    "a clock alone": {"AcquisitionTime": "09000{}"},
    "equal times": {"TriggerTime": "8"},
    "echoes": {"TriggerTime": "{}", "EchoTime": "1{}"},
    "inversion times": {"TriggerTime": "{}", "InversionTime": "1{}"},
    "one is promised": {"AcquisitionTime": "09000{}", "CardiacNumberOfImages": "1"},
}


@pytest.mark.parametrize("name", NO_FRAMES)
def test_images_of_one_place_that_are_no_frames(tmp_path, name):
    """They stay slices, in the order of place and number."""
    for number, (place, frame) in enumerate(PLACES):
        fields = {key: text.format(FRAMES - frame) for key, text in NO_FRAMES[name].items()}
        write_dicom(tmp_path / f"{99 - number}.dcm", CINE[place, frame], place, InstanceNumber=number, **fields)
    same(images(tmp_path)[:, 0], CINE.reshape(-1, HEIGHT, WIDTH))
    assert counts_of(tmp_path) == [("slice", SLICES * FRAMES)]


def test_times_that_are_no_numbers(tmp_path):
    """A header that was read before is still read, and frames that it hides are slices."""
    for frame in range(FRAMES):
        path = write_dicom(tmp_path / f"{frame}.dcm", CINE[0, frame], TriggerTime="1234567", InstanceNumber=frame)
        path.write_bytes(path.read_bytes().replace(b"1234567", b"what is"))
    same(images(tmp_path)[:, 0], CINE[0])
    assert counts_of(tmp_path) == [("slice", FRAMES)]


def item(**fields):
    found = pydicom.Dataset()
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def write_enhanced(path, places, time, **fields):
    """A file of several images, with a description of each."""
    parts = [
        item(PlanePositionSequence=[item(ImagePositionPatient=[0, -10 * place, 0])], **time(frame))
        for place, frame in places
    ]
    shared = item(PlaneOrientationSequence=[item(ImageOrientationPatient=[1, 0, 0, 0, 0, -1])])
    pixels = np.stack([CINE[each] for each in places])
    lists = {"PerFrameFunctionalGroupsSequence": parts, "SharedFunctionalGroupsSequence": [shared]}
    nowhere = {"ImagePositionPatient": None, "ImageOrientationPatient": None}
    return write_dicom(path, pixels, NumberOfFrames=len(places), **lists, **nowhere, **fields)


def delayed(frame):
    return {"CardiacSynchronizationSequence": [item(NominalCardiacTriggerDelayTime=30.0 * frame)]}


def numbered(frame):
    return {"FrameContentSequence": [item(TemporalPositionIndex=frame + 1)]}


@pytest.mark.parametrize("time", [delayed, numbered])
def test_enhanced_dicom_cine(tmp_path, time, monkeypatch):
    shuffled = [PLACES[index] for index in random.permutation(len(PLACES))]
    path = write_enhanced(tmp_path / "all" / "a.dcm", shuffled, time)
    opened = []
    original = pydicom.dcmread
    monkeypatch.setattr(pydicom, "dcmread", lambda *args, **kwargs: opened.append(1) or original(*args, **kwargs))
    for source in (path, path.parent):
        same(images(source)[:, 0], CINE[::-1].reshape(-1, HEIGHT, WIDTH))
        assert counts_of(source) == [("slice", SLICES), ("frame", FRAMES)]
    same(images(path, volumes=True)[:, 0], CINE[::-1].swapaxes(0, 1))
    assert len(opened) <= 8, "the pixels are read once for each of three ways"
    for place in range(SLICES):  # a file for each slice
        own = [(place, frame) for frame in reversed(range(FRAMES))]
        write_enhanced(tmp_path / "slices" / f"{place}.dcm", own, time)
    same(images(tmp_path / "slices")[:, 0], CINE[::-1].reshape(-1, HEIGHT, WIDTH))


def test_enhanced_dicom_without_times(tmp_path):
    """Promised frames are in the order of the file; otherwise images stay in that order, as slices."""
    path = write_enhanced(tmp_path / "a.dcm", PLACES, lambda frame: {}, CardiacNumberOfImages=FRAMES)
    same(images(path)[:, 0], CINE[::-1].reshape(-1, HEIGHT, WIDTH))
    assert counts_of(path) == [("slice", SLICES), ("frame", FRAMES)]
    path = write_enhanced(tmp_path / "b.dcm", PLACES, lambda frame: {})
    same(images(path)[:, 0], CINE.reshape(-1, HEIGHT, WIDTH))
    assert counts_of(path) == [("slice", SLICES * FRAMES)]
    part = write_enhanced(tmp_path / "c.dcm", PLACES, delayed)
    file = pydicom.dcmread(part)
    del file.PerFrameFunctionalGroupsSequence[-1]
    file.save_as(part)
    assert counts_of(part) == [("slice", SLICES * FRAMES)], "of one image nothing is known"


def nifti_cine(path, seconds):
    """(x, y, z, frame)."""
    image = nib.Nifti1Image(CINE.transpose(3, 2, 0, 1).astype(np.float32), np.diag([-1, -1, 8, 1]))
    image.header.set_xyzt_units("mm", "sec" if seconds else "unknown")
    image.header.set_zooms((1, 1, 8, 0.05))
    nib.save(image, path)
    return path


@pytest.mark.parametrize("axes", [None, "x y z frame", "x y z t"])
def test_nifti_cine(tmp_path, axes):
    path = nifti_cine(tmp_path / "a.nii.gz", seconds=axes is None)
    check(path, CINE[:, :, None, None, :, ::-1].astype(np.float32), axes=axes)
    assert counts_of(path, axes=axes) == [("slice", SLICES), ("frame", FRAMES)]
    assert counts_of(path, axes=axes, volumes=True) == [("frame", FRAMES)]
    volumes = images(path, axes=axes, volumes=True, slices=(1, 3))
    same(volumes[:, 0], images(path, axes=axes).reshape(SLICES, FRAMES, HEIGHT, WIDTH)[1:].swapaxes(0, 1))


@pytest.mark.parametrize("names", [("phase",), ("repetition",), ("repetition", "phase")])
def test_ismrmrd_cine(tmp_path, names):
    """OCMR has frames of a heartbeat as phases; real-time frames are repetitions; both are frames."""
    counters = [dict(zip(names, (n,) if len(names) == 1 else divmod(n, 2), strict=True)) for n in range(FRAMES)]
    cine = MEASURED[:, :, :1]
    lines = [
        (values, flag, of_line | counters[frame], fields)
        for frame in range(FRAMES)
        for values, flag, of_line, fields in lines_of(transform(cine[:, frame, 0])[..., None])
    ]
    random.shuffle(lines)
    path = write_mrd(tmp_path / "a.h5", lines, (HEIGHT, WIDTH, 1))
    check(path, cine)
    assert counts_of(path) == [("slice", SLICES), ("frame", FRAMES), ("contrast", 1)]


def test_ismrmrd_volumes_of_frames(tmp_path):
    """The slices of a volume of two phase encodings, chosen with all frames; volumes are no slices."""
    volume = np.moveaxis(MEASURED[:, :, 0], 0, -1)  # (frame, coil, x, y, z)
    lines = [
        (values, flag, of_line | {"phase": frame}, fields)
        for frame in range(FRAMES)
        for values, flag, of_line, fields in lines_of(transform(volume[frame][None], (-3, -2, -1)))
    ]
    path = write_mrd(tmp_path / "a.h5", lines, (HEIGHT, WIDTH, SLICES))
    check(path, MEASURED[:, :, :1])
    assert counts_of(path) == [("frame", FRAMES), ("contrast", 1), ("slice", SLICES)]
    close(images(path, volumes=True), volume)
    assert counts_of(path, volumes=True) == [("slice", 1), ("frame", FRAMES), ("contrast", 1)]
    assert len(load(path, Reading(each_frame=True, volumes=True, slices=(0, 1)))) == FRAMES


def test_slices_where_frames_are_missing(tmp_path):
    """Not every slice has every frame: then nothing is counted, but slices are slices."""
    kept = [(0, 0), (0, 1), (1, 0), (2, 1)]
    lines = [
        (values, flag, of_line | {"slice": place, "phase": frame}, fields)
        for place, frame in kept
        for values, flag, of_line, fields in lines_of(transform(MEASURED[place, frame, :1])[..., None])
    ]
    path = write_mrd(tmp_path / "a.h5", lines, (HEIGHT, WIDTH, 1))
    assert counts_of(path) == []
    close(images(path), np.stack([MEASURED[place][frame, 0] for place, frame in kept]))
    close(images(path, slices=(0, 1)), MEASURED[0, :2, 0])
    close(images(path, slices=(1, 3)), MEASURED[[1, 2], [0, 1], 0])


@pytest.mark.parametrize("version", [5, 7])
def test_cmrxrecon_cine(tmp_path, version):
    """(kx, ky, coil, slice, frame) in MATLAB."""
    path, kspace = tmp_path / "cine_sax.mat", transform(MEASURED[:, :, 0]).transpose(3, 4, 2, 0, 1)
    if version == 5:
        scipy.io.savemat(path, {"kspace_full": kspace})
    else:
        with h5py.File(path, "w", userblock_size=512) as file:
            file["kspace_full"] = kspace.T.astype(np.complex64).view([("real", "f4"), ("imag", "f4")])
        with path.open("r+b") as file:
            file.write(b"MATLAB 7.3 MAT-file".ljust(128))
    check(path, MEASURED[:, :, :1])
    assert counts_of(path) == [("frame", FRAMES), ("slice", SLICES)]


@pytest.mark.parametrize(
    "along", [{"slice": 13}, {"slice": 2}, {"slice": 13, "contrast": 5}, {"slice": 2, "contrast": 5}]
)
def test_bart_cine(tmp_path, along):
    """Frames are BART's axis 10; slices are axis 13, or the third direction."""
    cine = MEASURED if "contrast" in along else MEASURED[:, :, :1]
    axes = {"slice": along["slice"], "frame": 10, "contrast": 5, "coil": 3, "x": 0, "y": 1}
    order = sorted(axes, key=axes.get)
    shape = [1] * 16
    for name, n in zip(axes, cine.shape, strict=True):
        shape[axes[name]] = n
    path = write_cfl(tmp_path / "a.cfl", cine.transpose([list(axes).index(name) for name in order]).reshape(shape))
    check(path, cine, holds="image")
    roles = sorted({"frame": 10, **along}, key={"frame": 10, **along}.get, reverse=True)
    assert [name for name, n in counts_of(path, holds="image")] == roles


def test_bart_slices_with_frames_between_them(tmp_path):
    """Slices along z and along axis 13, with frames along 10 and 11: slices count together, and so do frames."""
    values = random.normal(size=(5, 4, 2, 1, 1, 1, 1, 1, 1, 1, 2, 3, 1, 3)) + 0j
    path = write_cfl(tmp_path / "a.cfl", values)
    grouped = values.squeeze().transpose(5, 2, 4, 3, 0, 1).reshape(6, 6, 1, 1, 5, 4)
    check(path, grouped.astype(np.complex64), holds="image")
    assert counts_of(path, holds="image") == [("frame", 6), ("slice", 6)]
    volumes = values.squeeze().transpose(5, 4, 3, 0, 1, 2).reshape(18, 1, 5, 4, 2)
    close(images(path, holds="image", volumes=True), volumes.astype(np.complex64))
    assert counts_of(path, holds="image", volumes=True) == [("slice", 3), ("frame", 6)]


ORDERS = [
    "frame slice y x",
    "slice frame y x",
    "y x frame slice",
    "y x slice frame",
    "slice y frame x",
    "frame y x slice",
]


@pytest.mark.parametrize("axes", ORDERS)
@pytest.mark.parametrize("kind", ["npy", "h5", "mat"])
def test_arrays_of_frames(tmp_path, axes, kind):
    """Whatever the order of the axes; the array in memory has the same samples."""
    names = axes.split()
    array = CINE.astype(np.float32).transpose([("slice", "frame", "y", "x").index(name) for name in names])
    path = tmp_path / f"a.{kind}"
    if kind == "npy":
        np.save(path, array)
    elif kind == "mat":
        scipy.io.savemat(path, {"image": array})
    else:
        with h5py.File(path, "w") as file:
            file["image"] = array
    check(path, CINE[:, :, None, None].astype(np.float32), axes=axes)
    stored = names[::-1] if kind == "mat" else names
    assert [name for name, _ in counts_of(path, axes=axes)] == [name for name in stored if len(name) > 1]


@pytest.mark.parametrize("axes", ORDERS)
def test_arrays_of_frames_in_memory(axes):
    """The counts are those of the slices that were taken."""
    names = axes.split()
    array = CINE.astype(np.float32).transpose([("slice", "frame", "y", "x").index(name) for name in names])
    data = load(array, Reading(each_frame=True, axes=axes, slices=(1, 3)))
    assert dict(data.counts) == {"slice": 2, "frame": FRAMES}
    wanted = CINE[1:] if names.index("slice") < names.index("frame") else CINE[1:].swapaxes(0, 1)
    same(images_of(data)[:, 0], wanted.reshape(-1, HEIGHT, WIDTH))
    assert list(data.counts) == [name for name in names if len(name) > 1]


def test_a_single_series(tmp_path):
    """Frames alone are one slice; positions of hybrid space, and contrasts, are chosen as slices are."""
    np.save(tmp_path / "a.npy", CINE[0].astype(np.float32))
    for source in (tmp_path / "a.npy", CINE[0].astype(np.float32)):
        assert len(load(source, Reading(each_frame=True, axes="frame y x", slices=(0, 1)))) == FRAMES
        with pytest.raises(InputError, match="no slices to take"):
            load(source, Reading(each_frame=True, axes="frame y x", slices=(1, 2)))
    np.save(tmp_path / "b.npy", transform(MEASURED[:, :, 0]))
    data = load(tmp_path / "b.npy", Reading(each_frame=True, axes="x frame coil ky kz", slices=(1, 2)))
    assert data.files[0].numbers == [FRAMES + frame for frame in range(FRAMES)]
    np.save(tmp_path / "c.npy", transform(MEASURED[0]))
    data = load(tmp_path / "c.npy", Reading(each_frame=True, axes="frame contrast coil ky kx", slices=(1, 2)))
    assert data.files[0].numbers == [2 * frame + 1 for frame in range(FRAMES)]
