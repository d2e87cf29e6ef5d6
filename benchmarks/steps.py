"""The time of one step of the textbook, of both presets, and of the Fourier transforms alone."""

import itertools
import statistics
import time
from collections.abc import Callable, Mapping

import scipy.fft
import torch

from benchmarks.learning import step_times
from benchmarks.textbook import Settings, gumbel_source, textbook
from promask.data.arrays import from_images
from promask.data.builtin.cardiac import cardiac
from promask.data.sample_sets import ArraySet
from promask.learning.config import Config
from promask.losses.image import ImageLoss
from promask.operators.fourier import to_kspace
from promask.problem.batches import SpectraSet, index_batches
from promask.sampling.pattern import Pattern

WARM_UP = 2
ACCELERATION = 8


def hearts(size: int, subjects: int = 8, slices: int = 6) -> ArraySet:
    """Procedural hearts; by default 48, which is enough for the batches of the paper."""
    made = cardiac(subjects=subjects, slices=slices, size=size)
    return from_images(made.image, made.label, made.subject, name="cardiac")


def textbook_step(data: ArraySet, steps: int) -> float:
    """The time of a step of the literal Algorithm 1 with the settings of the paper."""
    generator = torch.Generator().manual_seed(0)
    theta = torch.rand(data.shape[1:], generator=generator)
    batches = index_batches(len(data), 32, generator)
    gumbel = gumbel_source(torch.float32, generator)
    settings = Settings(acceleration=ACCELERATION)
    kspace = to_kspace(data.images, (-2, -1))
    learner = textbook(kspace, theta, settings, torch.nn.functional.mse_loss, batches, gumbel)
    return _median_interval([time.perf_counter() for _ in itertools.islice(learner, steps)])


def paper_step(data: ArraySet, steps: int) -> float:
    """The time of a step with the settings of the paper."""
    return _promask_step(data, "paper", steps)


def default_step(data: ArraySet, steps: int) -> float:
    """The time of a step with the default settings, from more steps, because they are short."""
    return _promask_step(data, "default", 3 * steps)


def fourier_floor(data: ArraySet, pairs: int, steps: int) -> float:
    """The time of the forward and inverse transforms of a step, by the fastest of several ways to call them."""
    arrays = torch.randn(pairs, *data.shape[1:], dtype=torch.complex64)
    out, pieces = torch.empty_like(arrays), arrays.split(8)

    def torch_whole() -> None:
        torch.fft.ifft2(arrays, norm="ortho", out=out)
        torch.fft.fft2(arrays, norm="ortho", out=out)

    def torch_pieces() -> None:
        for piece in pieces:
            torch.fft.fft2(torch.fft.ifft2(piece, norm="ortho"), norm="ortho")

    def scipy_pieces() -> None:
        for piece in pieces:
            threads = torch.get_num_threads()
            back = scipy.fft.ifft2(piece.numpy(), norm="ortho", workers=threads)
            scipy.fft.fft2(back, norm="ortho", workers=threads, overwrite_x=True)

    return min(_median_time(way, steps) for way in (torch_whole, torch_pieces, scipy_pieces))


def _promask_step(data: ArraySet, preset: str, steps: int) -> float:
    config = Config.preset(preset, acceleration=ACCELERATION, steps=steps, patience=0)
    samples = SpectraSet(data, torch.device("cpu"))
    pattern = Pattern.named("2d", data.shape[1:])
    return _median_interval(step_times(samples, pattern, ImageLoss("mse"), config))


def _median_interval(stamps: list[float]) -> float:
    return statistics.median(after - before for before, after in itertools.pairwise(stamps[WARM_UP:]))


def _median_time(action: Callable[[], None], repeats: int) -> float:
    stamps = [time.perf_counter()]
    for _ in range(repeats):
        action()
        stamps.append(time.perf_counter())
    return _median_interval(stamps)


STEPS: Mapping[str, Callable[[ArraySet, int], float]] = {
    "textbook": textbook_step,
    "paper": paper_step,
    "default": default_step,
}
