"""How stable a learned distribution is: over members, over random masks, and against its mode (section 4.2)."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from promask.data import OnFile, Subset, calibrated, choose_part, load, prepared
from promask.errors import InputError
from promask.evaluation import Evaluation, evaluate, reconstruct
from promask.experiments.agreement import Agreement, agreement
from promask.figures.pixel_spread import pixel_spread
from promask.learning.run import Run
from promask.reading import Reading
from promask.recon import Reconstruction
from promask.types import AnyArray, Mask, Masks, SampleSet

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
    chosen, part = choose_part(whole, part, usual="test")
    chosen = prepared(chosen, on_file)
    drawn, exact = _that_acquire(run.sample(draws, seed)), run.sample(draws, seed, exact=True)
    recon = run.reconstruction()
    chosen = calibrated(chosen, recon)
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
