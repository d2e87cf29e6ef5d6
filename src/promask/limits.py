"""How much memory a file may ask for: what is plausible for its size, known before any of it is taken.

A file that is not compressed holds what it says, and never meets these limits. One that is compressed may hold
a thousand times its size, as zeros do, and a header may promise anything. So a small file may hold as much as any
real one would, `ALWAYS`, and a large one `TIMES` its size as well: a file of 1 MB never takes more than 1 GB,
whatever is done with its content. Whoever has a file that is larger, and right, can save it without compression.
"""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from promask.errors import InputError

ALWAYS = 256 << 20
"""Bytes that every file may hold: the labels of 500 slices of 512 x 512 pixels, whose file may have 100 kB."""
TIMES = 256
"""Of its size that a file may hold as well: real images come to 3, labels to a few hundred."""

PIECE = 1 << 20
"""Bytes that are unpacked at a time."""


def most_bytes(*files: Path) -> int:
    """The bytes that the content of these files may take."""
    try:
        return ALWAYS + TIMES * sum(file.stat().st_size for file in files)
    except OSError as error:
        raise InputError(f"Cannot read {files[0]}: {error.strerror or error}.") from error


def check_claim(claimed: int, *files: Path) -> None:
    """Refuse files whose content would take more bytes than is plausible."""
    if claimed > most_bytes(*files):
        raise too_large(claimed, files)


def unpacked(stream: IO[bytes], path: Path, bits: int = zlib.MAX_WBITS) -> Iterator[bytes]:
    """What the compressed rest of a stream holds, piece by piece; refused when it becomes more than is plausible.

    A stream that ends too early is a `zlib.error`.
    """
    most, total, unpacker = most_bytes(path), 0, zlib.decompressobj(bits)
    while not unpacker.eof:
        packed = unpacker.unconsumed_tail or stream.read(PIECE)
        piece = unpacker.decompress(packed, PIECE)
        if not packed and not piece:
            raise zlib.error("the stream ends too early")
        total += len(piece)
        if total > most:
            raise too_large(total, [path])
        yield piece


def too_large(claimed: int, files: Sequence[Path]) -> InputError:
    """What is said of files that claim too much."""
    size = sum(file.stat().st_size for file in files)
    return InputError(
        f"{files[0]} has {_amount(size)}, but says that it holds what takes {_amount(claimed)}, which is not "
        f"plausible: it is damaged, or made to fill the memory; if it is right, save it without compression."
    )


def _amount(size: int) -> str:
    """A number of bytes in words.

    >>> _amount(2_500_000)
    '2.5 MB'
    """
    if size >= 10**18:
        return "more than a billion GB"
    for name, unit in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= unit:
            return f"{size / unit:,.0f} {name}" if size >= 100 * unit else f"{size / unit:.2g} {name}"
    return f"{size} bytes"
