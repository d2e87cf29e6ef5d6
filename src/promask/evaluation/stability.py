"""How far independent members of a run agree, and where in k-space they do (the paper's Figure 5).

How stable a learned distribution is: over members, over random masks, and against its mode (section 4.2).

What a user is told of a run's stability: rows of a table, and sentences.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from promask.data.file_set import OnFile
from promask.data.reading import Reading
from promask.data.sample_sets import Subset
from promask.data.sensitivities import calibrate
from promask.data.sources import load, read_part
from promask.errors import InputError
from promask.evaluation.evaluate import Evaluation, evaluate, reconstruct
from promask.learning.run import Run
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED
from promask.types import AnyArray, Mask, Masks, SampleSet, Targets, Units, central_slices

AGREED = 0.01
"""The standard deviation over members up to which they agree on a unit."""


@dataclass(frozen=True)
class Region:
    """The units of a part of k-space, padding left out."""

    units: int
    agreed: float
    """The share of units that all members agree on."""
    mean_variance: float
    """Over the members, averaged over the units."""
    mean_std: float


@dataclass(frozen=True)
class Agreement:
    """Of all units, of those in the central half of every free axis, and of the others, if there are any."""

    members: int
    everywhere: Region
    centre: Region
    rest: Region | None


def agreement(run: Run) -> Agreement | None:
    """What the variance of probabilities over members says; None for a single member, or a plain mask."""
    if run.config.members < 2 or run.record.reference:
        return None
    pattern = run.distribution.pattern
    centre = torch.zeros(pattern.unit_shape, dtype=torch.bool)
    centre[central_slices(pattern.unit_shape, [max(1, n // 2) for n in pattern.unit_shape])] = True
    units = ~pattern.padding()
    rest = run.variance[units & ~centre]
    return Agreement(
        members=run.config.members,
        everywhere=_region(run.variance[units]),
        centre=_region(run.variance[units & centre]),
        rest=_region(rest) if len(rest) else None,
    )


def _region(variance: Units) -> Region:
    variance = variance.to(torch.float64)
    deviation = variance.sqrt()
    return Region(
        units=len(variance),
        agreed=float((deviation <= AGREED).to(torch.float64).mean()),
        mean_variance=float(variance.mean()),
        mean_std=float(deviation.mean()),
    )


OnImage = Callable[[int, int], None]
"""Told how many images were reconstructed, and how many there are to do, all masks together."""


@dataclass(frozen=True)
class RandomMasks:
    """Masks drawn from the distribution, and what they do to the same images."""

    evaluations: Sequence[Evaluation]
    pixel_std: float
    """The standard deviation of a pixel over the masks, relative to the image's maximum, averaged over pixels."""

    def summary(self) -> dict[str, Any]:
        """Means over masks and images, and the standard deviation over masks of the mean over images."""
        summaries = [evaluation.summary() for evaluation in self.evaluations]
        result: dict[str, Any] = {"masks": len(summaries)}
        for name in ("psnr", "ssim", "nmse", "acceleration"):
            values = [summary[name] for summary in summaries]
            defined = None not in values
            result[name] = statistics.mean(values) if defined else None
            result[f"{name}_spread"] = statistics.stdev(values) if defined else None
        return {**result, "pixel_std": self.pixel_std}


@dataclass(frozen=True)
class Shown:
    """One image as the mode and a random mask of the budget give it, and how its pixels vary over such masks."""

    target: AnyArray
    of_mode: AnyArray
    of_random: AnyArray
    pixel_std: AnyArray
    random_mask: Mask
    psnr: tuple[float, float]
    """With the mode, and with the random mask."""


@dataclass(frozen=True)
class Stability:
    """The mode of a run beside random masks: `drawn` of any size, as in the paper, and `exact` of the budget."""

    run: Run
    agreement: Agreement | None
    """None for a single member."""
    mode: Evaluation
    drawn: RandomMasks
    exact: RandomMasks
    shown: Shown
    draws: int
    seed: int

    @property
    def differing(self) -> float:
        """In how many units a drawn mask differs from the mode, on average."""
        distribution = self.run.distribution
        mode = distribution.pattern.restrict(self.run.mask).to(torch.float64)
        return float((mode - distribution.probabilities).abs().sum())

    def summary(self) -> dict[str, Any]:
        """Everything but the pictures, for JSON; what is not defined is None."""
        distribution = self.run.distribution
        mode = self.mode.summary()
        return {
            **{name: mode.pop(name) for name in ("images", "part", "convention")},
            "draws": self.draws,
            "seed": self.seed,
            "units": distribution.pattern.units,
            "budget": distribution.budget,
            "entropy_bits": distribution.entropy(),
            "differing_units": self.differing,
            "agreement": None if self.agreement is None else asdict(self.agreement),
            "mode": mode,
            "drawn": self.drawn.summary(),
            "exact": self.exact.summary(),
        }


def stability(
    run: Run,
    data: Any,
    part: str | None = None,
    draws: int = 20,
    seed: int = 0,
    convention: str = "paper",
    on_image: OnImage | None = None,
    on_file: OnFile | None = None,
    **settings: Any,
) -> Stability:
    """Measure the mode of a run and `draws` random masks of either kind on the same images.

    The masks are `run.sample(draws, seed)`, of which those that acquire nothing are left out, and
    `run.sample(draws, seed, exact=True)`. Data, part, convention and settings are those of `evaluate`.
    """
    if draws < 2:
        raise InputError(f"At least 2 random masks are needed to see how they differ, but draws is {draws}.")
    if not 0 <= seed < 2**63:
        raise InputError(f"The seed must be a whole number from 0 to 2^63 - 1, but is {seed}.")
    whole = load(data, Reading(**{"volumes": run.mask.ndim == 3, **settings}))
    _check_shape(run, whole)
    _, chosen, part = read_part(whole, part=part, default="test", on_file=on_file)
    drawn, exact = _that_acquire(run.sample(draws, seed)), run.sample(draws, seed, exact=True)
    recon = run.reconstruction()
    chosen = calibrate(chosen, recon)
    work = _Work(chosen, convention, recon, on_image, total=len(chosen) * (1 + 2 * len(drawn) + 2 * len(exact)))
    shown = len(chosen) // 2
    mode = replace(work.measure(run.mask), part=part)
    of_drawn, _ = work.measure_all(drawn, shown)
    of_exact, pixel_std = work.measure_all(exact, shown)
    picture = _shown(Subset(chosen, [shown]), run.mask, exact[0], pixel_std, recon)
    return Stability(run, agreement(run), mode, of_drawn, of_exact, picture, draws, seed)


@dataclass
class _Work:
    """The images that all masks are measured on, and how many reconstructions are done."""

    data: SampleSet
    convention: str
    recon: Reconstruction
    on_image: OnImage | None
    total: int
    done: int = field(default=0, init=False)

    def tell(self, images: int) -> None:
        self.done += images
        if self.on_image is not None:
            self.on_image(self.done, self.total)

    def measure(self, mask: Mask) -> Evaluation:
        evaluation = evaluate(mask, self.data, "all", convention=self.convention, recon=self.recon)
        self.tell(len(self.data))
        return evaluation

    def measure_all(self, masks: Masks, shown: int) -> tuple[RandomMasks, AnyArray]:
        """What random masks do to the images, and the spread of the pixels of one of them."""
        evaluations = [self.measure(mask) for mask in masks]
        spreads = (image for chunk in pixel_spread(masks, self.data, self.tell, self.recon) for image in chunk)
        means = []
        for index, spread in enumerate(spreads):
            means.append(float(spread.mean()))
            if index == shown:
                kept = spread.clone()
        return RandomMasks(evaluations, statistics.mean(means)), kept


def _shown(image: SampleSet, mode: Mask, random_mask: Mask, pixel_std: AnyArray, recon: Reconstruction) -> Shown:
    (of_mode,), (target,) = reconstruct(mode, image, range(1), recon)
    (of_random,), _ = reconstruct(random_mask, image, range(1), recon)
    of_each = [evaluate(mask, image, "all", recon=recon).psnr[0] for mask in (mode, random_mask)]
    return Shown(target, of_mode, of_random, pixel_std, random_mask, (of_each[0], of_each[1]))


def _check_shape(run: Run, data: SampleSet) -> None:
    wanted, found = run.distribution.pattern.shape, data.shape[1:]
    if wanted != found:
        raise InputError(
            f"The run is for images of shape {list(wanted)}, but those of {data.name} have shape {list(found)}: "
            f"crop or pad them with --size {' '.join(map(str, wanted))}."
        )


def _that_acquire(masks: Masks) -> Bool[Tensor, "kept *space"]:
    kept = masks[masks.any(tuple(range(1, masks.ndim)))]
    if len(kept) < 2:
        raise InputError(
            f"Of {len(masks)} random masks only {len(kept)} acquire anything: the probabilities are too small."
        )
    return kept


ALIKE = 0.005
"""The difference in dB below which two decimals say nothing."""
DECIDED = 0.02
"""A distribution is all but decided if random masks differ from the mode in at most this share of the budget."""


def table_rows(result: Stability) -> Mapping[str, Mapping[str, Any]]:
    """The mode and both kinds of random masks."""
    return {
        "mode": {**result.mode.summary(), "pixel_std": None},
        "drawn": result.drawn.summary(),
        "exact": result.exact.summary(),
    }


def sentences(result: Stability) -> Iterator[str]:
    """What the numbers mean, one line each."""
    yield (
        "drawn: every unit is acquired or not by itself, so that sizes vary; exact: of as many units as the mode. "
        "± is the standard deviation over masks, pixel ± that of a pixel relative to the maximum of its image."
    )
    left_out = result.draws - len(result.drawn.evaluations)
    if left_out:
        yield f"Of the {result.draws} masks that were drawn, {left_out} acquired nothing and were left out."
    yield _of_entropy(result)
    mode, exact = result.mode.summary()["psnr"], result.exact.summary()["psnr"]
    if mode is not None and exact is not None:
        difference = mode - exact
        place = f"{abs(difference):.2f} dB {'above' if difference > 0 else 'below'}"
        yield f"The mode is {place if abs(difference) >= ALIKE else 'as good as'} random masks of its size."
    if result.run.record.reference:
        plain = result.run.record.reference
        yield f"The mask is that of {plain}, which was better than what was learned: it knows no chance."
    elif result.agreement is None:
        yield "The run has one member: promask learn ... --members 10 tells how far independent ones agree."
    else:
        yield _of_members(result.agreement)


def _of_entropy(result: Stability) -> str:
    distribution = result.run.distribution
    differing = result.differing
    verdict = (
        "nearly all probabilities are 0 or 1, and random masks hardly differ from the mode"
        if differing <= DECIDED * distribution.budget
        else "the probabilities leave a choice, which the mode settles"
    )
    return (
        f"The entropy is {distribution.entropy():.1f} bits, and a drawn mask differs from the mode in "
        f"{differing:.1f} of {distribution.pattern.units} units on average: {verdict}."
    )


def _of_members(agreement: Agreement) -> str:
    everywhere, centre, rest = agreement.everywhere, agreement.centre, agreement.rest
    places = f"{centre.mean_std:.2g} in the central half of every free axis"
    if rest is not None:
        places += f" and {rest.mean_std:.2g} outside"
    return (
        f"The {agreement.members} members agree on {100 * everywhere.agreed:.1f} % of the units (to a standard "
        f"deviation of {AGREED}); the mean standard deviation of a probability over members is "
        f"{everywhere.mean_std:.2g} ({places}), and the mean variance {everywhere.mean_variance:.2g}."
    )


PIXELS = 2**20
"""Pixels reconstructed at a time, or one image if that is larger."""


def pixel_spread(
    masks: Masks,
    data: SampleSet,
    on_images: Callable[[int], None] | None = None,
    recon: Reconstruction = ZERO_FILLED,
) -> Iterator[Targets]:
    """The standard deviation of every pixel over the masks, relative to the maximum of the image.

    The images come in chunks of bounded size; `on_images` is told how many were reconstructed with each mask.
    """
    chunk = max(1, PIXELS // math.prod(data.shape))
    for start in range(0, len(data), chunk):
        indices = range(start, min(start + chunk, len(data)))
        mean = squares = highest = torch.zeros((), dtype=torch.float64)
        for number, mask in enumerate(masks, start=1):  # Welford's sums: no image is kept, and nothing cancels
            magnitudes, targets = reconstruct(mask, data, indices, recon)
            images = magnitudes.to(torch.float64)
            change = images - mean
            mean = mean + change / number
            squares = squares + change * (images - mean)
            highest = targets.flatten(1).amax(1).to(torch.float64)
            if on_images is not None:
                on_images(len(indices))
        yield (squares / (len(masks) - 1)).sqrt() / highest.reshape(-1, *[1] * (squares.ndim - 1))
