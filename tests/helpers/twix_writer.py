"""Raw data files of Siemens, written byte by byte as scanners do, for software VB and VD/VE."""

import struct

import numpy as np
from file_writers import random

COUNTERS = ("Lin", "Ave", "Sli", "Par", "Eco", "Phs", "Rep", "Set", "Seg", "Ida", "Idb", "Idc", "Idd", "Ide")
END, SYNC, CORRECTION, REFERENCE, ALSO_IMAGE, REFLECT, NOISE = (1 << bit for bit in (0, 5, 21, 22, 23, 24, 25))

PARAMETERS = """<XProtocol>
{{
  <Name> "PhoenixMetaProtocol"
  <ParamString."tPatientName">  {{ "{patient}"  }}
  <ParamLong."alRegridMode">
  {{
    {regrid} 0 0
  }}
}}
"""
PROTOCOL = """### ASCCONV BEGIN ###
tPatientName\t = \t"{patient}"
{settings}
### ASCCONV END ###
"""


def header_of(matrix, oversampled=2, patient="nobody", regrid=1, **changes):
    """The parts of a header for a grid (readout, lines, partitions) with an oversampled readout."""
    settings = {
        "sKSpace.lBaseResolution": matrix[0] // oversampled,
        "sKSpace.lPhaseEncodingLines": matrix[1],
        "sKSpace.lPartitions": max(matrix[2], 16),
        "sKSpace.ucDimension": "0x4" if matrix[2] > 1 else "0x2",
        "sKSpace.ucTrajectory": "0x1",
        "sSliceArray.asSlice[0].dThickness": 4.0 * matrix[2],
        "sSliceArray.asSlice[0].dPhaseFOV": 3.0 * matrix[1],
        "sSliceArray.asSlice[0].dReadoutFOV": 2.0 * (matrix[0] // oversampled),
        "sSliceArray.asSlice[1].dReadoutFOV": 1,
    } | changes
    lines = "\n".join(f"{name}\t = \t{value}" for name, value in settings.items())
    return {
        "Meas": PARAMETERS.format(patient=patient, regrid=regrid),
        "MeasYaps": PROTOCOL.format(patient=patient, settings=lines),
    }


def measurement(lines, header, newer=True):
    """The bytes of a measurement; lines are (values, flags, counters, further fields of the head)."""
    return joined(header_bytes(header), line_bytes(lines, newer))


def header_bytes(header):
    content = struct.pack("<I", len(header))
    for name, text in header.items():
        content += f"{name}\0".encode() + struct.pack("<I", len(text)) + text.encode()
    return content


def line_bytes(lines, newer=True):
    last = (np.zeros((0, 0)), END, {}, {})
    write = _new_line if newer else _old_line
    return b"".join(write(np.asarray(values), *rest) for values, *rest in [*lines, last])


def joined(header, lines):
    header = header.ljust(12_000, b"\0")  # shorter ones do not occur, by which older files are told
    return struct.pack("<I", 4 + len(header)) + header + lines


def _parts(values, flags, counters, fields):
    coils, samples = values.shape
    known = {"centre": samples // 2, "cut": (0, 0), "line": 0, "partition": 0, "bytes": 0} | fields
    counts = [counters.get(name, 0) for name in COUNTERS]
    middle = struct.pack("<QHH14HHHHHfI", flags, samples, coils, *counts, *known["cut"], known["centre"], 0, 0, 0)
    return known["bytes"], middle + struct.pack("<HH", known["line"], known["partition"]), bytes(28)


def _new_line(values, flags, counters, fields):
    size, middle, place = _parts(values, flags, counters, fields)
    head = struct.pack("<IiIIIHHiiii", size, 0, 1, 0, 0, *[0] * 6) + middle + place + bytes(64)
    assert len(head) == 192
    if flags & (END | SYNC):
        return head + bytes(size - 192 if size else 160)
    return head + b"".join(bytes(32) + coil.astype("<c8").tobytes() for coil in values)


def _old_line(values, flags, counters, fields):
    size, middle, place = _parts(values, flags, counters, fields)
    head = struct.pack("<IiIII", size, 0, 1, 0, 0) + middle + bytes(16) + place + bytes(4)
    assert len(head) == 128
    if flags & (END | SYNC):
        return head + bytes(size - 128 if size else 160)
    return b"".join(head + coil.astype("<c8").tobytes() for coil in values)


def write_twix(path, lines, matrix, newer=True, before=(), **changes):
    """A file of one measurement, with others before it if the software is VD/VE."""
    whole = measurement(lines, header_of(matrix, **changes), newer)
    path.write_bytes(indexed([*before, whole], changes.get("patient", "nobody")) if newer else whole)
    return path


def indexed(measurements, patient="nobody"):
    """The bytes of a file of VD/VE."""
    entries, content = struct.pack("<II", 0, len(measurements)), b""
    for number, part in enumerate(measurements):
        content += bytes(-len(content) % 512)
        entries += struct.pack("<IIQQ", number, number, 10_240 + len(content), len(part))
        entries += patient.encode().ljust(64, b"\0") + b"protocol".ljust(64, b"\0")
        content += part
    return entries.ljust(10_240, b"\0") + content


def twix_lines(kspace, flags=0, counters=None, **fields):
    """All lines of (slice, coil, readout, line, partition), in any order."""
    lines, partitions = kspace.shape[3:]
    fields = {"line": lines // 2, "partition": partitions // 2} | fields
    places = list(np.ndindex(len(kspace), lines, partitions))
    random.shuffle(places)
    return [
        (kspace[s, :, :, y, z], flags, {"Sli": s, "Lin": y, "Par": z} | (counters or {}), fields)
        for s, y, z in places
    ]
