import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_benchmark_runs(tmp_path):
    """Small and short: that it works, not how fast it is."""
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "--steps",
        "2",
        "--size",
        "64",
        "--out",
        tmp_path / "bench.json",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    rows = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert [row["step"] for row in rows] == ["textbook, 32 x 4", "paper preset, 32 x 4", "default preset, 8 x 4"]
    assert all(row["seconds"] > 0 and row["fourier_floor"] > 0 for row in rows)
    assert "this / Fourier floor" in shown
