"""The process that reads MATLAB files: what it finds, what it survives, and what it refuses."""

import struct
import tempfile

import numpy as np
import pytest
import scipy.io
from file_writers import IMAGE, images, matlab_order, refusal, same
from hostile import matlab_variable

from promask.data.sandbox import Sandbox, sandbox
from promask.data.sources import load
from promask.errors import InputError

VARIABLES = {
    "real": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "complex": np.arange(6).reshape(2, 3) + 1j,
    "logical": np.eye(3, dtype=bool),
    "whole": np.arange(-3, 3, dtype=np.int16).reshape(2, 3),
    "text": "Zürich",
    "texts": np.array(["ab", "cde"]),
    "cells": np.array(["anna", "", 3.0], object),
    "numbers": np.array([1.0, 2.5], object),
}
HEAD = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"


@pytest.mark.parametrize("compressed", [True, False])
def test_variables_of_matlab(tmp_path, compressed):
    """Each has the shape and the kind of numbers that its header states; complex numbers stay complex."""
    scipy.io.savemat(tmp_path / "a.mat", VARIABLES, do_compression=compressed)
    listed = sandbox.list_matlab(tmp_path / "a.mat")
    assert {name: dtype.kind for name, (_, dtype) in listed.items()} == {
        **{"real": "f", "complex": "c", "logical": "u", "whole": "i"},
        **{"text": "U", "texts": "U", "cells": "O", "numbers": "O"},
    }
    for name in ("real", "complex", "logical", "whole"):
        assert listed[name][0] == VARIABLES[name].shape
        same(sandbox.read_matlab(tmp_path / "a.mat", name), VARIABLES[name])
    texts = {name: sandbox.read_matlab(tmp_path / "a.mat", name).ravel().tolist() for name in list(listed)[4:]}
    assert texts == {
        **{"text": ["Zürich"], "texts": ["ab ", "cde"]},
        **{"cells": ["anna", "", "3"], "numbers": [1.0, 2.5]},
    }


def test_matlab_of_version_4_and_of_other_machines(tmp_path):
    scipy.io.savemat(tmp_path / "4.mat", {"image": IMAGE[0].astype(float)}, format="4")
    same(images(tmp_path / "4.mat")[0, 0], IMAGE[0])
    big = IMAGE[0].astype(">f4")
    values = struct.pack(">II", 7, big.nbytes) + big.tobytes(order="F")
    head = struct.pack(">IIIIIIii", 6, 8, 7, 0, 5, 8, *big.shape) + struct.pack(">II", 1, 5) + b"image\0\0\0"
    body = head + values
    (tmp_path / "5.mat").write_bytes(HEAD[:124] + b"\x01\x00MI" + struct.pack(">II", 14, len(body)) + body)
    same(images(tmp_path / "5.mat")[0, 0], IMAGE[0])


def test_matlab_that_holds_no_numbers(tmp_path):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"image": {"field": 1.0}})
    assert "holds a structure, but numbers are expected" in refusal(path)
    scipy.io.savemat(path, {"image": matlab_order(IMAGE), "subject": np.array([{"a": 1}] * 6, object)})
    assert "its cells hold neither numbers nor texts" in refusal(path)


def test_only_the_sandbox_reads_matlab(tmp_path, monkeypatch):
    """SciPy crashes on some files, so it never meets them in the process of the user."""
    scipy.io.savemat(tmp_path / "a.mat", {"image": matlab_order(IMAGE)})
    for name in ("loadmat", "whosmat"):
        monkeypatch.setattr(scipy.io, name, lambda *_, **__: pytest.fail("SciPy read a file"))
    same(images(tmp_path / "a.mat")[:, 0], IMAGE)


def test_a_crash_is_one_sentence_and_the_next_file_is_read(tmp_path, monkeypatch):
    """A process that was killed is started again."""
    scipy.io.savemat(tmp_path / "a.mat", {"image": matlab_order(IMAGE)})
    own = Sandbox()
    try:
        own.list_matlab(tmp_path / "a.mat")
        own.process.kill()
        own.process.wait()
        with pytest.raises(InputError, match=r"a\.mat is damaged: the library that reads it crashes"):
            own.list_matlab(tmp_path / "a.mat")
        assert list(own.list_matlab(tmp_path / "a.mat")) == ["image"]
    finally:
        own.stop()


def test_no_temporary_files_are_left(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    scipy.io.savemat(tmp_path / "a.mat", {"image": matlab_order(IMAGE)})
    same(sandbox.read_matlab(tmp_path / "a.mat", "image"), matlab_order(IMAGE))
    assert not any((tmp_path / "temporary").iterdir())


def test_a_matlab_file_that_ends_too_early_is_refused_by_its_headers(tmp_path):
    whole = matlab_variable(6, (4, 4), struct.pack("<II", 9, 128) + bytes(128))
    (tmp_path / "a.mat").write_bytes(HEAD + whole)
    load(tmp_path / "a.mat")
    (tmp_path / "a.mat").write_bytes((HEAD + whole)[:-1])
    with pytest.raises(InputError, match=r"a\.mat is damaged"):
        load(tmp_path / "a.mat")
