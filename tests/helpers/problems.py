"""Problems for learners: with energies that are given, or from samples and settings."""

import itertools

import torch

from helpers import seeded
from promask.learners import make_learner
from promask.learning.hooks import EarlyStopping, ReportProgress
from promask.learning.loop import optimise
from promask.problem.problem import Problem, Start
from promask.sampling.pattern import Pattern


class EnergyProblem(Problem):
    """A problem of lines without images: what evidence needs to know before the first step."""

    def __init__(self, units=20, budget=5, energy=None, always=(), never=(), judge=None):
        energy = torch.linspace(2, 1, units) if energy is None else energy
        masks = {name: torch.zeros(units, dtype=torch.bool) for name in ("always", "never")}
        masks["always"][list(always)] = True
        masks["never"][list(never)] = True
        self.__dict__.update(masks, pattern=Pattern((1, units), (1,)), budget=budget, given_energy=energy)
        looks = itertools.count()
        self.__dict__["judge"] = judge or (lambda units: -float(next(looks)))  # each mask is better than the last

    @property
    def energy(self):
        return self.given_energy

    def mean_loss(self, units, most):
        return self.judge(units)


def evidence_of(name, problem, steps=10, seed=0):
    """The evidence of a gradient learner."""
    from promask.learners import LEARNERS

    return LEARNERS[name](steps=steps, batch_size=2).evidence(problem, seeded(seed))


def problem_of(samples, pattern, loss, config, start):
    """What `learn` asks of a learner; a start is a function of a generator, or one of `starting_probabilities`."""
    start = start if isinstance(start, Start) else Start(start)
    budget = pattern.budget(config.acceleration)
    return Problem(samples, pattern, budget, loss, start, config.centre, config.seed)


def optimised(samples, pattern, loss, config, start, member=0, on_step=None):
    """The probabilities of a member, in FFT order, and its history."""
    problem, learner = problem_of(samples, pattern, loss, config, start), make_learner(config.learner, config)
    hooks = [EarlyStopping(config.patience, problem.budget, learner.steps)]
    if on_step is not None:
        hooks.append(ReportProgress(on_step, config.members, learner.steps, len(pattern.free)))
    state = optimise(problem, learner, member, hooks)
    return state.theta, state.history
