"""The learner of swaps: its scores against what really happens, its race, its tests and its guard."""

import itertools

import numpy as np
import pytest
import torch
from torch import distributed

import promask
from helpers import seeded
from promask.data.reading import Reading
from promask.data.sources import load
from promask.learners import Swap, make_learner, usual_learner
from promask.learners.starts import add_zones, make_starts, vary_centres
from promask.learners.swap import RACE, _cut_at, keep_the_better, series_weights, swap_best
from promask.learners.unit_scores import UnitScores
from promask.learning.config import Config
from promask.learning.loop import optimise
from promask.losses.image import ImageLoss
from promask.operators.fourier import fft_order
from promask.problem.batches import MicroBatch, SpectraSet
from promask.problem.parallel import Group
from promask.problem.problem import Problem, Start, mean_loss
from promask.recon import make_reconstruction
from promask.recon.kt_sense import KtSense
from promask.sampling.limits import LimitSettings
from promask.sampling.pattern import Pattern

FRAMES, HEIGHT, WIDTH = 6, 16, 8


def beating(series=6, seed=0):
    """Discs whose size changes over time, in front of a still background."""
    random = np.random.default_rng(seed)
    y, x = np.meshgrid(np.linspace(-1, 1, HEIGHT), np.linspace(-1, 1, WIDTH), indexing="ij")
    result = np.zeros((series, FRAMES, HEIGHT, WIDTH), np.float32)
    for number, frame in itertools.product(range(series), range(FRAMES)):
        shift = random.uniform(-0.1, 0.1) if frame == 0 else shift
        radius = 0.45 + 0.15 * np.cos(2 * np.pi * frame / FRAMES)
        disc = 1 / (1 + np.exp(12 * (np.hypot(y - shift, x) - radius)))
        result[number, frame] = 0.2 + 0.6 * disc + 0.1 * np.cos(3 * y + number)
    return result


def problem_of(recon="kt-sense", acceleration=4, coils=2, series=6):
    data = load(beating(series), Reading(axes="slice frame y x", coils=coils, noise=0.005))
    pattern = LimitSettings().on(Pattern.on(data.shape[1:], data.geometry))
    made = make_reconstruction(recon)
    samples = SpectraSet.for_loss(data, torch.device("cpu"), ImageLoss("mse"), made, along=2)
    plane = pattern.plane(2)
    start = Start(lambda generator: torch.rand(plane.unit_shape, generator=generator))
    return Problem(samples, plane, plane.budget(acceleration), ImageLoss("mse"), start)


def test_it_is_the_usual_one_for_frames():
    assert usual_learner(network=False, iterative=True, temporal=True) == "swap"
    config = Config.preset("default", acceleration=4, recon="kt-sense")
    learner = make_learner(config.learner, config)
    assert isinstance(learner, Swap)
    assert (learner.steps, learner.batch_size) == (26, 800)


def scores_of(problem, members, repeats):
    """Scores on all columns, several times: probes are random."""
    noise = torch.Generator().manual_seed(0)
    scores = UnitScores(problem, members, noise)
    for _ in range(repeats):
        for piece in problem.images.pieces(torch.arange(len(problem.images))):
            count = len(piece.targets)
            scores.observe(MicroBatch(count, slice(0, count), piece))
    remembered = torch.zeros(3, *members.shape)
    add, remove, _ = scores.gather(remembered)
    return add, remove


@pytest.mark.parametrize(
    "recon", [KtSense(iterations=60), "view-sharing", "kt-cs"], ids=["kt-sense", "view-sharing", "kt-cs"]
)
def test_scores_tell_what_happens_if_a_unit_is_added(monkeypatch, recon):
    """Rank correlation with the true changes of the mean loss; of linear reconstructions also for removals, and
    the sums of the changes."""
    monkeypatch.setattr("promask.learners.unit_scores.ITERATIONS", 60)  # what they mean when they have converged
    problem = problem_of(recon)
    linear = recon != "kt-cs"
    units = torch.rand(problem.pattern.unit_shape, generator=seeded(3)) < 0.4
    add, remove = scores_of(problem, fft_order(units, 1), repeats=4 if linear else 2)

    def loss(mask):
        return mean_loss(mask, problem.images, problem.pattern, problem.loss, 10**6)

    before = loss(units)
    true, predicted = {True: [], False: []}, {True: [], False: []}
    for place in itertools.product(*map(range, units.shape)):
        changed = units.clone()
        changed[place] = ~changed[place]
        member = bool(units[place])
        true[member].append(loss(changed) - before)
        line = (place[0], (place[1] - HEIGHT // 2) % HEIGHT)
        predicted[member].append(float((remove if member else add)[line]))
    ranks = {
        member: np.corrcoef(*(np.argsort(np.argsort(values[member])) for values in (true, predicted)))[0, 1]
        for member in (True, False)
    }
    assert ranks[False] > (0.8 if linear else 0.5)
    if linear:
        assert ranks[True] > 0.8
        assert sum(predicted[False]) == pytest.approx(sum(true[False]), rel=0.4)
        assert sum(predicted[True]) == pytest.approx(sum(true[True]), rel=0.4 if recon == "view-sharing" else 0.7)


@pytest.mark.parametrize("recon", ["kt-sense", "view-sharing", "kt-cs"])
def test_two_processes_that_see_the_same_score_as_one_does(monkeypatch, recon):
    """What they tell each other are real numbers, which every backend can add; the sums are twice those of one."""

    class Both(distributed.Work):
        def __init__(self, message, async_op):
            super().__init__()
            assert async_op
            assert not message.is_complex()
            message *= 2

        def wait(self):
            return True

    monkeypatch.setattr("promask.problem.parallel.processes.all_reduce", Both)
    problem = problem_of(recon)
    units = torch.rand(problem.pattern.unit_shape, generator=seeded(3)) < 0.4
    alone = scores_of(problem, units, repeats=3)
    problem.images.group = Group(size=2)
    for one, two in zip(alone, scores_of(problem, units, repeats=3), strict=True):
        known = one.isfinite()
        assert known.any()
        torch.testing.assert_close(two[known], one[known])


def test_swaps_are_the_best_of_brute_force():
    random = torch.Generator().manual_seed(1)
    members = torch.rand(3, 7, generator=random) < 0.4
    add = torch.where(members, torch.inf, torch.randn(3, 7, generator=random))
    remove = torch.where(members, torch.randn(3, 7, generator=random), torch.inf)
    group = torch.arange(3)[:, None].expand(3, 7)
    swapped = swap_best(members, add, remove, group, count=1)
    sums = {
        (row, out, into): float(remove[row, out] + add[row, into])
        for row in range(3)
        for out in members[row].nonzero().flatten().tolist()
        for into in (~members[row]).nonzero().flatten().tolist()
    }
    row, out, into = min(sums, key=sums.__getitem__)
    wanted = members.clone()
    wanted[row, out], wanted[row, into] = False, True
    assert torch.equal(swapped, wanted)
    assert torch.equal(swap_best(members, add + 100, remove, group, 5), members), "none is good enough"
    several = swap_best(members, add - 100, remove, group, count=9)
    assert torch.equal(several.sum(1), members.sum(1)), "within frames"


def test_pieces_are_cut_where_the_test_begins():
    problem = problem_of()
    pieces = [
        MicroBatch(3, slice(0, 3), next(problem.images.pieces(torch.arange(3)))),
        MicroBatch(4, slice(0, 0), None),
    ]
    cut = list(_cut_at(iter(pieces), 2))
    assert [piece.count for piece in cut] == [2, 1, 4]
    assert [0 if piece.batch is None else len(piece.batch.targets) for piece in cut] == [2, 1, 0]
    assert torch.equal(cut[1].batch.spectra[0], pieces[0].batch.spectra[2])
    assert [piece.count for piece in _cut_at(iter(pieces), 5, beyond=False)] == [3, 2]


def test_the_race_ends_with_one_start():
    problem = problem_of()
    racing = []

    class Watch:
        def start(self, member, state):
            pass

        def after_step(self, member, state, loss):
            racing.append(len(state.racing))

    state = optimise(problem, Swap(steps=len(RACE), batch_size=96), hooks=[Watch()])
    assert racing[0] == min(RACE[0].keep, len(make_starts(problem)))
    assert all(left <= this.keep for left, this in zip(racing, RACE, strict=True))
    assert racing[-1] == 1
    assert torch.equal(state.theta, state.starts[1])
    masks = make_starts(problem)
    losses = [problem.mean_loss(units, 10**6) for units in masks]
    assert problem.mean_loss(state.starts[1] > 0, 10**6) < np.median(losses)


@pytest.mark.parametrize("join", [add_zones, vary_centres])
def test_others_join_the_race(join):
    """Lattices of two zones, and the best starts with other centres: each once, with the same number of lines."""
    problem = problem_of()
    starts = make_starts(problem)[:5]
    joined = join(problem, starts)
    assert torch.equal(joined[:5], starts)
    assert len(joined) > 8
    assert len({units.numpy().tobytes() for units in joined}) == len(joined)
    assert (joined.sum(2) == HEIGHT // 4).all()
    assert joined[5:, :, 0].all(1).any(), "one has the centre in every frame"


def test_series_count_alike_whatever_their_errors_are():
    errors = torch.tensor([[8.0, 2000.0, 0.0], [2000.0, 2000.0, 0.0]], dtype=torch.float64)
    weights = series_weights(errors)
    means = errors[0] / errors[1].clamp_min(1)
    shares = (weights * means)[:2]
    assert abs(shares[0] / shares[1] - 1) < 0.5, "nearly one share for each, though one has 250 times the error"
    assert weights[2] == 1, "nothing is known of it"
    assert torch.equal(series_weights(torch.zeros(2, 3)), torch.ones(3))


def test_a_unit_is_not_added_in_two_frames_at_once():
    members = torch.zeros(4, 6, dtype=torch.bool)
    members[:, :2] = True
    add = torch.where(members, torch.inf, torch.tensor([0.0, 0, -9, -1, -2, -3]).expand(4, 6))
    remove = torch.where(members, 0.5, torch.inf)
    group = torch.arange(4)[:, None].expand(4, 6)
    swapped = swap_best(members, add, remove, group, 4, apart=(2, 0))
    assert (swapped & ~members).sum(0).max() == 1
    assert (members & ~swapped).sum(0).max() == 1


def test_a_run_is_better_than_its_start_and_keeps_the_numbers():
    drawn = torch.rand(FRAMES, HEIGHT, generator=seeded(5))
    problem = Problem(**{**vars(problem_of()), "start": Start(lambda generator: drawn, given=True)})
    learner = Swap(steps=12, batch_size=64)
    state = optimise(problem, learner)
    assert (state.theta.sum(1) == HEIGHT // 4).all()
    masks = [
        torch.stack([units.roll(shift, 0) for shift in range(FRAMES)]) for units in (state.theta, state.starts[1])
    ]
    learned, start = (sum(problem.mean_loss(units > 0, 10**6) for units in each) for each in masks)
    assert learned < 0.9 * start, "wherever the heart beat begins"
    again = optimise(problem, learner)
    assert torch.equal(again.theta, state.theta), "the same bits"


@pytest.mark.parametrize("preferred", [0, 1, 2], ids=["the trade", "the start", "what was learned"])
def test_patients_who_were_held_back_decide(monkeypatch, preferred):
    problem = Problem(**{**vars(problem_of()), "validation": problem_of(series=2).images})
    state = Swap(steps=1, batch_size=32).init(problem, 0)
    masks = (torch.rand(3, FRAMES, HEIGHT, generator=seeded(2)) < 0.25).float()
    state.starts, state.theta = masks[:2], masks[2]
    wanted = masks[preferred] > 0
    losses = {True: 1.0, False: 2.0}

    def found(problem, units, batch):
        value = losses[torch.equal(units, wanted)] * (
            1 + 9 * (batch.indices >= WIDTH)
        )  # the second has large errors
        return value.double()

    monkeypatch.setattr("promask.learners.swap._losses", found)
    keep_the_better(problem, state)
    assert torch.equal(state.theta, masks[preferred])
    losses.update({True: float("nan"), False: float("nan")})
    keep_the_better(problem, state)
    assert torch.equal(state.theta, masks[preferred]), "nothing is known of the others"


def test_a_start_of_ones_own_does_not_race():
    problem = problem_of()
    mask = torch.zeros(FRAMES, HEIGHT)
    mask[:, 6:10] = 1
    given = Start(lambda generator: fft_order(mask, 1), given=True)
    state = optimise(Problem(**{**vars(problem), "start": given}), Swap(steps=1, batch_size=32))
    assert torch.equal(state.starts[1], fft_order(mask, 1))


def test_a_prior_comes_from_the_images_and_stays_with_the_run(tmp_path):
    settings = {"axes": "slice frame y x", "coils": 2, "noise": 0.005, "steps": 4, "batch_size": 24}
    run = promask.learn(beating(), 4, recon="kt-sense", **settings)
    assert isinstance(run.recon, KtSense)
    assert run.prior.shape == (FRAMES, HEIGHT, WIDTH)
    again = promask.Run.load(run.save(tmp_path / "run"))
    assert torch.equal(again.reconstruction().prior, run.prior)
    assert run.mask.shape == (FRAMES, HEIGHT, WIDTH)
    assert (run.mask[:, :, 0].sum(1) == HEIGHT // 4).all()
