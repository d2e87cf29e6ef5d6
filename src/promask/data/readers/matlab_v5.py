"""MATLAB's files of version 5 to 7, read here: SciPy's reader ends the process on some files that are damaged.

A file is a list of elements, each with its kind and size. A variable is an element of elements: its class and
flags, its shape, its name, and its numbers, in the smallest type that holds them; it may be compressed as a whole.
"""

import io
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from promask.data.atomic import Array
from promask.data.sandbox import check_claim, unpacked

HEADER = 128
"""Bytes of text, and at their end the order of bytes."""
ORDERS = {b"IM": "<", b"MI": ">"}
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""NumPy's types of elements that hold numbers."""
TEXTS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
"""The encodings of elements that hold letters."""
MATRIX, COMPRESSED = 14, 15
CELL, STRUCTURE, OBJECT, CHARACTERS = 1, 2, 3, 4
NUMERIC = range(6, 16)
"""The classes of variables."""
COMPLEX = 0x0800
"""The flag of complex numbers."""
START = 4096
"""Bytes of a variable that hold its shape and name."""


@dataclass(frozen=True)
class Variable:
    """A variable that is known by its head; its shape is MATLAB's."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    whole: Callable[[], Array]


@dataclass(frozen=True)
class _Head:
    kind: int
    is_complex: bool
    shape: tuple[int, ...]
    name: str
    end: int
    """Where the content begins."""


def is_version_5(start: bytes) -> bool:
    """Whether a file begins as one of version 5 does; those of version 4 begin with a small number."""
    return start[126:128] in ORDERS and 0 not in start[:4]


def variables_of(path: Path) -> dict[str, Variable]:
    """The variables of a file by name: numbers, texts, cells and structures."""
    found = {}
    with path.open("rb") as file:
        order = ORDERS[file.read(HEADER)[126:128]]
        size = file.seek(0, io.SEEK_END)
        position = HEADER
        while position < size:
            file.seek(position)
            kind, length = struct.unpack(f"{order}II", file.read(8))
            if position + 8 + length > size:
                raise EOFError
            if kind in (MATRIX, COMPRESSED):
                head, stored = _described(_start(file, path, kind, length), order)
                if head.name and head.kind in (CELL, STRUCTURE, OBJECT, CHARACTERS, *NUMERIC):
                    found[head.name] = _variable(path, order, position, head, stored)
            position += 8 + length
    return found


def _start(file: IO[bytes], path: Path, kind: int, length: int) -> bytes:
    """The beginning of a variable, without its tag."""
    if kind == MATRIX:
        return file.read(min(length, START))
    piece = next(unpacked(file, path))
    return piece[8 : 8 + START]


def _described(start: bytes, order: str) -> tuple[_Head, int]:
    """The head of a variable, and the kind of its numbers, 0 if it has none."""
    content = memoryview(start)
    flags, position = _element(content, 0, order)[1:]
    word = struct.unpack(f"{order}I", flags[:4])[0]
    shape, position = _element(content, position, order)[1:]
    name, position = _element(content, position, order)[1:]
    dimensions = np.frombuffer(shape, f"{order}i4")
    if (dimensions < 0).any() or not 2 <= len(dimensions) <= 32:
        raise ValueError(f"a shape of {dimensions}")
    head = _Head(
        kind=word & 0xFF,
        is_complex=bool(word & COMPLEX),
        shape=tuple(int(n) for n in dimensions),
        name=bytes(name).decode("latin-1"),
        end=position,
    )
    return head, _tag(content, position, order)[0] if len(content) >= position + 8 else 0


def _tag(content: memoryview, position: int, order: str) -> tuple[int, int, int]:
    """The kind and the size of an element, and where its content begins; up to 4 bytes lie within the tag."""
    kind, size = struct.unpack_from(f"{order}II", content, position)
    if kind >> 16:
        return kind & 0xFFFF, kind >> 16, position + 4
    return kind, size, position + 8


def _element(content: memoryview, position: int, order: str) -> tuple[int, memoryview, int]:
    """The kind of an element, its content, and where the next one begins."""
    kind, size, start = _tag(content, position, order)
    if start + size > len(content) or (start == position + 4 and size > 4):
        raise EOFError
    return kind, content[start : start + size], start + (4 if start == position + 4 else size + -size % 8)


def _variable(path: Path, order: str, position: int, head: _Head, stored: int) -> Variable:
    def whole() -> Array:
        content = _content(path, order, position)
        again, _ = _described(bytes(content[:START]), order)
        return _values(again, content[again.end :], order)

    if head.kind in NUMERIC:
        if math.prod(head.shape) == 0:
            stored = 9  # nothing is stored of an empty array
        dtype = np.dtype(NUMBERS[stored])
        check_claim(math.prod(head.shape) * dtype.itemsize * (1 + head.is_complex), path)
        return Variable(head.shape, np.result_type(dtype, np.complex64) if head.is_complex else dtype, whole)
    if head.kind == CHARACTERS:
        return Variable(head.shape[:-1], np.dtype("U"), whole)
    return Variable(head.shape, np.dtype("O" if head.kind == CELL else [("structure", "O")]), whole)


def _content(path: Path, order: str, position: int) -> memoryview:
    """A variable, without its tag and unpacked."""
    with path.open("rb") as file:
        file.seek(position)
        kind, length = struct.unpack(f"{order}II", file.read(8))
        if kind == MATRIX:
            return memoryview(file.read(length))
        content = bytearray()
        for piece in unpacked(file, path):
            content += piece
    inner, size = struct.unpack_from(f"{order}II", content)
    if inner != MATRIX or len(content) < 8 + size:
        raise EOFError
    return memoryview(content)[8 : 8 + size]


def _values(head: _Head, content: memoryview, order: str) -> Array:
    """The content of a variable: numbers in MATLAB's order, texts, a row each, or what cells hold."""
    if head.kind in NUMERIC:
        return _numbers(head, content, order)
    if head.kind == CHARACTERS:
        return np.array(_texts(head, content, order))
    if head.kind != CELL:
        raise ValueError("it is a structure")
    cells = np.empty(min(math.prod(head.shape), len(content) // 8), object)
    if len(cells) != math.prod(head.shape):
        raise EOFError
    cells[:] = list(_cells(content, order, len(cells)))
    return cells.reshape(head.shape, order="F")


def _cells(content: memoryview, order: str, count: int) -> Iterator[Any]:
    position = 0
    for _ in range(count):
        _, cell, position = _element(content, position, order)
        head, _ = _described(bytes(cell[:START]), order)
        if head.kind not in (CHARACTERS, *NUMERIC):
            raise ValueError("a cell that holds neither numbers nor texts")
        values = _values(head, cell[head.end :], order)
        yield values.item() if values.size == 1 else values


def _numbers(head: _Head, content: memoryview, order: str) -> Array:
    count = math.prod(head.shape)
    if count == 0:
        return np.zeros(head.shape)
    kind, part, position = _element(content, 0, order)
    real = np.frombuffer(part, order + NUMBERS[kind])
    if head.is_complex:
        kind, part, _ = _element(content, position, order)
        imaginary = np.frombuffer(part, order + NUMBERS[kind])
        real = real + np.complex64(1j) * imaginary
    return real.reshape(head.shape, order="F")


def _texts(head: _Head, content: memoryview, order: str) -> list[str]:
    """The rows of a matrix of letters."""
    if math.prod(head.shape) == 0:
        return [""]
    kind, part, _ = _element(content, 0, order)
    ending = {"<": "-le", ">": "-be"}[order] if TEXTS[kind] in ("utf-16", "utf-32") else ""
    text = bytes(part).decode(TEXTS[kind] + ending)
    rows = math.prod(head.shape[:-1])
    if len(text) != math.prod(head.shape):
        raise EOFError
    return [text[row::rows] for row in range(rows)]
