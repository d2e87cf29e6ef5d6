"""Much data and many steps: memory does not grow, and every step stays within limits. `make load` is larger."""

import functools
import math
import os
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.load import Guard, kept_in_memory
from benchmarks.resident import Memory
from benchmarks.volumes import Volumes

from helpers import check_data_set, seeded, smooth_images
from promask import learn
from promask.data import arrays as dataset
from promask.data import sensitivities as espirit
from promask.data.arrays import StreamedSet, from_images
from promask.data.reading import Reading
from promask.data.sensitivities import with_maps
from promask.data.sources import load
from promask.errors import InputError
from promask.evaluation.evaluate import evaluate
from promask.learners import LEARNERS
from promask.learning.hooks import Progress
from promask.problem import batches
from promask.problem.batches import PREFETCHED, SpectraSet
from promask.report.comparison import compare
from promask.types import Sample

ROOT = Path(__file__).parents[2]
IMAGES = smooth_images(12, size=(16, 12), phase=False).abs().float()[:, 0]
LABELS = IMAGES.gt(IMAGES.mean()).long()
SUBJECTS = [f"subject {index // 2}" for index in range(12)]


@pytest.fixture
def streamed(monkeypatch):
    """No Dataset is small enough to be kept."""
    monkeypatch.setattr(dataset, "IN_MEMORY", 0)
    with kept_in_memory(0):
        yield


class Counted:
    """A data set of many small images that notes which were asked for."""

    def __init__(self, count, size=8):
        self.made, self.asked = Volumes(count // 4, 4, size), []

    def __len__(self):
        return len(self.made)

    def __getitem__(self, index):
        self.asked.append(index)
        return self.made[index]


# Nothing is kept


def test_few_of_many_images_are_there_at_once(streamed, monkeypatch):
    """The batches that wait, one that is being read, and one that is worked on; each image once in a round."""
    alive, most = weakref.WeakSet(), []
    usual = batches.collate

    def noted(samples, with_maps):
        found = usual(samples, with_maps)
        alive.add(found[0])
        most.append(len(alive))
        return found

    monkeypatch.setattr(batches, "collate", noted)
    data = Counted(320)
    samples = SpectraSet(load(data), torch.device("cpu"))
    data.asked.clear()
    stream = samples.batches(16, 1, seeded())
    for _ in range(2 * 20):
        for piece in next(stream):
            assert len(piece.batch.targets) == 16
    stream.close()
    assert max(most) <= PREFETCHED + 3
    assert len(data.asked) <= 2 * 320 + (PREFETCHED + 2) * 16
    for start in (0, 320):
        assert sorted(data.asked[start : start + 320]) == list(range(320))


def test_a_run_leaves_nothing_behind(streamed):
    """Whoever learns from a stream and lets go of the run has let go of the data."""
    data = Counted(80)
    known = weakref.ref(data)
    run = learn(data, 4, steps=10, patience=0)
    assert run.record.data.images == 80
    del data, run
    assert known() is None


def test_coil_maps_of_much_data_are_kept_on_disk(monkeypatch):
    """Not in memory, which they would fill; they are computed once for each sample all the same."""
    images = smooth_images(5, channels=3, size=(24, 20), dtype=torch.complex64)
    in_memory = [sample.maps for sample in with_maps(from_images(images))]
    computed = []
    usual = espirit.espirit_maps
    monkeypatch.setattr(espirit, "espirit_maps", lambda image: computed.append(1) or usual(image))
    monkeypatch.setattr(espirit, "IN_MEMORY", 2 * images[0].nbytes)
    told = []
    data = with_maps(from_images(images), lambda *numbers: told.append(numbers))
    for _ in range(2):
        for sample, maps in zip(data, in_memory, strict=True):
            assert torch.equal(sample.maps, maps)
    assert len(data._maps) == 2
    assert len(computed) == 5
    assert told == [(done, 5) for done in range(1, 6)]


def test_the_growth_of_memory_is_measured():
    """With known numbers: 3 MB for 1,000 steps, on top of 100 MB."""
    memory = Memory(5000)
    memory.note(1)
    assert 10 * 2**20 < memory.bytes[0] < 2**36
    memory.bytes[:] = (2**20 * (100 + 3 * np.arange(5000) / 1000)).astype(np.int64)
    growth = memory.growth(warm_up=0)
    assert growth.slope == pytest.approx(3, rel=1e-4)
    assert growth.floor == pytest.approx(3.75 * 3, rel=1e-3)
    assert growth.spread == pytest.approx(15, rel=1e-3)


# The same samples as from memory


class Slices:
    """Items of a kind, as a torch Dataset has them."""

    def __init__(self, items, groups=None):
        self.items = items
        if groups is not None:
            self.groups = groups

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


NOISY = load(IMAGES.numpy(), Reading(coils=2, noise=0.1))
ITEMS = {
    "images": list(IMAGES),
    "arrays": list(IMAGES.double().numpy()),
    "complex, two channels": list(smooth_images(12, channels=2, size=(16, 12), dtype=torch.complex64)),
    "pairs": list(zip(IMAGES, LABELS, strict=True)),
    "samples": [
        Sample(image[None], label, group, "a name", ("tumour",))
        for image, label, group in zip(IMAGES, LABELS, SUBJECTS, strict=True)
    ],
    "samples with maps": [replace(NOISY[index], group=SUBJECTS[index]) for index in range(12)],
}
READINGS = [
    {},
    {"slices": (3, 10)},
    {"size": (10, 14)},
    {"kspace": "emulated"},
    {"coils": 3, "noise": 0.05, "slices": (2, None)},
]


@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("settings", READINGS, ids=str)
def test_a_stream_has_the_samples_that_memory_has(kind, settings, monkeypatch):
    items = Slices(ITEMS[kind])
    if "coils" in settings and len(np.asarray(load(items)[0].image)) > 1:
        pytest.skip("coils are simulated around images of one channel")
    kept = load(items, Reading(**settings))
    monkeypatch.setattr(dataset, "IN_MEMORY", 0)
    streamed = load(items, Reading(**settings))
    assert isinstance(streamed, StreamedSet)
    assert not isinstance(kept, StreamedSet)
    check_data_set(streamed)
    assert (streamed.shape, streamed.geometry, streamed.held_out) == (kept.shape, kept.geometry, kept.held_out)
    assert list(streamed.groups) == list(kept.groups)
    for ours, theirs in zip(streamed, kept, strict=True):
        for name in ("image", "label", "maps", "clean"):
            one, other = getattr(ours, name), getattr(theirs, name)
            assert (one is None) == (other is None), name
            assert one is None or (one.dtype == other.dtype and torch.equal(one, other)), name
        assert (ours.group, ours.unlabelled) == (theirs.group, theirs.unlabelled)
    assert torch.equal(streamed[-1].image, kept[-1].image)


@pytest.mark.parametrize("limit", [0, 2**30])
def test_a_dataset_may_name_its_groups(limit, monkeypatch):
    """Before anything is read, so that a stream is read once only."""
    monkeypatch.setattr(dataset, "IN_MEMORY", limit)
    data = load(Slices(list(IMAGES), groups=[index // 2 for index in range(12)]), Reading(slices=(2, 8)))
    assert list(data.groups) == ["1", "1", "2", "2", "3", "3"]
    run = learn(Slices(list(IMAGES), groups=SUBJECTS), 4, steps=3)
    assert (run.record.data.part, run.record.data.groups) == ("train", 5)
    with pytest.raises(InputError, match="the Slices has 12 items, but 11 groups"):
        _ = load(Slices(list(IMAGES), groups=SUBJECTS[1:])).groups


def test_learning_measuring_and_comparing(streamed, tmp_path):
    """All that is done with a stream gives what it gives with arrays."""
    kept, stream = from_images(IMAGES, LABELS, SUBJECTS), Slices(ITEMS["samples"])
    run, other = (learn(data, 4, steps=12, batch_size=4) for data in (kept, stream))
    assert torch.equal(run.probabilities, other.probabilities)
    assert run.history == other.history
    found, wanted = (evaluate(run.mask, data).summary() for data in (stream, kept))
    assert found | {"data": None} == wanted | {"data": None}
    tables = [
        compare(data, [4], ["random", "energy"], out=tmp_path / str(place), seeds=2)
        for place, data in enumerate((kept, stream))
    ]
    for one, two in zip(*(table.scores for table in tables), strict=True):
        np.testing.assert_array_equal(one.quality["psnr"], two.quality["psnr"])
    local = type("Local", (Slices,), {})(list(IMAGES))
    with pytest.raises(InputError, match="cannot be sent to other processes"):
        compare(local, [4], ["random"], out=tmp_path / "jobs", seeds=2, jobs=2)


def test_items_that_cannot_be_used(streamed):
    other = [*IMAGES[:8], torch.rand(5, 5), *IMAGES[9:]]
    with pytest.raises(InputError, match=r"the Slices, slice 8 has shape \[1, 5, 5\], but the first image"):
        learn(Slices(other), 4, steps=40)
    spoilt = IMAGES.clone()
    spoilt[7, 3, 3] = math.nan
    with pytest.raises(InputError, match="the Slices, slice 7 holds NaN or infinite values"):
        learn(Slices(list(spoilt)), 4, steps=40)
    with pytest.raises(InputError, match="items of the Slices must be images"):
        load(Slices([{"image": 1}]))
    with pytest.raises(InputError, match="holds no slices to take"):
        load(Slices(list(IMAGES)), Reading(slices=(20, 30)))


# Many steps


def test_every_step_of_many_keeps_what_is_promised():
    """The benchmark itself, small: 600 steps of each rule, and data that are streamed."""
    words = ["--volumes", "2", "--size", "32", "--files", "2", "--steps", "600", "--grid", "16"]
    command = [sys.executable, "-m", "benchmarks.load", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    rows = [line.strip("| ").split(" | ") for line in shown.splitlines()]
    assert [row[0] for row in rows if row[0] in LEARNERS] == ["best-response", "gumbel-adam", "exchange"]
    for rule, steps, bad, excess, change, turned, quality, *_ in (row for row in rows if row[0] in LEARNERS):
        assert (steps, bad) == ("600", "0"), rule
        assert float(excess) <= 0
        if rule == "gumbel-adam":  # how good it becomes depends on the scale of the images and on the steps
            continue
        assert abs(float(change.removesuffix(" %"))) < 5
        assert int(turned.split()[0]) <= 5
        learned, _, closed_form = map(float, quality.split(", "))
        assert learned > closed_form


def test_the_guard_sees_what_is_wrong():
    """A probability that is no number or too large, a sum over the budget, a loss that is infinite."""
    progress = functools.partial(_progress, theta=torch.full((4, 4), 0.25), loss=1.0)
    guard = Guard(20, budget=4)
    guard.on_step(progress(1))
    assert (guard.bad, guard.excess) == (0, 0)
    spoilt = torch.full((4, 4), 0.25)
    spoilt[0, 0] = math.nan
    guard.on_step(progress(2, theta=spoilt))
    guard.on_step(progress(3, loss=math.inf))
    guard.on_step(progress(4, theta=torch.full((4, 4), -0.1)))
    assert guard.bad == 3
    guard.on_step(progress(5, theta=torch.full((4, 4), 0.2500001)))
    assert guard.excess == pytest.approx(16 * 1e-7, rel=0.2)


def _progress(step, theta, loss):
    return Progress(0, 1, step, 20, loss, 4.0, 1.0, theta)
