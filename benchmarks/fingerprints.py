"""Ten small runs through the command line, and the hash of what each leaves: the same before and after a change.

    python -m benchmarks.fingerprints FOLDER > hashes.txt

Equal hashes show that a change of the code did not change what is learned. They are the same only on one machine,
with the same number of threads.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np

COMMON = "--seed 3"
RUNS = {
    "brain-mse": "learn brain --accel 8",
    "brain-ssim": "learn brain --accel 8 --loss ssim",
    "brain-lines": "learn brain --accel 4 --pattern 1d",
    "cardiac-16": "learn cardiac --accel 16",
    "head": "learn head --accel 8",
    "volumes-3d": "learn {folder}/volumes.npy --accel 8 --pattern 3d --holds image",
    "cg-sense": "learn cardiac --accel 4 --coils 8 --recon cg-sense --steps 12",
    "cs": "learn cardiac --accel 4 --recon cs --steps 12",
    "segmentation": "learn cardiac --network {folder}/network.safetensors --accel 8 --steps 2",
    "paper": "learn brain --preset paper --accel 8 --steps 50 --members 2 --batch-size 8",
}


def main(folder: Path) -> None:
    """Run everything, and print the hashes."""
    folder.mkdir(parents=True, exist_ok=True)
    _volumes(folder / "volumes.npy")
    network = folder / "network.safetensors"
    if not network.exists():
        _promask(f"segment train cardiac --preset small --epochs 1 --out {network}")
    for name, line in RUNS.items():
        out = folder / name
        _promask(line.format(folder=folder) + f" {COMMON} --out {out}")
        for file in ("mask.npy", "probabilities.npy", "trajectory.npy"):
            print(f"{hashlib.sha256((out / file).read_bytes()).hexdigest()[:16]}  {name}/{file}", flush=True)


def _volumes(path: Path) -> None:
    """Two small volumes with structure: boxes."""
    rng, volumes = np.random.default_rng(0), np.zeros((2, 16, 24, 28), np.float32)
    for volume in volumes:
        for _ in range(12):
            start = [rng.integers(0, n // 2) for n in volume.shape]
            stop = [first + rng.integers(2, n // 2) for first, n in zip(start, volume.shape, strict=True)]
            volume[tuple(slice(*ends) for ends in zip(start, stop, strict=True))] += rng.random()
    np.save(path, volumes)


def _promask(line: str) -> None:
    done = subprocess.run([sys.executable, "-m", "promask", *line.split()], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"promask {line}: {done.stderr}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
