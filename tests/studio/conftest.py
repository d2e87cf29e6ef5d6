"""Fixtures of the studio: one server for a file of tests, a client that has its token, and a file of images."""

import pytest
from studio_helpers import calling, images_file, serving


@pytest.fixture(scope="module")
def server():
    """A studio on a free port that takes uploads of 1 MB."""
    with serving(limit=1) as started:
        yield started


@pytest.fixture
def client(server):
    """A client with the token of the studio."""
    with calling(server) as started:
        yield started


@pytest.fixture
def scans(tmp_path):
    """A file of six small images of three subjects."""
    return images_file(tmp_path / "scans.npz")
