"""Spokes: a step of CG-SENSE beside its own Fourier transforms, and a default run."""

import statistics
import time
from typing import Any

import torch

from benchmarks.reconstructions import seconds_of
from promask.data.builtin.knee import knee
from promask.data.simulate import simulated_maps
from promask.learning.api import learn
from promask.operators.encoding import conjugate_gradients, encode
from promask.operators.nufft import AT_A_TIME
from promask.operators.trajectory import Trajectory

COILS, SIZE, CANDIDATES, SPOKES = 8, 192, 402, 32
ITERATIONS = 10
SUBJECTS = 20


def rotation_steps(rounds: int, size: int = SIZE) -> dict[str, Any]:
    """Seconds of a step of CG-SENSE for one image, and its ratio to the transforms on the doubled grid alone."""
    candidates = min(CANDIDATES, 2 * size)
    trajectory = Trajectory.of("radial", (size, size), candidates)
    maps, random = simulated_maps(COILS, (size, size))[None], torch.Generator().manual_seed(0)
    shape = (1, COILS, candidates, trajectory.samples)
    kspace = torch.randn(shape, generator=random, dtype=torch.complex64)
    units = torch.zeros(candidates)
    units[:: candidates // SPOKES] = 1
    _, mask, encoding = encode(kspace, units[:, None].expand(shape[2:]), maps, trajectory)
    image = torch.randn((1, 1, size, size), generator=random, dtype=torch.complex64)
    coils = (maps * image)[0]

    def solve(iterations: int = ITERATIONS) -> None:
        conjugate_gradients(lambda each: encoding.normal(each, mask).add_(each, alpha=0.003), image, iterations)

    def transforms() -> None:
        at_a_time = 1 if torch.get_num_threads() == 1 else AT_A_TIME
        for _ in range(ITERATIONS):
            for some in coils.split(at_a_time):
                torch.fft.ifft2(torch.fft.fft2(some, (2 * size, 2 * size)))

    solve()  # the kernel, once, and to warm up
    found = [(seconds_of(solve), seconds_of(transforms)) for _ in range(max(3, rounds))]
    return {
        "coils": COILS,
        "size": size,
        "candidates": candidates,
        "spokes": SPOKES,
        "seconds": statistics.median(whole for whole, _ in found) / ITERATIONS,
        "transforms": statistics.median(whole / alone for whole, alone in found),
    }


def rotation_run(size: int = SIZE, subjects: int = SUBJECTS, **settings: Any) -> float:
    """The seconds of a default run on procedural knees: 8 coils, 402 candidates, 32 spokes, CG-SENSE."""
    images = knee(subjects=subjects, size=size)
    asked = {"pattern": "radial", "spokes": SPOKES, "candidates": min(CANDIDATES, 2 * size), "recon": "cg-sense"}
    began = time.perf_counter()
    learn(images.image, coils=COILS, phase=1, noise=0.01, **{**asked, **settings})
    return time.perf_counter() - began
