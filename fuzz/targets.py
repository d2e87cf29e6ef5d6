"""What is fuzzed: each target takes bytes, makes files of them, and reads them as a command would.

A new target is one function that returns a `Target`, and one line in the table. Where a format is compressed, the
first byte of an input says what the rest is: the file itself, or what is to be compressed into it.
"""

import gzip
import itertools
import shutil
import struct
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import ismrmrd
import numpy as np

from fuzz import seeds
from promask.data import sandbox
from promask.data.file_set import prepare
from promask.data.inspection import inspect
from promask.data.raw_trajectory import read_raw_trajectory, reconstruct_raw
from promask.data.reading import Reading
from promask.data.sensitivities import read_maps
from promask.data.sources import load
from promask.errors import InputError, InputWarning, UncertainDataError
from promask.export import FORMATS, read_mask
from promask.learning.api import learn
from promask.learning.config import Config, read_settings
from promask.learning.run import Run
from promask.segmentation.network import SegmentationNetwork

sandbox.CPU_SECONDS = 1.0  # files are small, and some never come to an end
NEXT = b"|NEXT|"
"""Between the files of an input that is several."""


@dataclass(frozen=True)
class Target:
    """What is called with each input, and inputs to begin with."""

    call: Callable[[bytes], None]
    seeds: Sequence[bytes]


Make = Callable[[Path], Target]
"""Makes a target that works in a folder of its own."""


class Folder:
    """A folder that is empty for each input, and the cache of samples that goes with it."""

    def __init__(self, place: Path) -> None:
        self.path, self.cache = place / "files", place / "cache"
        self.numbers = itertools.count()

    def files(self, contents: Mapping[str, bytes]) -> Path:
        """The folder with these files alone."""
        for path in (self.path, self.cache):
            shutil.rmtree(path, ignore_errors=True)
        for name, content in contents.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return self.path


def samples(data: str | Path, **settings: object) -> None:
    """Read data as `promask learn` does: describe them, prepare them, take the first and the last sample.

    Of several ways to read them, the first is taken.
    """
    try:
        found = prepare(load(str(data), Reading(**settings)))  # type: ignore[arg-type]
    except UncertainDataError as error:
        choice = error.choices[0]
        if settings.get(choice.argument) is not None:
            raise
        return samples(data, **{**settings, choice.argument: choice.value, "holds": None})
    for index in (0, len(found) - 1):
        found[index]
    return None


def refused(read: Callable[[], object]) -> None:
    """Call what may say that its input is bad."""
    said = ""
    try:
        read()
    except InputError as error:
        said = str(error)
    if not said.isprintable():
        raise ValueError(f"this is no sentence: {said!r}")


READINGS: Sequence[Mapping[str, object]] = (
    {"holds": "image"},
    {"skip_bad": True},
    {"holds": "image", "volumes": True, "kspace": "emulated"},
)
"""Ways to read a file that tells little of itself."""


def array_file(*names: str, wrap: Callable[[int, bytes], bytes]) -> Make:
    """Files of arrays, read as data and as coil maps; the first byte chooses the way."""

    def make(place: Path) -> Target:
        folder = Folder(place)

        def call(content: bytes) -> None:
            way, rest = (content[0] if content else 0), content[1:]
            file = folder.files({names[0]: wrap(way % 16, rest)}) / names[0]
            refused(lambda: samples(file, **READINGS[way // 16 % len(READINGS)]))
            if way >= 128:
                refused(lambda: read_maps(str(file), volumes=False))

        return Target(call, seeds.array_files(names))

    return make


def as_it_is(way: int, content: bytes) -> bytes:
    """A file that is not compressed."""
    return content


def zipped(way: int, content: bytes) -> bytes:
    """Way 0: a .npz file. Others: the arrays that it holds, the first one or more of these names."""
    if way == 0:
        return content
    names = (("image",), ("image", "label"), ("image", "subject"), ("kspace", "maps"))[(way - 1) % 4]
    buffer = BytesIO()
    with ZipFile(buffer, "w", ZIP_DEFLATED, compresslevel=1) as archive:
        for name, part in zip(names, content.split(NEXT), strict=False):
            archive.writestr(f"{name}.npy", part)
    return buffer.getvalue()


def matlab(way: int, content: bytes) -> bytes:
    """Way 0: a .mat file. Others: a variable that is compressed into one."""
    if way == 0:
        return content
    packed = [zlib.compress(part, 1) for part in content.split(NEXT)]
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    return head + b"".join(struct.pack("<II", 15, len(part)) + part for part in packed)


def nifti(place: Path) -> Target:
    """Volumes, compressed or not, and labels beside a volume that is whole."""
    folder, whole = Folder(place), seeds.nifti()

    def call(content: bytes) -> None:
        way, rest = (content[0] if content else 0), content[1:]
        kinds: Sequence[Callable[[], tuple[str, Mapping[str, bytes]]]] = (
            lambda: ("a.nii", {"a.nii": rest}),
            lambda: ("a.nii.gz", {"a.nii.gz": gzip.compress(rest, 1)}),
            lambda: ("a.nii.gz", {"a.nii.gz": rest}),
            lambda: ("a.nii", {"a.nii": whole, "a_seg.nii": rest}),
        )
        name, files = kinds[way % 4]()
        path = folder.files(files) / name
        refused(lambda: samples(path, volumes=way >= 128, skip_bad=way % 8 >= 4))

    first = [bytes([way]) + whole for way in (0, 1, 128)]
    return Target(call, [*first, b"\x02" + gzip.compress(whole), b"\x03" + seeds.nifti(labels=True)])


def bart(place: Path) -> Target:
    """A header and numbers."""
    folder = Folder(place)

    def call(content: bytes) -> None:
        header, _, numbers = content.partition(NEXT)
        path = folder.files({"a.hdr": header, "a.cfl": numbers}) / "a.cfl"
        for reading in READINGS:
            refused(lambda reading=reading: samples(path, **reading))
        refused(lambda: read_maps(str(path), volumes=True))

    return Target(call, [NEXT.join(files) for files in seeds.bart()])


def raw(place: Path) -> Target:
    """Samples and their trajectory: two arrays of NumPy, or the headers and the numbers of two files of BART."""
    folder = Folder(place)

    def call(content: bytes) -> None:
        way, rest = (content[0] if content else 0), content[1:]
        parts = [*rest.split(NEXT), *[b""] * 4]
        if way % 2:
            names = ("a.hdr", "a.cfl", "traj.hdr", "traj.cfl")
            path = folder.files(dict(zip(names, parts, strict=False))) / "a.cfl"
        else:
            path = folder.files({"a.npy": parts[0], "k.npy": parts[1]}) / "a.npy"
        beside = None if way % 2 else path.with_name("k.npy")
        units = (None, "pixel", "fov", "radian")[way // 2 % 4]
        refused(lambda: reconstruct_raw(read_raw_trajectory(path, beside, units=units), "gridding"))
        refused(lambda: inspect(str(path)))

    return Target(call, seeds.raw())


def dicom(place: Path) -> Target:
    """Single files, as they are or with all but the first part compressed, and two of a series in a folder."""
    folder = Folder(place)
    meta, whole = seeds.deflated_dicom()

    def call(content: bytes) -> None:
        way, rest = (content[0] if content else 0), content[1:]
        if way % 4 == 1:
            packer = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
            rest = meta + packer.compress(rest) + packer.flush()
        path = folder.files({"a.dcm": rest, "b.dcm": whole} if way % 4 == 2 else {"a.dcm": rest})
        refused(lambda: samples(path if way % 4 == 2 else path / "a.dcm", volumes=way >= 128))

    return Target(call, seeds.dicom())


def measurement(place: Path) -> Target:
    """The XML header and the heads of the lines of an ISMRMRD file, or the header of one of fastMRI."""
    import h5py

    folder = Folder(place)
    head = np.dtype(ismrmrd.hdf5.acquisition_header_dtype)
    line = np.dtype([("head", head), ("traj", h5py.vlen_dtype("<f4")), ("data", h5py.vlen_dtype("<f4"))])

    def call(content: bytes) -> None:
        way, rest = (content[0] if content else 0), content[1:]
        xml, _, heads = rest.partition(NEXT)
        file = folder.files({}) / "a.h5"
        folder.path.mkdir(exist_ok=True)
        with h5py.File(file, "w") as h5:
            if way % 2:
                h5["ismrmrd_header"] = np.bytes_(xml.partition(b"\0")[0] or b" ")
                h5["kspace"] = np.ones((2, 6, 4), np.complex64) * np.arange(1, 5)
                h5.attrs["patient_id"] = heads[:20].partition(b"\0")[0]
            else:
                h5.create_dataset("dataset/xml", (1,), h5py.string_dtype())[0] = xml.partition(b"\0")[0]
                rows = np.frombuffer(heads[: len(heads) // head.itemsize * head.itemsize], head)
                lines = np.zeros(len(rows), line)
                lines["head"] = rows
                for row in lines:
                    row["traj"], row["data"] = np.zeros(0, "f4"), np.arange(way // 2 % 64, dtype="f4")
                h5["dataset/data"] = lines
        refused(lambda: samples(file, volumes=way >= 128))

    return Target(
        call, [seed if isinstance(seed, bytes) else NEXT.join(seed) for seed in seeds.measurements(head)]
    )


def twix(place: Path) -> Target:
    """Raw data of Siemens: a whole file, or the header and the lines of a measurement of either software."""
    folder = Folder(place)

    def call(content: bytes) -> None:
        way, rest = (content[0] if content else 0), content[1:]
        if way % 4:
            header, _, lines = rest.partition(NEXT)
            rest = seeds.twix_file(header, lines, newer=way % 4 == 1)
        path = folder.files({"a.dat": rest}) / "a.dat"
        refused(lambda: samples(path, volumes=way >= 128))

    return Target(call, seeds.twix())


def collections(place: Path) -> Target:
    """The texts that describe the layouts of ACDC, BraTS and fastMRI+, beside files that are whole."""
    folder, whole = Folder(place), seeds.collections()

    def call(content: bytes) -> None:
        way, rest = (content[0] if content else 0), content[1:]
        root, files, text = list(whole.items())[way % len(whole)][1]
        refused(lambda: samples(f"{root}:{folder.files({**files, text: rest})}", skip_bad=way >= 128))

    first = [bytes([way]) + files[text] for way, (_, files, text) in enumerate(whole.values())]
    return Target(call, first)


def config(place: Path) -> Target:
    """Settings from a file, as `promask learn --config` takes them."""
    folder = Folder(place)

    def call(content: bytes) -> None:
        path = folder.files({"config.json": content}) / "config.json"
        refused(lambda: Config.preset("default", **read_settings(path)))
        refused(lambda: Config.from_dict(read_settings(path)))

    return Target(call, seeds.configs())


def run_folder(place: Path) -> Target:
    """The files of a run, as every command reads them."""
    folder = Folder(place)
    names, first = seeds.run_folder()

    def read(path: Path) -> None:
        run = Run.load(path)
        run.reconstruction()
        run.sample(1, seed=0, exact=True)

    def call(content: bytes) -> None:
        path = folder.files(dict(zip(names, content.split(NEXT), strict=False)))
        path.mkdir(exist_ok=True)
        refused(lambda: read(path))
        refused(lambda: read_mask(path))

    return Target(call, [NEXT.join(files) for files in first])


def network(place: Path) -> Target:
    """Weights, and the description of what they are for."""
    folder = Folder(place)

    def call(content: bytes) -> None:
        way, rest = (content[0] if content else 0), content[1:]
        if way % 2:  # the description alone, which is JSON within JSON
            rest = seeds.network_described_by(rest)
        path = folder.files({"network.safetensors": rest}) / "network.safetensors"
        refused(lambda: SegmentationNetwork.load(path))

    return Target(call, seeds.networks())


def masks(place: Path) -> Target:
    """Mask files of every format, as `promask evaluate` takes them."""
    folder, suffixes = Folder(place), [format.suffix for format in FORMATS.values() if format.read is not None]

    def call(content: bytes) -> None:
        way, rest = (content[0] if content else 0), content[1:]
        suffix = suffixes[way % len(suffixes)]
        first, _, other = rest.partition(NEXT)
        path = folder.files({f"a{suffix}": first, "a.hdr": other}) / f"a{suffix}"
        refused(lambda: read_mask(path))

    return Target(call, [bytes([way]) + NEXT.join(files) for way, files in enumerate(seeds.masks())])


def cache(place: Path) -> Target:
    """The cache of prepared samples, when it is damaged or forged."""
    folder, data = Folder(place), place / "data.npz"
    data.write_bytes(seeds.labelled_npz())

    def call(content: bytes) -> None:
        shutil.rmtree(folder.cache, ignore_errors=True)
        refused(lambda: samples(data))
        (about,) = folder.cache.glob("samples/*/*/about.json")
        for name, part in zip(("about.json", "images", "labels"), content.split(NEXT), strict=False):
            if part:
                (about.parent / name).write_bytes(part)
        refused(lambda: samples(data))

    samples(data)
    (about,) = folder.cache.glob("samples/*/*/about.json")
    parts = [(about.parent / name).read_bytes() for name in ("about.json", "images", "labels")]
    return Target(call, [parts[0], NEXT.join(parts)])


def checkpoint(place: Path) -> Target:
    """What a run that was killed goes on from: the file, or its description with a checksum that is right."""
    folder, images = Folder(place), seeds.few_images()

    def call(content: bytes) -> None:
        way, rest = (content[0] if content else 0), content[1:]
        if way % 2:
            rest = seeds.checkpoint_described_by(rest)
        path = folder.files({"checkpoint.safetensors": rest})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            refused(lambda: learn(images, 4, steps=3, patience=0, checkpoint=path, resume=True))

    return Target(call, seeds.checkpoints())


TARGETS: Mapping[str, Make] = {
    "npy": array_file("a.npy", wrap=as_it_is),
    "npz": array_file("a.npz", wrap=zipped),
    "mat": array_file("5.mat", "7.mat", wrap=matlab),
    "hdf5": array_file("a.h5", "fastmri.h5", "ismrmrd.h5", wrap=as_it_is),
    "measurement": measurement,
    "nifti": nifti,
    "bart": bart,
    "raw": raw,
    "dicom": dicom,
    "twix": twix,
    "collections": collections,
    "config": config,
    "run": run_folder,
    "checkpoint": checkpoint,
    "network": network,
    "masks": masks,
    "cache": cache,
}
