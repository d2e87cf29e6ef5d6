"""Volumes in hybrid space: a run against as many steps on whole volumes, and a large one from file to report."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.learning import learn_members
from benchmarks.volumes import Volumes
from promask.data.reading import Reading
from promask.data.simulate import simulated_maps
from promask.data.sources import load
from promask.learners.exchange import loss_and_insertions
from promask.learning.config import Config
from promask.losses.image import ImageLoss
from promask.operators.fourier import to_kspace
from promask.problem.batches import SpectraSet
from promask.recon import make_reconstruction
from promask.sampling.pattern import Pattern

COILS = 8
SPACE = (-3, -2, -1)
Shape = tuple[int, int, int]


def ellipsoids(shape: Shape) -> torch.Tensor:
    """A volume of this size, ellipsoids in an ellipsoid."""
    slices = Volumes(1, shape[0], max(shape[1:]))
    volume = torch.stack([torch.from_numpy(slices[index]) for index in range(shape[0])])
    return volume[:, : shape[1], : shape[2]]


def hybrid_steps(shape: Shape = (30, 80, 96), steps: int = 120) -> dict[str, Any]:
    """Seconds of a run for compressed sensing on slices, and of one step that takes volumes as a whole."""
    data, recon = load(ellipsoids(shape)[None], Reading(volumes=True, coils=COILS)), make_reconstruction("cs")
    pattern, loss = Pattern(shape, free=(1, 2)), ImageLoss("mse")
    config = Config.preset("default", acceleration=8, recon="cs", steps=steps)
    slices = SpectraSet(data, torch.device("cpu"), recon=recon, along=0)
    began = time.perf_counter()
    learn_members(slices, pattern.plane(0), loss, config)
    run = time.perf_counter() - began
    volumes = SpectraSet(data, torch.device("cpu"), recon=recon)
    (batch,) = volumes.pieces(torch.zeros(1, dtype=torch.int64))
    units = torch.rand(1, *pattern.unit_shape, generator=torch.Generator().manual_seed(0)) < 1 / 8
    began = time.perf_counter()
    loss_and_insertions(units.float(), batch, pattern, loss, recon)
    whole_step = config.batch_size * (time.perf_counter() - began)
    return {"shape": list(shape), "steps": steps, "run": run, "whole_step": whole_step}


def large_run(shape: Shape = (160, 192, 160), acceleration: float = 6) -> dict[str, Any]:
    """`promask learn` with CG-SENSE from raw k-space of eight coils to the report: seconds, and bytes at most."""
    with tempfile.TemporaryDirectory() as place:
        kspace = Path(place, "kspace.npy")
        images = simulated_maps(COILS, shape) * ellipsoids(shape)
        images = images + 0.003 * torch.randn(
            *images.shape, dtype=images.dtype, generator=torch.Generator().manual_seed(0)
        )
        np.save(kspace, to_kspace(images, SPACE).numpy())
        size = kspace.stat().st_size
        options = ["--volumes", "--axes", "coil kx ky kz", "--holds", "kspace", "--recon", "cg-sense"]
        command = [sys.executable, "-m", "promask", "learn", str(kspace), *options, "--accel", str(acceleration)]
        began = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--out", str(Path(place, "run"))],
            env={**os.environ, "PROMASK_CACHE": str(Path(place, "cache"))},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
    if status != 0:
        raise RuntimeError("promask learn of a large volume failed")
    return {"shape": list(shape), "seconds": seconds, "data": size, "above_data": 1024 * used.ru_maxrss - size}
