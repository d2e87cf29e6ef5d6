"""The learner of spokes, where the answer is known, and never below uniform spokes."""

import itertools

import pytest
import torch

import promask
from helpers import seeded
from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputError
from promask.learners.angular_density import AngularDensityRace
from promask.learning.loop import optimise
from promask.learning.selection import UNIFORM, mean_gain
from promask.losses.image import ImageLoss
from promask.problem.batches import SpectraSet
from promask.problem.problem import Problem, Start
from promask.recon import CgSense, Gridding
from promask.sampling.pattern import Pattern

SIZE = 16


def stripes(count=8, seed=0):
    """Images that hardly vary along y: what they are lies on the axis kx, the spoke of angle 0."""
    waves = torch.randn(count, 5, 1, generator=seeded(seed))
    x = torch.arange(SIZE) / SIZE
    along = sum(waves[:, n] * torch.cos(2 * torch.pi * (n + 2) * x + n) for n in range(5))
    return 3 + along[:, None, :] + 0.1 * torch.rand(count, SIZE, SIZE, generator=seeded(seed + 1))


def grains(count=8):
    """Images without any direction: noise of all frequencies."""
    return 1 + torch.rand(count, SIZE, SIZE, generator=seeded())


def problem(images, budget, recon, candidates=48, **reading):
    data = load(images, Reading(trajectory="radial", candidates=candidates, **reading))
    pattern = Pattern.on(data.shape[1:], data.geometry)
    samples = SpectraSet.for_loss(data, torch.device("cpu"), ImageLoss("mse"), recon)
    return Problem(samples, pattern, budget, ImageLoss("mse"), Start(lambda generator: torch.zeros(candidates)))


def learned(asked, steps=12, member=0):
    state = optimise(asked, AngularDensityRace(steps=steps, batch_size=8), member)
    return asked.centred(state.theta > 0), state


def test_spokes_gather_where_the_signal_is():
    asked = problem(stripes(), 6, CgSense(), coils=3)
    units, state = learned(asked)
    assert int(units.sum()) == 6
    places = units.nonzero().flatten()
    near = int((torch.minimum(places, 48 - places) < 12).sum())
    assert near > 3, "more than a half within 45 degrees of the axis kx"
    assert float(state.numbers[0]) > 0.2, "the density leans to the angle 0"
    assert state.history.loss[-1] < 0.8 * asked.losses(asked.uniform.place(asked.pattern, 6), state.images).mean()


def test_no_race_makes_it_worse():
    asked = problem(stripes(), 6, Gridding(), coils=3)
    _, state = learned(asked, steps=20)
    uniform = asked.losses(asked.uniform.place(asked.pattern, 6), state.images)
    relative = (state.losses / uniform).mean()
    assert float(relative) <= 1
    members = asked.centred(state.theta > 0)
    assert torch.allclose(state.losses, asked.losses(members, state.images))


def test_near_the_best_of_all_sets():
    """Of 12 candidates, all pairs are tried."""
    asked = problem(stripes(6), 2, CgSense(), candidates=12, coils=3)
    units, state = learned(asked, steps=30)

    def loss(places):
        tried = torch.zeros(12, dtype=torch.bool)
        tried[list(places)] = True
        return float(asked.losses(tried, state.images).mean())

    losses = sorted(loss(places) for places in itertools.combinations(range(12), 2))
    assert loss(units.nonzero().flatten().tolist()) <= losses[6], "among the best tenth of 66"


def test_the_same_seed_gives_the_same_spokes_and_members_differ():
    asked = problem(stripes(), 7, Gridding())
    first, again = (learned(asked, steps=25)[0] for _ in range(2))
    assert torch.equal(first, again)
    states = [learned(asked, steps=25, member=member)[1] for member in range(2)]
    assert not torch.equal(states[0].numbers, states[1].numbers)


def test_a_run_goes_on_from_its_memory():
    asked, learner = problem(stripes(), 6, Gridding()), AngularDensityRace(steps=16, batch_size=8)
    whole = optimise(asked, learner, 0)
    state = optimise(asked, AngularDensityRace(steps=7, batch_size=8), 0)
    other = learner.init(asked, 0)
    other.restore(state.snapshot()())
    while not learner.finished(asked, other):
        other, loss = learner.step(asked, other, None)
        other.history.loss.append(loss)
    assert torch.equal(other.theta, whole.theta)


def test_uniform_spokes_are_kept_where_no_density_is_certainly_better():
    settings = {"pattern": "radial", "spokes": 4, "candidates": 48, "recon": "cg-sense", "steps": 10}
    run = promask.learn(grains(8), coils=3, **settings)
    assert run.record.reference == UNIFORM
    places = run.distribution.pattern.restrict(run.mask).nonzero().flatten()
    assert set(places.diff().tolist()) == {12}
    better = promask.learn(stripes(8), coils=3, **settings)
    assert better.record.reference is None
    others = [promask.learn(grains(8), learner="exchange", coils=3, **{**settings, "steps": 4})]
    assert others[0].record.reference == UNIFORM, "whatever the learner"


def test_gains_by_hand():
    before, after = torch.tensor([1.0, 1.0, 2.0, 2.0]), torch.tensor([0.9, 0.7, 2.0, 1.0])
    mean, error = mean_gain(before, after, ["Ann", "Ann", "Bob", "Bob"])
    assert mean == pytest.approx((0.2 + 0.25) / 2)
    assert error == pytest.approx(0.05 / 2)
    mean, error = mean_gain(before, after, ["Ann"] * 4)
    assert mean == pytest.approx((0.1 + 0.3 + 0 + 0.5) / 4)
    assert mean_gain(before[:1], after[:1], ["Ann"])[1] == float("inf")


def test_a_start_is_refused():
    start = torch.rand(48, generator=seeded())
    with pytest.raises(InputError, match="starts from uniform spokes: leave out `init`"):
        promask.learn(stripes(), pattern="radial", candidates=48, spokes=4, init=start)
