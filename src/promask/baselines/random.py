"""Uniform density: the mask that knows nothing."""

import torch

from promask.baselines.problem import Problem
from promask.types import UnitMask


def random(problem: Problem) -> UnitMask:
    """Units at random, each as likely as any other."""
    return problem.best(torch.rand(problem.pattern.unit_shape, generator=problem.generator(), dtype=torch.float64))
