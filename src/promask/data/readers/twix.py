"""Raw data of Siemens scanners (twix), of software VB and VD/VE: the lines of the last measurement of a file.

Of twixtools, which knows how these files are made, the structures are used and not the readers: a damaged line or
header makes those run without end, or fill the memory.
"""

import importlib.util
import math
import os
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from promask.data.atomic import Array
from promask.data.axes import CONTRAST, FRAME, SLICE
from promask.data.readers.lines import Lines, refuse_trajectory
from promask.data.reading import Reading
from promask.data.sample_file import SampleFile, refuse_array_settings
from promask.data.sandbox import report_damage
from promask.errors import InputError

KIND = "a raw data file of Siemens"
END = "ACQEND"
"""The flag of the last line, which holds no values."""
OTHER_DATA = "SYNCDATA"
"""The flag of what is no line: physiological signals for one."""
MOST_BYTES = 1 << 25
"""What a line may take; the number of its bytes is stored together with flags above it."""
NOT_IMAGING = (
    OTHER_DATA,
    "B1_CONTROLLOOP",
    "CT_NORMALIZE",
    "HPFEEDBACK",
    "MDH_VOP",
    "NOISEADJSCAN",
    "PACE",
    "PHASCOR",
    "PHASESTABSCAN",
    "REFPHASESTABSCAN",
    "RETRO_DUMMYSCAN",
    "RTFEEDBACK",
    "SLICE_ACCEL_PHASCOR",
    "SLICE_ACCEL_REFSCAN",
    "noname60",
)
"""Flags of lines that are not part of the image: noise, navigators, corrections and so on."""
REFERENCE, ALSO_IMAGE = "PATREFSCAN", "PATREFANDIMASCAN"
"""Flags of lines for the calibration of parallel imaging, and of those that are part of the image as well."""
REVERSE = "REFLECT"
"""The flag of lines that were read from right to left."""
COUNTERS = {SLICE: ("Sli",), FRAME: ("Rep", "Phs"), CONTRAST: ("Eco", "Set")}
"""What tells samples from each other; segments are parts of one k-space, and averages are averaged."""
TRAJECTORIES = {1: "cartesian", 2: "radial", 4: "spiral", 8: "propeller"}
VOLUME = 4
"""The number of a measurement with two phase encodings."""
EVEN_READOUT = 1
"""The number of lines that are sampled evenly, and so on the grid."""


def read_twix(path: Path, reading: Reading) -> SampleFile:
    """Every slice, frame and contrast is a sample with its coils: (coil, readout, phase encoding)."""
    refuse_array_settings(path, reading)
    if importlib.util.find_spec("twixtools") is None:
        raise InputError(f"{path} needs twixtools: pip install 'promask[twix]'.")
    with report_damage(path, KIND):
        with path.open("rb") as file:
            measurement = _Measurement.read(file)
        header, heads = measurement.header, measurement.heads
        refuse_trajectory(path, TRAJECTORIES.get(int(header.get("sKSpace.ucTrajectory", 1)), "non-Cartesian"))
        if header.get("alRegridMode", EVEN_READOUT) > EVEN_READOUT:
            raise InputError(f"{path} has a readout on ramps: promask reads Cartesian k-space.")
        if not len(heads):
            raise InputError(f"{path} holds no lines of an image.")
        return _describe(path, measurement, reading)


class _Measurement(NamedTuple):
    """What a file says of its last measurement, and where its lines are."""

    header: dict[str, float]
    """Numbers of the header by their names; those it does not tell are missing."""
    heads: Array
    """The heads of the lines of the image."""
    turned: Array
    """Whether each of them was read from right to left."""
    starts: Array
    """Where their values begin in the file, with the head of the first coil."""
    coil_head: int
    """The bytes before the values of each coil."""

    @staticmethod
    def read(file: IO[bytes]) -> "_Measurement":
        """From an open file."""
        from twixtools.hdr_def import MultiRaidFileHeader, SingleMeasInit
        from twixtools.helpers import idea_version_check
        from twixtools.mdh_def import Channel_header, Scan_header, VB17_header

        start, end = 0, file.seek(0, os.SEEK_END)
        newer, _ = idea_version_check(file)
        file.seek(0)
        if newer:
            (index,) = np.frombuffer(file.read(MultiRaidFileHeader.itemsize), MultiRaidFileHeader)
            last = index["entry"][int(index["hdr"]["count_"]) - 1]
            start, size = int(last["off_"]), int(last["len_"])
            if start + size > end:
                raise ValueError("it is cut")
            end = start + size if size else end  # a file of one measurement may not tell
        file.seek(start)
        length = int(np.frombuffer(file.read(SingleMeasInit.itemsize), SingleMeasInit)["hdr_len"][0])
        if not SingleMeasInit.itemsize <= length <= end - start:
            raise ValueError("it is cut")
        header = _numbers(file.read(length - SingleMeasInit.itemsize))
        head, coil_head = np.dtype(Scan_header if newer else VB17_header), np.dtype(Channel_header).itemsize
        # The older ones have a head for each coil, with the same counters, in place of one for all of them.
        shared, coil_head = (head.itemsize, coil_head) if newer else (0, head.itemsize)
        starts, heads = _walk(file, head, start + length, end, shared, coil_head)
        chosen = ~_has_flag(heads, NOT_IMAGING) & (~_has_flag(heads, [REFERENCE]) | _has_flag(heads, [ALSO_IMAGE]))
        heads = heads[chosen]
        return _Measurement(header, heads, _has_flag(heads, [REVERSE]), starts[chosen] + shared, coil_head)


def _walk(
    file: IO[bytes], head: "np.dtype[Any]", start: int, end: int, shared: int, coil_head: int
) -> tuple[Array, Array]:
    """The places and the heads of all lines up to the one that ends the measurement."""
    starts: list[int] = []
    found: list[bytes] = []
    offset = head.fields["EvalInfoMask"][1] if head.fields else 0
    last, other = _bits([END]), _bits([OTHER_DATA])
    while True:
        file.seek(start)
        content = file.read(head.itemsize)
        flags, samples, coils = struct.unpack_from("<QHH", content, offset)
        if flags & last:
            return np.array(starts, int), np.frombuffer(b"".join(found), head)
        if flags & other:
            size = struct.unpack_from("<I", content)[0] % MOST_BYTES
        else:
            size = shared + coils * (coil_head + 8 * samples)
        if size < head.itemsize or start + size > end:
            raise ValueError("it is cut")
        starts.append(start)
        found.append(content)
        start += size


def _bits(names: Sequence[str]) -> int:
    from twixtools.mdh_def import mask_dict

    return sum(1 << mask_dict[name] for name in names)


def _has_flag(heads: Array, names: Sequence[str]) -> Array:
    return (heads["EvalInfoMask"] & np.uint64(_bits(names))) != 0


NUMBERS = re.compile(
    rb"^(sKSpace\.\w{1,40}|sSliceArray\.asSlice\[0\]\.d\w{1,40})[ \t]*=[ \t]*([-+.\w]{1,24})"
    rb'|"(alRegridMode)">\s*\{\s*(\d{1,9})',
    re.MULTILINE,
)


def _numbers(text: bytes) -> dict[str, float]:
    """The numbers of the grid that the text of a header tells; the first of those that are told twice."""
    result: dict[str, float] = {}
    for name, value, other, mode in NUMBERS.findall(text):
        try:
            number = int(value, 16) if value[:2] == b"0x" else float(value or mode)
        except ValueError:
            continue
        if math.isfinite(number):
            result.setdefault((name or other).decode(), number)
    return result


def _describe(path: Path, measurement: _Measurement, reading: Reading) -> SampleFile:
    header, heads = measurement.header, measurement.heads
    counters = heads["Counter"]
    coils, samples, centre = (heads[name].astype(int) for name in ("UsedChannels", "SamplesInScan", "CenterCol"))
    steps = np.stack([counters[name].astype(int) - heads[f"Center{name}"] for name in ("Lin", "Par")], axis=1)
    # What lies around the image is measured as well, along both phase encodings, and is no part of it.
    more = [1 + max(0.0, header.get(f"sKSpace.d{name}OversamplingForDialog", 0)) for name in ("Phase", "Slice")]
    stated = [header.get("sKSpace.lPhaseEncodingLines", 0) * more[0], 0.0]
    if header.get("sKSpace.ucDimension") == VOLUME:
        stated[1] = header.get("sKSpace.lPartitions", 0)
    columns = 2 * max(int(centre.max()), int((samples - centre).max()))
    base = int(header.get("sKSpace.lBaseResolution", 0))
    width = min(base, columns) if base > 0 else columns // 2  # which is oversampled twofold, if nothing is said
    low, high = steps.min(0).tolist(), (steps.max(0) + 1).tolist()
    # The centre of k-space is that of the grid, as far as the measured lines lie to one side of it.
    y, z = (max(round(n), -2 * a, 2 * b - 1) for n, a, b in zip(stated, low, high, strict=True))
    fields = [header.get(f"sSliceArray.asSlice[0].d{name}", 0) for name in ("ReadoutFOV", "PhaseFOV", "Thickness")]
    voxel = tuple(f * m / n for f, m, n in zip(fields, [1, *more], (width, y, z), strict=True))
    values = np.dtype([("head", "V", measurement.coil_head), ("values", "<c8", int(samples.max()))])

    def read(lines: Array) -> Iterator[Array]:
        with report_damage(path, KIND), path.open("rb") as file:
            for line in lines:
                file.seek(measurement.starts[line])
                yield np.frombuffer(file.read(coils[line] * values.itemsize), values, coils[line])["values"]

    lines = Lines(
        path=path,
        shape=(columns, y, z),
        width=width,
        coils=coils,
        samples=samples,
        cut=np.stack([heads["CutOff"][name] for name in ("Pre", "Post")], axis=1).astype(int),
        centre=centre,
        places=steps + np.array([y, z]) // 2,
        turned=measurement.turned,
        counters={role: np.stack([counters[name] for name in names], 1) for role, names in COUNTERS.items()},
        read=read,
    )
    image = (0, *(round(n / m) for n, m in zip((y, z), more, strict=True)))
    return lines.describe(reading, image, voxel if min(voxel) > 0 else ())
