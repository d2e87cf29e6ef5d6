import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from benchmarks.igs import igs

from helpers import samples_of, smooth_images
from promask.fourier import from_spectrum
from promask.patterns import Pattern
from promask.tasks import Reconstruction

ROOT = Path(__file__).parents[1]


def test_the_benchmark_runs(tmp_path):
    """Small and short: that it works, not how fast it is."""
    sizes = ["--steps", "2", "--size", "32", "--largest", "128"]
    command = [sys.executable, "-m", "benchmarks", *sizes, "--out", tmp_path / "bench.json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    record = json.loads((tmp_path / "bench.json").read_text())
    names = [row["step"] for row in record["rows"]]
    assert names == ["textbook, 32 x 4", "paper preset, 32 x 4", "default preset, 16 x 1"]
    assert all(row["seconds"] > 0 and row["fourier_floor"] > 0 for row in record["rows"])
    assert set(record["memory"]) == {"textbook", "paper", "default"}
    assert record["scaling"]["sizes"] == [64, 128]
    assert record["volume"]["shape"] == [16, 16, 8]
    assert "this / Fourier floor" in shown


def test_greedy_lines_add_the_line_of_steepest_descent():
    """Against finite differences on the last line added."""
    images = smooth_images(3, size=(8, 8))
    samples, pattern = samples_of(images), Pattern((8, 8), (1,))
    before, after = (igs(samples, pattern, Reconstruction("mse"), budget) for budget in (3, 4))
    lines = before.double()
    assert int(before.sum()) == 3
    assert (after & before).sum() == 3

    def loss(lines):
        return float((from_spectrum(samples.spectra * lines, (-2, -1)).abs() - samples.targets).square().mean())

    steps = torch.eye(8, dtype=torch.float64) * 1e-6
    slopes = torch.tensor([loss(lines + step) - loss(lines - step) for step in steps])
    assert int((after & ~before).nonzero()) == int(slopes.masked_fill(before, torch.inf).argmin())
