"""Files that are made to fill the memory: small on disk, and none of them larger than a megabyte."""

import gzip
import json
import struct
import zlib
from io import BytesIO

import h5py
import nibabel as nib
import numpy as np
import pydicom
from file_writers import SCAN, lines_of, write_dicom, write_mrd
from layouts import mrd_header
from masks import PATTERNS, run_on
from PIL import Image
from twix_writer import SYNC, write_twix

from promask.segmentation.classes import Classes
from promask.segmentation.network import KEY, Architecture, SegmentationNetwork

MEGABYTES = 900
"""Of zeros in a bomb; deflate makes less than one megabyte of them."""
SIDE = 30_000
"""Of a square image of as many bytes."""


def deflated(start, bits=-zlib.MAX_WBITS):
    """`start` and then many zeros, compressed; made quickly of a piece that is repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, bits)
    packed = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(bytes(1_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
    return packed + MEGABYTES * piece + packer.flush()


def npz_bomb(path):
    """A whole array of zeros, as numpy.savez_compressed would write it."""
    header = {"descr": "|u1", "fortran_order": False, "shape": (1, SIDE, SIDE)}
    with path.with_suffix(".npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    start = path.with_suffix(".npy").read_bytes()
    path.with_suffix(".npy").unlink()
    packed, name = deflated(start), b"image.npy"
    sizes = struct.pack("<III", 0, len(packed), len(start) + MEGABYTES * 1_000_000)
    local = struct.pack("<4sHHHHH", b"PK\3\4", 20, 0, 8, 0, 0) + sizes + struct.pack("<HH", len(name), 0) + name
    central = struct.pack("<4sHHHHHH", b"PK\1\2", 20, 20, 0, 8, 0, 0) + sizes
    central += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, 0) + name
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(central), len(local) + len(packed), 0)
    path.write_bytes(local + packed + central + end)


def npz_of_another_packer(path):
    import zipfile

    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("image.npy", bytes(5_000_000))


def absurd_npy(path):
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (2**20, 2**20, 2**20)}
        )


def long_npy(path):
    """A header of four gigabytes."""
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{'descr'")


def nifti_header(shape, offset=352, slope=1.0, kind=nib.Nifti1Header):
    header = kind()
    header.set_data_dtype(np.uint8)
    header["dim"][: len(shape) + 1] = [len(shape), *shape]
    header["magic"] = b"n+1" if kind is nib.Nifti1Header else b"n+2"
    header["vox_offset"], header["scl_slope"], header["scl_inter"] = offset, slope, 0.5
    return header.binaryblock + bytes(4)


def nifti_bomb(path):
    path.write_bytes(deflated(nifti_header((SIDE, SIDE, 1), slope=2.0), 16 + zlib.MAX_WBITS))


def nifti_of_notes(path):
    """Millions of notes before the voxels, each of which nibabel would keep."""
    header = nifti_header((4, 4, 4), offset=400_000_000)[:348] + b"\1\0\0\0"
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    packed = packer.compress(header) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress((struct.pack("<II", 16, 0) + bytes(8)) * 65536) + packer.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(packed + 380 * piece + packer.flush())


def absurd_nifti(path):
    """2^31 voxels, and more, in a file of a header."""
    path.write_bytes(nifti_header((2048, 1024, 1024)) + bytes(1000))


def absurd_nifti_gz(path):
    path.write_bytes(gzip.compress(nifti_header((2**20, 2**20, 2**20), 544, kind=nib.Nifti2Header) + bytes(1000)))


def matlab_variable(kind, shape, content, name=b"image"):
    """A variable of version 5, whose size it states is that of the content."""
    parts = [
        struct.pack("<IIII", 6, 8, kind, 0),
        struct.pack("<II", 5, 4 * len(shape))
        + struct.pack(f"<{len(shape)}i", *shape)
        + bytes(4 * (len(shape) % 2)),
        struct.pack("<II", 1, len(name)) + name.ljust(-(-len(name) // 8) * 8, b"\0"),
        content,
    ]
    body = b"".join(parts)
    return struct.pack("<II", 14, len(body)) + body


def matlab_file(packed, kind=15):
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    return head + struct.pack("<II", kind, len(packed)) + packed


def matlab_bomb(path):
    """Numbers of double precision, stored as bytes that are all zero."""
    start = matlab_variable(6, (SIDE, SIDE), struct.pack("<II", 2, SIDE * SIDE))
    path.write_bytes(matlab_file(deflated(start, zlib.MAX_WBITS)))


def matlab_of_cells(path):
    """Two thousand million cells, none of which is there."""
    whole = matlab_variable(1, (2**16, 2**15), b"", b"subject") + matlab_variable(9, (2, 2), bytes(16))
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + whole)


def hdf5(path, **arrays):
    with h5py.File(path, "w") as file:
        for name, settings in arrays.items():
            file.create_dataset(name, **settings)


def unwritten_hdf5(path):
    """An array of 2^40 numbers, of which none was ever written."""
    hdf5(path, image={"shape": (2**20, 2**10, 2**10), "dtype": "f4", "chunks": (1, 64, 64)})


def hdf5_of_huge_chunks(path):
    hdf5(path, image={"shape": (8, 8, 8), "maxshape": (None,) * 3, "dtype": "u1", "chunks": (1, 2**15, 2**15)})


def hdf5_bomb(path):
    """A piece that holds far more than it should."""
    settings = {"shape": (1, 64, 64), "dtype": "u1", "chunks": (1, 64, 64), "compression": "gzip"}
    hdf5(path, image=settings)
    with h5py.File(path, "r+") as file:
        file["image"].id.write_direct_chunk((0, 0, 0), deflated(bytes(64), zlib.MAX_WBITS))


def hdf5_packed_twice(path):
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_chunk((1, 64, 64))
    plan.set_deflate(9)
    plan.set_deflate(9)
    space = h5py.h5s.create_simple((1, 64, 64))
    with h5py.File(path, "w") as file:
        h5py.h5d.create(file.id, b"image", h5py.h5t.NATIVE_UINT8, space, plan)


def hdf5_of_one_text(path):
    """Names of subjects that are all the same large text, which is stored once."""
    count = 20_000
    with h5py.File(path, "w") as file:
        file["image"] = np.ones((count, 1, 2), np.uint8)
        names = file.create_dataset("subject", (count,), h5py.string_dtype())
        names[0] = "x" * 500_000
        place = names.id.get_offset()
    content = bytearray(path.read_bytes())
    content[place : place + 16 * count] = content[place : place + 16] * count
    path.write_bytes(content)


def absurd_matrix(path):
    write_mrd(path, lines_of(SCAN[:1, :1, :4, :4]), (4, 4, 1))
    with h5py.File(path, "r+") as file:
        text = file["dataset/xml"][0].decode()
        file["dataset/xml"][0] = text.replace("<y>4</y><z>1</z>", "<y>65535</y><z>65535</z>")


LAUGHS = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
ENTITIES = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{LAUGHS}]><x>&a9;</x>'


def laughing_header(path):
    """Entities that become a billion words."""
    with h5py.File(path, "w") as file:
        file["kspace"], file["ismrmrd_header"] = np.ones((1, 40, 37), np.complex64), ENTITIES.encode()


def header_from_elsewhere(path):
    """An entity that is another file."""
    outside = mrd_header().replace(b"?>", b'?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>', 1)
    with h5py.File(path, "w") as file:
        file["kspace"], file["ismrmrd_header"] = np.ones((1, 40, 37), np.complex64), outside


def absurd_dicom(path):
    write_dicom(path, np.ones((4, 4), np.uint16))
    file = pydicom.dcmread(path)
    file.Rows = file.Columns = 65535
    file.save_as(path)


def dicom_of_frames(path):
    write_dicom(path, np.ones((1, 4, 4), np.uint16), NumberOfFrames="2147483647")


def dicom_bomb(path):
    """Compressed as a whole, with pixels of zeros."""
    write_dicom(path, np.ones((4, 4), np.uint16))
    file = pydicom.dcmread(path)
    file.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    file.save_as(path)
    content = path.read_bytes()
    start = 144 + struct.unpack("<I", content[140:144])[0]
    whole = zlib.decompress(content[start:], -zlib.MAX_WBITS)
    whole = whole[: whole.index(b"\xe0\x7f\x10\x00OW") + 8] + struct.pack("<I", MEGABYTES * 1_000_000)
    path.write_bytes(content[:start] + deflated(whole))


def dicom_of_a_large_picture(path):
    """A frame in JPEG 2000, of a few hundred bytes, that is 13000 pixels wide and not 4."""
    side, packed = 13_000, BytesIO()
    Image.new("L", (1024, 1024)).save(packed, "JPEG2000", num_resolutions=1)
    frame = packed.getvalue()
    start = frame.index(b"\xff\x4f\xff\x51")  # the size of the picture, then where it begins, then of its tiles
    size = struct.pack(">IIII", side, side, 0, 0)
    frame = frame[start : start + 8] + size + frame[start + 24 :]
    write_dicom(path, np.ones((4, 4), np.uint8))
    file = pydicom.dcmread(path)
    file.PixelData = pydicom.encaps.encapsulate([frame])
    file["PixelData"].VR = "OB"
    file.file_meta.TransferSyntaxUID = pydicom.uid.JPEG2000Lossless
    file.save_as(path)


def absurd_cfl(path):
    path.with_suffix(".hdr").write_text("# Dimensions\n" + " ".join(["65536"] * 16) + "\n")
    path.write_bytes(bytes(800))


def long_cfl(path):
    path.with_suffix(".hdr").write_text("# Dimensions\n" + "9" * 5000 + " 1 1 1\n")
    path.write_bytes(bytes(800))


def endless_twix(path):
    """Something in place of a line that says that it takes no bytes, after which it comes again."""
    write_twix(path, [(np.zeros((0, 0)), SYNC, {}, {"bytes": 192})], (4, 4, 1))
    content = bytearray(path.read_bytes())
    place = content.index(struct.pack("<I", 192))
    content[place : place + 4] = bytes(4)
    path.write_bytes(content)


def absurd_twix(path):
    """A line at one end of a grid of lines and partitions, of which it is the middle."""
    write_twix(path, [(np.ones((1, 4)), 0, {"Lin": n, "Par": n}, {}) for n in (0, 65535)], (4, 4, 2))


def twix_of_words(path):
    """A header that names an element of an array, far behind all others."""
    write_twix(path, [], (4, 4, 1), **{"sSliceArray.asSlice[2147483647].dReadoutFOV": 1, "a" * 200_000: 1})


DATA = {
    "zeros.npz": npz_bomb,
    "packer.npz": npz_of_another_packer,
    "shape.npy": absurd_npy,
    "header.npy": long_npy,
    "zeros.nii.gz": nifti_bomb,
    "notes.nii.gz": nifti_of_notes,
    "voxels.nii": absurd_nifti,
    "voxels.nii.gz": absurd_nifti_gz,
    "zeros.mat": matlab_bomb,
    "cells.mat": matlab_of_cells,
    "unwritten.h5": unwritten_hdf5,
    "chunks.h5": hdf5_of_huge_chunks,
    "zeros.h5": hdf5_bomb,
    "twice.h5": hdf5_packed_twice,
    "text.h5": hdf5_of_one_text,
    "matrix.mrd": absurd_matrix,
    "laughing.h5": laughing_header,
    "elsewhere.h5": header_from_elsewhere,
    "rows.dcm": absurd_dicom,
    "frames.dcm": dicom_of_frames,
    "zeros.dcm": dicom_bomb,
    "picture.dcm": dicom_of_a_large_picture,
    "shape.cfl": absurd_cfl,
    "digits.cfl": long_cfl,
    "endless.dat": endless_twix,
    "counters.dat": absurd_twix,
    "words.dat": twix_of_words,
}
"""Data, by the name of the file."""


def png_bomb(path):
    """Black, 30000 x 30000 pixels."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0))
    content = chunk(b"IDAT", deflated(b"", zlib.MAX_WBITS))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + content + chunk(b"IEND", b""))


def png_below_the_guard(path):
    """Just few enough pixels for Pillow not to refuse them."""
    png_bomb(path)
    content = bytearray(path.read_bytes())
    content[16:24] = struct.pack(">II", 13_000, 13_000)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    path.write_bytes(content)


def absurd_csv(path):
    facts = {"shape": [10**6, 10**6], "free_axes": [0, 1], "extent": [[0, 10**6], [0, 10**6]], "centring": "x"}
    text = "".join(f"# {name}: {json.dumps(value)}\n" for name, value in facts.items())
    path.write_text(text + "order,index_0,index_1,k_0,k_1,centric\n0,0,0,0,0,0\n")


def absurd_lines(path):
    """A line mask that is to be repeated over a million million rows."""
    with h5py.File(path, "w") as file:
        file["mask"] = np.ones(16, np.uint8)
        file.attrs.update({"centring": "x", "shape": [10**12, 16], "free_axes": [1], "extent": [[0, 1], [0, 16]]})


MASKS = {
    "zeros.png": png_bomb,
    "guard.png": png_below_the_guard,
    "shape.csv": absurd_csv,
    "lines.h5": absurd_lines,
    "unwritten.h5": lambda path: hdf5(path, mask={"shape": (2**20, 2**20), "dtype": "u1", "chunks": (64, 64)}),
    "zeros.mat": matlab_bomb,
    "shape.npy": absurd_npy,
}
"""Masks, by the name of the file."""


def absurd_run(folder):
    """A mask of lines, to be repeated along a billion rows."""
    run_on(PATTERNS["columns"]).save(folder)
    record = json.loads((folder / "run.json").read_text())
    record["pattern"] |= {"shape": [10**9, 12], "extent": [[0, 10**9], [0, 12]]}
    (folder / "run.json").write_text(json.dumps(record))


def network(path, **changes):
    """A small network that says that it is another one."""
    architecture = Architecture(1, Classes(("a",), (1,)), widths=(2, 3), residual_units=1)
    SegmentationNetwork(architecture).save(path)
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    head = json.loads(content[8 : 8 + length])
    about = json.loads(head["__metadata__"][KEY])
    about["architecture"] |= changes
    head["__metadata__"][KEY] = json.dumps(about)
    packed = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(packed)) + packed + content[8 + length :])


NETWORKS = {
    "wide": {"widths": [2, 10**6]},
    "deep": {"widths": [2] * 100_000},
    "long": {"residual_units": 10**9},
    "many": {"channels": 10**9},
    "other": {"dimensions": 10**9},
}
"""What networks say of themselves."""
