"""Masks that need no learning, and that a learned one should not fall short of.

What a unit is worth depends on the others, and some masks are better than their parts: a solid block leaves an
empty background nearly empty, which structural similarity rewards, and no small step leads there from scattered
units. So learning ends with a look at the plain masks, on images that were learned from, or, where a network
judges, on others.

The search for a mask: the members, and a look at masks that need no learning.
"""

import copy
import math
from dataclasses import dataclass, replace

import torch
from torch import nn

from promask.learning.checkpoint import Keeper
from promask.learning.config import EXCHANGE, PRESETS, Config
from promask.learning.ensemble import Elsewhere, Ensemble, optimise_members
from promask.learning.history import OnStep
from promask.losses import find_segmentation, freeze_networks, replace_network
from promask.losses.base import Loss
from promask.losses.image import ImageLoss
from promask.losses.weighted_sum import WeightedSum
from promask.operators.fourier import centred, fft_order
from promask.problem.batches import Samples
from promask.problem.initial import Start, starting_probabilities
from promask.problem.objective import Finetuning
from promask.recon.base import Reconstruction, reconstruct_spectra
from promask.recon.network import Network
from promask.recon.zero_filled import ZeroFilled
from promask.sampling.distribution import MaskDistribution
from promask.sampling.pattern import Pattern
from promask.sampling.straight_through import generator
from promask.types import UnitMask, Units

LOOKED_AT = 64
"""The most samples that decide what learning ends with."""
FEWER = 24
"""The same where a reconstruction takes long."""
JUDGES = 256
"""The same where a network judges: it is of two minds."""


def plain_masks(samples: Samples, pattern: Pattern, budget: int, centre: int) -> dict[str, UnitMask]:
    """The units of most energy, and the innermost ones; each has the central block of width `centre`."""
    energy = centred(samples.mean_energy(pattern), len(pattern.free)).cpu()
    innermost = pattern.innermost(budget)
    return {
        name: best_units(values, pattern, budget, centre)
        for name, values in {"energy": energy, "centre": innermost}.items()
    }


def best_units(values: Units | UnitMask, pattern: Pattern, budget: int, centre: int) -> UnitMask:
    """The units of the largest values, centred, among them the central block."""
    return pattern.largest(values.double().masked_fill(pattern.centre(centre), torch.inf), budget)


@torch.no_grad()
def mean_loss(units: UnitMask, samples: Samples, pattern: Pattern, task: Loss, most: int = LOOKED_AT) -> float:
    """The mean loss of some of the samples, at equal distances, reconstructed with the same units."""
    mask = pattern.expand(fft_order(units, len(pattern.free)).to(samples.like))
    chosen = samples.some(most)
    total = torch.zeros((), dtype=torch.float64)
    for piece in samples.shared_pieces(chosen):
        images = piece.geometry.crop(reconstruct_spectra(samples.recon, piece.spectra, mask, piece.maps))
        total += float(task(images, piece)) * len(piece.targets)
    samples.group.add_up(total)
    return float(total) / len(chosen)


LEARNED = "learned"


@dataclass(frozen=True)
class Found:
    """What a search ended with, centred."""

    distribution: MaskDistribution
    variance: Units
    ensemble: Ensemble
    plain: str | None = None
    """The name of the plain mask that took the place of the learned one."""
    network: nn.Module | None = None
    """The network that was trained on, if one was and is better than the one that was given."""

    @property
    def finetuned(self) -> bool:
        """Whether the network is another one than was given."""
        return self.network is not None


def search(
    samples: Samples,
    judges: Samples,
    pattern: Pattern,
    task: Loss,
    config: Config,
    start: Start,
    on_step: OnStep | None = None,
    keeper: Keeper | None = None,
    elsewhere: Elsewhere | None = None,
) -> Found:
    """Learn from samples; the judges, which may be the same, say whether a plain mask is better.

    A network that is trained on is a copy: the one that was given stays as it is.
    """
    budget, dimensions = pattern.budget(config.acceleration), len(pattern.free)
    plain = plain_masks(samples, pattern, budget, config.centre)
    recon = samples.recon
    finetuning = _finetuning(task, recon, config)
    with freeze_networks(task, recon):
        if isinstance(task, WeightedSum):
            units = [mean_loss(plain["energy"], samples, pattern, term.loss) for term in task.terms]
            task = task.scaled_by(units)
        tuned, with_tuned = task, recon
        if finetuning is not None and isinstance(recon, Network):
            with_tuned = replace(recon, module=finetuning.network)
        elif finetuning is not None:
            tuned = replace_network(task, finetuning.network)
        learning = samples.with_recon(with_tuned)
        ensemble = optimise_members(
            learning, pattern, tuned, config, start, on_step, finetuning, keeper, elsewhere
        )
        distribution = MaskDistribution(_result(ensemble.probabilities, dimensions), pattern, budget)
        found = Found(distribution, _result(ensemble.variance, dimensions), ensemble)
        if config.rule == "published":  # left as it is
            return replace(found, network=None if finetuning is None else finetuning.network)
        masks = {LEARNED: pattern.restrict(distribution.mode()), **plain}
        learned = {LEARNED: distribution}
        if config.rule == EXCHANGE and config.members > 1:  # units that keep their distance have no common mean
            for number, theta in enumerate(ensemble.members):
                of_member = replace(distribution, probabilities=_result(theta, dimensions))
                learned[f"member {number}"] = of_member
                masks[f"member {number}"] = pattern.restrict(of_member.mode())
        if find_segmentation(task) is not None:
            masks["mse"] = _for_images(samples, pattern, config)
        elif recon.iterative:
            masks[ZeroFilled.name] = _for_images(samples.with_recon(ZeroFilled()), pattern, config)
        learned_for_more = find_segmentation(task) is not None or recon.iterative
        if learned_for_more and config.init not in ("energy", "uniform"):
            given = centred(start(generator(config.seed, 0, "start")), dimensions)
            masks["start"] = best_units(given, pattern, budget, config.centre)
        ways = [(tuned, with_tuned), (task, recon)] if finetuning is not None else [(task, recon)]
        most = JUDGES if task.needs_labels else FEWER if recon.iterative else LOOKED_AT
        losses = {
            (name, place): mean_loss(units, judges.with_recon(by), pattern, each, most)
            for place, (each, by) in enumerate(ways)
            for name, units in masks.items()
        }
    known = {which: loss for which, loss in losses.items() if not math.isnan(loss)}
    if not known:
        raise FloatingPointError("The loss of every mask became nan: are the values of the images too large?")
    name, place = min(known, key=known.__getitem__)
    found = replace(found, network=finetuning.network if finetuning is not None and place == 0 else None)
    if name in learned:
        return replace(found, distribution=learned[name])
    return replace(
        found,
        distribution=replace(distribution, probabilities=masks[name].to(torch.float32)),
        variance=torch.zeros_like(found.variance),
        plain=name,
    )


def _for_images(samples: Samples, pattern: Pattern, config: Config) -> UnitMask:
    """The mask that is learned for the image itself, with the settings that images have."""
    usual = {
        **PRESETS["default"],
        "task": "reconstruction",
        "loss": "mse",
        "recon": samples.recon.name,
        "finetune": False,
        "members": 1,
    }
    for_images = replace(config, **usual)
    start = starting_probabilities("energy", samples, pattern)
    ensemble = optimise_members(samples, pattern, ImageLoss("mse"), for_images, start)
    probabilities = _result(ensemble.probabilities, len(pattern.free))
    return pattern.restrict(MaskDistribution(probabilities, pattern, pattern.budget(config.acceleration)).mode())


def _finetuning(task: Loss, recon: Reconstruction, config: Config) -> Finetuning | None:
    """A copy of the network that is trained on, if that was asked for: the one that reconstructs comes first."""
    segmentation = find_segmentation(task)
    network = recon.module if isinstance(recon, Network) else segmentation.network if segmentation else None
    return Finetuning(copy.deepcopy(network), config.network_rate) if config.finetune and network else None


def _result(values: Units, dimensions: int) -> Units:
    return centred(values, dimensions).to("cpu", torch.float32).contiguous()
