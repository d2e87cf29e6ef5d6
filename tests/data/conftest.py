import pytest
from layouts import make_database, make_knees


@pytest.fixture
def database(tmp_path):
    """ACDC."""
    return make_database(tmp_path)


@pytest.fixture
def knees(tmp_path):
    """FastMRI."""
    return make_knees(tmp_path)
