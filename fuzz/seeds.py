"""Small whole files, from which fuzzing begins; written as the tests write them."""

import functools
import json
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import file_writers as writers
import layouts
import numpy as np
import pydicom
import torch
import twix_writer
from masks import PATTERNS as MASK_PATTERNS
from masks import exported, run_on
from safetensors.torch import load as safetensors_load
from safetensors.torch import save as safetensors_save

from promask.export import FORMATS, write_mask
from promask.learning.api import learn
from promask.learning.checkpoint import FORMAT, checksum
from promask.learning.config import Config
from promask.learning.hooks import Progress, Trajectory
from promask.learning.records import DataRecord, RunHistory, RunRecord
from promask.segmentation.classes import Classes
from promask.segmentation.network import KEY, Architecture, SegmentationNetwork

IMAGES = writers.random.random((3, 6, 5)).astype(np.float32)
COILS = writers.transform(writers.COMPLEX[:2, :2, :6, :5])
NAMES = {"image": IMAGES, "label": (4 * IMAGES).astype(np.uint8), "subject": np.array(["a", "b", "b"])}
RAW = {"kspace": COILS, "maps": COILS[0]}
EVERY_WAY = (0, 16, 144)
"""First bytes for a file that is taken as it is: each way to read it, and as coil maps."""


def written(name: str, write: Callable[[Path], object]) -> bytes:
    """The bytes of a file that a function writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        write(path)
        return path.read_bytes()


def npy(array: Any) -> bytes:
    """An array as NumPy saves it."""
    buffer = BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def array_files(names: Sequence[str]) -> list[bytes]:
    """Inputs for files of these names."""
    return [seed for name in names for seed in WRITERS[name]()]


def each_way(*files: bytes) -> Iterator[bytes]:
    """Files as they are, to be read in every way."""
    return (bytes([way]) + file for way in EVERY_WAY for file in files)


def _npy() -> Iterator[bytes]:
    return each_way(
        *(npy(array) for array in (IMAGES, COILS, (100 * IMAGES[0]).astype(">u2"), np.asfortranarray(IMAGES)))
    )


def _npz() -> Iterator[bytes]:
    yield from each_way(*(written("a.npz", partial(writers.write_npz, arrays=arrays)) for arrays in (NAMES, RAW)))
    parts = [[IMAGES], [IMAGES, NAMES["label"]], [IMAGES, NAMES["subject"]], [COILS, COILS[0]]]
    for way, arrays in enumerate(parts, start=1):
        yield bytes([way]) + b"|NEXT|".join(map(npy, arrays))
    yield b"\x21" + npy(IMAGES)


def _mat_5() -> Iterator[bytes]:
    import scipy.io

    for arrays in (NAMES, RAW):
        yield from each_way(written("5.mat", partial(writers.write_v5, arrays=arrays)))
    for content in (
        {name: writers.matlab_order(array) for name, array in NAMES.items()},
        {"kspace": writers.matlab_order(COILS), "s": {"a": 1, "b": [1, "x"]}},
        {"image": (100 * IMAGES).astype(">i2")},
    ):
        plain = written("a.mat", partial(scipy.io.savemat, mdict=dict(content)))
        yield b"\x00" + plain
        yield b"\x01" + b"|NEXT|".join(_elements(plain))
    yield b"\x00" + written("4.mat", lambda path: scipy.io.savemat(path, {"image": IMAGES[0]}, format="4"))


def _elements(content: bytes) -> Iterator[bytes]:
    """The variables of a MATLAB file, each with its tag."""
    position = 128
    while position < len(content):
        size = 8 + struct.unpack_from("<II", content, position)[1]
        yield content[position : position + size]
        position += size


def _mat_7() -> Iterator[bytes]:
    for arrays in (NAMES, RAW):
        yield from each_way(written("7.mat", partial(writers.write_v7_3, arrays=arrays)))


def _h5() -> Iterator[bytes]:
    for arrays in (NAMES, RAW):
        yield from each_way(written("a.h5", partial(writers.write_h5, arrays=arrays)))


def _packed_h5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset(
            "image", data=IMAGES, chunks=(1, 6, 5), compression="gzip", shuffle=True, fletcher32=True
        )
        file.create_dataset(
            "label", data=NAMES["label"], chunks=(2, 3, 5), compression="lzf", maxshape=(None, 6, 5)
        )


def _fastmri() -> Iterator[bytes]:
    for coils in (None, 2):
        yield b"\x10" + written("a.h5", partial(layouts.scan, kspace=layouts.measured(1, coils)))
    yield b"\x00" + written("a.h5", _packed_h5)


def _ismrmrd() -> Iterator[bytes]:
    yield b"\x10" + written("a.h5", _measure)


def _measure(path: Path) -> None:
    writers.write_mrd(path, writers.lines_of(writers.SCAN[:1, :1, :4, :4]), (4, 4, 1))


WRITERS: dict[str, Callable[[], Iterator[bytes]]] = {
    "a.npy": _npy,
    "a.npz": _npz,
    "5.mat": _mat_5,
    "7.mat": _mat_7,
    "a.h5": _h5,
    "fastmri.h5": _fastmri,
    "ismrmrd.h5": _ismrmrd,
}


def nifti(labels: bool = False) -> bytes:
    """A volume, or its labels."""
    volume = writers.VOLUME[:3, :4]
    values = (3 * volume).astype(np.uint8) if labels else volume
    return written("a.nii", lambda path: writers.write_nifti(path, values, zooms=(1, 1, 2)))


def bart() -> list[tuple[bytes, bytes]]:
    """Headers and numbers."""
    pairs = []
    for array in (COILS[0].transpose(1, 2, 0)[:, :, None], IMAGES[:2].transpose(1, 2, 0)):
        header = f"# Dimensions\n{' '.join(map(str, (*array.shape, 1, 1)))}\n# Command\nfft\n".encode()
        pairs.append((header, array.astype(np.complex64).tobytes(order="F")))
    return pairs


def raw() -> list[bytes]:
    """Spokes with their places, as two arrays, and as two pairs of files of BART."""
    radius, angles = np.arange(-4, 4) / 8, np.arange(5) * 2.4
    places = np.exp(1j * angles)[:, None] * radius
    samples = (np.exp(-8 * radius**2) * np.array([1, 1j])[:, None, None] + 0 * places).astype(np.complex64)
    x, y = 8 * places.real.T, 8 * places.imag.T
    of_bart = [samples.T[None], np.stack([x, y, 0 * x])]
    files = [
        part
        for array in of_bart
        for part in (
            f"# Dimensions\n{' '.join(map(str, array.shape))}\n".encode(),
            array.astype(np.complex64).tobytes(order="F"),
        )
    ]
    return [b"\0" + b"|NEXT|".join([npy(samples), npy(places)]), b"\1" + b"|NEXT|".join(files)]


def dicom() -> list[bytes]:
    """Single images and frames, as they are, and run-length encoded; then the content to be compressed."""
    pixels = writers.SERIES[:2, :6, :5]
    one = written("a.dcm", lambda path: writers.write_dicom(path, pixels[0], RescaleSlope="2", InstanceNumber="3"))
    two = written("a.dcm", lambda path: writers.write_dicom(path, pixels, NumberOfFrames="2"))

    def encode(path: Path) -> None:
        file = pydicom.dcmread(BytesIO(two))
        file.compress(pydicom.uid.RLELossless)
        file.save_as(path)

    encoded = written("a.dcm", encode)
    start = len(_meta(pydicom.uid.ExplicitVRLittleEndian))
    return [b"\x00" + one, b"\x80" + two, b"\x00" + encoded, b"\x02" + one, b"\x01" + one[start:]]


def twix() -> list[bytes]:
    """A whole file; then a header and lines of both kinds of software."""
    kspace = writers.SCAN[:1, :2, :4, :3]
    lines, header = twix_writer.twix_lines(kspace), twix_writer.header_of((4, 3, 1))
    whole = twix_writer.indexed([twix_writer.measurement(lines, header)])
    parts = [
        twix_writer.header_bytes(header) + b"|NEXT|" + twix_writer.line_bytes(lines, newer) for newer in (1, 0)
    ]
    return [b"\x00" + whole, b"\x01" + parts[0], b"\x02" + parts[1], b"\x81" + parts[0]]


def twix_file(header: bytes, lines: bytes, newer: bool) -> bytes:
    """The file of a measurement."""
    whole = twix_writer.joined(header, lines)
    return twix_writer.indexed([whole]) if newer else whole


def deflated_dicom() -> tuple[bytes, bytes]:
    """The beginning of a file whose rest is compressed; and one that is whole."""
    whole = written("b.dcm", lambda path: writers.write_dicom(path, writers.SERIES[0, :6, :5], place=1))
    return _meta(pydicom.uid.DeflatedExplicitVRLittleEndian), whole


def _meta(syntax: str) -> bytes:
    """All that comes before the data set."""
    buffer = BytesIO()
    empty = pydicom.Dataset()
    empty.SOPClassUID, empty.SOPInstanceUID = pydicom.uid.MRImageStorage, "1.2.3"
    empty.file_meta = pydicom.dataset.FileMetaDataset()
    empty.file_meta.TransferSyntaxUID = pydicom.uid.UID(syntax)
    pydicom.dcmwrite(buffer, empty, enforce_file_format=True)
    length = struct.unpack("<I", buffer.getvalue()[140:144])[0]
    return buffer.getvalue()[: 144 + length]


def measurements(head: np.dtype[Any]) -> list[Sequence[bytes]]:
    """Headers, and the heads of lines."""
    import h5py

    header = layouts.mrd_header(width=4, centre=2, maximum=3)
    with tempfile.TemporaryDirectory() as folder:
        _measure(Path(folder, "a.h5"))
        with h5py.File(Path(folder, "a.h5")) as file:
            xml, heads = file["dataset/xml"][0], np.asarray(file["dataset/data"]["head"]).astype(head).tobytes()
    # Each line of 4 complex numbers has 8 values: the first byte says so.
    return [(b"\x10" + xml, heads), (b"\x90" + xml, heads), (b"\x01" + header, b"patient")]


@functools.cache
def collections() -> dict[str, tuple[str, dict[str, bytes], str]]:
    """For each layout its name, its files, and which of them is the text that describes the others."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        layouts.patient(folder / "acdc", 1, size=(8, 9), depth=5)
        found["acdc"] = ("acdc", _below(folder / "acdc"), "patient001/Info.cfg")
        layouts.decathlon(folder / "brats", numbers=(1,), plane=(4, 3))
        found["brats"] = ("brats", _below(folder / "brats"), "dataset.json")
        layouts.scan(folder / "fastmri" / "file1000000.h5", layouts.measured(2))
        (folder / "fastmri" / "knee.csv").write_text(layouts.TABLE)
        found["fastmri"] = ("fastmri+", _below(folder / "fastmri"), "knee.csv")
    return found


def _below(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def configs() -> list[bytes]:
    """Settings."""
    whole = Config.preset("paper", acceleration=8, seed=3, slices=(1, None), size=(8, 8), axis=(0,), pattern="1d")
    few = {"acceleration": 4.5, "loss": "0.5*segmentation + 0.5*mse", "network": "n.safetensors", "recon": "cs"}
    return [json.dumps(each).encode() for each in (whole.to_dict(), few, {"config": few}, {"acceleration": 2})]


def run_folder() -> tuple[list[str], list[list[bytes]]]:
    """The names of the files of a run, and their contents."""
    from dataclasses import replace

    names, runs = ["run.json", "probabilities.npy", "variance.npy", "trajectory.npy", "mask.npy"], []
    for pattern in ("padded lines", "locations"):
        run = run_on(MASK_PATTERNS[pattern])
        steps = Trajectory((0, 5), run.probabilities.expand(2, *run.probabilities.shape))
        record = RunRecord(data=DataRecord("brain"), seconds=1.5)
        run = replace(run, trajectory=steps, history=RunHistory(loss=[1.0, 0.5]), record=record)
        with tempfile.TemporaryDirectory() as folder:
            place = run.save(Path(folder, "run"))
            runs.append([(place / name).read_bytes() for name in names])
    return names, runs


@functools.cache
def _network() -> bytes:
    architecture = Architecture(1, Classes(("a", "b"), (1, 2)), widths=(2, 3), residual_units=1)
    return written("a.safetensors", lambda path: SegmentationNetwork(architecture, record={"steps": 1}).save(path))


def _description() -> tuple[dict[str, Any], bytes]:
    """The head of the file of a network, and its numbers."""
    content = _network()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def network_described_by(text: bytes) -> bytes:
    """A network whose description is this text."""
    head, numbers = _description()
    head["__metadata__"] = {KEY: text.decode("utf-8", "replace")}
    packed = json.dumps(head).encode()
    return struct.pack("<Q", len(packed)) + packed + numbers


def networks() -> list[bytes]:
    """A network, and its description."""
    return [b"\x00" + _network(), b"\x01" + _description()[0]["__metadata__"][KEY].encode()]


def few_images() -> torch.Tensor:
    """What a run learns from."""
    return torch.rand(3, 8, 6, generator=torch.Generator().manual_seed(0))


@functools.cache
def _checkpoint() -> tuple[bytes, str, dict[str, torch.Tensor]]:
    """A checkpoint after its second step: the file, its description, and its tensors."""

    def stop(progress: Progress) -> None:
        if progress.step == 3:
            raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder:
        with suppress(KeyboardInterrupt):
            learn(few_images(), 4, steps=3, patience=0, checkpoint=folder, on_step=stop)
        content = Path(folder, "checkpoint.safetensors").read_bytes()
    length = struct.unpack_from("<Q", content)[0]
    text = json.loads(content[8 : 8 + length])["__metadata__"]["state"]
    return content, text, safetensors_load(content)


def checkpoint_described_by(text: bytes) -> bytes:
    """A checkpoint whose description is this text, with the checksum of it all."""
    described, tensors = text.decode("utf-8", "replace"), _checkpoint()[2]
    return safetensors_save(
        tensors, {"format": FORMAT, "state": described, "sha256": checksum(described, tensors)}
    )


def checkpoints() -> list[bytes]:
    """A checkpoint, and its description."""
    content, text, _ = _checkpoint()
    return [b"\x00" + content, b"\x01" + text.encode()]


def masks() -> list[list[bytes]]:
    """A mask in each format; those of BART are two files."""
    files = []
    for name, format in FORMATS.items():
        if format.read is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            mask = exported("spokes" if format.for_trajectories else "columns")
            path = write_mask(mask, Path(folder, f"a{format.suffix}"), name)
            header = path.with_suffix(".hdr")
            files.append([path.read_bytes(), *([header.read_bytes()] if header.exists() else [])])
    return files


def labelled_npz() -> bytes:
    """Images with labels."""
    return written("a.npz", lambda path: writers.write_npz(path, NAMES))
