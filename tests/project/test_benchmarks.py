import functools
import json
import sys
from pathlib import Path

import pytest
import torch
from benchmarks import __main__ as benchmark
from benchmarks import processes
from benchmarks.alternatives import ALTERNATIVES, alternative, swapped
from benchmarks.hybrid import hybrid_steps
from benchmarks.processes import checkpoints
from benchmarks.scale import row
from benchmarks.steps import hearts

from helpers import seeded, smooth_images
from promask import learn
from promask.data.arrays import from_images
from promask.evaluation.evaluate import evaluate
from promask.losses.image import ImageLoss
from promask.sampling.pattern import Pattern


@pytest.fixture
def few_processes(monkeypatch):
    """Memory is measured in one process, for all kinds of steps, which are timed here as well; and two processes
    that learn together stand also for one that learns by itself."""
    memory = functools.cache(functools.partial(benchmark.peak_memory, "default"))
    monkeypatch.setattr(benchmark, "peak_memory", lambda kind, size: memory(size))
    several = functools.cache(functools.partial(processes._measured_in, processes.PROCESSES))
    monkeypatch.setattr(processes, "_measured_in", lambda count, *sizes: several(*sizes))


def test_the_benchmark_runs(few_processes, monkeypatch, tmp_path, capsys):
    """Small and short: that it works, not how fast it is."""
    sizes = ["--steps", "2", "--size", "32", "--largest", "128"]
    sizes += ["--volumes", "4", "--volume", "0", "--frames", "4"]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *sizes, "--out", str(tmp_path / "bench.json")])
    monkeypatch.chdir(Path(benchmark.__file__).parents[1])  # where the processes that it starts find it
    benchmark.main()
    shown = capsys.readouterr().out
    record = json.loads((tmp_path / "bench.json").read_text())
    names = [row["step"] for row in record["rows"]]
    assert names == ["textbook, 32 x 4", "paper preset, 32 x 4", "default preset, 16 x 1"]
    assert all(row["seconds"] > 0 and row["fourier_floor"] > 0 for row in record["rows"])
    assert set(record["memory"]) == {"textbook", "paper", "default"}
    assert record["scaling"]["sizes"] == [64, 128]
    assert record["volume"]["shape"] == [16, 16, 8]
    assert record["reading"]["slices"] == 80
    assert "this / Fourier floor" in shown
    assert record["network"]["images"] == 32
    assert all(record["network"][kind] > 0 for kind in ("bare", "gradient", "shape"))
    assert "of the bare network" in shown
    assert all(row[count]["run"] > row[count]["step"] > 0 for row in record["processes"] for count in "12")
    assert "Checkpoints of a run of 50 steps" in shown
    assert [row["fourier"] for row in record["iterative"]["images"]] == [24, 43, 44, 101]
    assert "this / its own transforms" in shown
    series = record["series"]
    assert (series["coils"], series["frames"], series["lines"], series["columns"]) == (8, 4, 12, 160)
    assert series["fourier"] > 0
    assert series["transforms"] > 1
    assert series["reconstructions"] > 1
    assert set(series["memory"]) == {"2", "8"}
    assert "times its own Fourier transforms" in shown


def test_slices_are_timed_beside_whole_volumes():
    found = hybrid_steps((4, 16, 12), steps=2)
    assert found["run"] > 0
    assert found["whole_step"] > 0


def test_the_cost_of_checkpoints_is_measured(monkeypatch):
    """With one after every step; a run as short as this would write none."""
    monkeypatch.setattr("promask.learning.checkpoint.SHARE", 1e9)
    found = checkpoints(hearts(32, subjects=2), 30)
    assert found["steps"] == 30
    assert found["checkpoints"]["written"] == 30
    assert 0 < found["checkpoints"]["seconds"] < found["seconds"]


# The alternatives to the default learner


@pytest.mark.parametrize("kind", [kind for kind in ALTERNATIVES.values() if not isinstance(kind, str)])
def test_every_alternative_learns(kind):
    """Each is far better than a random mask."""
    images = smooth_images(8, size=(16, 16), dtype=torch.complex64, phase=False)
    run = learn(images, 4, learner=alternative(kind, steps=60), init="uniform")
    random = run.distribution.pattern.largest(torch.rand(16, 16, generator=seeded()), 64)
    assert evaluate(run.mask, images).summary()["nmse"] < 0.7 * evaluate(random, images).summary()["nmse"]


def test_swaps_lower_the_loss_and_keep_the_budget():
    data = from_images(smooth_images(6, size=(16, 12), dtype=torch.complex64))
    pattern = Pattern((16, 12), (0, 1))
    mask = pattern.largest(torch.rand(16, 12, generator=seeded()), 48)
    better = swapped(mask, data, pattern, ImageLoss("mse"))
    assert better.sum() == mask.sum()
    assert evaluate(better, data).summary()["nmse"] < 0.9 * evaluate(mask, data).summary()["nmse"]


def test_the_scale_of_the_images_defeats_the_published_rule_only():
    cells = row(16, 1.0, steps=20).strip("| ").split(" | ")
    assert cells[:2] == ["16", "1"]
    assert float(cells[2]) < -5
    assert cells[3] == "yes"
    assert float(cells[4]) > 0
