"""Learning from files that are not kept in memory: does the learner wait for the disk?"""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import torch

from benchmarks.learning import learn_members
from benchmarks.steps import hearts
from promask.data.cache import cache_folder
from promask.data.file_set import prepare
from promask.data.sources import load
from promask.learning.config import Config
from promask.losses.image import ImageLoss
from promask.problem.batches import MEMORY, SpectraSet
from promask.sampling.pattern import Pattern

WARM_UP = 3


def reading(size: int, volumes: int, slices: int, steps: int) -> dict[str, Any]:
    """The time to preprocess gzipped NIfTI volumes and to open them again, and of steps from memory and from disk.

    The files of the cache are dropped from the page cache before steps are taken from disk.
    """
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("PROMASK_CACHE")
        os.environ["PROMASK_CACHE"] = str(Path(folder, "cache"))
        try:
            return _measure(Path(folder), size, volumes, slices, steps)
        finally:
            os.environ.pop("PROMASK_CACHE")
            if before is not None:
                os.environ["PROMASK_CACHE"] = before


def _measure(folder: Path, size: int, volumes: int, slices: int, steps: int) -> dict[str, Any]:
    data = folder / "data"
    data.mkdir()
    for index, images in enumerate(hearts(size, subjects=volumes, slices=slices).images.split(slices)):
        values = (1000 * images[:, 0].numpy()).astype(np.int16).transpose(1, 2, 0)
        nibabel.Nifti1Image(values, np.diag([1, 1, 8, 1])).to_filename(data / f"heart{index:03d}.nii.gz")
    seconds = {}
    for name in ("first", "again"):
        began = time.perf_counter()
        ready = prepare(load(data))
        seconds[name] = time.perf_counter() - began
    config = Config.preset("default", acceleration=8, steps=steps + WARM_UP, patience=0)
    pattern = Pattern.named("2d", ready.shape[1:])
    result: dict[str, Any] = {"slices": len(ready), "seconds": seconds}
    for name, memory in (("memory", MEMORY), ("disk", 0)):
        samples = SpectraSet(ready, torch.device("cpu"), memory=memory)
        _forget(cache_folder())
        stamps: list[tuple[float, float]] = []
        learn_members(
            samples,
            pattern,
            ImageLoss("mse"),
            config,
            on_step=lambda _, samples=samples, stamps=stamps: stamps.append(
                (time.perf_counter(), samples.seconds_waited)
            ),
        )
        (began, waited), (ended, waited_in_all) = stamps[WARM_UP - 1], stamps[-1]
        result[name] = {"step": (ended - began) / steps, "waiting": (waited_in_all - waited) / (ended - began)}
    return result


def _forget(folder: Path) -> None:
    """Drop files from the page cache, so that they are read from the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
