"""Data that do not fit into memory: read ahead, from a cache that outlives whoever fills it."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.load import kept_in_memory

from helpers import smooth_images
from promask import learn
from promask.data import cache
from promask.data.arrays import from_images
from promask.data.file_set import prepare
from promask.data.reading import Reading
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.errors import InputError
from promask.problem import batches
from promask.problem.batches import SpectraSet, prefetch
from promask.sampling.pattern import Pattern

IMAGES = smooth_images(24, size=(20, 18), phase=False).abs().float()[:, 0].numpy()


@pytest.fixture
def file(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", image=IMAGES, subject=np.repeat(np.arange(6), 4))
    return tmp_path / "a.npz"


# Reading ahead


def test_items_come_in_order_and_are_made_in_advance():
    made = []

    def items():
        for item in range(6):
            made.append(item)
            yield item

    stream = prefetch(items(), depth=2)
    assert next(stream) == 0
    deadline = time.monotonic() + 5
    while len(made) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert made == [0, 1, 2, 3], "one taken, two waiting, one in the hand of the thread"
    assert list(stream) == [1, 2, 3, 4, 5]


def test_what_goes_wrong_in_the_thread_is_raised():
    def items():
        yield 1
        raise InputError("the second is bad")

    stream = prefetch(items(), depth=2)
    assert next(stream) == 1
    with pytest.raises(InputError, match="the second is bad"):
        next(stream)


def test_closing_ends_the_thread():
    before = threading.active_count()
    stream = prefetch(itertools.count(), depth=2)
    next(stream)
    assert threading.active_count() == before + 1
    stream.close()
    assert threading.active_count() == before


def test_waiting_is_told():
    def items():
        for item in range(3):
            time.sleep(0.05)
            yield item

    waited = []
    list(prefetch(items(), depth=1, waited=waited.append))
    assert 0.12 < sum(waited) < 1


# From disk as from memory


@pytest.mark.parametrize("repeats", [1, 3])
def test_batches_from_disk_are_those_from_memory(file, repeats, monkeypatch):
    monkeypatch.setattr(batches, "PIECE", 5 * 20 * 18)  # pieces that end within a repeated sample
    data = load(file)
    kept, streamed = SpectraSet(data, torch.device("cpu")), SpectraSet(data, torch.device("cpu"), memory=0)
    assert kept.kept is not None
    assert streamed.kept is None
    pattern = Pattern((20, 18), (0, 1))
    assert torch.equal(kept.mean_energy(pattern), streamed.mean_energy(pattern))
    streams = [samples.batches(4, repeats, torch.Generator().manual_seed(1)) for samples in (kept, streamed)]
    for _ in range(8):
        for ours, theirs in zip(*([piece.batch for piece in next(stream)] for stream in streams), strict=True):
            assert torch.equal(ours.indices, theirs.indices)
            assert torch.equal(ours.spectra, theirs.spectra)
            assert torch.equal(ours.targets, theirs.targets)
    for stream in streams:
        stream.close()
    assert streamed.seconds_waited > 0


def test_a_streamed_run_has_the_same_bits(file, monkeypatch):
    """And each of its batches is read."""
    kept = learn(file, 4, steps=12, batch_size=4)
    read = []
    usual = SpectraSet._read
    monkeypatch.setattr(
        SpectraSet, "_read", lambda self, indices: read.append(len(indices)) or usual(self, indices)
    )
    with kept_in_memory(0):
        streamed = learn(file, 4, steps=12, batch_size=4)
    assert sum(read) >= 12 * 4, "it was read again for every batch"
    assert torch.equal(kept.probabilities, streamed.probabilities)
    assert kept.history == streamed.history
    assert streamed.record.seconds_waited > 0 == kept.record.seconds_waited


def test_the_energy_of_many_samples_is_that_of_some(monkeypatch):
    monkeypatch.setattr(batches, "ENERGY_SAMPLES", 8)
    data = from_images(IMAGES)
    pattern = Pattern((20, 18), (0, 1))
    some = SpectraSet(from_images(IMAGES[::3]), torch.device("cpu")).mean_energy(pattern)
    assert torch.equal(SpectraSet(data, torch.device("cpu")).mean_energy(pattern), some)


# The cache


def count_reads(monkeypatch):
    made = []
    write = cache._make
    monkeypatch.setattr(cache, "_make", lambda folder, *rest: made.append(folder) or write(folder, *rest))
    return made


def test_a_file_is_read_once_for_its_content_and_settings(file, monkeypatch):
    made = count_reads(monkeypatch)
    prepare(load(file))
    prepare(load(file))
    assert len(made) == 1
    prepare(load(file, Reading(size=(16, 16))))
    assert len(made) == 2, "other settings"
    prepare(load(file, Reading(skip_bad=True)))
    assert len(made) == 2, "bad samples are known, whatever is done about them"
    copy = file.with_name("copy.npz")
    copy.write_bytes(file.read_bytes())
    prepare(load(copy))
    assert len(made) == 2, "the same content under another name"
    np.savez_compressed(file, image=2 * IMAGES, subject=np.repeat(np.arange(6), 4))
    data = prepare(load(file))
    assert len(made) == 3, "another content under the same name"
    np.testing.assert_array_equal(data[5].image[0], 2 * IMAGES[5])


def test_a_copy_is_called_by_its_own_name(tmp_path):
    images = IMAGES.copy()
    images[3] = 0
    for name in ("first.npy", "second.npy"):
        np.save(tmp_path / name, images)
        with pytest.raises(InputError, match=f"{name}, slice 3 is zero everywhere: leave it out"):
            prepare(load(tmp_path / name))


def test_the_cache_may_be_cleared_while_it_is_used(file):
    data = prepare(load(file))
    np.testing.assert_array_equal(data[3].image[0], IMAGES[3])
    cache.clear()
    np.testing.assert_array_equal(data[7].image[0], IMAGES[7])


def test_only_the_part_that_is_used_is_made_ready(tmp_path, monkeypatch):
    for index in range(10):
        np.save(tmp_path / f"s{index}.npy", IMAGES[2 * index : 2 * index + 2])
    made = count_reads(monkeypatch)
    part, _ = choose_part(load(tmp_path), "test", "test")
    prepare(part)
    assert len(made) == 2


@pytest.mark.parametrize("damage", ["truncated", "removed", "garbled"])
def test_a_damaged_entry_is_made_again(file, damage):
    prepare(load(file))
    (images,) = Path(os.environ["PROMASK_CACHE"]).rglob("images")
    about = images.with_name("about.json")
    if damage == "truncated":
        images.write_bytes(images.read_bytes()[:100])
    elif damage == "removed":
        images.unlink()
    else:
        about.write_text("{")
    data = prepare(load(file))
    np.testing.assert_array_equal(data[3].image[0], IMAGES[3])


def test_without_any_place_to_write_there_is_one_sentence(file, monkeypatch, tmp_path):
    """Neither the cache nor a temporary folder; tests/data/test_faults_data.py fills real disks."""

    def no_room(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("PROMASK_CACHE", str(tmp_path / "full"))
    monkeypatch.setenv(cache.SUBSTITUTE, str(tmp_path / "temporary"))
    monkeypatch.setattr(cache.ColumnWriter, "append", no_room)
    with pytest.raises(InputError, match="No space left on device, and there is no room for temporary files"):
        prepare(load(file))
    assert not list((tmp_path / "temporary" / "samples").iterdir()), "nothing is left behind"


def test_stale_leftovers_are_removed(file):
    leftover = Path(os.environ["PROMASK_CACHE"]) / "samples" / f"{cache.TEMPORARY}old"
    fresh = leftover.with_name(f"{cache.TEMPORARY}new")
    for folder in (leftover, fresh):
        folder.mkdir(parents=True)
    os.utime(leftover, (0, 0))
    prepare(load(file))
    assert not leftover.exists()
    assert fresh.exists(), "it may be another process's"
    assert cache.size_on_disk() > IMAGES.nbytes
    cache.clear()
    assert cache.size_on_disk() == 0


READ = """
import sys
from promask.data.file_set import prepare
from promask.data.sources import load
print("begins", flush=True)
data = prepare(load(sys.argv[1]))
print(float(sum(data[index].image.double().sum() for index in range(len(data)))))
"""


def reader(folder):
    command = [sys.executable, "-c", READ, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_and_a_kill(tmp_path):
    """One process is killed in the middle; of two others that start at once, both get what there is."""
    rng = np.random.default_rng(0)
    total = 0.0
    for index in range(40):
        images = rng.random((8, 64, 64)).astype(np.float32)
        np.savez_compressed(tmp_path / f"s{index:02d}_0.npz", image=images)
        total += images.astype(float).sum()
    entries = Path(os.environ["PROMASK_CACHE"]) / "samples"
    killed = reader(tmp_path)
    assert killed.stdout.readline() == "begins\n"
    deadline = time.monotonic() + 60
    while not (entries.exists() and len(list(entries.glob("??/*"))) >= 3) and time.monotonic() < deadline:
        time.sleep(0.001)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    done = len(list(entries.glob("??/*")))
    assert 3 <= done < 40, "it was in the middle"
    both = [reader(tmp_path), reader(tmp_path)]
    for process in both:
        _, found = process.communicate(timeout=100)[0].split()
        assert process.returncode == 0
        assert float(found) == pytest.approx(total, rel=1e-6)
    whole = list(entries.glob("??/*"))
    assert len(whole) == 40
    for entry in whole:
        sizes = json.loads((entry / "about.json").read_text())["sizes"]
        assert {name: (entry / name).stat().st_size for name in sizes} == sizes


def test_clearing_leaves_what_is_not_ours(file):
    prepare(load(file))
    precious = Path(os.environ["PROMASK_CACHE"]) / "samples" / "ab" / "mine.txt"
    precious.parent.mkdir(exist_ok=True)
    precious.write_text("keep me")
    cache.clear()
    assert precious.read_text() == "keep me"
    assert not list(precious.parent.parent.rglob("images"))


def test_an_empty_digest_is_none(tmp_path):
    """Power that fails may leave an empty file behind; it must not make all files alike."""
    for name, images in (("a.npy", IMAGES), ("b.npy", 2 * IMAGES)):
        np.save(tmp_path / name, images)
        prepare(load(tmp_path / name))
    for digest in (Path(os.environ["PROMASK_CACHE"]) / "digests").iterdir():
        digest.write_text("")
    for name, images in (("a.npy", IMAGES), ("b.npy", 2 * IMAGES)):
        np.testing.assert_array_equal(prepare(load(tmp_path / name))[2].image[0], images[2])
