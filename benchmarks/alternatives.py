"""Other ways to learn a mask, all with the same number of reconstructions: the tables of docs/alternatives.md.

python -m benchmarks.alternatives FOLDER --loss mse --out runs/alternatives-mse.json

Everything here is evaluated on validation patients, which are split off the training part. The held-out part of
docs/results.md is not used.
"""

import argparse
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from benchmarks.starts import FILES
from promask.baselines import baseline_mask
from promask.baselines.problem import BaselineProblem
from promask.baselines.searched import GREEDY_IMAGES, MaskLoss, swap_units
from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.evaluation.evaluate import evaluate
from promask.learners import LEARNERS, Description, GradientLearner, Learner
from promask.learners.best_response import GainEvidence
from promask.learners.gradient import Evidence
from promask.learners.gumbel_adam import GumbelEvidence
from promask.learning.api import learn
from promask.losses.base import Loss
from promask.losses.image import ImageLoss
from promask.problem.problem import Problem
from promask.sampling import schedules
from promask.sampling.pattern import Pattern
from promask.sampling.projection import nth_largest
from promask.sampling.straight_through import uniform
from promask.types import Mask, SampleSet, Spectra, UnitDraws, Units

RATES = (0.15, 0.015)
"""The first and last step size, relative to the marginal gain."""


def scaled_step(evidence: GainEvidence | GumbelEvidence, gain: Units, step: int) -> Units:
    """A step along the gains, divided by the marginal gain and clipped to 3."""
    marginal = nth_largest(gain, evidence.problem.budget).abs()
    return schedules.geometric(step, evidence.steps, *RATES) * (gain / marginal).clamp(-3, 3)


class GumbelScaledStep(GumbelEvidence):
    """The gradient of the paper, and a step scaled by the budget instead of Adam."""

    step = 0

    def propose(self) -> Units:
        """A step against the mean gradient."""
        self.step += 1
        return self.theta + scaled_step(self, -self.total / self.count, self.step)


class TrapezoidScaledStep(GainEvidence):
    """The mean of the derivatives at m = 0 and at m = 1, each averaged over the masks that have it (ReinMax)."""

    def begin(self, theta: Units, step: int) -> float:
        """Forget the sums of the step before."""
        self.of_both = torch.zeros(4, *theta.shape)
        return super().begin(theta, step)

    def observe(self, masks: UnitDraws, gradients: UnitDraws, spectra: Spectra, rows: slice = slice(None)) -> None:
        """Sums for both values of each unit."""
        parts = (masks * gradients, masks, (1 - masks) * gradients, 1 - masks)
        self.of_both += torch.stack([part.sum(0) for part in parts])

    def propose(self) -> Units:
        """A step along minus the mean of both; where only one was drawn, that one."""
        drawn, times_drawn, undrawn, times_undrawn = self.of_both
        both = torch.stack((drawn / times_drawn, undrawn / times_undrawn))
        return self.theta + scaled_step(self, -both.nanmean(0), self.step)


class DifferenceScaledStep(GainEvidence):
    """The gains of the default learner, and a step along them instead of the response."""

    def propose(self) -> Units:
        """A step from the previous probabilities."""
        return self.theta + scaled_step(self, self._gain(), self.step)

    def _gain(self) -> Units:
        return self.gains.estimate(1.0 if self.step == 1 else 0.2)


class MirrorDescent(DifferenceScaledStep):
    """The gains of the default learner, and a step of the log odds: mirror descent with the entropy."""

    def propose(self) -> Units:
        """The log odds after the step, shifted by a constant so that the probabilities sum to the budget."""
        odds = torch.logit(self.theta.double(), eps=1e-6)
        odds += 10 * scaled_step(self, self._gain(), self.step).double()
        low, high = float(odds.min()) - 50, float(odds.max()) + 50
        for _ in range(60):
            shift = (low + high) / 2
            kept = float(torch.sigmoid(odds - shift).sum()) <= self.problem.budget
            low, high = (low, shift) if kept else (shift, high)
        return torch.sigmoid(odds - high).to(self.theta.dtype)


class Antithetic(GainEvidence):
    """The default learner with antithetic pairs of masks, drawn from u and 1 - u."""

    def draw(self, count: int) -> UnitDraws:
        """Every second mask mirrors the one before."""
        half = uniform(((count + 1) // 2, *self.theta.shape), self.theta, self.noise)
        random = torch.stack((half, 1 - half), 1).flatten(0, 1)[:count]
        return (random < self.theta).to(self.theta.dtype)


class NoField(GainEvidence):
    """The default learner without the field that prefers one half of k-space."""

    def __init__(self, problem: Problem, noise: torch.Generator, steps: int) -> None:
        super().__init__(problem, noise, steps)
        self.field = torch.zeros_like(self.field)


class Derivative(GainEvidence):
    """The default learner with derivatives in place of differences: no curvature."""

    mean: torch.Tensor | None = None

    def propose(self) -> Units:
        """The response to the running mean of the derivatives."""
        slope = -self.gains.sums[0] / self.gains.count
        self.mean = slope if self.mean is None else torch.lerp(self.mean, slope, 0.2)
        self.gains.estimate = lambda novelty: self.mean
        return super().propose()


def swapped(mask: Mask, train: SampleSet, pattern: Pattern, task: Loss) -> Mask:
    """Swap acquired units of least gain for missing units of most gain while this lowers the loss on the data."""
    free_choice = torch.zeros(pattern.unit_shape, dtype=torch.bool)
    mask_loss = MaskLoss.of(BaselineProblem(pattern, 1, train, task=task), GREEDY_IMAGES)
    units = swap_units(pattern.restrict(mask), free_choice, mask_loss)
    return pattern.expand(units)


@dataclass(frozen=True, kw_only=True)
class Alternative(GradientLearner):
    """A gradient learner with other evidence."""

    name: ClassVar[str] = "alternative"
    about: ClassVar[Description] = Description(fewest_masks=2)
    kind: type[Any]
    patience: int = 10

    def evidence(self, problem: Problem, noise: torch.Generator) -> Evidence:
        """That of this kind."""
        rate = (0.01,) if issubclass(self.kind, GumbelEvidence) else ()
        made: Evidence = self.kind(problem, noise, self.steps, *rate)
        return made


ALTERNATIVES: Mapping[str, str | type[Any]] = {
    "Gumbel, Adam": "gumbel-adam",
    "Gumbel, scaled step": GumbelScaledStep,
    "trapezoid, scaled step": TrapezoidScaledStep,
    "difference, scaled step": DifferenceScaledStep,
    "difference, mirror descent": MirrorDescent,
    "derivative, response": Derivative,
    "difference, response, no field": NoField,
    "difference, response, antithetic draws": Antithetic,
    "difference, response (the default)": "best-response",
    "the default, then swaps": "best-response",
}


def alternative(kind: str | type[Any], steps: int = 100) -> Learner:
    """A learner of the table, or one with other evidence; those with Gumbel draws anneal the budget."""
    published = kind == "gumbel-adam" or (not isinstance(kind, str) and issubclass(kind, GumbelEvidence))
    settings: dict[str, Any] = {"steps": steps, "batch_size": 16, "annealing": "cubic" if published else "none"}
    if isinstance(kind, str):
        learner: Learner = LEARNERS[kind](**settings)
        return learner
    return Alternative(kind=kind, patience=0 if published else 10, **settings)


def main() -> None:
    """Learn with every alternative on every data set, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the three .npz files are")
    parser.add_argument("--files", nargs="+", default=FILES)
    parser.add_argument("--acceleration", type=float, default=8)
    parser.add_argument("--loss", default="mse")
    parser.add_argument("--pattern", default="2d")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=list(ALTERNATIVES))
    parser.add_argument("--out", type=Path, required=True, help="where the JSON goes")
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)

    parts = {}
    for name in arguments.files:
        learning, _ = choose_part(load(str(arguments.folder / f"{name}.npz")), "train", default="train")
        parts[name] = tuple(choose_part(learning, part, default=part)[0] for part in ("train", "test"))
    print(f"| | {' | '.join(arguments.files)} |\n|---|{'---|' * len(parts)}")
    table: dict[str, dict[str, list[float]]] = {}
    for label in arguments.only:
        table[label] = {name: gains(label, *parts[name], arguments) for name in parts}
        print(f"| {label} | {' | '.join(cell(values) for values in table[label].values())} |", flush=True)
        record = {"settings": {**vars(arguments), "folder": "", "out": ""}, "gains": table}
        arguments.out.write_text(json.dumps(record, indent=1))


def gains(label: str, train: SampleSet, test: SampleSet, arguments: argparse.Namespace) -> list[float]:
    """The gain over the closed form for each seed: in PSNR, or in SSIM if that is the loss."""
    metric = "ssim" if arguments.loss == "ssim" else "psnr"
    pattern = Pattern.named(arguments.pattern, train.shape[1:])
    learner = alternative(ALTERNATIVES[label])
    settings: dict[str, Any] = {"learner": learner, "loss": arguments.loss, "pattern": arguments.pattern}
    settings["patience"] = 0 if getattr(learner, "annealing", "none") == "cubic" else 10

    def score(mask: Mask) -> float:
        return float(evaluate(mask, test).summary()[metric])

    closed_form = score(baseline_mask("energy", train, pattern, arguments.acceleration))
    results = []
    for seed in range(arguments.seeds):
        mask = learn(train, arguments.acceleration, seed=seed, **settings).mask
        if label.endswith("swaps"):
            mask = swapped(mask, train, pattern, ImageLoss(arguments.loss))
        results.append(score(mask) - closed_form)
    return results


def cell(values: list[float]) -> str:
    """The mean, and the range over the seeds."""
    return f"{statistics.fmean(values):+.4f} ({min(values):+.4f} to {max(values):+.4f})"


if __name__ == "__main__":
    main()
