"""A fifth learner: one class with init, step and finished, and one line in the table."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from helpers import smooth_images
from promask import InputError, Run, learn
from promask.data.arrays import from_images
from promask.learners import LEARNERS, State
from promask.sampling.projection import constrain


@dataclass(frozen=True, kw_only=True)
class EnergyWalk:
    """Moves a little from the start towards the units of largest energy, whatever the images say."""

    name: ClassVar[str] = "energy-walk"
    steps: int = 6
    pace: float = 0.5

    def init(self, problem, member):
        return State(problem.initial(member))

    def batches(self, problem, state, member):
        while True:
            yield torch.arange(2)

    def step(self, problem, state, batch):
        energy = problem.energy / problem.energy.max()
        state.budget = problem.budget
        state.theta = constrain(state.theta.lerp(energy, self.pace), problem.budget, problem.always, problem.never)
        return state, float((state.theta - energy).square().sum())

    def finished(self, problem, state):
        return state.step == self.steps


IMAGES = from_images(smooth_images(4, size=(16, 12), dtype=torch.complex64))


def test_a_learner_given_as_an_object(tmp_path):
    told = []
    run = learn(IMAGES, 4, learner=EnergyWalk(), init="uniform", members=2, on_step=told.append)
    assert run.config.learner == "energy-walk"
    assert [len(losses) for losses in run.history.member_loss] == [6, 6]
    for losses in run.history.member_loss:
        assert losses[-1] < losses[0]
    assert int(run.mask.sum()) == 48
    assert [progress.step for progress in told] == [*range(1, 7)] * 2
    again = Run.load(run.save(tmp_path / "run"))
    assert again.config.learner == "energy-walk"
    assert "by energy-walk in 6 steps" in repr(again)


def test_a_learner_of_the_table_by_its_name(monkeypatch, tmp_path):
    monkeypatch.setitem(LEARNERS, "energy-walk", EnergyWalk)
    run = learn(IMAGES, 4, learner="energy-walk", steps=3, batch_size=2, patience=0, checkpoint=tmp_path / "run")
    assert len(run.history.loss) == 3
    record = json.loads((run.save(tmp_path / "run") / "run.json").read_text())
    assert (record["config"]["learner"], record["config"]["rule"]) == ("energy-walk", "energy-walk")


@pytest.mark.parametrize("wrong", ["guess", EnergyWalk])
def test_what_is_no_learner(wrong):
    with pytest.raises(InputError, match="learner"):
        learn(IMAGES, 4, learner=wrong)


def test_a_learner_that_is_made_has_its_settings():
    assert learn(IMAGES, 4, learner=EnergyWalk(steps=2), init="uniform").config.steps == 2
    with pytest.raises(InputError, match="The learner is made already: give `steps` to it"):
        learn(IMAGES, 4, learner=EnergyWalk(steps=2), steps=3)
