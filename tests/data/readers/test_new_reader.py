"""A new format is one function and one line in the table of readers, as CONTRIBUTING.md shows it."""

import numpy as np
import pytest
from file_writers import IMAGE, images, put, refusal, same

from promask.data import sources
from promask.data.readers.arrays import LazyArray, read_arrays
from promask.data.sandbox import check_claim, report_damage

LEVELS = (255 * IMAGE).astype(np.uint8)


def read_pgm(path, reading):
    """A portable grey map: `P5 WIDTH HEIGHT 255`, a line break, and a byte for each pixel."""
    with report_damage(path, "a portable grey map"), path.open("rb") as file:
        kind, width, height, _ = file.readline().split()
        check_claim(int(width) * int(height), path)
        pixels = np.frombuffer(file.read(), np.uint8).reshape(int(height), int(width))
        if kind != b"P5":
            raise ValueError
    return read_arrays({"image": LazyArray.of(pixels)}, path, reading)


@pytest.fixture
def pgm(tmp_path, monkeypatch):
    monkeypatch.setitem(sources.READERS, ".pgm", read_pgm)

    def write(name, pixels):
        return put(tmp_path / name, f"P5 {pixels.shape[1]} {pixels.shape[0]} 255\n".encode() + pixels.tobytes())

    return write


def test_a_file_of_the_new_format(pgm):
    same(images(pgm("a.pgm", LEVELS[0]), size=(9, 8))[0, 0], LEVELS[0])


def test_a_folder_of_the_new_format(pgm, tmp_path):
    for number, pixels in enumerate(LEVELS):
        pgm(f"{number}.pgm", pixels)
    same(images(tmp_path)[:, 0], LEVELS)


@pytest.mark.parametrize("content", [b"", b"P5 8 9 255\nxyz", b"P6 1 1 255\nx", b"P5 99999 99999 255\n"])
def test_a_broken_file_of_the_new_format(pgm, content):
    path = pgm("a.pgm", LEVELS[0])
    refusal(put(path, content))


def test_without_the_line_in_the_table(pgm, monkeypatch):
    path = pgm("a.pgm", LEVELS[0])
    monkeypatch.delitem(sources.READERS, ".pgm")
    assert "promask reads .npz" in refusal(path)
