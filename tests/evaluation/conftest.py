"""Fixtures of the comparisons."""

import pytest
from comparisons import image_file, tiny_comparison

from promask.evaluation.methods import Method


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
def tiny():
    return tiny_comparison()


@pytest.fixture
def few_images_will_do(monkeypatch):
    """Two images are enough for an interval."""
    for module in ("bootstrap", "tables"):
        monkeypatch.setattr(f"promask.evaluation.{module}.FEWEST", 2)
