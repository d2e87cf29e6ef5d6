"""An independent check: does BART rank the masks in the same way? `python -m benchmarks.pics FOLDER DATA`.

FOLDER is that of a `promask compare DATA --recon cg-sense` or `cs`, whose masks are exported for `bart pics`, with
the k-space and coil sensitivities of some held-out images. With --trajectory radial, sets of spokes are compared:
pics gets their samples and their trajectory.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy.stats import kendalltau

from promask.data.atomic import read_array
from promask.data.file_set import prepare
from promask.data.reading import Reading
from promask.data.sample_sets import choose_part
from promask.data.sensitivities import calibrate
from promask.data.sources import load
from promask.evaluation.images import full_images, reconstruct
from promask.export import write_mask
from promask.export.bart import read_bart, write_scan
from promask.export.mask_file import ExportedMask
from promask.losses.metrics import psnr
from promask.recon import make_reconstruction
from promask.recon.base import Reconstruction
from promask.sampling.pattern import Pattern
from promask.types import Mask, SampleSet

SETTINGS = {"cg-sense": ["-l2", "-r0.003", "-i30"], "cs": ["-l1", "-r0.001", "-i60"]}
"""The regularisation of pics, in its own units."""
SPOKES = {"cg-sense": ["-l2", "-r0.05", "-i30"], "cs": ["-l1", "-r0.002", "-i60"]}
"""The same along a trajectory, where the largest eigenvalue is not 1."""


def by_bart(mask: Mask, data: SampleSet, index: int, recon: Reconstruction) -> torch.Tensor:
    """The magnitude image that `bart pics` makes of a sample, (1, 1, *space)."""
    sample = data[index]
    geometry = data.geometry
    along = geometry.trajectory is not None
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        exported = ExportedMask.of_mask(mask.contiguous())
        if along:
            exported = ExportedMask.of_pattern(mask.contiguous(), Pattern.on(data.shape[1:], geometry))
        write_mask(exported, folder / "mask.cfl", "bart")
        kspace, maps = write_scan(sample, folder, geometry, exported if along else None)
        if maps is None:
            raise SystemExit(f"{sample.name} has no coil maps: give DATA with --coils.")
        files = [str(path.with_suffix("")) for path in (folder / "mask", kspace, maps, folder / "image")]
        settings = [*(SPOKES if along else SETTINGS)[recon.name], "-S", "-t" if along else "-p", files[0]]
        if not along:
            subprocess.run(
                ["bart", "fmac", files[1], files[0], f"{files[1]}-cut"], check=True, capture_output=True
            )
        taken = files[1] if along else f"{files[1]}-cut"
        subprocess.run(["bart", "pics", *settings, taken, files[2], files[3]], check=True, capture_output=True)
        values, _ = read_bart(folder / "image.cfl")
    image = torch.from_numpy(np.abs(values))
    return (image.T if along else image)[None, None]


def rankings(masks: dict[str, Mask], data: SampleSet, indices: Sequence[int], recon: Reconstruction) -> list[dict]:
    """The mean PSNR of each mask over some images, reconstructed by promask and by BART."""
    rows = []
    for name, mask in masks.items():
        ours, theirs = [], []
        for index in indices:
            at = range(index, index + 1)
            target = full_images(data, at, recon)
            ours.append(float(psnr(reconstruct(mask, data, at, recon)[0], target)))
            theirs.append(float(psnr(by_bart(mask, data, index, recon), target)))
        rows.append({"mask": name, "promask": statistics.fmean(ours), "bart": statistics.fmean(theirs)})
    return rows


def main() -> None:
    """Reconstruct with both, and print the PSNR of every mask and how far the rankings agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("data")
    parser.add_argument("--coils", type=int, default=8, help="0: DATA have coils")
    parser.add_argument("--volumes", action="store_true")
    parser.add_argument("--trajectory", default=None, help="radial or spiral, as for promask compare")
    parser.add_argument("--phase", type=float, default=0)
    parser.add_argument("--noise", type=float, default=0)
    parser.add_argument("--axes", default=None, help="as for promask compare")
    parser.add_argument("--recon", default="cg-sense", choices=list(SETTINGS))
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--out", type=Path, default=None, help="where the JSON goes")
    arguments = parser.parse_args()
    recon = make_reconstruction(arguments.recon)
    taken = ("volumes", "axes", "trajectory", "phase", "noise")
    reading = Reading(coils=arguments.coils or None, **{name: getattr(arguments, name) for name in taken})
    part, _ = choose_part(load(arguments.data, reading), "test", default="test")
    data = calibrate(prepare(part), recon)
    count = min(arguments.samples, len(data))
    indices = [index * len(data) // count for index in range(count)]
    record = {}
    for folder in sorted((arguments.folder / "masks").iterdir()):
        paths = sorted(folder.glob("*-0.npy"))
        masks = {path.stem.removesuffix("-0"): read_array(path, "b", "a mask") for path in paths}
        record[folder.name] = show(rankings(masks, data, indices, recon), folder.name)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(record, indent=1))


def show(rows: list[dict], acceleration: str) -> list[dict]:
    """A table, and Kendall's rank correlation: 1 if every pair of masks is in the same order."""
    table = Table(acceleration, box=None, pad_edge=False)
    for heading in ("promask", "bart pics"):
        table.add_column(heading, justify="right")
    for row in sorted(rows, key=lambda row: -row["promask"]):
        table.add_row(row["mask"], f"{row['promask']:.2f}", f"{row['bart']:.2f}")
    console = Console(soft_wrap=True, highlight=False)
    console.print(table)
    same = kendalltau([row["promask"] for row in rows], [row["bart"] for row in rows]).statistic
    console.print(f"Rank correlation {same:.2f}.\n")
    return rows


if __name__ == "__main__":
    main()
