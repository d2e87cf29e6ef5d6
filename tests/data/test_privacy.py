"""Headers tell who a patient is; nothing that promask writes or says does."""

import gzip
import logging
import re
import traceback

import h5py
import numpy as np
import pytest
from canaries import BORN, FILES, IMAGES, NAME, PATIENT, WORD, dicom, found_in, leaks, with_subject
from file_writers import put, write_dicom
from layouts import mrd_header, scan
from masks import CARTESIAN

from promask.cli.main import main
from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputError
from promask.studio.processes import describe

BASELINE = ("baseline", "--accel", 2, "--out", "mask.npy", "energy")
LEARN = ("learn", "--accel", 2, "--steps", 2, "--out", "run")


@pytest.fixture
def said(capfd, caplog, monkeypatch, tmp_path):
    """Run a command with `--debug`: all that it says, tracebacks and the logs of other packages included."""
    monkeypatch.setenv("PROMASK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)

    def call(*words, broken=False):
        with pytest.raises((SystemExit, InputError) if broken else SystemExit) as stop:
            main([*map(str, words), "--debug"])
        captured = capfd.readouterr()
        assert broken or stop.value.code == 0, captured.err
        shown = "".join(traceback.format_exception(stop.value))
        return captured.out + captured.err + caplog.text + shown

    return call


@pytest.fixture
def folder(tmp_path):
    """For data; whatever lies beside it was written by promask."""
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.mark.filterwarnings("ignore::promask.errors.InputWarning")
@pytest.mark.parametrize("kind", FILES)
def test_reading_tells_nothing_of_patients(tmp_path, folder, said, kind):
    data = FILES[kind](folder)
    assert leaks(folder), "the search finds what there is"
    text = said(*BASELINE, data)
    text += said("evaluate", "mask.npy", data, "--json")
    text += str(describe((str(data), Reading()), lambda *_: None))
    assert found_in(text) == []
    assert leaks(tmp_path, apart=[folder]) == []
    headers = kind in ("dicom", "fastmri")
    assert len(set(load(data).groups)) >= 2 or not headers, "patients are told apart"
    assert not headers or not any(WORD in group for group in load(data).groups)


@pytest.mark.parametrize("kind", ["fastmri", "npz"])
def test_learning_tells_nothing_of_patients(tmp_path, folder, said, kind):
    data = FILES[kind](folder)
    assert found_in(said(*LEARN, data)) == []
    assert (tmp_path / "run" / "report.html").stat().st_size > 1000
    assert (tmp_path / "cache").is_dir()
    assert leaks(tmp_path, apart=[folder]) == []


def test_all_commands_tell_nothing_of_patients(tmp_path, folder, said):
    data = dicom(folder)
    text = said(*LEARN, data)
    text += said(
        "compare",
        data,
        "--accel",
        2,
        "--methods",
        "energy",
        "centre",
        "--seeds",
        1,
        "--jobs",
        1,
        "--out",
        "compared",
    )
    text += said("figure", "reconstructions", "run", "--data", data, "--out", "images")
    text += "".join(said("export", "run", "--to", name, "--out", f"mask-{name}") for name in CARTESIAN)
    assert found_in(text) == []
    assert leaks(tmp_path, apart=[folder]) == []


BROKEN_XML = {
    "entity": "<a>&CANARY;</a>",
    "tag": "<CANARY^JANE>",
    "end": "<CANARY></DOE>",
    "encoding": '<?xml version="1.0" encoding="CANARY"?><a/>',
    "prefix": "<CANARY:a/>",
    "cut": with_subject(mrd_header().decode())[:300],
    "trajectory": mrd_header().decode().replace("cartesian", NAME),
    "matrix": re.sub("<x>.*?</x>", f"<x>{NAME}</x>", mrd_header().decode()),
    "limits": re.sub("<maximum>.*?</maximum>", f"<maximum>{NAME}</maximum>", mrd_header().decode()),
}


@pytest.mark.parametrize("fault", BROKEN_XML)
@pytest.mark.parametrize("layout", ["fastmri", "ismrmrd"])
def test_broken_headers_of_raw_data_are_not_quoted(folder, said, fault, layout):
    if layout == "fastmri":
        path = scan(folder / "a.h5", header=BROKEN_XML[fault].encode())
    else:
        path = FILES["ismrmrd"](folder)
        with h5py.File(path, "r+") as file:
            file["dataset/xml"][0] = BROKEN_XML[fault]
    assert found_in(said(*BASELINE, path, broken=True)) == []


NUMBER = b"87654321"
BROKEN_DICOM = {
    "instance": ({"InstanceNumber": 87654321}, NUMBER, b"CANARY^J"),
    "frames": ({"NumberOfFrames": 87654321}, NUMBER, b"CANARY^J"),
    "place": ({"ImagePositionPatient": [8765432, 1, 2]}, NUMBER[:7], b"CANARY^"),
    "slope": ({"RescaleSlope": "87654321", "RescaleIntercept": "0"}, NUMBER, b"CANARY^J"),
    "series": ({"SeriesInstanceUID": "87654321"}, NUMBER, b"CANARY^J"),
    "characters": ({"SpecificCharacterSet": "ISO_IR 100"}, b"ISO_IR 100", b"CANARY^JAN"),
    "colours": ({"PhotometricInterpretation": "MONOCHROME2"}, b"MONOCHROME2", b"CANARY^JANE"),
    "syntax": ({}, b"1.2.840.10008.1.2.1", b"CANARY^JANE 4711471"),
    "length": ({"PatientComments": "x" * 40}, b"LT\x28\x00" + b"x" * 40, b"LT\xff\x7f" + b"CANARY^J" * 5),
    "kind": ({"PatientComments": "x" * 40}, b"LT\x28\x00", b"CA\x28\x00"),
}


@pytest.mark.parametrize("fault", BROKEN_DICOM)
def test_broken_headers_of_dicom_are_not_quoted(tmp_path, folder, said, fault):
    fields, before, after = BROKEN_DICOM[fault]
    pixels = (1000 * IMAGES[:1]).astype(np.uint16)
    pixels = pixels if "NumberOfFrames" in fields else pixels[0]
    path = write_dicom(folder / "a.dcm", pixels, patient=PATIENT, **fields)
    content = path.read_bytes()
    assert content.count(before) == 1
    assert len(before) == len(after)
    put(path, content.replace(before, after))
    assert found_in(said(*BASELINE, path, broken=True)) == []
    assert leaks(tmp_path, apart=[folder]) == []


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
def test_files_that_were_cut_are_not_quoted(folder, said, kind, share):
    data = FILES[kind](folder)
    for path in [data] if data.is_file() else sorted(data.iterdir()):
        put(path, int(share * path.stat().st_size))
    assert found_in(said(*BASELINE, data, broken=True)) == []


def test_bytes_that_were_changed_are_not_quoted(folder, said):
    """Of the headers of NIfTI, MATLAB, NumPy and BART, which other packages parse."""
    path = FILES["nifti"](folder)
    content = gzip.decompress(path.read_bytes())
    for place, bytes_there in [(0, b"CANA"), (40, b"CANARY^J"), (70, b"CA"), (344, b"CANA"), (352, b"CANARY^J")]:
        put(path, gzip.compress(content[:place] + bytes_there + content[place + len(bytes_there) :]))
        assert found_in(said(*BASELINE, path, broken=True)) == [], place
    for kind, old, new in [
        ("matlab", b"image\x00\x00\x00", b"CANARY\x00\x00"),
        ("npz", b"'descr'", b"'CANAR'"),
        ("npz", b"(6, 24, 20)", b"CANARY^JANE"),
        ("bart", b"# Dimensions\n24", b"# Dimensions\nCA"),
        ("bart", b"# Dimensions", b"# CANARY^JANE"[:12]),
    ]:
        path = FILES[kind](folder)
        path = path.with_suffix(".hdr") if kind == "bart" else path
        content = path.read_bytes()
        assert old in content, kind
        put(path, content.replace(old, new))
        assert found_in(said(*BASELINE, path, "--holds", "image", broken=True)) == [], (kind, old)


def test_masks_that_are_none_are_not_quoted(folder, said):
    """Data in place of a mask: an error of a reader of masks."""
    for kind in ("matlab", "hdf5", "fastmri", "ismrmrd"):
        data = FILES[kind](folder)
        mask = data if data.is_file() else next(data.glob("*.h5"))
        assert found_in(said("evaluate", mask, "head", broken=True)) == [], kind


def test_born_is_searched_for():
    assert found_in(f"x{BORN}y".encode("utf-16-le")) == [BORN]
