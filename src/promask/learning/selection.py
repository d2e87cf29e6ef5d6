"""Selection: is a reference mask better than what was learned?

What a unit is worth depends on the others, and some masks are better than their parts: a solid block leaves an
empty background nearly empty, which structural similarity rewards, and no small step leads there from scattered
units. So after learning, the mask is compared with reference masks on the images that were learned from, or, where
a network judges, on validation images.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from promask.learners import Description, make_learner
from promask.learning.config import Config
from promask.learning.ensemble import Ensemble, optimise_members
from promask.learning.hooks import EarlyStopping
from promask.losses import find_segmentation
from promask.losses.image import ImageLoss
from promask.operators.fourier import centred
from promask.problem.batches import SpectraSet
from promask.problem.problem import MOST_IMAGES, STARTS, Problem, mean_loss, starting_probabilities
from promask.recon.base import is_temporal
from promask.recon.zero_filled import ZeroFilled
from promask.sampling.distribution import MaskDistribution
from promask.sampling.pattern import Pattern
from promask.types import UnitMask, Units

LEARNED = "learned"
"""The name of the learned mask among the candidates."""
MOST_ITERATIVE = 24
"""The same where a reconstruction is iterative, which takes long."""
MOST_GUARDED = 64
"""The most images, of those learned from and of those held back, that say whether spokes beat uniform ones."""
LEAST_GAIN, CERTAINTY = 0.023, 2.0
"""What is certain: the loss falls by 2.3 %, 0.1 dB, and by two standard errors."""
UNIFORM = "uniform"
"""The name of uniform spokes with the best offset."""
MOST_JUDGED = 256
"""The same where a network judges, whose loss is noisy."""


@dataclass(frozen=True)
class Selected:
    """What learning ends with, centred."""

    distribution: MaskDistribution
    variance: Units
    reference: str | None = None
    """The name of the reference mask that took the place of the learned one."""
    network: nn.Module | None = None
    """The network that was trained, if one was and is better than the one that was given."""


def select(
    given: Problem,
    trained: Problem,
    validation: SpectraSet,
    ensemble: Ensemble,
    about: Description,
    config: Config,
) -> Selected:
    """Compare what was learned with reference masks, and keep the best.

    Args:
        given: The problem as it was given.
        trained: The same with the network that was trained while the mask was learned, if one was.
        validation: The images that decide.
        ensemble: What was learned.
        about: What is known of the learner.
        config: The settings.

    Returns:
        The distribution over masks to keep, and what it is.
    """
    pattern, finetuning = given.pattern, trained.finetuning
    network = None if finetuning is None else finetuning.network
    distribution = MaskDistribution(_result(ensemble.probabilities, pattern), pattern, given.budget)
    selected = Selected(distribution, _result(ensemble.variance, pattern), network=network)
    if not about.selects:
        return selected
    learned = {LEARNED: distribution}
    if not about.averages and len(ensemble.members) > 1:
        for number, theta in enumerate(ensemble.members):
            learned[f"member {number}"] = replace(distribution, probabilities=_result(theta, pattern))
    if pattern.trajectory is not None:
        return _against_uniform(given, validation, selected, list(learned.values()))
    masks = {name: pattern.restrict(each.mode()) for name, each in learned.items()}
    masks |= reference_masks(given.images, pattern, given.budget, given.centre)
    masks |= _other_learned_masks(given, config)
    problems = [given] if finetuning is None else [trained, given]
    iterative = given.recon.iterative
    most = MOST_JUDGED if given.loss.needs_labels else MOST_ITERATIVE if iterative else MOST_IMAGES
    losses = {
        (name, place): mean_loss(units, validation.with_recon(problem.recon), pattern, problem.loss, most)
        for place, problem in enumerate(problems)
        for name, units in masks.items()
    }
    known = {which: loss for which, loss in losses.items() if not math.isnan(loss)}
    if not known:
        raise FloatingPointError("The loss of every mask became nan: are the values of the images too large?")
    name, place = min(known, key=known.__getitem__)
    selected = replace(selected, network=network if place == 0 else None)
    if name in learned:
        return replace(selected, distribution=learned[name])
    certain = replace(distribution, probabilities=masks[name].to(torch.float32))
    return replace(selected, distribution=certain, variance=torch.zeros_like(selected.variance), reference=name)


def _against_uniform(
    problem: Problem, validation: SpectraSet, selected: Selected, learned: Sequence[MaskDistribution]
) -> Selected:
    """What was learned, if it is certainly better than uniform spokes with the best offset; otherwise those.

    The patients that were learned from and those that were held back decide, each of whom counts alike; of a
    single one, the slices.
    """
    pattern, uniform = problem.pattern, problem.uniform.place(problem.pattern, problem.budget)
    sets = [problem] if validation is problem.images else [problem, replace(problem, images=validation)]
    groups = [each.images.data.groups[index] for each in sets for index in each.images.some(MOST_GUARDED).tolist()]

    def losses(units: UnitMask) -> torch.Tensor:
        return torch.cat([each.losses(units, each.images.some(MOST_GUARDED)) for each in sets])

    before = losses(uniform)
    best, gain = selected, 0.0
    for distribution in learned:
        units = pattern.restrict(distribution.mode())
        mean, error = mean_gain(before, losses(units), groups)
        if mean >= max(LEAST_GAIN, CERTAINTY * error, gain):
            best, gain = replace(selected, distribution=distribution), mean
    if gain > 0:
        return best
    certain = replace(selected.distribution, probabilities=uniform.to(torch.float32))
    return replace(selected, distribution=certain, variance=torch.zeros_like(selected.variance), reference=UNIFORM)


def mean_gain(
    before: Float[Tensor, " images"], after: Float[Tensor, " images"], groups: Sequence[str]
) -> tuple[float, float]:
    """By how much losses fall, relative to what they were, as a mean over patients, and its standard error.

    >>> losses = torch.tensor([1.0, 2.0, 4.0])
    >>> mean, error = mean_gain(losses, losses * torch.tensor([0.8, 0.8, 0.6]), ["Ann", "Ann", "Bob"])
    >>> round(mean, 4), round(error, 4)
    (0.3, 0.1)

    Args:
        before: Of each image.
        after: Of each image, in the same order.
        groups: The patient of each image; if there is one alone, images count by themselves.

    Returns:
        The mean, and its standard error; infinite if there is a single value.
    """
    gains = (before - after) / before.abs().clamp_min(torch.finfo(before.dtype).tiny)
    names = list(dict.fromkeys(groups))
    if len(names) > 1:
        places = [torch.tensor([group == name for group in groups]) for name in names]
        gains = torch.stack([gains[place].mean() for place in places])
    error = float(gains.std() / len(gains) ** 0.5) if len(gains) > 1 else math.inf
    return float(gains.mean()), error


def reference_masks(samples: SpectraSet, pattern: Pattern, budget: int, centre: int) -> dict[str, UnitMask]:
    """The units of most energy, and the innermost ones; each has the calibration region of width `centre`."""
    energy = centred(samples.mean_energy(pattern), pattern.encoded).cpu()
    values: Mapping[str, Units | UnitMask] = {
        "energy": energy / pattern.costs,
        "centre": pattern.innermost(budget),
    }
    return {name: best_units(each, pattern, budget, centre) for name, each in values.items()}


def best_units(values: Units | UnitMask, pattern: Pattern, budget: int, centre: int) -> UnitMask:
    """The units of the largest values, centred, among them the calibration region."""
    return pattern.largest(values.double().masked_fill(pattern.centre(centre), torch.inf), budget)


def _other_learned_masks(problem: Problem, config: Config) -> dict[str, UnitMask]:
    """Where a network judges or the reconstruction is iterative: the mask for the image itself, and the start."""
    masks: dict[str, UnitMask] = {}
    if find_segmentation(problem.loss) is not None:
        masks["mse"] = _mask_for_images(problem, problem.images, config)
    elif problem.recon.iterative and not is_temporal(problem.recon):
        masks[ZeroFilled.name] = _mask_for_images(problem, problem.images.with_recon(ZeroFilled()), config)
    if masks and config.init not in STARTS:
        start = centred(problem.start.draw(problem.random("start", 0)), problem.pattern.encoded)
        masks["start"] = best_units(start, problem.pattern, problem.budget, problem.centre)
    return masks


def _mask_for_images(problem: Problem, samples: SpectraSet, config: Config) -> UnitMask:
    """The mask that is learned for the squared error of the image itself, with the usual settings."""
    start = starting_probabilities("energy", samples, problem.pattern)
    for_images = replace(problem, images=samples, loss=ImageLoss("mse"), start=start, finetuning=None)
    usual = config.for_images(samples.recon.name)
    learner = make_learner(usual.learner, usual)
    ensemble = optimise_members(
        for_images, learner, hooks=[EarlyStopping(usual.patience, problem.budget, learner.steps)]
    )
    probabilities = _result(ensemble.probabilities, problem.pattern)
    return problem.pattern.restrict(MaskDistribution(probabilities, problem.pattern, problem.budget).mode())


def _result(values: Units, pattern: Pattern) -> Units:
    return centred(values, pattern.encoded).to("cpu", torch.float32).contiguous()
