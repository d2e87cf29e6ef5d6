"""How stable a run is (section 4.2 of the paper): members against each other, random masks against the mode."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool
from torch import Tensor

from promask.data.device import CPU, find_device
from promask.data.file_set import OnFile
from promask.data.reading import Reading
from promask.data.sample_sets import Subset
from promask.data.sources import load, read_part
from promask.errors import InputError, check_keywords
from promask.evaluation.evaluate import evaluate
from promask.evaluation.images import ReconstructedImage, reconstruct, reconstruct_one
from promask.evaluation.matching import check_shape, unseen_part
from promask.evaluation.result import Evaluation, mean_and_spread
from promask.learning.phrases import unit_noun
from promask.learning.run import Run
from promask.recon.base import Reconstruction
from promask.recon.zero_filled import ZERO_FILLED
from promask.types import AnyArray, Mask, Masks, SampleSet, Targets, Units, central_slices

if TYPE_CHECKING:
    from typing import Unpack

    from promask.data.reading import ReadingSettings

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
    """Of all units, of those in the central half of every undersampled direction, and of the others, if any."""

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
    units = ~pattern.never()
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
"""Called with the number of images reconstructed, and how many there are, all masks together."""


@dataclass(frozen=True)
class RandomMasks:
    """Masks drawn from the distribution, and the quality of the same images with each of them."""

    evaluations: Sequence[Evaluation]
    pixel_std: float
    """The standard deviation of a pixel over the masks, relative to the image's maximum, averaged over pixels."""

    def summary(self) -> dict[str, Any]:
        """Means over masks and images, and the standard deviation over masks of the mean over images."""
        means = mean_and_spread(self.evaluations, ("psnr", "ssim", "nmse", "acceleration"))
        return {"masks": len(self.evaluations), **means, "pixel_std": self.pixel_std}


@dataclass(frozen=True)
class ImageVariation:
    """One image with the mode and with a random mask of the same size, and how its pixels vary over such masks."""

    mode: ReconstructedImage
    random: ReconstructedImage
    random_mask: Mask
    pixel_std: AnyArray
    """(channel, *space), relative to the maximum of the image."""


@dataclass(frozen=True)
class Stability:
    """The mode of a run beside random masks: `drawn` of any size, as in the paper, and `exact` of the budget."""

    run: Run
    agreement: Agreement | None
    """None for a single member."""
    mode: Evaluation
    drawn: RandomMasks
    exact: RandomMasks
    example: ImageVariation
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
            **{name: mode.pop(name) for name in ("data", "images", "part", "convention")},
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
    device: str | torch.device = "cpu",
    **reading: "Unpack[ReadingSettings]",
) -> Stability:
    """Measure the mode of a run and random masks of two kinds on the same images.

    The masks are `run.sample(draws, seed)`, without those that acquire nothing, and
    `run.sample(draws, seed, exact=True)`.

    Args:
        run: The run.
        data: As for `evaluate`.
        part: `train`, `test` or `all`; None: what the run was not learned from, as for `evaluate`.
        draws: Random masks of either kind, at least 2.
        seed: The same seed gives the same masks.
        convention: How quality is measured: `paper` or `fastmri`.
        on_image: Called with the number of images reconstructed, and how many there are.
        on_file: Called with the number of files that were read, and how many there are.
        device: Where PyTorch computes, as for `evaluate`.
        **reading: How files are read, as for `evaluate`.

    Returns:
        The quality with the mode and with the random masks, and how far the members agree.
    """
    check_keywords(reading, (*Reading.CHECKS, *stability.__annotations__))
    device = find_device(device)
    check_draws(draws)
    if not 0 <= seed < 2**63:
        raise InputError(f"The seed must be a whole number from 0 to 2^63 - 1, but is {seed}.")
    part, settings = unseen_part(run, data, part, dict(reading))
    whole = load(data, Reading(**settings | dict(reading)))
    check_shape(run, whole)
    drawn, exact = _without_empty(run.sample(draws, seed)), run.sample(draws, seed, exact=True)
    recon = run.reconstruction()
    _, chosen, part, read = read_part(whole, part=part, default="test", recon=recon, on_file=on_file)
    done, total = 0, len(chosen) * (1 + 2 * len(drawn) + 2 * len(exact))

    def count_images(images: int) -> None:
        nonlocal done
        done += images
        if on_image is not None:
            on_image(done, total)

    def measure(mask: Mask) -> Evaluation:
        evaluation = evaluate(mask, chosen, "all", convention=convention, recon=recon, device=device)
        count_images(len(chosen))
        return evaluation

    def measure_all(masks: Masks) -> tuple[RandomMasks, AnyArray]:
        """The quality with all masks, and the spread of the pixels of the middle image."""
        evaluations = [measure(mask) for mask in masks]
        means: list[float] = []
        for chunk in pixel_spread(masks, chosen, count_images, recon, device):
            for spread in chunk:
                if len(means) == len(chosen) // 2:
                    of_middle = spread.clone()
                means.append(float(spread.mean()))
        return RandomMasks(evaluations, statistics.mean(means)), of_middle

    mode = measure(run.mask).of_part(part, read)
    of_drawn, _ = measure_all(drawn)
    of_exact, pixel_std = measure_all(exact)
    middle = len(chosen) // 2
    of_mode, of_random = (
        reconstruct_one(mask, chosen, middle, recon, device=device) for mask in (run.mask, exact[0])
    )
    example = ImageVariation(of_mode, of_random, exact[0], pixel_std)
    return Stability(run, agreement(run), mode, of_drawn, of_exact, example, draws, seed)


def vary_image(
    run: Run, data: SampleSet, index: int, draws: int, seed: int = 0, device: torch.device = CPU
) -> ImageVariation:
    """Reconstruct an image with random masks of exactly the size of the mode."""
    check_draws(draws)
    check_shape(run, data)
    recon, masks = run.reconstruction(), run.sample(draws, seed, exact=True)
    (spread,) = pixel_spread(masks, Subset(data, [index]), recon=recon, device=device)
    of_mode, of_random = (
        reconstruct_one(mask, data, index, recon, device=device) for mask in (run.mask, masks[0])
    )
    return ImageVariation(of_mode, of_random, masks[0], spread[0])


def check_draws(draws: int) -> None:
    """Refuse fewer random masks than can differ."""
    if draws < 2:
        raise InputError(f"At least 2 random masks are needed to see how they differ, but draws is {draws}.")


def _without_empty(masks: Masks) -> Bool[Tensor, "kept *space"]:
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
    noun = unit_noun(result.run.distribution.pattern)
    yield (
        f"drawn: the {noun} are drawn independently, so that their number varies; exact: as many as in the mode. "
        "± is the standard deviation over masks, pixel ± that of a pixel relative to the maximum of its image."
    )
    left_out = result.draws - len(result.drawn.evaluations)
    if left_out:
        yield f"{left_out} of the {result.draws} drawn masks acquired nothing and were left out."
    yield _of_entropy(result)
    mode, exact = result.mode.summary()["psnr"], result.exact.summary()["psnr"]
    if mode is not None and exact is not None:
        difference = mode - exact
        place = f"{abs(difference):.2f} dB {'above' if difference > 0 else 'below'}"
        yield f"The mode is {place if abs(difference) >= ALIKE else 'as good as'} random masks of its size."
    if result.run.record.reference:
        reference, along = result.run.record.reference, result.run.distribution.pattern.trajectory
        reference = reference if along is None else f"{reference} {along.noun}"
        yield f"The mask is that of {reference}, which was better than the learned one: random masks equal it."
    elif result.agreement is None:
        yield "The run has one member: learn several (members=10) to see how far they agree."
    else:
        yield _of_members(result.agreement, noun)


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
        f"{differing:.1f} of {distribution.pattern.units} {unit_noun(distribution.pattern)} on average: {verdict}."
    )


def _of_members(agreement: Agreement, noun: str) -> str:
    everywhere, centre, rest = agreement.everywhere, agreement.centre, agreement.rest
    places = f"{centre.mean_std:.2g} in the central half of every undersampled direction"
    if rest is not None:
        places += f" and {rest.mean_std:.2g} outside"
    return (
        f"The {agreement.members} members agree on {100 * everywhere.agreed:.1f} % of the {noun} (to a standard "
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
    device: torch.device = CPU,
) -> Iterator[Targets]:
    """The standard deviation of every pixel over the masks, relative to the maximum of the image.

    The images come in chunks of bounded size; `on_images` is called with the number reconstructed with each mask.
    """
    chunk = max(1, PIXELS // math.prod(data.shape))
    for start in range(0, len(data), chunk):
        indices = range(start, min(start + chunk, len(data)))
        mean = squares = highest = torch.zeros((), dtype=torch.float64)
        for number, mask in enumerate(masks, start=1):  # Welford's sums: no image is kept, and nothing cancels
            magnitudes, targets = reconstruct(mask, data, indices, recon, device)
            images = magnitudes.to(torch.float64)
            change = images - mean
            mean = mean + change / number
            squares = squares + change * (images - mean)
            highest = targets.flatten(1).amax(1).to(torch.float64)
            if on_images is not None:
                on_images(len(indices))
        spread = (squares / (len(masks) - 1)).sqrt() / highest.reshape(-1, *[1] * (squares.ndim - 1))
        yield spread.cpu()
