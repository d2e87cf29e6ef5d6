"""Masks carried to another matrix size."""

import functools

import numpy as np
import pytest
import torch
from benchmarks.carrying import carried
from benchmarks.steps import hearts
from masks import PATTERNS, run_on

from promask import Config, InputError, MaskDistribution, Pattern, Run
from promask.export import write_mask
from promask.export.files import load_mask
from promask.export.mask_file import ExportedMask
from promask.export.mask_function import resized
from promask.learning.records import RunHistory

SHAPES = [(16, 12), (16, 16), (17, 12), (33, 25), (32, 24), (8, 6), (9, 7), (5, 40), (12, 16), (15, 11), (48, 3)]


@pytest.mark.parametrize("free", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize("acceleration", [1, 1.5, 2, 3])
def test_the_budget_at_another_size(free, acceleration):
    run = run_on(Pattern((16, 12), free), acceleration)
    for shape in SHAPES:
        new = Pattern(shape, free)
        mask = resized(run, shape)
        assert mask.mask.shape == shape
        assert (mask.free, mask.asked) == (free, acceleration)
        assert int(new.restrict(mask.mask).sum()) == int(new.units / acceleration + 1e-9)
        assert mask.mask[shape[0] // 2, shape[1] // 2]
        unknown = resized(run.mask, shape) if acceleration > 1 else resized(load_mask(run)[0], shape)
        kept = run.distribution.budget / run.distribution.pattern.units
        assert int(new.restrict(unknown.mask).sum()) == int(new.units * kept + 1e-9)
        assert unknown.mask[shape[0] // 2, shape[1] // 2]


@pytest.mark.parametrize("name", PATTERNS)
def test_the_same_size_gives_the_same_mask(name):
    run = run_on(PATTERNS[name])
    for source in (run, run.mask):
        assert torch.equal(resized(source, PATTERNS[name].shape).mask, run.mask)


def test_blocks_scale():
    block = Pattern((20, 30), (0, 1)).centre(10)
    for shape, size in {(40, 60): (20, 20), (10, 15): (5, 5), (20, 60): (10, 20)}.items():
        mask = resized(block, shape).mask
        assert int(mask.sum()) == size[0] * size[1]
        rows, columns = mask.any(1).nonzero().flatten(), mask.any(0).nonzero().flatten()
        assert abs(len(rows) - size[0]) <= 2
        assert abs(len(columns) - size[1]) <= 2


def test_interpolation_is_linear_around_the_centre():
    """Against NumPy: the budget's largest values of np.interp at the old coordinates of the new units."""
    for old, new in [(12, 16), (15, 22), (16, 31), (9, 10)]:
        run = run_on(Pattern((old,), (0,)), acceleration=2, seed=old)
        at = np.clip((np.arange(new) - new // 2) * old / new + old // 2, 0, old - 1)
        values = np.interp(at, np.arange(old), run.probabilities.double().numpy())
        values[new // 2] = 1
        chosen = np.sort(np.argsort(-values)[: new // 2])
        assert resized(run, [new]).mask.nonzero().flatten().tolist() == chosen.tolist()


def test_shrinking_averages():
    probabilities = torch.tensor([0.0, 0.0, 0.9, 0.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.1, 0.0, 0.0])
    run = Run(
        MaskDistribution(probabilities, Pattern((12,), (0,)), 4),
        Config.preset("default", acceleration=2),
        RunHistory(),
        torch.zeros(12),
    )
    # DC, 6, goes to 2. Single values would be 0 at 3 and 0.1 at 9; means over three are 0.63 and 0.2.
    assert resized(run, [4]).mask.tolist() == [False, True, True, False]


def test_padding_scales():
    run = run_on(Pattern((12, 20), (1,), ((0, 12), (4, 18))), acceleration=2)
    mask = resized(run, (24, 40))
    assert mask.extent == ((0, 24), (8, 35))  # frequencies from -12 / 40 to 14 / 40, as from -6 / 20 to 7 / 20
    assert not mask.mask[:, :8].any()
    assert not mask.mask[:, 35:].any()
    assert mask.achieved == 27 / 13
    assert resized(run, (12, 5)).extent == ((0, 12), (1, 4))
    assert resized(ExportedMask.of_mask(run.mask, extent=[(0, 1), (0, 20)]), (3, 7)).extent == ((0, 2), (0, 7))


def test_calibration_lines_stay():
    run = run_on(Pattern((30, 40), (1,)), acceleration=2, centre=8)
    for width in (80, 41, 30, 17):
        pattern = Pattern((30, width), (1,))
        mask = resized(run, (30, width)).mask
        assert pattern.restrict(mask)[pattern.centre(8)].all()
        assert int(pattern.restrict(mask).sum()) == width // 2
    with pytest.raises(InputError, match=r"holds 8 samples, .* \[30, 12\] only 6 are acquired: choose a larger"):
        resized(run, (30, 12))


def test_sizes_that_cannot_be(tmp_path):
    run = run_on(PATTERNS["locations"], acceleration=20)
    with pytest.raises(InputError, match=r"\[16, 12\] cannot be carried to shape \[8\]"):
        resized(run, [8])
    with pytest.raises(InputError, match="acceleration"):
        resized(run, [4, 4])
    with pytest.raises(InputError, match=r"cannot be carried to shape \[0, 4\]"):
        resized(run, [0, 4])
    path = write_mask(load_mask(run)[0], tmp_path / "m.csv")
    assert resized(path, (20, 20)).asked == 20


drawn_once = functools.cache(hearts)


@pytest.mark.parametrize(("pattern", "acceleration"), [("2d", 4), ("2d", 8), ("1d", 4)])
def test_what_carrying_costs(pattern, acceleration, monkeypatch):
    """The same hearts in 96 and 128 pixels: a mask learned at one size against one learned at the other.

    On subjects that were held out, it loses at most 0.16 dB of PSNR; a Gaussian mask, 2 dB or more.
    """
    monkeypatch.setattr("benchmarks.carrying.hearts", drawn_once)
    for row in carried(pattern, acceleration, (96, 128), steps=40):
        for name in ("carried", "carried_mask"):
            assert row[name] > row["learned"] - 0.3
            assert row[name] > row["gaussian"] + 1.5
