import importlib.util
import os
import pkgutil

os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
import torch
from jaxtyping import install_import_hook

# Every shape that a signature of the package names is checked at run time. Not so in config and reading, whose own
# checks of what users hand them are under test.
folder = importlib.util.find_spec("promask").submodule_search_locations
names = {module.name for module in pkgutil.iter_modules(folder)} - {"config", "reading", "__main__"}
install_import_hook([f"promask.{name}" for name in names], "typecheck.typecheck")
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Every test has a cache of its own, and leaves that of the user alone."""
    monkeypatch.setenv("PROMASK_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def database(tmp_path):
    """ACDC."""
    from layouts import make_database

    return make_database(tmp_path)


@pytest.fixture
def knees(tmp_path):
    """FastMRI."""
    from layouts import make_knees

    return make_knees(tmp_path)


@pytest.fixture
def commands(capsys, monkeypatch, tmp_path):
    """The command line in a folder of its own: what it prints, or of an error the one sentence."""
    from promask.cli import main

    monkeypatch.chdir(tmp_path)

    def call(*arguments, status=0):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert stop.value.code == status, captured.err
        if status:
            assert captured.err.count("\n") == 1, "one sentence"
            assert captured.err.startswith("promask: ")
            assert captured.out == ""
        return captured.err if status else captured.out

    return call
