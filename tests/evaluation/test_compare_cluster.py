"""A comparison on a Dask cluster: what one process gives, every cell once, whatever happens to a worker."""

import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from clusters import running_cluster
from comparisons import image_file

from helpers import smooth_images
from promask.data.arrays import from_images
from promask.errors import InputError
from promask.evaluation.cells import CellStore
from promask.evaluation.evaluate import evaluate
from promask.report.comparison import compare

PRELOAD = """
import os, time
from promask.evaluation.methods import Method

count = 0

def told(self, problem):
    global count
    count += 1
    with open("begun.txt", "a") as log:
        log.write(f"{os.getpid()} x{problem.acceleration:g}/{self.label}-{problem.seed}\\n")
    while count > 1 and os.path.exists("hang-" + os.environ["NAME"]):
        time.sleep(0.1)
    return Method.make(self, problem)

if not hasattr(Method, "make"):  # this file may be run more than once
    Method.make, Method.mask = Method.mask, told
"""
"""Workers write down which mask they begin; while a file says so, one of them does not finish its second."""
pytestmark = pytest.mark.usefixtures("undrawn")
CELLS = ["random-0", "random-1", "energy-0", "promask-0"]
METHODS = {"methods": ["random", "energy", "promask"], "seeds": 2, "learned_seeds": 1}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dask")
    (folder / "preload.py").write_text(PRELOAD)
    with running_cluster(folder) as running:
        for name in ("survivor", "victim"):
            running.add_worker(preload=folder / "preload.py", NAME=name)
        running.await_workers()
        yield running


def begun(cluster):
    """The masks that were begun, in their order: the process and the name of the cell."""
    log = cluster.folder / "begun.txt"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(process), name) for process, name in map(str.split, lines)]


def test_a_worker_is_killed_in_the_middle(cluster, images, tmp_path, monkeypatch, capfd):
    """Its cell is made by another one, and all that were saved are not made again; the result is that of here."""
    (cluster.folder / "hang-victim").touch()
    victim = cluster.workers[1]
    saved, seen = [], []
    save = CellStore.save
    monkeypatch.setattr(
        CellStore, "save", lambda self, cell, **how: saved.append(cell.cell.name) or save(self, cell, **how)
    )

    def kill_in_the_middle():
        while len(names := [name for process, name in begun(cluster) if process == victim.pid]) < 2 or (
            names[0] not in saved
        ):
            time.sleep(0.01)
        os.kill(victim.pid, signal.SIGKILL)

    killing = threading.Thread(target=kill_in_the_middle, daemon=True)
    killing.start()
    there = compare(
        images,
        [4, 8],
        out=tmp_path / "there",
        scheduler=cluster.address,
        on_cell=lambda *at: seen.append(at),
        **METHODS,
    )
    killing.join()
    assert victim.wait() == -signal.SIGKILL
    assert capfd.readouterr() == ("", "")

    cells = [f"x{acceleration}/{name}" for acceleration in (4, 8) for name in CELLS]
    assert sorted(saved) == sorted(cells)
    assert [(done, total) for done, total, _ in seen] == [(done, 8) for done in range(9)]
    assert [name for *_, name in seen] == ["", *saved]
    hung = [name for process, name in begun(cluster) if process == victim.pid][1]
    assert Counter(name for _, name in begun(cluster)) == Counter([*cells, hung])

    monkeypatch.setattr(CellStore, "save", save)
    here = compare(images, [4, 8], out=tmp_path / "here", **METHODS)
    assert_same(here, there)
    for name in cells:
        masks = [np.load(tmp_path / place / "masks" / f"{name}.npy") for place in ("here", "there")]
        assert (masks[0] == masks[1]).all()
    records = list((tmp_path / "there" / "cells").rglob("*.*"))
    assert len(records) == len(list((tmp_path / "there" / "masks").rglob("*.*"))) == len(cells)
    assert {json.loads(record.read_text())["threads"] for record in records} == {1}
    tables = [(tmp_path / place / "differences.csv").read_text() for place in ("here", "there")]
    assert tables[0] == tables[1]


def assert_same(one, other):
    for first, second in zip(one.scores, other.scores, strict=True):
        for name in ("method", "achieved", "references"):
            assert getattr(first, name) == getattr(second, name)
        assert all((first.quality[metric] == second.quality[metric]).all() for metric in first.quality)


def test_images_in_memory_are_sent(cluster, tmp_path):
    images = from_images(smooth_images(6, size=(16, 12)))
    there = compare(images, [4], ["energy", "promask"], out=tmp_path / "there", seeds=1, scheduler=cluster.address)
    assert_same(compare(images, [4], ["energy", "promask"], out=tmp_path / "here", seeds=1), there)


def test_only_what_is_left_is_sent(cluster, images, tmp_path):
    """Masks that are there are measured by another convention, but not made again."""
    out = tmp_path / "out"
    compare(images, [4], ["energy"], out=out)
    before = {path: path.read_bytes() for path in out.rglob("masks/*/*.npy")}
    count = len(begun(cluster))
    there = compare(
        images, [4], ["energy", "random"], out=out, seeds=1, convention="fastmri", scheduler=cluster.address
    )
    assert [name for _, name in begun(cluster)[count:]] == ["x4/random-0"]
    assert len(before) == 1
    assert all(path.read_bytes() == content for path, content in before.items())
    assert set(json.loads((out / "cells" / "x4" / "energy-0.json").read_text())["quality"]) == {"paper", "fastmri"}
    assert_same(
        compare(images, [4], ["energy", "random"], out=tmp_path / "here", seeds=1, convention="fastmri"), there
    )
    compare(images, [4], ["energy"], out=out, scheduler="tcp://127.0.0.1:1")  # nothing is left


def test_interrupted_and_started_again_here(cluster, images, tmp_path, capfd):
    def interrupt(done, total, name):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(images, [4], out=tmp_path / "out", scheduler=cluster.address, on_cell=interrupt, **METHODS)
    assert capfd.readouterr() == ("", "")
    kept = list(tmp_path.rglob("cells/*/*.json"))
    assert len(kept) == 1
    times = [path.stat().st_mtime_ns for path in kept]
    compare(images, [4], out=tmp_path / "out", **METHODS)
    assert [path.stat().st_mtime_ns for path in kept] == times


def test_data_that_workers_do_not_have(cluster, images, tmp_path):
    """They are gone, or others, when a worker opens them."""

    def compare_after(change):
        compare(
            images, [4], ["energy"], out=tmp_path / "out", scheduler=cluster.address, on_cell=lambda *_: change()
        )

    with pytest.raises(InputError, match=rf"^On {socket.gethostname()}: .*images.npz holds other images than on"):
        compare_after(lambda: np.savez(images, image=smooth_images(10, size=(24, 20))[:, 0].abs().float().numpy()))
    image_file(images)
    with pytest.raises(InputError, match=rf"^On {socket.gethostname()}: {images} is neither a file nor"):
        compare_after(Path(images).unlink)


def test_command_line(cluster, images, commands):
    """A file is found by workers in another folder, masks are sent; the sentences are those of one process."""
    np.save("lines.npy", np.arange(20) % 4 == 0)
    words = ("compare", "images.npz", "--accel", 4, "--methods", "energy", "mine=lines.npy", "--scheduler")
    printed = commands(*words, cluster.address, "--out", "there", "--json")
    rows = json.loads(printed)["rows"]
    assert [row["method"] for row in rows] == ["energy", "mine"]
    assert rows[1]["psnr"] == pytest.approx(evaluate(np.load("lines.npy"), images).summary()["psnr"])
    sentence = commands(*words, cluster.address, "--jobs", 2, "--out", "both", status=2)
    assert sentence.endswith("give --jobs or --scheduler, and not both.\n")
    sentence = commands(*words, "scheduler.json", "--out", "bad", status=2)
    assert "an address such as tcp://HOST:8786" in sentence
