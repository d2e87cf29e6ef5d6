"""A step of the learner for series of frames, beside its transforms and its reconstructions alone; its memory."""

import multiprocessing
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.memory import kilobytes
from benchmarks.reconstructions import Transforms, seconds_of
from promask.data.builtin.cine import cine
from promask.data.reading import Reading
from promask.data.sources import load
from promask.learners import Swap
from promask.learners.swap import RACE, SCORING, STEPS, make_starts
from promask.learning.config import Config
from promask.learning.setup import full_images, state_problem
from promask.losses.image import ImageLoss
from promask.problem.batches import SpectraSet
from promask.problem.problem import Problem, slicing_axis
from promask.recon.base import reconstruct_batch
from promask.recon.kt_sense import KtSense
from promask.sampling.limits import LimitSettings
from promask.sampling.pattern import Pattern

COILS, FRAMES, SIZE = 8, 20, 96
ACCELERATION = 8
BATCH = 160
"""Columns of a step, as usual."""
SERIES = (2, 8)
"""How many there are where memory is measured."""
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
"""Settings of glibc: memory that is free goes back at once, and is not taken for that of the data."""


def state_series(series: int, frames: int = FRAMES, size: int = SIZE) -> Problem:
    """The lines of each frame of beating hearts, for k-t SENSE with a prior from the same hearts."""
    made = cine(subjects=series, frames=frames, size=size)
    data, loss = load(made.image, Reading(axes="slice frame y x", coils=COILS)), ImageLoss("motion")
    recon = KtSense().fitted(full_images(data, KtSense()))
    pattern = LimitSettings().on(Pattern.on(data.shape[1:], data.geometry, "kt"))
    along = slicing_axis(pattern, recon, loss)
    assert along is not None
    samples = SpectraSet.for_loss(data, torch.device("cpu"), loss, recon, along=along)
    config = Config.preset("default", acceleration=ACCELERATION, recon=recon.name)
    return state_problem(samples, pattern.plane(along), loss, config)


def make_stepper(problem: Problem, batch: int = BATCH) -> Callable[[], None]:
    """A function that makes one step of swaps, as they are after the race of the starts."""
    learner = Swap(steps=10**6, batch_size=batch)
    state = learner.init(problem, 0)
    state.history.loss += [0.0] * len(RACE)
    state.theta = make_starts(problem)[0].to(state.theta)
    batches = learner.batches(problem, state, 0)

    def step() -> None:
        state.history.loss.append(learner.step(problem, state, next(batches))[1])

    return step


def series_steps(steps: int, frames: int = FRAMES, size: int = SIZE, batch: int = BATCH) -> dict[str, Any]:
    """Seconds of a step, and their ratios to its Fourier transforms and to its reconstructions alone."""
    problem = state_series(2, frames, size)
    step, again = make_stepper(problem, batch), make_reconstructor(problem, batch)
    step()  # to warm up
    transforms = Transforms()
    with transforms:
        step()
    # Measured alternately, so that the load of the machine is the same for all.
    rounds = [(seconds_of(step), seconds_of(transforms.again), seconds_of(again)) for _ in range(max(3, steps))]
    return {
        "coils": COILS,
        "frames": frames,
        "lines": size,
        "columns": batch,
        "seconds": statistics.median(whole for whole, _, _ in rounds),
        "transforms": statistics.median(whole / alone for whole, alone, _ in rounds),
        "reconstructions": statistics.median(whole / alone for whole, _, alone in rounds),
        "fourier": len(transforms.seen),
    }


def make_reconstructor(problem: Problem, batch: int) -> Callable[[], None]:
    """A function that does only the reconstructions of a step: scored columns once, tested ones with all masks."""
    scored = round(SCORING * batch)
    mask = problem.pattern.expand(problem.initial(0))
    indices = torch.arange(scored + (1 + len(STEPS)) * (batch - scored)) % len(problem.images)

    def again() -> None:
        with torch.no_grad():
            for piece in problem.images.pieces(indices):
                reconstruct_batch(problem.recon, piece, mask)

    return again


def series_memory(frames: int = FRAMES, size: int = SIZE) -> dict[str, int]:
    """Bytes that a few steps need above the data, for several numbers of series, each in a process of its own."""
    found = {}
    with patch.dict(os.environ, GIVEN_BACK):
        for series in SERIES:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found[str(series)] = pool.apply(_peak_memory, (series, frames, size))
    return found


def _peak_memory(series: int, frames: int, size: int) -> int:
    make_stepper(state_series(2, frames, 16), 8)()  # libraries are loaded and threads are started
    problem = state_series(series, frames, size)
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak is counted from here on
    before = kilobytes("VmRSS")
    step = make_stepper(problem)
    step()
    step()
    return 1024 * (kilobytes("VmHWM") - before)
