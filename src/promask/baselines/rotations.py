"""Spokes and interleaves of the trade: uniform, golden and tiny golden angles, RAGA.

All have exactly the same number, and are candidates of the same trajectory. Seeds turn them; one is tuned.
"""

import math

import torch

from promask.baselines.problem import BaselineProblem
from promask.data.file_set import prepare
from promask.data.sample_sets import Subset
from promask.problem.batches import SpectraSet
from promask.problem.problem import Problem, Start
from promask.problem.uniform import uniform_sets
from promask.sampling.angles import GOLDEN, steps_of
from promask.types import UnitMask, Units

TINY = 7
"""Of tiny golden angles: the usual one, 23.63 degrees of spokes."""
TUNING_IMAGES = 32
"""The most images that decide between offsets, as many as the learner has."""


def uniform(problem: BaselineProblem) -> UnitMask:
    """Evenly spread spokes; the seed chooses the offset, one after the other, and frames or partitions are alike.

    As many seeds as there are offsets are all of them.
    """
    sets = [each for each in uniform_sets(problem.pattern, problem.budget) if each.turn == 0]
    order = torch.randperm(len(sets), generator=torch.Generator().manual_seed(0)).tolist()
    return sets[order[problem.seed % len(sets)]].place(problem.pattern, problem.budget)


def uniform_best(problem: BaselineProblem) -> UnitMask:
    """Evenly spread spokes with the offset of least loss on the images that masks are made from.

    Of frames and partitions, also by how much they are turned against each other.
    """
    data = prepare(problem.data)
    count = min(len(data), TUNING_IMAGES)
    chosen = Subset(data, [index * len(data) // count for index in range(count)])
    images = SpectraSet.for_loss(chosen, problem.device, problem.task, problem.recon)
    asked = Problem(images, problem.pattern, problem.budget, problem.task, Start(_nothing))
    return asked.uniform.place(problem.pattern, problem.budget)


def _nothing(generator: torch.Generator) -> Units:
    return torch.zeros(())


def golden(problem: BaselineProblem) -> UnitMask:
    """Each spoke follows the one before it by the golden angle, also from frame to frame; seeds turn the first."""
    return steps_of(problem.pattern, problem.budget, GOLDEN, _first(problem))


def tiny_golden(problem: BaselineProblem) -> UnitMask:
    """The same by the seventh tiny golden angle (Wundrak et al. 2015), which is better for gradients."""
    return steps_of(problem.pattern, problem.budget, 1 / ((1 + math.sqrt(5)) / 2 + TINY - 1), _first(problem))


def raga(problem: BaselineProblem) -> UnitMask:
    """Golden angles rounded to a rational step, so that each is an index (Scholand et al. 2025).

    The step is the number next to the golden angle that has no common divisor with the number of candidates: all
    of them come before any comes again.
    """
    assert problem.pattern.trajectory is not None
    count = problem.pattern.trajectory.candidates
    coprime = [step for step in range(1, count + 1) if math.gcd(step, count) == 1]
    step = min(coprime, key=lambda each: abs(each / count - GOLDEN))
    return steps_of(problem.pattern, problem.budget, step / count, round(_first(problem) * count) / count)


def _first(problem: BaselineProblem) -> float:
    return float(torch.rand((), generator=problem.generator(), dtype=torch.float64))
