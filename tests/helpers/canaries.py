"""Files whose headers are full of words that must not come out, and a search for these words."""

import base64
import gzip
import hashlib
import io
import re
import zipfile
import zlib

import h5py
import nibabel
import numpy as np
import pydicom
import scipy.io
from file_writers import SCAN, lines_of, write_cfl, write_dicom, write_mrd, write_v7_3
from layouts import mrd_header, scan, smooth
from pydicom.datadict import DicomDictionary, keyword_for_tag
from twix_writer import twix_lines, write_twix

WORD = "CANARY"
PATIENT, NAME, BORN, UID = f"{WORD}-4711", f"{WORD}^JANE", "19470711", "1.2.840.47114711"
BORN_IN_XML = "1947-07-11"
PATIENTS = [PATIENT, *(f"{PATIENT}{number}" for number in range(4))]
HASHES = [hashlib.sha256(text.encode()).hexdigest() for text in (*PATIENTS, NAME, BORN, BORN_IN_XML, UID)]
CANARIES = [WORD, "47114711", BORN, BORN_IN_XML, *(digest[:12] for digest in HASHES)]
"""A hash of a number gives it away to whoever tries all numbers."""
IMAGES = smooth(6, 24, 20)

SUBJECT = f"""<subjectInformation><patientName>{NAME}</patientName><patientID>{PATIENT}</patientID>
<patientBirthdate>{BORN_IN_XML}</patientBirthdate><patientGender>F</patientGender></subjectInformation>
<studyInformation><studyDate>{BORN_IN_XML}</studyDate><studyID>{PATIENT}</studyID><studyInstanceUID>{UID}</studyInstanceUID>
<referringPhysicianName>{NAME}</referringPhysicianName><studyDescription>{WORD}</studyDescription></studyInformation>
<measurementInformation><measurementID>{PATIENT}</measurementID><protocolName>{WORD}</protocolName>
<seriesInstanceUIDRoot>{UID}</seriesInstanceUIDRoot><frameOfReferenceUID>{UID}</frameOfReferenceUID></measurementInformation>
<acquisitionSystemInformation><systemVendor>{WORD}</systemVendor><institutionName>{WORD}</institutionName>
<stationName>{WORD}</stationName><deviceID>{WORD}</deviceID></acquisitionSystemInformation>"""
USER = f"""<userParameters><userParameterString><name>{WORD}</name><value>{NAME}</value></userParameterString>
</userParameters>"""


def with_subject(header):
    """The text of an ISMRMRD header with all that it may say of a patient."""
    text = re.sub(r"(<ismrmrdHeader[^>]*>)", rf"\1{SUBJECT}", header)
    return text.replace("</ismrmrdHeader>", f"{USER}</ismrmrdHeader>")


def attributes(item):
    item.attrs.update({"patient_id": PATIENT, "patient_name": NAME, WORD: BORN, "institution": WORD, "uid": UID})


def dicom(folder, **fields):
    """Two patients; every element of the standard that holds text, or a date or a UID, holds a canary."""
    texts = {"PN": NAME, "DA": BORN, "DT": BORN, "UI": UID, "AE": WORD, "SH": WORD}
    texts |= dict.fromkeys(("LO", "LT", "ST", "UT", "UC", "UR"), PATIENT)
    read = ("SeriesInstanceUID", "PatientID", "SpecificCharacterSet", "SOPClassUID", "RescaleType")
    filled = {}
    for tag, (kind, many, *_, retired, keyword) in DicomDictionary.items():
        known = keyword and keyword not in read and keyword_for_tag(tag) == keyword and not retired
        if known and kind in texts and many in ("1", "1-n") and 0x0008 <= tag >> 16 <= 0x0040:
            filled[keyword] = texts[kind]
    assert {"PatientName", "PatientBirthDate", "InstitutionName", "StudyInstanceUID"} <= set(filled)
    nested = pydicom.Dataset()
    nested.PatientName, nested.PatientID = NAME, PATIENT
    filled["OtherPatientIDsSequence"] = [nested]
    for index, image in enumerate(IMAGES):
        patient, series = f"{PATIENT}{index // 3 or ''}", f"{UID}.{index // 3}"
        values = (1000 * image).astype(np.uint16)
        path = write_dicom(folder / f"{index}.dcm", values, index, patient, series, **filled | fields)
        with pydicom.config.disable_value_validation():
            whole = pydicom.dcmread(path)
        block = whole.private_block(0x0009, WORD, create=True)
        block.add_new(1, "LO", NAME)
        whole.file_meta.SourceApplicationEntityTitle = whole.file_meta.ImplementationVersionName = WORD
        whole.preamble = NAME.encode().ljust(128)
        pydicom.dcmwrite(path, whole)
    return folder


def ismrmrd_file(folder):
    path = write_mrd(folder / "a.h5", lines_of(SCAN), (9, 8, 1))
    with h5py.File(path, "r+") as file:
        file["dataset/xml"][0] = with_subject(file["dataset/xml"][0].decode())
        attributes(file)
        attributes(file["dataset"])
        attributes(file["dataset/data"])
    return path


def twix_file(folder):
    changes = {
        "tProtocolName": f'"{WORD}"',
        "sKSpace.lBirthday": BORN,
        "sKSpace.tPatientID": PATIENT,
        "sSliceArray.asSlice[0].dUID": UID,
    }
    return write_twix(folder / "a.dat", twix_lines(SCAN[..., :8, :, :]), (8, 8, 1), patient=NAME, **changes)


def fastmri_files(folder):
    for index in range(4):
        path = scan(
            folder / f"{index}.h5", patient=f"{PATIENT}{index}", header=with_subject(mrd_header().decode())
        )
        with h5py.File(path, "r+") as file:
            attributes(file["kspace"])
            file.attrs.update({"acquisition": WORD, "patient_name": NAME})
    return folder


def nifti_file(folder):
    image = nibabel.Nifti1Image(IMAGES.transpose(2, 1, 0), np.eye(4))
    image.header["descrip"], image.header["db_name"] = f"{NAME} {BORN}", PATIENT
    image.header["aux_file"], image.header["intent_name"] = UID, PATIENT
    for code in (2, 4, 6):  # DICOM, XML, a comment
        image.header.extensions.append(
            nibabel.nifti1.Nifti1Extension(code, _element() if code == 2 else b"CANARY")
        )
    image.to_filename(folder / "plain.nii")
    content = (folder / "plain.nii").read_bytes()
    (folder / "plain.nii").unlink()
    with (folder / "a.nii.gz").open("wb") as file, gzip.GzipFile(f"{WORD}.nii", "wb", fileobj=file) as packed:
        packed.write(content)
    return folder / "a.nii.gz"


def _element():
    buffer = pydicom.filebase.DicomBytesIO()
    buffer.is_little_endian, buffer.is_implicit_VR = True, False
    header = pydicom.Dataset()
    header.PatientName, header.PatientID = NAME, PATIENT
    pydicom.filewriter.write_dataset(buffer, header)
    return buffer.getvalue()


def matlab_file(folder):
    info = {"PatientName": NAME, "PatientID": PATIENT, "born": BORN}
    content = {"image": IMAGES.transpose(1, 2, 0), "info": info, "comment": NAME}
    scipy.io.savemat(folder / "a.mat", content | {"subject": np.array([PATIENT] * 3 + [NAME] * 3, object)})
    _overwrite(folder / "a.mat", f"MATLAB 5.0 MAT-file {NAME} {BORN} {PATIENT}")
    return folder / "a.mat"


def matlab_7_3_file(folder):
    write_v7_3(folder / "a.mat", {"image": IMAGES, "subject": np.array([PATIENT] * 3 + [NAME] * 3)})
    with h5py.File(folder / "a.mat", "r+") as file:
        attributes(file)
    _overwrite(folder / "a.mat", f"MATLAB 7.3 MAT-file {NAME} {BORN} {PATIENT}")
    return folder / "a.mat"


def _overwrite(path, text):
    with path.open("r+b") as file:
        file.write(text.encode().ljust(116))


def archive(folder):
    np.savez(folder / "a.npz", image=IMAGES, subject=[PATIENT] * 3 + [NAME] * 3, comment=[NAME, UID, BORN])
    with zipfile.ZipFile(folder / "a.npz", "a") as file:
        file.comment = NAME.encode()
        file.writestr(f"{WORD}.txt", PATIENT)
    return folder / "a.npz"


def hdf5_file(folder):
    with h5py.File(folder / "a.h5", "w") as file:
        file["image"], file["subject"] = IMAGES, [PATIENT] * 3 + [NAME] * 3
        file["header/comment"] = f"{NAME} {BORN} {UID}"
        for item in (file, file["image"], file["header"]):
            attributes(item)
    return folder / "a.h5"


def bart_file(folder):
    write_cfl(folder / "a.cfl", IMAGES.transpose(1, 2, 0)[:, :, None, None, :])
    with (folder / "a.hdr").open("a") as file:
        file.write(f"# Command\ncopy {NAME} {PATIENT} \n# Files\n >a <{WORD}\n# Creator\nBART {BORN} {UID}\n")
    return folder / "a.cfl"


FILES = {
    "dicom": dicom,
    "ismrmrd": ismrmrd_file,
    "twix": twix_file,
    "fastmri": fastmri_files,
    "nifti": nifti_file,
    "matlab": matlab_file,
    "matlab 7.3": matlab_7_3_file,
    "npz": archive,
    "hdf5": hdf5_file,
    "bart": bart_file,
}


def found_in(content):
    """The canaries in bytes or a text, whatever their case, as ASCII or as UTF-16."""
    content = content.encode() if isinstance(content, str) else content
    lower = content.lower()
    texts = [(word, word.lower()) for word in CANARIES]
    return [w for w, text in texts if text.encode() in lower or text.encode("utf-16-le") in lower]


def layers(content):
    """The bytes of a file, and whatever is packed in them: archives, base64, deflated streams."""
    yield content
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            for name in file.namelist():
                yield from layers(file.read(name))
    for coded in re.findall(rb"[A-Za-z0-9+/]{24,}={0,2}", content):
        decoded = base64.b64decode(coded[: len(coded) // 4 * 4])
        yield decoded
        yield from inflated(decoded)
    yield from inflated(content)


def inflated(content):
    """What unpacks at the beginning, as gzip does, or behind the marks of zlib, as in PNG, MATLAB and HDF5."""
    starts = [match.start() for match in re.finditer(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08", content)]
    for start in starts:
        unpacking = zlib.decompressobj(wbits=47)
        try:
            yield unpacking.decompress(content[start:])
        except zlib.error:
            continue


def leaks(folder, apart=()):
    """The canaries in the files below a folder, and in their names: (file, canary)."""
    result = []
    for path in folder.rglob("*"):
        if any(path.is_relative_to(other) for other in apart):
            continue
        result += [(path, word) for word in found_in(str(path.relative_to(folder)))]
        if path.is_file():
            result += [(path, word) for layer in layers(path.read_bytes()) for word in found_in(layer)]
    return sorted(set(result))
