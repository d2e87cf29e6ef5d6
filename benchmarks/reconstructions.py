"""The time of one step with an iterative reconstruction, and of its Fourier and wavelet transforms alone."""

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.learning import step_times
from promask.data.reading import Reading
from promask.data.sample_sets import ArraySet
from promask.data.sources import load
from promask.learners.exchange import loss_and_insertions
from promask.learning.config import Config
from promask.losses.image import ImageLoss
from promask.operators.wavelets import from_wavelets, to_wavelets
from promask.problem.batches import SpectraSet
from promask.problem.objective import Differentiate, loss_and_slopes
from promask.recon import make_reconstruction
from promask.recon.base import Reconstruction
from promask.recon.compressed_sensing import CompressedSensing
from promask.sampling.pattern import Pattern
from promask.types import SampleSet

ACCELERATION = 4
COILS = 8
WHOLE = 300
"""Steps of a long run."""
KINDS: dict[str, tuple[str, Differentiate]] = {
    "cg-sense, a step": ("cg-sense", loss_and_insertions),
    "cg-sense, exact gradient": ("cg-sense", loss_and_slopes),
    "cs, a step": ("cs", loss_and_insertions),
    "cs, exact gradient": ("cs", loss_and_slopes),
}


def reconstruction_steps(data: ArraySet, steps: int) -> list[dict[str, Any]]:
    """Seconds of a step with one image of eight coils, and their ratio to the seconds of its transforms alone."""
    scanned = load(data.images[:4, 0], Reading(coils=COILS))
    rows = []
    for name, (of, differentiate) in KINDS.items():
        recon = make_reconstruction(of)
        samples = SpectraSet(scanned, torch.device("cpu"), recon=recon)
        transforms = Transforms()
        with transforms:
            _one_image(samples, differentiate)
        wavelets = _wavelets(recon, samples, there_and_back=differentiate is loss_and_slopes)
        # Measured alternately, so that the load of the machine is the same for both.
        pairs = []
        for _ in range(max(3, 2 * steps)):
            whole = seconds_of(lambda samples=samples, way=differentiate: _one_image(samples, way))
            pairs.append((whole, seconds_of(transforms.again) + seconds_of(wavelets)))
        rows.append(
            {
                "step": name,
                "seconds": statistics.median(whole for whole, _ in pairs),
                "ratio": statistics.median(whole / alone for whole, alone in pairs),
                "fourier": len(transforms.seen),
            }
        )
    return rows


def run_step(data: ArraySet, steps: int) -> float:
    """The median seconds of a step of learning for CG-SENSE with the default settings."""
    scanned: SampleSet = load(data.images[:16, 0], Reading(coils=COILS))
    samples = SpectraSet(scanned, torch.device("cpu"), recon=make_reconstruction("cg-sense"))
    config = Config.preset("default", acceleration=ACCELERATION, recon="cg-sense", steps=steps + 1)
    pattern = Pattern.named("2d", data.shape[1:])
    stamps = step_times(samples, pattern, ImageLoss("mse"), config)
    return statistics.median(after - before for before, after in itertools.pairwise(stamps))


class Transforms(TorchDispatchMode):
    """Records all Fourier transforms, and can repeat them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[torch.Tensor, Any]] = []
        self.arrays: dict[tuple[int, ...], torch.Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._fft_c2c.default:
            values, *rest = args
            self.seen.append((self.arrays.setdefault(tuple(values.shape), values.clone()), rest))
        return func(*args, **(kwargs or {}))

    def again(self) -> None:
        """Repeat the recorded transforms, of any values, and nothing else."""
        for values, rest in self.seen:
            torch.ops.aten._fft_c2c.default(values, *rest)


def _one_image(samples: SpectraSet, differentiate: Differentiate) -> None:
    pattern = Pattern.named("2d", samples.data.shape[1:])
    (batch,) = samples.pieces(torch.tensor([0]))
    chance = torch.rand(1, *pattern.unit_shape, generator=torch.Generator().manual_seed(0))
    mask = (chance < 1 / ACCELERATION).float()
    differentiate(mask, batch, pattern, ImageLoss("mse"), samples.recon, ())


def _wavelets(recon: Reconstruction, samples: SpectraSet, there_and_back: bool) -> Callable[[], None]:
    """A function that does only the wavelet transforms of a reconstruction, and of its backward pass if asked."""
    count = recon.iterations * (1 + there_and_back) if isinstance(recon, CompressedSensing) else 0
    image = torch.zeros(1, 1, *samples.data.shape[1:], dtype=torch.complex64)

    def again() -> None:
        for _ in range(count):
            from_wavelets(to_wavelets(image))

    return again


def seconds_of(work: Callable[[], object]) -> float:
    """How long something takes, once."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
