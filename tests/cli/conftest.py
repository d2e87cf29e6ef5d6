"""Fixtures of the command line."""

import numpy as np
import pytest
import typer

from promask.cli.main import app, lay_out_help, main


@pytest.fixture(scope="session")
def parser():
    """The whole command line, as `main` parses it."""
    return lay_out_help(typer.main.get_command(app))


@pytest.fixture
def images(tmp_path, undrawn, monkeypatch):
    """The current folder, with a file of four small images in it."""
    monkeypatch.chdir(tmp_path)
    np.save("images.npy", np.random.default_rng(0).random((4, 16, 12)).astype(np.float32))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with files and folders whose names can be completed."""
    monkeypatch.chdir(tmp_path)
    for name in ("scans", "my scans", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "kneecap.npy").touch()


@pytest.fixture
def complete(monkeypatch, capsys):
    """The values for the last word of a line, as bash, zsh or fish ask for them."""

    def call(line, shell="bash"):
        words = line.split(" ")
        monkeypatch.setenv("_PROMASK_COMPLETE", f"complete_{shell}")
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        with pytest.raises(SystemExit) as stop:
            main([])
        assert stop.value.code == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out.split("\n")[:-1]

    return call
