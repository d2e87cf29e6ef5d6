"""Files of every generic format as other programs write them, and what promask reads of them."""

import shutil

import h5py
import ismrmrd
import nibabel as nib
import numpy as np
import pydicom
import pytest
import scipy.io
from pydicom.uid import MRImageStorage, generate_uid

from promask.data.file_set import prepare
from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputError

needs_bart = pytest.mark.skipif(shutil.which("bart") is None, reason="BART is not installed")

random = np.random.default_rng(0)

IMAGE = random.random((6, 9, 8)).astype(np.float32)

COMPLEX = (2 + random.normal(size=(4, 3, 9, 8)) + 1j * random.normal(size=(4, 3, 9, 8))).astype(np.complex64)

LABEL = random.integers(0, 4, (6, 9, 8))


def transform(images, axes=(-2, -1)):
    """Centred k-space, by NumPy."""
    shifted = np.fft.fftn(np.fft.ifftshift(images, axes), axes=axes, norm="ortho")
    return np.fft.fftshift(shifted, axes).astype(np.complex64)


def inverse(kspace):
    """Images of slices from centred k-space, by NumPy."""
    shifted = np.fft.ifft2(np.fft.ifftshift(kspace, (-2, -1)), norm="ortho")
    return np.fft.fftshift(shifted, (-2, -1)).astype(np.complex64)


KSPACE = transform(COMPLEX)


def named(axes, path):
    """Axes for a file that a writer made of an array with these: MATLAB's order is another one."""
    order = axes.split()
    space = order[-2:] if "z" not in axes else order[-3:]
    others = [name for name in order if name not in space]
    return " ".join([*space[-2:], *space[:-2], *others[::-1]]) if path.suffix == ".mat" else axes


def read(path, **settings):
    return prepare(load(path, Reading(**settings)))


def images_of(data):
    return np.stack([data[index].image.numpy() for index in range(len(data))])


def labels_of(data):
    return np.stack([data[index].label.numpy() for index in range(len(data))])


def images(path, **settings):
    return images_of(read(path, **settings))


same = np.testing.assert_array_equal


def close(found, wanted):
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, atol=1e-5 * abs(wanted).max(), rtol=0)


def refusal(path, name=None, **settings):
    """The one sentence that a file is refused with; it names the file."""
    with pytest.raises(InputError) as caught:
        read(path, **settings)
    text = str(caught.value)
    assert str(name or path) in text
    assert "\n" not in text
    assert text.endswith(".")
    return text


def put(path, content):
    """Write a file of bytes, or cut the end off one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else path.read_bytes()[:content])
    return path


def matlab_order(array):
    """(N, channel, H, W) as MATLAB has it, (H, W, channel, N)."""
    array = np.asarray(array)
    return array.transpose(-2, -1, *range(array.ndim - 3, -1, -1)) if array.ndim > 1 else array


def write_h5(path, arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            array = np.asarray(array)
            file[name] = array.astype(bytes) if array.dtype.kind == "U" else array


def write_v5(path, arrays):
    arrays = {name: matlab_order(array) for name, array in arrays.items()}
    cells = {name: array.astype(object) for name, array in arrays.items() if array.dtype.kind == "U"}
    scipy.io.savemat(path, arrays | cells, do_compression=True)


def write_v7_3(path, arrays):
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            array = matlab_order(array)
            if array.dtype.kind == "c":
                pairs = np.zeros(array.shape, [("real", array.real.dtype), ("imag", array.real.dtype)])
                pairs["real"], pairs["imag"] = array.real, array.imag
                array = pairs
            if array.dtype.kind == "U" and array.ndim == 1:  # a cell of texts: references to arrays of characters
                cells = [write_characters(file, f"#refs#/{name}{i}", [text]) for i, text in enumerate(array)]
                file.create_dataset(name, data=np.array([cells], h5py.ref_dtype), dtype=h5py.ref_dtype)
                file[name].attrs["MATLAB_class"] = np.bytes_("cell")
            else:
                file[name] = array.T.astype(bytes) if array.dtype.kind == "U" else array.T
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(128))


def write_characters(file, name, lines):
    file[name] = np.array([[ord(letter) for letter in line] for line in lines], np.uint16).T
    file[name].attrs["MATLAB_class"] = np.bytes_("char")
    return file[name].ref


def write_npz(path, arrays):
    np.savez_compressed(path, **arrays)


WRITERS = {"a.npz": write_npz, "a.h5": write_h5, "5.mat": write_v5, "7.mat": write_v7_3}


def fit(images, size):
    """Pixel by pixel: the one at n // 2 goes to m // 2."""
    result = np.zeros((*images.shape[: -len(size)], *size), images.dtype)
    space = images.shape[-len(size) :]
    for place in np.ndindex(*space):
        target = [i - n // 2 + m // 2 for i, n, m in zip(place, space, size, strict=True)]
        if all(0 <= t < m for t, m in zip(target, size, strict=True)):
            result[(..., *target)] = images[(..., *place)]
    return result


def write_cfl(path, array):
    path.with_suffix(".hdr").write_text(f"# Dimensions\n{' '.join(map(str, array.shape))}\n")
    array.astype(np.complex64).ravel(order="F").tofile(path)
    return path


VOLUME = random.random((5, 6, 7)).astype(np.float32)

PLANES = {  # rows from the top or the front, columns from the left or the back
    "axial": np.stack([VOLUME[:, ::-1, z].T for z in range(7)]),
    "coronal": np.stack([VOLUME[:, y, ::-1].T for y in range(6)]),
    "sagittal": np.stack([VOLUME[x, :, ::-1].T for x in range(5)]),
}


def write_nifti(path, volume=VOLUME, zooms=(1, 1, 1), stored="RAS"):
    """A volume of RAS, stored in another orientation by nibabel."""
    image = nib.Nifti1Image(volume, np.diag([*zooms, 1.0]))
    wanted = nib.orientations.axcodes2ornt(stored)
    nib.save(image.as_reoriented(nib.orientations.ornt_transform(nib.io_orientation(image.affine), wanted)), path)
    assert "".join(nib.aff2axcodes(nib.load(path).affine)) == stored
    return path


HEADER = """<?xml version="1.0"?><ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD">
<experimentalConditions><H1resonanceFrequency_Hz>128000000</H1resonanceFrequency_Hz></experimentalConditions>
<encoding>{}<encodingLimits>{}</encodingLimits><trajectory>{}</trajectory></encoding></ismrmrdHeader>"""

SPACE = """<{0}><matrixSize><x>{1}</x><y>{2}</y><z>{3}</z></matrixSize>
<fieldOfView_mm><x>1</x><y>1</y><z>1</z></fieldOfView_mm></{0}>"""

LIMIT = "<{0}><minimum>0</minimum><maximum>{1}</maximum><center>{2}</center></{0}>"


def write_mrd(path, lines, matrix, recon=None, centre=None, trajectory="cartesian"):
    """Lines are (values, flag, counters, further fields of the head)."""
    spaces = SPACE.format("encodedSpace", *matrix) + SPACE.format("reconSpace", *(recon or matrix))
    centres = zip(matrix[1:], centre or [n // 2 for n in matrix[1:]], strict=True)
    limits = [LIMIT.format(f"kspace_encoding_step_{i}", n - 1, c) for i, (n, c) in enumerate(centres, start=1)]
    header = HEADER.format(spaces, "".join(limits), trajectory)
    ismrmrd.xsd.CreateFromDocument(header)  # it is valid
    path.unlink(missing_ok=True)
    file = ismrmrd.Dataset(path, "dataset")
    file.write_xml_header(header)
    for values, flag, counters, fields in lines:
        line = ismrmrd.Acquisition.from_array(values.astype(np.complex64), **fields)
        for name, value in counters.items():
            setattr(line.idx, name, value)
        if flag:
            line.set_flag(flag)
        file.append_acquisition(line)
    file.close()
    return path


def lines_of(kspace, **fields):
    """All lines of (slice, coil, readout, phase encoding 1, phase encoding 2), in any order."""
    fields = {"center_sample": kspace.shape[2] // 2} | fields
    places = list(np.ndindex(len(kspace), *kspace.shape[3:]))
    random.shuffle(places)
    return [
        (kspace[s, :, :, y, z], 0, {"slice": s, "kspace_encode_step_1": y, "kspace_encode_step_2": z}, fields)
        for s, y, z in places
    ]


SCAN = KSPACE[..., None]

SERIES = random.integers(0, 4000, (6, 9, 8)).astype(np.uint16)


def write_dicom(path, pixels, place=0, patient="ID-77", series="1.2.3", **fields):
    header = pydicom.Dataset()
    header.SOPClassUID, header.SOPInstanceUID = MRImageStorage, generate_uid()
    header.PatientID, header.PatientName, header.SeriesInstanceUID = patient, f"Doe^{patient}", series
    header.ImageOrientationPatient, header.ImagePositionPatient = [1, 0, 0, 0, 0, -1], [5, place, -5]
    header.Rows, header.Columns = pixels.shape[1:] if "NumberOfFrames" in fields else pixels.shape[:2]
    header.SamplesPerPixel, header.PhotometricInterpretation, header.PixelRepresentation = 1, "MONOCHROME2", 0
    header.BitsAllocated = header.BitsStored = 8 * pixels.itemsize
    header.HighBit = 8 * pixels.itemsize - 1
    header.PixelData = pixels.tobytes()
    for name, value in fields.items():
        setattr(header, name, value)
    header.file_meta = pydicom.dataset.FileMetaDataset()
    header.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    path.parent.mkdir(exist_ok=True)
    pydicom.dcmwrite(path, header, enforce_file_format=True)
    return path


BIG = random.random((6, 40, 30)).astype(np.float32)


def write_all(folder, names, images=IMAGE):
    for index, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("wb") as file:
            np.save(file, images + index)
