"""Members of a run on a Dask cluster: those that one process learns, bit for bit."""

from pathlib import Path

import numpy as np
import pytest
import torch
from clusters import running_cluster

from promask.errors import InputError
from promask.learning import checkpoint
from promask.learning.api import learn

SETTINGS = {"acceleration": 4, "members": 3, "steps": 12, "init": "uniform"}


class Stop(BaseException):
    """As a signal would, it passes by whatever catches errors."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with running_cluster(tmp_path_factory.mktemp("dask")) as cluster:
        cluster.add_worker()
        cluster.await_workers()
        yield cluster.address


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    images = np.random.default_rng(0).random((8, 16, 14), dtype=np.float32).cumsum(1).cumsum(2)
    path = tmp_path_factory.mktemp("data") / "scans.npz"
    np.savez(path, image=images / images.max(), subject=np.arange(8))
    return str(path)


@pytest.fixture(scope="module")
def here(scans):
    return learn(scans, **SETTINGS)


def check_same(one, other):
    assert torch.equal(one.probabilities, other.probabilities)
    assert torch.equal(one.variance, other.variance)
    assert torch.equal(one.trajectory.probabilities, other.trajectory.probabilities)
    assert one.history == other.history


def test_a_cluster_learns_what_one_process_learns(address, scans, here):
    told = []
    there = learn(scans, scheduler=address, on_step=told.append, **SETTINGS)
    check_same(there, here)
    assert [(each.member, each.step) for each in told] == [(0, 12), (1, 12), (2, 12)]


def test_files_are_found_from_another_folder(address, scans, here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("start.npy", np.linspace(0, 1, 16 * 14, dtype=np.float32).reshape(16, 14))
    (tmp_path / "scans.npz").write_bytes(Path(scans).read_bytes())
    settings = {**SETTINGS, "init": "start.npy"}
    there = learn("scans.npz", scheduler=address, **settings)
    check_same(there, learn("scans.npz", **settings))
    assert not torch.equal(there.probabilities, here.probabilities)


def test_images_in_memory_are_sent_along(address, scans):
    images = np.load(scans)["image"]
    check_same(learn(images, scheduler=address, **SETTINGS), learn(images, **SETTINGS))


def test_members_that_came_back_are_not_learned_again(address, scans, here, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARE", 1e9)

    def stop_at_second(progress):
        if progress.member == 1:
            raise Stop

    with pytest.raises(Stop):
        learn(scans, scheduler=address, checkpoint=tmp_path, on_step=stop_at_second, **SETTINGS)
    told = []
    run = learn(scans, scheduler=address, checkpoint=tmp_path, resume=True, on_step=told.append, **SETTINGS)
    check_same(run, here)
    assert [each.member for each in told] == [2], "the third to be done"
    assert len(run.record.checkpoints.resumed) == 2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"members": 1, "scheduler": "tcp://127.0.0.1:1"}, "A cluster learns members, each apart from the others"),
        ({"members": 2, "scheduler": "here"}, "address such as tcp://HOST:8786"),
    ],
)
def test_what_a_cluster_is_not_for(settings, sentence, scans):
    with pytest.raises(InputError, match=sentence):
        learn(scans, 4, **settings)
