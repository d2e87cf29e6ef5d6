"""What is asked of a learner: images, a pattern and its budget, a loss, and the probabilities to start from."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from promask.data.atomic import read_array
from promask.errors import InputError
from promask.losses.base import Loss
from promask.operators.fourier import centred, fft_order
from promask.problem.batches import SpectraSet
from promask.problem.objective import Finetuning
from promask.problem.parallel import Group
from promask.problem.uniform import best_set, uniform_sets
from promask.recon.base import Reconstruction, reconstruct_batch
from promask.sampling.angles import AngularDensity
from promask.sampling.costs import affordable
from promask.sampling.distribution import initial_probabilities
from promask.sampling.limits import FRAME
from promask.sampling.pattern import Pattern
from promask.sampling.projection import constrain
from promask.sampling.straight_through import generator
from promask.types import AnyArray, Batch, UnitMask, Units

STARTS = ("uniform", "energy")
"""The names of starts; anything else is a file, or an array."""
MOST_IMAGES = 64
"""The most images that the loss of a mask is the mean of."""


@dataclass(frozen=True)
class Start:
    """Where members start."""

    draw: Callable[[torch.Generator], Units]
    """Probabilities, one per unit, in FFT order."""
    by_energy: bool = False
    """Whether they are in the order of the energy."""
    given: bool = False
    """Whether a user gave them."""


@dataclass(frozen=True)
class Problem:
    """Which units should be acquired, so that the loss of the reconstructed images becomes small?

    All arrays are in FFT order, on the device of the images.
    """

    images: SpectraSet
    pattern: Pattern
    budget: int
    """How many units may be acquired, or what they may cost together."""
    loss: Loss
    start: Start
    centre: int = 0
    """The width of the calibration region, which is always acquired and counted."""
    seed: int = 0
    finetuning: Finetuning | None = None
    """The network that is trained with the mask, if one is."""
    validation: SpectraSet | None = None
    """Images of patients who are held back, for learners that ask for them."""

    @property
    def recon(self) -> Reconstruction:
        """How images are reconstructed."""
        return self.images.recon

    @property
    def group(self) -> Group:
        """The processes that work on it together."""
        return self.images.group

    @property
    def energy(self) -> Units:
        """The mean energy of each unit over the images."""
        return self.images.mean_energy(self.pattern)

    @cached_property
    def always(self) -> UnitMask:
        """The units that are always acquired."""
        return self.in_fft_order(self.pattern.centre(self.centre))

    @cached_property
    def never(self) -> UnitMask:
        """The units that are never acquired: padding, and what the limits of the pattern leave out."""
        return self.in_fft_order(self.pattern.never())

    @cached_property
    def costs(self) -> Integer[Tensor, "*units"]:
        """What each unit costs: 1, unless contrasts have costs of their own."""
        return self.pattern.costs.to(self.energy.device)  # the same in any order along directions

    def affordable(self, values: Units) -> int:
        """How many units of the largest values the budget pays for.

        Args:
            values: (*units), in FFT order.

        Returns:
            The budget, unless contrasts have costs of their own; at least 1.
        """
        return max(1, affordable(values, self.costs, self.budget)) if self.pattern.limits.cost else self.budget

    def project(self, theta: Units, budget: float) -> Units:
        """Find the nearest probabilities that keep a budget and the limits of the pattern.

        Args:
            theta: Any numbers, (*units), in FFT order.
            budget: What the probabilities may sum to.

        Returns:
            (*units), in FFT order; 1 for units that are always acquired, and 0 for those that never are.
        """
        if not self.pattern.limits.couple:
            return constrain(theta, budget, self.always, self.never)
        units = centred(theta, self.pattern.encoded).cpu()
        return self.in_fft_order(self.pattern.project(units, budget, self.pattern.centre(self.centre)))

    def nearest(self, units: UnitMask, kept: UnitMask, worth: Units) -> UnitMask:
        """Choose as many units that keep the limits, with as few changes as possible: see `Pattern.nearest`.

        Args:
            units: What is wished for, (*units), in FFT order.
            kept: Those that must be chosen.
            worth: By which changes are chosen.

        Returns:
            (*units), in FFT order.
        """
        if not self.pattern.limits.couple:
            return units
        wished, always, by = (centred(each, self.pattern.encoded).cpu() for each in (units, kept, worth))
        return self.in_fft_order(self.pattern.nearest(wished, always, by, self.budget))

    def initial(self, member: int) -> Units:
        """The probabilities that a member starts from."""
        drawn = self.start.draw(self.random("start", member)).to(self.images.like)
        return drawn.masked_fill(self.always, 1).masked_fill(self.never, 0)

    def centred(self, units: UnitMask) -> UnitMask:
        """Units in FFT order, centred, on the CPU."""
        return centred(units, self.pattern.encoded).cpu()

    def best(self, theta: Units) -> UnitMask:
        """The mask of exactly the budget of the largest probabilities that keeps the limits, in FFT order."""
        values = centred(theta, self.pattern.encoded).cpu().double()
        kept = values.masked_fill(self.pattern.centre(self.centre), torch.inf)
        return self.in_fft_order(self.pattern.largest(kept, self.budget))

    def mean_loss(self, units: UnitMask, most: int) -> float:
        """The mean loss of at most so many images, at equal distances, with the same units, in FFT order."""
        return mean_loss(self.centred(units), self.images, self.pattern, self.loss, most)

    @torch.no_grad()
    def losses(self, units: UnitMask, indices: Integer[Tensor, " images"]) -> Float[Tensor, " images"]:
        """The loss of each of some images, over all processes, with the same units, centred."""
        places = {index: place for place, index in enumerate(indices.tolist())}
        found, in_order = torch.zeros(len(indices), dtype=torch.float64), self.in_fft_order(units)
        for piece in self.images.shared_pieces(indices):
            assert piece.indices is not None
            where = torch.tensor([places[index] for index in piece.indices.tolist()])
            found[where] = image_losses(in_order, piece, self.images, self.pattern, self.loss)
        self.group.sum(found)
        return found

    @cached_property
    def uniform(self) -> AngularDensity:
        """Of patterns along a trajectory: evenly spread spokes, with the offset of least loss."""
        return best_set(self, uniform_sets(self.pattern, self.budget))

    def random(self, purpose: str, member: int, device: torch.device | str = "cpu") -> torch.Generator:
        """A stream of random numbers of its own for each purpose and member: start, batches or noise."""
        return generator(self.seed, member, purpose, device)

    def alone(self) -> "Problem":
        """The same for a process that works on all images by itself."""
        validation = None if self.validation is None else self.validation.alone()
        return replace(self, images=self.images.alone(), validation=validation)

    def in_fft_order(self, units: AnyArray) -> AnyArray:
        """Centred units in FFT order, on the device of the images."""
        return fft_order(units, self.pattern.encoded).to(self.images.device)


def slicing_axis(pattern: Pattern, recon: Reconstruction, loss: Loss) -> int | None:
    """The axis along which volumes are taken apart into slices that are reconstructed and judged one by one.

    Args:
        pattern: The pattern on all axes of k-space.
        recon: The reconstruction; one that says `slicewise` can do with slices of volumes.
        loss: What images are judged by; a network that segments volumes needs them whole, and a loss that is no
            mean over pixels needs whole frames. Contrasts, whose scales differ, are never taken apart.

    Returns:
        An axis of space that is not undersampled; None where samples stay as they are.
    """
    if not getattr(recon, "slicewise", False) or loss.needs_labels:
        return None
    if pattern.indexed and not (pattern.indexed == FRAME and getattr(loss, "pointwise", False)):
        return None
    return pattern.slicing_axis


def starting_probabilities(init: Any, samples: SpectraSet, pattern: Pattern) -> Start:
    """How members start.

    Args:
        init: `uniform`, numbers from U(0, 1), for each member its own; `energy`, evenly spread numbers in the
            order of the energy; or an array, a .npy file or a run folder with probabilities, centred.
        samples: The images that are learned from.
        pattern: The pattern that the probabilities belong to.

    Returns:
        What draws probabilities, (*units), in FFT order, from a random generator.
    """
    if isinstance(init, str) and init == "uniform":
        dtype = samples.like.dtype
        return Start(lambda generator: torch.rand(pattern.unit_shape, generator=generator, dtype=dtype))
    by_energy = isinstance(init, str) and init == "energy"
    energy = samples.mean_energy(pattern) / pattern.costs.to(samples.device) if by_energy else None
    probabilities = initial_probabilities(_from_file(init), pattern) if energy is None else by_rank(energy)
    return Start(lambda generator: probabilities, by_energy, given=not by_energy)


def by_rank(energy: Units) -> Units:
    """Probabilities spread evenly from 0 to 1, as those of a uniform start are, in the order of the energies.

    >>> by_rank(torch.tensor([3.0, 100.0, 5.0, 4.0]))
    tensor([0.1250, 0.8750, 0.6250, 0.3750])
    """
    ranks = energy.flatten().argsort().argsort().reshape(energy.shape)
    return (ranks.to(energy.dtype) + 0.5) / energy.numel()


def _from_file(init: Any) -> Any:
    if not isinstance(init, str | Path):
        return init
    path = Path(init, "probabilities.npy") if Path(init).is_dir() else Path(init)
    if not path.is_file():
        raise InputError(f"{init} is not 'uniform', 'energy', a file of probabilities or a run folder.")
    return read_array(path, "buif", "probabilities")


@torch.no_grad()
def mean_loss(
    units: UnitMask, samples: SpectraSet, pattern: Pattern, loss: Loss, most: int = MOST_IMAGES
) -> float:
    """The mean loss of some of the samples, at equal distances, reconstructed with the same units, centred."""
    mask = pattern.expand(fft_order(units, pattern.encoded).to(samples.like))
    chosen = samples.some(most)
    total = torch.zeros((), dtype=torch.float64)
    for piece in samples.shared_pieces(chosen):
        images = piece.geometry.crop(reconstruct_batch(samples.recon, piece, mask))
        total += float(loss(images, piece)) * len(piece.targets)
    samples.group.sum(total)
    return float(total) / len(chosen)


@torch.no_grad()
def image_losses(
    units: UnitMask, batch: Batch, samples: SpectraSet, pattern: Pattern, loss: Loss
) -> Float[Tensor, " batch"]:
    """The loss of each image of a batch, reconstructed with the same units, in FFT order."""
    mask = pattern.expand(units.to(samples.like))
    images = batch.geometry.crop(reconstruct_batch(samples.recon, batch, mask))
    rows = (slice(row, row + 1) for row in range(len(images)))
    return torch.stack([loss(images[row], batch.part(row)).double().cpu() for row in rows])
