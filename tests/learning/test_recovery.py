"""Folders that were being replaced when their writer was killed, at each moment of it."""

import shutil

import pytest

from promask.data.atomic import recover_folder, replace_file, replace_folder

HEX = "0123456789abcdef" * 2


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    write(folder, "old")
    return folder


def write(folder, text):
    folder.mkdir()
    (folder / "mask.npy").write_text(text)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_while_the_new_one_was_written(run, tmp_path):
    write(tmp_path / f".run.{HEX}", "half of the n")
    recover_folder(run)
    assert (run / "mask.npy").read_text() == "old"
    assert names(tmp_path) == ["run"]


def test_between_the_two_renames(run, tmp_path):
    """The new one was whole, or the old one would have kept its name."""
    write(tmp_path / f".run.{HEX}", "new")
    run.rename(tmp_path / f".run.{HEX}.replaced")
    recover_folder(run)
    assert (run / "mask.npy").read_text() == "new"
    assert names(tmp_path) == ["run"]


def test_before_the_old_one_was_removed(run, tmp_path):
    write(tmp_path / f".run.{HEX}.replaced", "older")
    recover_folder(run)
    assert (run / "mask.npy").read_text() == "old"
    assert names(tmp_path) == ["run"]


def test_the_old_one_comes_back_if_the_new_one_is_gone(run, tmp_path):
    run.rename(tmp_path / f".run.{HEX}.replaced")
    recover_folder(run)
    assert (run / "mask.npy").read_text() == "old"


def test_temporary_files_in_it_go_and_all_others_stay(run, tmp_path):
    (run / f".checkpoint.safetensors.{HEX}").write_text("half")
    for name in (".hidden", f".run.{HEX[:-1]}", f"run.{HEX}"):
        (run / name).write_text("mine")
        (tmp_path / name).mkdir()
    write(tmp_path / f".runs.{HEX}", "another's")
    recover_folder(run)
    assert names(run) == [".hidden", f".run.{HEX[:-1]}", "mask.npy", f"run.{HEX}"]
    assert names(tmp_path) == [".hidden", f".run.{HEX[:-1]}", f".runs.{HEX}", "run", f"run.{HEX}"]


def test_where_there_is_nothing(tmp_path):
    recover_folder(tmp_path / "nowhere" / "run")
    recover_folder(tmp_path / "run")
    assert names(tmp_path) == []


def test_a_folder_is_replaced_or_stays(run, tmp_path):
    with replace_folder(run) as temporary:
        (temporary / "mask.npy").write_text("new")
    assert (run / "mask.npy").read_text() == "new"
    with pytest.raises(ZeroDivisionError), replace_folder(run) as temporary:
        (temporary / "mask.npy").write_text(str(1 / 0))
    assert (run / "mask.npy").read_text() == "new"
    assert names(tmp_path) == ["run"]


def test_what_is_renamed_is_on_the_disk_before(tmp_path, monkeypatch):
    """The order of the calls to the system: the content, then the name, then the list of names."""
    calls = []
    monkeypatch.setattr(
        "promask.data.atomic.os.fsync", lambda opened: calls.append(("fsync", (tmp_path / "x").exists()))
    )
    with replace_file(tmp_path / "x") as temporary:
        temporary.write_text("content")
    assert calls == [("fsync", False), ("fsync", True)]
    shutil.rmtree(tmp_path)
