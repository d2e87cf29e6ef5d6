"""Learned spokes beside those of the trade, on real knees, hearts and brains: docs/results.md, "Spokes".

    python -m benchmarks.spokes FOLDER --out runs/spokes [--recon cg-sense] [--pattern radial] [--of knee heart]

FOLDER holds knee_multiecho.npz, cardiac_sunnybrook.npz and brain_ms.npz. Their images are brought to 96 x 96 by
leaving out high frequencies, so that all cells take an hour or two on 2 cores; with a simulated phase of 1 rad,
6 simulated coils and 1 % noise. What is finished is not computed again.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from promask.evaluation.cells import Comparison
from promask.report.comparison import compare

SIZE = 96
SPOKES = (8, 16, 32)
METHODS = ("random", "golden", "tiny-golden", "raga", "uniform", "uniform-best", "promask")
Images = npt.NDArray[np.float64]


def coarser(images: Images) -> npt.NDArray[np.float32]:
    """Images of 96 x 96 pixels, padded to a square: the magnitudes that the central k-space gives."""
    longest = max(images.shape[-2:])
    pads = [((longest - n) // 2, longest - n - (longest - n) // 2) for n in images.shape[-2:]]
    padded = np.pad(images, ((0, 0), *pads))
    axes = (-2, -1)
    kspace = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(padded, axes=axes)), axes=axes)
    first = longest // 2 - SIZE // 2
    central = kspace[:, first : first + SIZE, first : first + SIZE]
    found = np.abs(np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(central, axes=axes)), axes=axes))
    return (found / found.max((1, 2), keepdims=True)).astype(np.float32)


def knees(folder: Path) -> tuple[Images, list[str]]:
    """Every other echo of 24 slices of one knee: blocks of neighbouring slices are held out."""
    echoes = np.load(folder / "knee_multiecho.npz")["image"][:, ::2].astype(np.float64)
    return echoes.reshape(-1, *echoes.shape[2:]), [f"knee_{place}" for place in range(96)]


def hearts(folder: Path) -> tuple[Images, list[str]]:
    """Every fourth slice of 45 patients."""
    found = np.load(folder / "cardiac_sunnybrook.npz")
    return found["image"][::4].astype(np.float64), found["slice_id"][::4].tolist()


def brains(folder: Path) -> tuple[Images, list[str]]:
    """All slices of the T1 images of 3 patients."""
    found = np.load(folder / "brain_ms.npz")
    return found["image"][:, 0].astype(np.float64), found["slice_id"].tolist()


DATA: dict[str, Callable[[Path], tuple[Images, list[str]]]] = {"knee": knees, "heart": hearts, "brain": brains}


def main() -> None:
    """Write a folder with tables for each of the data sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recon", default="cg-sense")
    parser.add_argument("--pattern", default="radial")
    parser.add_argument("--of", nargs="+", default=list(DATA), choices=list(DATA))
    parser.add_argument("--spokes", nargs="+", type=int, default=list(SPOKES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--learned-seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.of:
        file = asked.out / f"{name}.npz"
        if not file.is_file():
            images, subjects = DATA[name](asked.folder)
            np.savez(file, image=coarser(images), slice_id=np.array(subjects))
        comparison = compare(
            str(file),
            methods=METHODS,
            spokes=asked.spokes,
            pattern=asked.pattern,
            recon=asked.recon,
            out=asked.out / f"{name}-{asked.pattern}-{asked.recon}",
            seeds=asked.seeds,
            learned_seeds=asked.learned_seeds,
            jobs=asked.jobs,
            coils=6,
            phase=1,
            noise=0.01,
            on_cell=lambda done, total, cell, name=name: print(f"{name}: {done} of {total} {cell}", flush=True),
        )
        show(name, comparison)


def show(name: str, comparison: Comparison) -> None:
    """Print a row of a table for each number of spokes, with what is gained over the best uniform spokes.

    In brackets the patient who gains least (of a single knee, the slice), and how many gain.
    """
    subjects = np.array(comparison.subjects)
    if len(set(subjects)) == 1:
        subjects = np.arange(len(subjects)).astype(str)
    for acceleration in comparison.accelerations[::-1]:
        rows = {row.method.partition(":")[0]: row for row in comparison.at(acceleration)}
        means = " | ".join(f"{rows[method].mean('psnr'):.2f}" for method in METHODS)
        gains = (rows["promask"].quality["psnr"] - rows["uniform-best"].quality["psnr"]).mean(0)
        each = [float(gains[subjects == subject].mean()) for subject in dict.fromkeys(subjects.tolist())]
        count = f"{sum(gain > 0 for gain in each)} of {len(each)}"
        kept = sum(reference == "uniform" for reference in rows["promask"].references)
        print(
            f"| {name} x{acceleration:.4g} | {means} | {gains.mean():+.2f} ({min(each):+.2f}, {count}) | {kept} |"
        )


if __name__ == "__main__":
    main()
