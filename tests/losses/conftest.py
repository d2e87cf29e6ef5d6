import pytest
from comparisons import heart_file, heart_network


@pytest.fixture(scope="package")
def network():
    """A small network that finds hearts."""
    return heart_network(steps=25)


@pytest.fixture
def data(tmp_path):
    """A file of labelled hearts."""
    return heart_file(tmp_path / "hearts.npz")
