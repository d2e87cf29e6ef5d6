"""Fixtures of the comparisons."""

import pytest
from comparisons import image_file, tiny_comparison

from promask.evaluation import workers
from promask.evaluation.methods import Method
from promask.learners import BestResponse
from promask.studio.processes import start_method


@pytest.fixture
def images(tmp_path, undrawn):
    """Ten slices of five subjects, in a file; figures are not drawn."""
    return image_file(tmp_path / "images.npz")


@pytest.fixture
def problems(monkeypatch):
    """The label of the method and the problem of every mask that is made, in this process."""
    found = []
    make = Method.mask

    def recorded(self, problem):
        found.append((self.label, problem))
        return make(self, problem)

    monkeypatch.setattr(Method, "mask", recorded)
    return found


@pytest.fixture
def few_steps(monkeypatch):
    """How masks are compared does not depend on how long they are learned, in this process."""
    monkeypatch.setitem(BestResponse.about.defaults, "steps", 5)


@pytest.fixture
def quick_processes(monkeypatch):
    """Processes of a comparison begin at once: forked from one that has imported everything, as the studio's are.

    They are sent the same as those that are started anew, which tests of the command line have.
    """
    context = start_method()
    monkeypatch.setattr(workers.multiprocessing, "get_context", lambda method: context)


@pytest.fixture
def tiny():
    return tiny_comparison()


@pytest.fixture
def few_images_will_do(monkeypatch):
    """Two images are enough for an interval."""
    for module in ("bootstrap", "tables"):
        monkeypatch.setattr(f"promask.evaluation.{module}.FEWEST", 2)
