"""The limits of 3D protocols, against brute force, integer programs and a convex solver."""

import dataclasses
import itertools
import json

import cvxpy
import numpy as np
import pytest
import torch
from scipy.optimize import LinearConstraint, milp

from helpers import seeded
from promask.errors import InputError
from promask.export.files import parse_pattern
from promask.sampling.distribution import MaskDistribution
from promask.sampling.limits import Limits, LimitSettings
from promask.sampling.pattern import Pattern
from promask.types import Geometry

LIMITS = {
    "shutter": Limits(shutter="ellipse"),
    "partial Fourier": Limits(partial_fourier=((0, 0.75), (1, 0.625))),
    "gap": Limits(largest_gap=((0, 3),)),
    "gap along the last": Limits(largest_gap=((1, 4),)),
    "equal": Limits(equal_per=1),
    "gap and equal": Limits(largest_gap=((0, 3),), equal_per=1),
    "gap within a shutter": Limits(shutter="ellipse", largest_gap=((0, 3),)),
    "equal along the first": Limits(equal_per=0),
    "equal for two together": Limits(equal_per=0, equal_group=2),
    "all but the shutter": Limits(partial_fourier=((0, 0.75),), largest_gap=((0, 4),), equal_per=1),
}


def rows_of_places(pattern):
    """The places that may be acquired of every row along the direction of the gap, as flat numbers."""
    ((position, _),) = pattern.limits.largest_gap
    numbers, allowed = torch.arange(pattern.never().numel()).reshape(pattern.unit_shape), ~pattern.never()
    for row, inside in zip(
        *(each.movedim(position, -1).reshape(-1, each.shape[position]) for each in (numbers, allowed)), strict=True
    ):
        yield row[inside].tolist()


def constraints(pattern, count, exact):
    """The rows of a matrix and their bounds: the number or the budget, equal shares, and windows."""
    units, never = pattern.never().numel(), pattern.never()
    low = count if exact else -np.inf
    yield np.ones(units), low, count
    position = pattern.limits.equal_per
    if position is not None:
        places = [p for p in range(never.shape[position]) if not never.select(position, p).all()]
        together = pattern.limits.equal_group
        for first in range(0, len(places), together):
            row = torch.zeros(pattern.unit_shape)
            for place in places[first : first + together]:
                row.select(position, place)[:] = 1
            share = count * together / len(places)
            yield row.flatten().numpy(), share if exact else -np.inf, share
    if pattern.limits.largest_gap:
        ((_, gap),) = pattern.limits.largest_gap
        for places in rows_of_places(pattern):
            for start in range(len(places) - gap + 1):
                row = np.zeros(units)
                row[places[start : start + gap]] = 1
                yield row, 1, np.inf


def is_feasible(pattern, mask, count):
    flat = mask.flatten().double().numpy()
    kept = all(low <= row @ flat <= high for row, low, high in constraints(pattern, count, exact=True))
    return kept and not (mask & pattern.never()).any()


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("shape", [(4, 3), (6, 2)])
def test_the_best_mask_is_that_of_brute_force(limits, shape):
    pattern = Pattern(shape, (0, 1), limits=limits)
    values = torch.randn(shape, generator=seeded(1), dtype=torch.float64)
    units = values.numel()
    masks = torch.tensor(list(itertools.product([False, True], repeat=units))).reshape(-1, *shape)
    for count in range(1, units + 1):
        chosen = masks[(masks.sum((1, 2)) == count) & ~(masks & pattern.never()).any(2).any(1)]
        flat = chosen.flatten(1).double().numpy()
        for row, low, high in constraints(pattern, count, exact=True):
            kept = (low <= flat @ row) & (flat @ row <= high)
            chosen, flat = chosen[torch.from_numpy(kept)], flat[kept]
        if not len(chosen):
            if limits.couple:
                with pytest.raises(InputError):
                    pattern.largest(values, count)
            continue
        found = pattern.largest(values, count)
        assert is_feasible(pattern, found, count)
        assert float(values[found].sum()) == pytest.approx(float((chosen * values).sum((1, 2)).max()))


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("seed", range(2))
def test_the_best_mask_is_that_of_an_integer_program(limits, seed):
    pattern = Pattern((18, 12), (0, 1), limits=limits)
    values = torch.randn(pattern.unit_shape, generator=seeded(seed), dtype=torch.float64)
    count, always = 108, pattern.centre(3)
    found = pattern.largest(values.masked_fill(always, torch.inf), count)
    assert is_feasible(pattern, found, count)
    assert found[always].all()
    matrix, low, high = (np.array(each) for each in zip(*constraints(pattern, count, exact=True), strict=True))
    bounds = (always.flatten().numpy().astype(float), (~pattern.never()).flatten().numpy().astype(float))
    best = milp(
        -values.flatten().numpy(),
        constraints=LinearConstraint(matrix, low, high),
        integrality=np.ones(values.numel()),
        bounds=bounds,
    )
    assert float(values[found].sum()) == pytest.approx(-best.fun, abs=1e-6)


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize(("seed", "scale", "budget"), [(0, 1.0, 60.0), (1, 4.0, 72.0), (2, 0.3, 54.0)])
def test_the_projection_agrees_with_a_convex_solver(limits, seed, scale, budget):
    pattern = Pattern((12, 9), (0, 1), limits=limits)
    theta = scale * torch.randn(pattern.unit_shape, generator=seeded(seed), dtype=torch.float64) + 0.3
    always = pattern.centre(2)
    x = cvxpy.Variable(theta.numel())
    fixed = (always | pattern.never()).flatten().numpy()
    kept = [x >= 0, x <= 1, x[fixed] == always.flatten().numpy()[fixed].astype(float)]
    for row, low, high in constraints(pattern, budget, exact=False):
        kept += [row @ x >= low] if np.isfinite(low) else []
        kept += [row @ x <= high] if np.isfinite(high) else []
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(x - theta.flatten().numpy())), kept)
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    found = pattern.project(theta, budget, always).flatten().numpy()
    np.testing.assert_allclose(found, x.value, atol=1e-6)


def test_feasible_probabilities_stay_as_they_are():
    pattern = Pattern((12, 9), (0, 1), limits=LIMITS["gap and equal"])
    values = torch.rand(pattern.unit_shape, generator=seeded())
    mask = pattern.largest(values, 54).float()
    assert torch.equal(pattern.project(mask, 54, pattern.centre(0)), mask)


def test_places_that_are_never_acquired():
    pattern = Pattern((8, 8), (0, 1), limits=Limits(shutter="ellipse", partial_fourier=((1, 0.75),)))
    offsets = torch.arange(8) - 4
    inside = (offsets[:, None] ** 2 + offsets**2 <= 16) & (offsets >= -2)
    assert torch.equal(pattern.never(), ~inside)
    assert pattern.acquirable == int(inside.sum())
    assert pattern.budget(4) == 16, "of the whole grid"
    padded = Pattern((8, 10), (0, 1), ((0, 8), (1, 9)), limits=Limits(partial_fourier=((1, 0.75),)))
    assert padded.never()[0].nonzero().flatten().tolist() == [0, 1, 2, 9]


def test_the_calibration_region_is_a_block_or_an_ellipse():
    block, ellipse = (Pattern((16, 16), (0, 1), limits=Limits(acs_shape=shape)) for shape in ("block", "ellipse"))
    assert int(block.centre(4).sum()) == 16
    corners = block.centre(4) & ~ellipse.centre(4)
    assert int(corners.sum()) == 4
    assert ellipse.centre(5)[8, 8 - 2 : 8 + 3].all()
    assert not (ellipse.centre(5) & ~block.centre(5)).any()


def test_a_plane_has_the_same_units_and_limits():
    limits = Limits(shutter="ellipse", largest_gap=((0, 3),))
    extent = ((0, 4), (1, 8), (0, 6))
    volume = Pattern((4, 8, 6), (1, 2), extent, ("kx", "ky", "kz"), 0, limits)
    plane = volume.plane(0)
    assert plane == Pattern((8, 6), (0, 1), extent[1:], ("ky", "kz"), None, limits)
    assert torch.equal(plane.never(), volume.never())
    with pytest.raises(InputError):
        volume.plane(1)


def test_limits_go_through_json_and_older_runs_have_none():
    pattern = Pattern((8, 6), (0, 1), limits=LIMITS["all but the shutter"])
    record = json.loads(json.dumps(dataclasses.asdict(pattern)))
    assert parse_pattern(record) == pattern
    record.pop("limits")
    assert parse_pattern(record) == Pattern((8, 6), (0, 1))


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_random_masks_of_an_exact_size_keep_the_limits(limits):
    pattern, count = Pattern((12, 8), (0, 1), limits=limits), 36 if limits.equal_per == 0 else 40
    theta = pattern.project(torch.rand(pattern.unit_shape, generator=seeded()), count, pattern.centre(2))
    distribution = MaskDistribution(theta, pattern, count)
    masks = distribution.sample_exact(4, seed=0)
    for mask in (distribution.mode(), *masks):
        assert is_feasible(pattern, mask, count)
        assert mask[pattern.centre(2)].all()
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) > 1


NAMED = Pattern((32, 24), (0, 1), directions=("ky", "kz"))


@pytest.mark.parametrize(
    ("settings", "acceleration", "centre", "words"),
    [
        ({"largest_gap": {"ky": 4}}, 12, 0, ["largest_gap", "ky=4", "192", "64"]),
        ({"largest_gap": {"ky": 4}, "equal_per": "kz"}, 12, 0, ["largest_gap", "8 samples", "each kz", "2"]),
        ({"shutter": "ellipse", "equal_per": "kz"}, 4, 0, ["shutter", "equal_per", "kz"]),
        ({"equal_per": "kz"}, 8, 6, ["centre", "equal_per", "4"]),
        ({"equal_per": "kz"}, 100, 0, ["equal_per", "24", "7"]),
        ({"shutter": "ellipse"}, 1, 0, ["shutter", "768"]),
        ({"partial_fourier": {"ky": "5/8"}}, 4, 12, ["centre", "partial_fourier"]),
        ({"partial_fourier": {"ky": 0.5}}, 4, 0, ["partial_fourier", "0.5"]),
        ({"partial_fourier": {"kx": 0.75}}, 4, 0, ["kx", "ky, kz"]),
        ({"largest_gap": {"kz": 4}, "equal_per": "kz"}, 4, 0, ["largest_gap", "equal_per", "same direction"]),
        ({"largest_gap": {"ky": 4, "kz": 4}}, 2, 0, ["largest_gap", "one direction"]),
        ({"largest_gap": {"ky": 2.5}}, 2, 0, ["largest_gap", "2.5"]),
        ({"shutter": "circle"}, 2, 0, ["shutter", "circle"]),
    ],
)
def test_what_cannot_hold_is_one_sentence(settings, acceleration, centre, words):
    def ask():
        pattern = LimitSettings(**settings).on(NAMED)
        pattern.block(centre, pattern.budget(acceleration))

    with pytest.raises(InputError) as refused:
        ask()
    for word in words:
        assert word in str(refused.value)
    assert str(refused.value).endswith(".")


def test_limits_of_directions_that_are_gone_are_dropped():
    settings = LimitSettings(
        shutter="ellipse", partial_fourier={"ky": 0.75}, largest_gap={"kz": 3}, equal_per="ky"
    )
    lines = Pattern((32, 24), (1,), directions=("ky", "kz"))
    kept = Limits(largest_gap=((0, 3),))
    assert settings.on(lines, strict=False).limits == kept
    assert settings.on(NAMED).limits.keep([1]) == kept
    assert LimitSettings(**LimitSettings.as_asked(settings.on(NAMED))).on(NAMED) == settings.on(NAMED)
    with pytest.raises(InputError, match="undersampled"):
        settings.on(lines)


FRAMES = Pattern((6, 8, 5), (0, 1), directions=("frame", "ky", "kx"), indexed="frame")


def test_frames_have_equal_numbers_unless_told_otherwise():
    def numbers(**settings):
        pattern = LimitSettings(**settings).on(FRAMES)
        values = torch.rand(pattern.unit_shape, generator=seeded(), dtype=torch.float64)
        values[0] += 1  # the first frame is the best
        chosen = pattern.largest(values, pattern.budget(4))
        return pattern.expand(chosen)[:, :, 0].sum(1).tolist()

    assert numbers() == numbers(equal_per="frame") == [2] * 6
    assert numbers(equal_per="frame=2")[0] == 4, "both frames of the first pair share theirs"
    assert numbers(equal_per="none")[0] == 8, "one total goes where it is worth most"
    assert numbers(period=2) == [2] * 6
    with_period = LimitSettings(period=2).on(FRAMES)
    assert (with_period.unit_shape, with_period.units, with_period.budget(4)) == ((2, 8), 16, 4)
    mask = with_period.expand(torch.rand(2, 8, generator=seeded()) < 0.5)
    assert torch.equal(mask[:2], mask[2:4])
    assert torch.equal(mask[:2], mask[4:])


@pytest.mark.parametrize(
    "settings",
    [{}, {"equal_per": "frame=3"}, {"equal_per": "none"}, {"period": 3}, {"partial_fourier": {"ky": 0.75}}],
)
def test_limits_of_frames_are_asked_for_again(settings):
    pattern = LimitSettings(**settings).on(FRAMES)
    assert LimitSettings(**LimitSettings.as_asked(pattern)).on(FRAMES) == pattern


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"period": 4}, ["period", "divide", "4", "6 frames"]),
        ({"equal_per": "frame=4"}, ["equal_per", "4", "6 frames"]),
        ({"equal_per": "frames"}, ["equal_per", "frames"]),
        ({"shutter": "ellipse"}, ["shutter", "two undersampled directions"]),
    ],
)
def test_what_frames_cannot_hold_is_one_sentence(settings, words):
    with pytest.raises(InputError) as refused:
        LimitSettings(**settings).on(FRAMES)
    assert all(word in str(refused.value) for word in words)


def test_frames_share_their_calibration_region_and_must_have_room_for_it():
    pattern = LimitSettings().on(FRAMES)
    assert pattern.centre(3)[:, 3:6].all()
    assert int(pattern.centre(3).sum()) == 18
    with pytest.raises(InputError, match="3 samples or lines in each frame, but only 2 are acquired"):
        pattern.block(3, pattern.budget(4))


def test_patterns_of_series_by_name():
    raw = Geometry(axes=("ky", "kx"), readout=1).series("frame", 6)
    emulated = Geometry(axes=("ky", "kx")).series("frame", 6)
    shape = (6, 8, 5)
    for geometry in (raw, emulated):
        assert Pattern.on(shape, geometry).free == (0, 1), "the lines of each frame, along ky"
        assert Pattern.on(shape, geometry, "1d").free == (1,), "the same lines in every frame"
        assert Pattern.on(shape, geometry, "kt", axis=["ky"]).free == (0, 1)
    assert Pattern.on(shape, emulated, "kt-2d").free == (0, 1, 2)
    assert Pattern.on(shape, emulated, "2d").free == (1, 2)
    assert Pattern.on((6, 4, 8, 5), Geometry(axes=("kz", "ky", "kx"), readout=2).series("frame", 6)).free == (
        0,
        1,
        2,
    )
    with pytest.raises(InputError, match="frames, which is not encoded"):
        Pattern.on(shape, emulated, "3d")
    with pytest.raises(InputError, match="kt is for frames, but the data have none"):
        Pattern.on((8, 5), Geometry(), "kt")
